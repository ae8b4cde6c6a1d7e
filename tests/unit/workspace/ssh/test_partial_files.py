"""If these fail, half-written files pile up, a cleanup deletes one that is still being written, or the host runs one as commands."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from newel.workspace.ssh.port import quote
from tests.served import wait_until

HOST: str = (Path(__file__).resolve().parents[4] / "src/newel/workspace/ssh/host.sh").read_text()
LEFT = ".newel-0123456789abcdef.tmp"
OTHER = ".newel-fedcba9876543210.tmp"


def writing(path: Path, beside: str, data: bytes) -> subprocess.Popen[bytes]:
    """A remote shell that writes a file, and waits for its content."""
    sum_ = hashlib.sha256(data).hexdigest()
    words = ("newel_write", path.name, beside, str(len(data)), sum_, "any", "-", str(path.parent))
    command = ["env", "LC_ALL=C", "sh", "-c", f"{HOST}\n{' '.join(map(quote, words))}"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def write(path: Path, data: bytes) -> None:
    with writing(path, OTHER, data) as process:
        said, _ = process.communicate(data)
    assert (said, process.returncode) == (b"", 0)


def test_a_file_still_waiting_for_its_content_is_not_cleaned_up(tmp_path: Path) -> None:
    """Not even if it replaces an old file."""
    old = tmp_path / "old"
    old.write_bytes(b"old")
    old.chmod(0o640)
    os.utime(old, (1, 1))
    with writing(old, LEFT, b"new") as process:
        wait_until(is_made(tmp_path / LEFT, 0o640), "the file beside it")
        write(tmp_path / "another", b"x")
        process.communicate(b"new")
    assert process.returncode == 0
    assert (old.read_bytes(), old.stat().st_mode & 0o777) == (b"new", 0o640)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["another", "old"]


def is_made(path: Path, mode: int) -> Callable[[], bool]:
    return lambda: path.exists() and path.stat().st_mode & 0o777 == mode


def test_removing_a_partial_file_under_its_process_changes_nothing(tmp_path: Path) -> None:
    """The file keeps its content, and does not get other permissions."""
    path = tmp_path / "f"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with writing(path, LEFT, b"new") as process:
        wait_until(is_made(tmp_path / LEFT, 0o640), "the file beside it")
        (tmp_path / LEFT).unlink()
        process.communicate(b"new")
    assert process.returncode != 0
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"old", 0o640)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of another user")
def test_partial_files_of_another_user_stay(tmp_path: Path) -> None:
    for name, owner in ((LEFT, 0), (LEFT.replace("0", "1"), 12345)):
        path = tmp_path / name
        path.write_bytes(b"half")
        os.chown(path, owner, -1)
        then = time.time() - 15 * 60
        os.utime(path, (then, then))
    write(tmp_path / "f", b"x")
    assert sorted(path.name for path in tmp_path.iterdir()) == [LEFT.replace("0", "1"), "f"]


def test_what_a_full_disk_leaves_of_a_file_is_not_run(tmp_path: Path) -> None:
    """It is in the shell's input, where the next request would be. A user who has a script written does not want it run."""
    content = f"touch {tmp_path}/ran\n".encode() * 10_000
    words = ("newel_write", "f", OTHER, str(len(content)), "0" * 64, "any", "-", str(tmp_path))
    requests = b"secret-1+\n%b\n%bsecret-2\necho out of step\n" % (
        " ".join(map(quote, words)).encode(),
        content,
    )
    command = ["env", "LC_ALL=C", "sh", "-c", f"{HOST}\nulimit -f 64\nnewel_serve secret-"]
    said = subprocess.run(command, input=requests, capture_output=True, check=False).stdout
    assert said.endswith(b"\n1 15\n")
    assert list(tmp_path.iterdir()) == []
