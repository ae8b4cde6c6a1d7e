"""If these fail, snapshots miss or invent a change in some history of commands."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newel.review.store.ledger import Ledger
from newel.workspace.snapshots.manager import SnapshotManager
from newel.workspace.snapshots.tree import FileSnapshot
from tests.properties import examples
from tests.snapshot_sources import HOSTS, LOCAL, open_sources

NAMES = ("a", "b", "c")
PATHS = [*NAMES, *(f"{one}/{two}" for one in NAMES for two in NAMES), "a/b/c", "b/a/b", "c/c/c"]

Files = dict[str, tuple[bytes, int]]


def write(root: Path, one: str, other: str) -> None:
    (root / one).write_bytes(other.encode())


def append_at_the_same_time(root: Path, one: str, other: str) -> None:
    """As a tool does that restores the time of modification."""
    before = (root / one).stat()
    with (root / one).open("r+b") as file:
        file.write(other[-1:].encode())
    os.utime(root / one, ns=(before.st_atime_ns, before.st_mtime_ns))


def remove(root: Path, one: str, _: str) -> None:
    if (root / one).is_dir() and not (root / one).is_symlink():
        shutil.rmtree(root / one)
    else:
        (root / one).unlink()


def make_folder(root: Path, one: str, _: str) -> None:
    (root / one).mkdir(parents=True)


def rename(root: Path, one: str, other: str) -> None:
    (root / one).rename(root / other)


def swap(root: Path, one: str, other: str) -> None:
    (root / one).rename(root / "swapped")
    if (root / other).exists():
        (root / other).rename(root / one)
    (root / "swapped").rename(root / other)


def copy(root: Path, one: str, other: str) -> None:
    outside = root.parent / "outside"  # a copy of a folder into itself would be endless
    if (root / one).is_dir():
        shutil.copytree(root / one, outside, symlinks=True)
    else:
        shutil.copy2(root / one, outside)
    outside.rename(root / other)


def chmod(root: Path, one: str, other: str) -> None:
    if not (root / one).is_symlink():
        (root / one).chmod(0o700 + 8 * len(other))


def link(root: Path, one: str, other: str) -> None:
    (root / one).symlink_to(root / other)


def hard_link(root: Path, one: str, other: str) -> None:
    os.link(root / one, root / other, follow_symlinks=False)


def move_out_and_in(root: Path, one: str, other: str) -> None:
    """Moved away, changed there, and back under another name."""
    outside = root.parent / "outside"
    (root / one).rename(outside)
    for path in [outside, *outside.rglob("*")]:
        if path.is_file() and not path.is_symlink():
            path.write_bytes(b"outside")
    outside.rename(root / other)


ACTIONS: list[Callable[[Path, str, str], None]] = [
    write, append_at_the_same_time, remove, make_folder, rename, swap, copy, chmod, link, hard_link, move_out_and_in
]  # fmt: skip

Step = tuple[Callable[[Path, str, str], None], str, str]
steps = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.sampled_from(PATHS), st.sampled_from(PATHS)), max_size=10
)


def act(root: Path, some: list[Step]) -> None:
    for action, one, other in some:
        try:
            action(root, one, other)
        except (OSError, shutil.Error):  # as a command may fail, having done half of its work
            if (root / "swapped").exists():
                remove(root, "swapped", "")
            outside = root.parent / "outside"
            if outside.exists():
                remove(root.parent, "outside", "")


def all_files(root: Path) -> Files:
    """Files, links and folders, with their modes."""
    found: Files = {}
    for folder, folders, names in os.walk(root):
        for name in (*names, *folders):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if path.is_symlink():
                found[str(path.relative_to(root))] = (os.fsencode(path.readlink()), stat.S_IFLNK)
            elif path.is_dir():
                found[str(path.relative_to(root))] = (b"", mode)
            else:
                found[str(path.relative_to(root))] = (path.read_bytes(), stat.S_IMODE(mode))
    return found


rounds = st.lists(st.tuples(steps, steps, st.booleans()), min_size=1, max_size=4)
Rounds = list[tuple[list[Step], list[Step], bool]]


@pytest.mark.parametrize("where", LOCAL)
@settings(max_examples=examples(20), deadline=None)
@given(begin=steps, rounds=rounds)
def test_snapshots_report_exactly_the_changes_of_local_commands(
    *, where: str, begin: list[Step], rounds: Rounds
) -> None:
    check_history(where, begin, rounds)


@pytest.mark.parametrize("where", HOSTS)
@settings(max_examples=examples(6), deadline=None)
@given(begin=steps, rounds=rounds)
def test_snapshots_report_exactly_the_changes_of_commands_on_a_host(
    *, where: str, begin: list[Step], rounds: Rounds
) -> None:
    check_history(where, begin, rounds)


def check_history(where: str, begin: list[Step], rounds: Rounds) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger.open(None) as ledger,
        contextlib.ExitStack() as stack,
    ):
        root = Path(folder, "project")
        root.mkdir()
        make_folder(root, "a/b", "")
        act(root, begin)
        source = stack.enter_context(open_sources(where, root, ledger))
        snapshots = SnapshotManager(source, ledger)

        def read(state: FileSnapshot | None) -> tuple[bytes, int] | None:
            if state is None or stat.S_ISDIR(state.mode):
                return None if state is None else (b"", state.mode)
            return ledger.blob(state.blob), state.mode

        async def history() -> None:
            await snapshots.take()
            known = all_files(root)
            for by_hand, by_command, taken in rounds:
                if taken:
                    act(root, by_hand)
                    await snapshots.take()
                    known = all_files(root)
                act(root, by_command)
                now = all_files(root)
                expected = {
                    path: (known.get(path), now.get(path))
                    for path in known.keys() | now.keys()
                    if known.get(path) != now.get(path)
                }
                changes = await snapshots.changes()
                assert {
                    change.path: (read(change.before), read(change.after)) for change in changes.files
                } == expected
                known = now

        try:
            anyio.run(history)
        finally:
            snapshots.close()
