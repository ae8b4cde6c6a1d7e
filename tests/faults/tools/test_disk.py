"""If these fail, a full disk, a read-only folder or a crash leaves a file half written."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

WRITER = """
import sys, anyio
from newel.workspace.local import LocalWorkspace

async def main():
    workspace = LocalWorkspace(sys.argv[1])
    path = await workspace.resolve("f")
    print("ready", flush=True)
    while True:
        await workspace.write_bytes(path, b"A" * 20_000_000)
        await workspace.write_bytes(path, b"B" * 20_000_000)

anyio.run(main)
"""

FULL_DISK = """
import resource, sys, anyio
from newel.agent.errors import WorkspaceError
from newel.workspace.local import LocalWorkspace
from newel.workspace.process.output import OutputLimits

async def main():
    limits = OutputLimits(output=1_000, spill_dir=sys.argv[1] + "/spill")
    workspace = LocalWorkspace(sys.argv[1], limits=limits)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    try:
        await workspace.write_bytes(await workspace.resolve("f"), b"x" * 1_000_000)
    except WorkspaceError as error:
        print(error)
    done = await workspace.run("seq 100000")
    print(done.exit_code, done.stdout.splitlines()[-1])
    print(next(line for line in done.stdout.splitlines() if "omitted" in line))

anyio.run(main)
"""

READ_ONLY = """
import hashlib, os, sys, anyio
from newel.agent.errors import WorkspaceError
from newel.workspace.local import LocalWorkspace

async def main():
    workspace = LocalWorkspace(sys.argv[1])
    if os.geteuid() == 0:  # root may write anywhere, so be someone else
        os.seteuid(65534)
    for name in ("old", "new", "deeper/new"):
        try:
            await workspace.write_bytes(await workspace.resolve(name), b"x")
        except WorkspaceError as error:
            print(error)

anyio.run(main)
"""

PROTECTED = """
import difflib, hashlib, os, sys, anyio, newel.diff.patience
from newel.agent.errors import NewelError
from newel.tools import coding_tools
from newel.workspace.local import LocalWorkspace

async def shown(_): pass

async def main():
    if os.geteuid() == 0:  # root may write any file, so be someone else
        os.seteuid(65534)
    read, bash, edit, write = coding_tools(LocalWorkspace(sys.argv[1]))
    for name in ("theirs", "locked"):
        for tool, arguments in (
            (write, {"content": "new"}), (edit, {"old_string": "old", "new_string": "new"})
        ):
            try:
                planned = await tool.plan(tool.parse({"file_path": name, **arguments}))
                await planned.execute(shown)
                print("written", name)
            except NewelError as error:
                print(error)

anyio.run(main)
"""

LARGE_FILE = """
import pathlib, resource, sys, anyio
from newel.tools import coding_tools
from newel.workspace.local import LocalWorkspace

async def shown(_): pass

def peak():
    '''Megabytes. What getrusage says on Linux includes the process that started this one.'''
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 2**20
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))

async def main():
    read = coding_tools(LocalWorkspace(sys.argv[1]))[0]
    planned = await read.plan(read.parse({"file_path": "f", "offset": 2001, "limit": 3}))
    result = await planned.execute(shown)
    print(peak(), result.details["totalLines"])
    print(len(result.output), result.output.splitlines()[-1])

anyio.run(main)
"""


def run(script: str, folder: Path) -> list[str]:
    command = [sys.executable, "-c", script, str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_a_kill_during_a_write_leaves_one_complete_content(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"A" * 20_000_000)
    chance = random.Random(1)  # noqa: S311 — moments to kill at, no secret
    for _ in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            time.sleep(chance.uniform(0.01, 0.15))
            writer.kill()
        content = path.read_bytes()
        assert len(content) == 20_000_000
        assert set(content) in ({ord("A")}, {ord("B")})
        assert all(name.startswith(".newel-") for name in os.listdir(tmp_path) if name != "f")  # noqa: PTH208 — names


def test_a_full_disk_costs_neither_the_old_file_nor_a_command_s_result(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    failed, ended, note = run(FULL_DISK, tmp_path)
    assert failed == f"Cannot write {path}: File too large."
    assert path.read_bytes() == b"old"
    assert sorted(child.name for child in tmp_path.iterdir()) == ["f", "spill"]
    assert ended == "0 100000"
    assert "the first 100,000 bytes of all output are in " in note
    assert "then File too large" in note


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A folder that another user can enter and not write; pytest's own cannot be entered."""
    folder = Path(tempfile.mkdtemp())
    (folder / "old").write_bytes(b"old")
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_folder_without_write_permission_is_an_explained_error(read_only: Path) -> None:
    where = read_only.resolve()
    assert run(READ_ONLY, read_only) == [
        f"Cannot write {where}/old: Permission denied.",
        f"Cannot write {where}/new: Permission denied.",
        f"Cannot write {where}/deeper/new: Permission denied.",
    ]
    assert [child.name for child in read_only.iterdir()] == ["old"]
    assert (read_only / "old").read_bytes() == b"old"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder in which any user may create, remove and replace files."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def test_a_file_without_write_permission_is_not_replaced(open_folder: Path) -> None:
    """Otherwise a file that is read-only on purpose, or another user's, is lost or changes its owner."""
    theirs, locked = open_folder / "theirs", open_folder / "locked"
    for path in (theirs, locked):
        path.write_bytes(b"old")
        path.chmod(0o444)
    if os.geteuid() == 0:
        theirs.chmod(0o644)
        os.chown(locked, 65534, 65534)
    where = open_folder.resolve()
    assert run(PROTECTED, open_folder) == [
        f"Cannot write {where}/{name}: Permission denied."
        for name in ("theirs", "theirs", "locked", "locked")
    ]
    assert (theirs.read_bytes(), locked.read_bytes()) == (b"old", b"old")
    assert theirs.stat().st_uid == os.geteuid()
    assert sorted(child.name for child in open_folder.iterdir()) == ["locked", "theirs"]


def test_a_huge_file_is_read_in_bounded_memory(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        file.write(b"line\n" * 2_001)
        file.write(b"one line of half a gigabyte")
        file.seek(500_000_000, os.SEEK_CUR)
        file.write(b"\nlast\n")
    sizes, page = run(LARGE_FILE, tmp_path)
    megabytes, lines = map(int, sizes.split())
    assert lines == 2_003
    assert megabytes < 80
    assert page.endswith("2003\tlast")
    assert int(page.split()[0]) < 3_000
