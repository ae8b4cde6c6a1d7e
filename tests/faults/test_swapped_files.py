"""If these fail, swapping a file between review and apply redirects a change to a file nobody reviewed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from newel.agent.errors import NewelError
from newel.review.model.file_review import Conflict
from newel.review.save import NotAFile, OutsideProject
from tests.faults.system_call_faults import ROOT, STRACE, needs_strace
from tests.review_bench import ReviewBench, hunks, open_bench, proposes, replace, says

TEXT = "one\ntwo\nthree\n"
NEW = "eins\ntwo\nthree\n"
GROWN = TEXT + "more\n" * 600_000


def deleted(path: Path) -> None:
    path.unlink()


def swapped_for_a_link_out(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent.parent / "outside" / "a.md")


def swapped_for_a_link_within(path: Path) -> None:
    path.unlink()
    path.symlink_to("b.md")


def swapped_for_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def swapped_for_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def grown(path: Path) -> None:
    path.write_text(GROWN)


def put_back(at: ReviewBench) -> None:
    path = at.root / "a.md"
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    path.write_text(TEXT)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("swap", "error"),
    [
        (deleted, Conflict),
        (swapped_for_a_link_out, OutsideProject),
        (swapped_for_a_link_within, OutsideProject),
        (swapped_for_a_folder, NotAFile),
        (swapped_for_a_pipe, NotAFile),
        (grown, Conflict),
    ],
)
async def test_nothing_is_applied_while_a_file_is_swapped_and_the_review_continues_afterwards(
    tmp_path: Path, swap: Callable[[Path], None], error: type[NewelError]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.md").write_text(TEXT)
    edits = proposes(replace("a.md", 1, "eins\n"), replace("b.md", 1, "eins\n"))
    async with open_bench(tmp_path, edits, says("Done.")) as at:
        at.write(a=TEXT, b=TEXT)
        (at.root / "b.md").chmod(0o751)
        view = await at.start()
        ids = [hunk.hunk_id for hunk in hunks(view).values()]
        swap(at.root / "a.md")
        with pytest.raises(error):
            await at.desk.jobs.apply(view.session_id, view.id, ids)
        assert at.read("b.md") == TEXT
        assert (outside / "a.md").read_text() == TEXT
        assert (await at.desk.jobs.get(view.id)).status == "awaiting_review"
        if error is Conflict:  # the model has to read it again, or the user to decide
            shown = hunks(await at.desk.jobs.get(view.id)).values()
            assert [hunk.conflict for hunk in shown] == [True, False]
            assert (at.read("a.md") == GROWN) if swap is grown else not (at.root / "a.md").exists()
            return
        put_back(at)
        view = await at.desk.jobs.get(view.id)
        await at.desk.jobs.apply(view.session_id, view.id, [hunk.hunk_id for hunk in hunks(view).values()])
        assert at.read("a.md") == NEW
        assert at.read("b.md") == NEW
        assert (at.root / "b.md").stat().st_mode & 0o777 == 0o751


WRITE = """
import sys
from newel.workspace.disk import files
files.replace(sys.argv[1], b"ours", sys.argv[2], resolved=True)
"""


@needs_strace
def test_a_folder_swapped_for_a_link_during_a_write_is_not_followed(tmp_path: Path) -> None:
    """The writer is stopped after its checks and before it replaces the file."""
    folder, outside = tmp_path.resolve() / "project" / "folder", tmp_path.resolve() / "outside"
    for each in (folder, outside):
        each.mkdir(parents=True)
        (each / "f").write_bytes(b"seen")
    untouched = outside.stat().st_mtime_ns
    expect = hashlib.sha256(b"seen").hexdigest()
    command = [sys.executable, "-c", WRITE, str(folder / "f"), expect]
    stop = ["-e", "trace=fsync", "-e", "inject=fsync:signal=SIGSTOP:when=1"]
    assert STRACE is not None
    with subprocess.Popen(
        [STRACE, "-f", "-qq", "-o", str(tmp_path / "trace"), *stop, *command], cwd=ROOT
    ) as strace:
        writer = stopped_child(strace.pid, folder)
        folder.rename(folder.with_name("aside"))
        folder.symlink_to(outside)
        while strace.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(writer, signal.SIGCONT)
            time.sleep(0.02)
        assert strace.returncode == 0
    assert outside.stat().st_mtime_ns == untouched
    assert (outside / "f").read_bytes() == b"seen"
    assert (folder.with_name("aside") / "f").read_bytes() == b"ours"


def stopped_child(parent: int, folder: Path) -> int:
    """Wait for a child of the process, and stop it while it has a partial file of the folder open."""
    children = Path(f"/proc/{parent}/task/{parent}/children")
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if len(list(folder.iterdir())) > 1:
            for child in map(int, children.read_text().split()):
                if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] in {"T", "t"}:
                    return child
        time.sleep(0.01)
    raise AssertionError("nobody stopped")
