"""If these fail, a command's changes go unnoticed, cannot be restored, or include other people's."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from newel.agent.errors import WorkspaceError
from newel.review.store.ledger import Ledger
from newel.workspace.snapshots.manager import SnapshotManager
from newel.workspace.snapshots.port import FileChange, SnapshotLimits, WorkspaceChanges
from newel.workspace.snapshots.secret_files import SecretTests
from newel.workspace.snapshots.tree import EMPTY, FileSnapshot
from tests.requirements import require_program
from tests.snapshot_sources import SOURCES, open_sources

pytestmark = pytest.mark.anyio

Open = Callable[..., SnapshotManager]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger.open(None) as open_sources:
        yield open_sources


@pytest.fixture(params=SOURCES)
def snapshots(root: Path, ledger: Ledger, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens snapshots of the root, local or remote."""
    with contextlib.ExitStack() as stack:

        def open_snapshots(**options: object) -> SnapshotManager:
            source = stack.enter_context(open_sources(request.param, root, ledger))
            snapshots = SnapshotManager(source, ledger, **options)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] — tests pass what they mean
            stack.callback(snapshots.close)
            return snapshots

        yield open_snapshots


def sh(root: Path, command: str) -> None:
    if "git " in command:
        require_program("git")
    subprocess.run(["bash", "-ec", command], cwd=root, check=True, stdout=subprocess.DEVNULL)


AGED = 0.15
"""Seconds after which a file is no longer read again only because it was written a moment before."""


def told(changes: WorkspaceChanges) -> dict[str, str]:
    """The change of each file: + created, - deleted, ~ another content, m another mode, k another kind. Created and
    deleted folders are left out.
    """

    def kind(change: FileChange) -> str:
        if change.before is None or change.after is None:
            return "+" if change.before is None else "-"
        if stat.S_IFMT(change.before.mode) != stat.S_IFMT(change.after.mode):
            return "k"
        return "~" if change.before.blob != change.after.blob else "m"

    def is_folder(change: FileChange) -> bool:
        return {stat.S_ISDIR(state.mode) for state in (change.before, change.after) if state} == {True}

    return {change.path: kind(change) for change in changes.files if not is_folder(change)}


def folders(changes: WorkspaceChanges) -> dict[str, tuple[str, str]]:
    """The modes of folders before and after, empty for none."""
    return {
        change.path: (octal(change.before), octal(change.after))
        for change in changes.files
        if any(state and stat.S_ISDIR(state.mode) for state in (change.before, change.after))
    }


def octal(state: FileSnapshot | None) -> str:
    return "" if state is None else f"{state.mode:o}"


def write_all(root: Path, names: list[bytes]) -> None:
    for name in names:
        Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_bytes(name)


async def test_every_way_to_change_a_file_is_detected(root: Path, ledger: Ledger, snapshots: Open) -> None:
    sh(root, "mkdir -p a/b; for n in 1 2 3 4 5 6; do echo $n > a/b/f$n; done; echo x > top")
    looked = snapshots()
    await looked.take()
    sh(
        root,
        "echo more >> a/b/f1; rm a/b/f2; mv a/b/f3 a/moved; chmod 755 a/b/f4; echo new > n; mkdir -p c/d; echo e > c/d/e; "
        "echo 9 > tmp; mv tmp a/b/f5; mv a/b a/renamed",
    )
    changes = await looked.changes()
    assert told(changes) == {
        **{f"a/b/f{n}": "-" for n in range(1, 7)},
        **{f"a/renamed/f{n}": "+" for n in (1, 4, 5, 6)},
        "a/moved": "+",
        "n": "+",
        "c/d/e": "+",
    }
    for change in changes.files:
        for state in (change.before, change.after):
            if state is not None and not stat.S_ISDIR(state.mode):
                ledger.blob(state.blob)
    before = {change.path: change.before for change in changes.files}
    assert ledger.blob((before["a/b/f2"] or FileSnapshot("", 0)).blob) == b"2\n"
    assert changes.folders == ["a/renamed", "c", "c/d"]
    assert await looked.changes() == WorkspaceChanges([], [], [])


async def test_in_place_changes_modes_and_swaps_are_reported_as_such(root: Path, snapshots: Open) -> None:
    sh(root, "mkdir x y; echo 1 > x/f; echo 2 > y/f; echo 1 > same; echo s > script; chmod 644 script")
    looked = snapshots()
    await looked.take()
    sh(root, "mv x t; mv y x; mv t y; chmod +x script; echo 2 > same")
    assert told(await looked.changes()) == {"x/f": "~", "y/f": "~", "script": "m", "same": "~"}
    await anyio.sleep(AGED)
    await looked.take()
    sh(root, "echo 3 > x/f; echo 3 > y/f")
    assert told(await looked.changes()) == {"x/f": "~", "y/f": "~"}


async def test_changes_made_before_the_command_are_not_attributed_to_it(
    root: Path, ledger: Ledger, snapshots: Open
) -> None:
    (root / "f").write_bytes(b"one")
    looked = snapshots()
    await looked.take()
    (root / "f").write_bytes(b"by hand")
    (root / "mine").write_bytes(b"by hand too")
    await looked.take()
    (root / "f").write_bytes(b"by the command")
    [change] = (await looked.changes()).files
    assert change.path == "f"
    assert change.before is not None
    assert ledger.blob(change.before.blob) == b"by hand"


async def test_a_write_of_the_same_size_and_time_right_after_a_scan_is_detected(
    root: Path, snapshots: Open
) -> None:
    """Many steps follow one another faster than the clock resolution of some file systems."""
    path = root / "f"
    path.write_bytes(b"0000")
    looked = snapshots()
    await looked.take()
    before = path.stat()
    for n in range(1, 30):
        with path.open("r+b") as file:
            file.write(b"%04d" % n)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert told(await looked.changes()) == {"f": "~"}


async def test_a_write_through_another_name_of_the_file_is_detected(root: Path, snapshots: Open) -> None:
    (root / "f").write_bytes(b"one")
    os.link(root / "f", root.parent / "outside")
    looked = snapshots()
    await looked.take()
    await anyio.sleep(AGED)
    await looked.take()
    (root.parent / "outside").write_bytes(b"two")
    assert told(await looked.changes()) == {"f": "~"}


async def test_a_full_scan_finds_changes_without_notifications(root: Path, snapshots: Open) -> None:
    (root / "f").write_bytes(b"one")
    looked = snapshots(limits=SnapshotLimits(recheck_s=0))
    await looked.take()
    await anyio.sleep(AGED)
    await looked.take()
    os.link(root / "f", root.parent / "outside")
    (root.parent / "outside").write_bytes(b"two")
    assert told(await looked.changes()) == {"f": "~"}


async def test_a_program_that_never_stops_writing_does_not_block_a_scan(root: Path, snapshots: Open) -> None:
    (root / "f").write_bytes(b"x")
    looked = snapshots()
    await looked.take()
    forever = "import os\nwhile True:\n open('f', 'a').write('x')\n open('g', 'w').close()\n os.remove('g')"
    async with await anyio.open_process([sys.executable, "-c", forever], cwd=root) as writer:
        while not (await looked.changes()).files:
            pass
        writer.kill()
    await looked.take()
    assert (await looked.changes()).files == []


async def test_an_overflow_of_the_notification_queue_loses_no_change(root: Path, snapshots: Open) -> None:
    (root / "a").mkdir()
    looked = snapshots()
    await looked.take()
    here, there = os.fsencode(root / "a/f"), os.fsencode(root / "a/g")
    (root / "a/f").touch()
    for _ in range(5_000):  # four events each; the queue holds 16,384
        os.rename(here, there)  # noqa: PTH104 — pathlib takes most of the time
        os.rename(there, here)  # noqa: PTH104
    (root / "a/f").unlink()
    (root / "late").write_bytes(b"x")
    assert told(await looked.changes()) == {"late": "+"}
    (root / "later").write_bytes(b"x")
    assert told(await looked.changes()) == {"later": "+"}


async def test_names_that_are_not_utf8_and_unusual_names_are_handled(root: Path, snapshots: Open) -> None:
    names = [b"\xff\xfe", b"new\nline", b"-rf", b":!magic", b" ", "é\u2028".encode(), b"*", b"*.log"]
    sh(root, "git init -q; echo '*.txt' > .gitignore")
    looked = snapshots()
    await looked.take()
    write_all(root, names)
    changes = await looked.changes()
    assert {os.fsencode(change.path) for change in changes.files} == set(names)


async def test_reported_writes_of_newel_are_not_changes(root: Path, ledger: Ledger, snapshots: Open) -> None:
    (root / "f").write_bytes(b"old")
    (root / "gone").write_bytes(b"old")
    looked = snapshots()
    await looked.take()
    (root / "f").write_bytes(b"ours")
    (root / "f").chmod(0o644)
    (root / "gone").unlink()
    [blob] = ledger.put_blobs([b"ours"])
    looked.acknowledge("f", FileSnapshot(blob, 0o644))
    looked.acknowledge("gone", None)
    assert (await looked.changes()).files == []
    (root / "f").write_bytes(b"theirs")
    [change] = (await looked.changes()).files
    assert change.before == FileSnapshot(blob, 0o644)


async def test_links_and_pipes_are_recorded_and_never_followed_or_opened(
    root: Path, ledger: Ledger, snapshots: Open, tmp_path: Path
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_bytes(b"key")
    (root / "src").mkdir()
    (root / "src/f").write_bytes(b"x")
    looked = snapshots()
    await looked.take()
    shutil.rmtree(root / "src")
    (root / "src").symlink_to(tmp_path / "secret")
    os.mkfifo(root / "pipe")
    changes = await looked.changes()
    assert told(changes) == {"src/f": "-", "src": "k", "pipe": "+"}
    assert changes.notices == []
    states = {change.path: change.after for change in changes.files}
    link, pipe = states["src"], states["pipe"]
    assert link is not None
    assert pipe is not None
    assert (ledger.blob(link.blob), link.mode) == (os.fsencode(tmp_path / "secret"), stat.S_IFLNK)
    assert stat.S_ISFIFO(pipe.mode)
    (root / "src").unlink()
    (root / "src").symlink_to("nowhere\nat all\n")
    (root / "pipe").unlink()
    changes = await looked.changes()
    assert told(changes) == {"src": "~", "pipe": "-"}
    [after] = [change.after for change in changes.files if change.after]
    assert ledger.blob(after.blob) == b"nowhere\nat all\n"


async def test_a_pipe_that_a_tool_could_not_write_stays_covered(root: Path, snapshots: Open) -> None:
    sh(root, "mkfifo pipe")
    looked = snapshots()
    await looked.take()
    looked.acknowledge("pipe", FileSnapshot(EMPTY, (root / "pipe").stat().st_mode))
    changes = await looked.changes()
    assert (told(changes), changes.notices) == ({}, [])
    sh(root, "rm pipe; echo x > pipe")
    changes = await looked.changes()
    assert (told(changes), changes.notices) == ({"pipe": "k"}, [])


async def test_a_pipe_in_place_of_ignore_rules_is_never_opened(root: Path, snapshots: Open) -> None:
    sh(root, "mkdir sub; mkfifo .gitignore; echo > sub/.gitignore")
    looked = snapshots()
    await looked.take()
    sh(root, "echo > b; rm .gitignore sub/.gitignore; mkfifo sub/.gitignore")
    changes = await looked.changes()
    assert told(changes) == {".gitignore": "-", "b": "+", "sub/.gitignore": "k"}


@pytest.mark.parametrize("breaks", ["rm .gitignore; mkfifo .gitignore", "echo '[' > .git/config"])
async def test_ignored_files_stay_ignored_while_git_does_not_answer(
    breaks: str, root: Path, ledger: Ledger, snapshots: Open
) -> None:
    """Secrets would be copied. Git waits for ever to read rules from a pipe, and so would each look at the files."""
    sh(root, "git init -q; echo .env > .gitignore; echo secret > .env")
    looked = snapshots()
    await looked.take()
    sh(root, f"{breaks}; echo x > new")
    with anyio.fail_after(10):
        changes = await looked.changes()
    assert told(changes).keys() - {".gitignore"} == {"new"}
    assert any("Git did not answer" in notice for notice in changes.notices)
    assert not ledger.has_blob(hashlib.sha256(b"secret\n").hexdigest())
    sh(
        root,
        "rm -f .gitignore; echo .env > .gitignore; git init -q 2>/dev/null || { echo > .git/config; }; echo y > .env",
    )
    assert told(await looked.changes()).keys() <= {".gitignore"}
    assert not ledger.has_blob(hashlib.sha256(b"y\n").hexdigest())


async def test_contents_of_secrets_are_stored_only_once_a_command_changed_them(
    root: Path, ledger: Ledger, snapshots: Open
) -> None:
    """Newel must not collect keys in its folder; what a command did to them must be undone."""

    def is_env(path: str, _: bytes) -> bool:
        return path.endswith(".env")

    def is_stored(text: str) -> bool:
        return ledger.has_blob(hashlib.sha256(f"{text}\n".encode()).hexdigest())

    sh(root, "echo one > 1.env; echo two > 2.env; echo three > 3.env; echo four > 4.env; echo text > a")
    looked = snapshots(secrets=SecretTests(is_env))
    await looked.take()
    sh(root, "echo mine > 2.env; echo 1 > b")  # by the user
    await looked.take()
    assert [text for text in ("one", "two", "mine", "three", "four", "text") if is_stored(text)] == ["text"]
    sh(root, "echo new > 2.env; rm 3.env; chmod 600 4.env; echo 2 > b")
    changes = await looked.changes()
    assert told(changes) == {"2.env": "~", "3.env": "-", "4.env": "m", "b": "~"}
    assert all(change.before and ledger.has_blob(change.before.blob) for change in changes.files)
    assert not is_stored("one")


async def test_folders_are_recorded_with_their_modes(root: Path, snapshots: Open) -> None:
    sh(root, "mkdir -p a/b c; echo > a/f; chmod 700 c")
    looked = snapshots()
    await looked.take()
    sh(root, "chmod 1755 a; rmdir c a/b; echo > c; mkdir -p d/e; chmod 750 d/e")
    assert folders(await looked.changes()) == {
        "a": ("40755", "41755"),
        "a/b": ("40755", ""),
        "c": ("40700", "644"),
        "d": ("", "40755"),
        "d/e": ("", "40750"),
    }
    assert (await looked.changes()).files == []


async def test_sockets_and_devices_are_named(root: Path, snapshots: Open) -> None:
    looked = snapshots()
    await looked.take()
    os.mknod(root / "s", stat.S_IFSOCK | 0o600)
    [notice] = (await looked.changes()).notices
    assert "s is now a socket or a device" in notice
    (root / "s").unlink()
    [notice] = (await looked.changes()).notices
    assert notice.startswith("s was deleted")


async def test_an_unreadable_folder_is_not_reported_as_deleted(root: Path, snapshots: Open) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (root / "a").mkdir()
    (root / "a/f").write_bytes(b"x")
    looked = snapshots()
    await looked.take()
    (root / "a").chmod(0)
    changes = await looked.changes()
    (root / "a").chmod(0o755)
    assert changes.files == []


@pytest.fixture
def disk(root: Path) -> Iterator[Callable[[], None]]:
    """Mount an empty file system over the folder ``data``, and unmount it afterwards."""
    (root / "data").mkdir()
    with contextlib.ExitStack() as stack:

        def mount() -> None:
            done = subprocess.run(
                ["mount", "-t", "tmpfs", "newel", "data"],
                cwd=root,
                check=False,
                capture_output=True,
                text=True,
            )
            if "permission denied" in done.stderr or "superuser" in done.stderr:
                pytest.skip("only somebody who may mount file systems can try that")
            assert done.returncode == 0, done.stderr
            stack.callback(sh, root, "umount --lazy data")

        yield mount


async def test_a_mount_made_by_a_command_is_scanned(
    root: Path, snapshots: Open, disk: Callable[[], None]
) -> None:
    """Otherwise a command's changes behind its own mount cannot be undone: nothing was watched there."""
    (root / "data" / "hidden").write_text("beneath")
    some = snapshots()
    await some.take()
    assert told(await some.changes()) == {}
    disk()
    sh(root, "echo one > data/new")
    assert told(await some.changes()) == {"data/hidden": "-", "data/new": "+"}
    sh(root, "echo two > data/new")
    assert told(await some.changes()) == {"data/new": "~"}


async def test_a_missing_root_is_reported(root: Path, snapshots: Open) -> None:
    looked = snapshots()
    await looked.take()
    sh(root, 'rmdir "$PWD"')
    with pytest.raises(WorkspaceError, match="Cannot scan the files"):
        await looked.changes()
    sh(root.parent, "mkdir project; echo > project/f")
    assert told(await looked.changes()) == {"f": "+"}


async def test_a_cancelled_scan_loses_no_change(root: Path, snapshots: Open) -> None:
    """Wherever it is cancelled: the next one reports the same."""
    for n in range(50):
        (root / f"f{n}").write_bytes(b"old")
    looked = snapshots()
    await looked.take()
    for delay in (0.0, 0.0005, 0.001, 0.002, 0.005):
        for n in range(50):
            with (root / f"f{n}").open("ab") as file:
                file.write(b"+")
        with anyio.move_on_after(delay):
            await looked.changes()
            continue
        await looked.take()
        assert len((await looked.changes()).files) == 50


async def test_a_changed_file_that_grew_too_large_is_not_reported_as_deleted(
    root: Path, snapshots: Open
) -> None:
    (root / "f").write_bytes(b"x")
    looked = snapshots(limits=SnapshotLimits(file=100))
    await looked.take()
    (root / "f").write_bytes(b"y")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await looked.changes()
    await looked.take()
    (root / "f").write_bytes(b"z" * 101)
    assert told(await looked.changes()) == {"f": "~"}


async def test_a_folder_moved_within_the_project_is_still_watched(root: Path, snapshots: Open) -> None:
    sh(root, "mkdir -p a/b c; echo 1 > a/b/f")
    looked = snapshots()
    await looked.take()
    sh(root, "mv a/b c/z")
    await looked.changes()
    await anyio.sleep(AGED)
    await looked.take()
    sh(root, "echo 2 > c/z/f; mkdir a/b; echo 3 > a/b/f")
    assert told(await looked.changes()) == {"c/z/f": "~", "a/b/f": "+"}
    await anyio.sleep(AGED)
    await looked.take()
    sh(root, "mv c/z a/z; rm -r a/b; mv a/z a/b; echo 4 >> a/b/f")
    assert told(await looked.changes()) == {"c/z/f": "-", "a/b/f": "~"}
    await anyio.sleep(AGED)
    await looked.take()
    sh(root, "echo 5 > a/b/f")
    assert told(await looked.changes()) == {"a/b/f": "~"}


async def test_the_next_process_uses_the_index_of_an_earlier_one(
    root: Path, tmp_path: Path, snapshots: Open
) -> None:
    """Otherwise each start reads all files again; changes in between are neither missed nor claimed."""
    index = tmp_path / "files.index"
    sh(root, "mkdir a; echo 1 > a/f; echo 2 > g; touch -d '2020-01-01' a/f")
    first = snapshots(index=index)
    await first.take()
    first.close()
    (root / "g").write_bytes(b"changed while nobody looked")
    second = snapshots(index=index)
    await second.take()
    (root / "a/f").write_bytes(b"x")
    assert told(await second.changes()) == {"a/f": "~"}
    index.write_bytes(index.read_bytes()[:-1])
    third = snapshots(index=index)
    await third.take()
    (root / "g").write_bytes(b"y")
    assert told(await third.changes()) == {"g": "~"}


class TestLimits:
    async def test_an_oversized_file_is_left_out_and_reported_once(self, root: Path, snapshots: Open) -> None:
        (root / "big").write_bytes(b"x" * 101)
        (root / "small").write_bytes(b"x" * 100)
        looked = snapshots(limits=SnapshotLimits(file=100))
        [notice] = await looked.take()
        assert "big is too large" in notice
        (root / "big").write_bytes(b"y" * 101)
        (root / "small").write_bytes(b"y" * 100)
        changes = await looked.changes()
        assert told(changes) == {"small": "~"}
        assert changes.notices == []

    async def test_a_file_that_grew_too_large_is_not_reported_as_deleted(
        self, root: Path, snapshots: Open
    ) -> None:
        (root / "f").write_bytes(b"x")
        looked = snapshots(limits=SnapshotLimits(file=100))
        await looked.take()
        (root / "f").write_bytes(b"x" * 101)
        changes = await looked.last_changes(0)
        assert told(changes) == {"f": "~"}  # its earlier content is enough to undo that
        assert "cannot be undone from now on" in changes.notices[0]
        (root / "f").write_bytes(b"y" * 101)
        assert told(await looked.changes()) == {}

    async def test_a_truncated_large_file_is_not_reported_as_created(
        self, root: Path, snapshots: Open
    ) -> None:
        """Otherwise an undo would delete it."""
        (root / "f").write_bytes(b"x" * 101)
        looked = snapshots(limits=SnapshotLimits(file=100, recheck_s=0))
        await looked.take()
        (root / "f").write_bytes(b"x")
        assert (await looked.changes()).files == []
        (root / "f").write_bytes(b"y")
        assert told(await looked.changes()) == {"f": "~"}

    async def test_small_files_come_first_when_there_is_no_room_for_all(
        self, root: Path, snapshots: Open
    ) -> None:
        (root / "a_large").write_bytes(b"x" * 90)
        (root / "b_small").write_bytes(b"y" * 20)
        looked = snapshots(limits=SnapshotLimits(total=100))
        [notice] = await looked.take()
        assert "a_large is beyond the space" in notice
        (root / "b_small").unlink()
        (root / "a_large").unlink()
        changes = await looked.changes()
        assert told(changes) == {"b_small": "-"}
        assert "cannot be restored" in changes.notices[0]

    async def test_with_too_many_files_no_old_one_is_reported_as_new(
        self, root: Path, snapshots: Open
    ) -> None:
        for n in range(20):
            (root / f"f{n}").write_bytes(b"x")
        looked = snapshots(limits=SnapshotLimits(files=10, recheck_s=0))
        [notice] = await looked.take()
        assert "more than 10 files" in notice
        for n in range(20):
            (root / f"f{n}").write_bytes(b"y")
        changes = await looked.changes()
        assert set(told(changes).values()) == {"~"}
        assert len(changes.files) == 10

    @pytest.mark.slow  # 21,000 files: five seconds of a core
    async def test_files_that_are_read_before_the_scan_is_over_are_counted_once_and_restorable(
        self, root: Path, ledger: Ledger
    ) -> None:
        """More than wait at once: those of the first folders are in the store while others are still to be found."""
        for n in range(210):
            folder = root / f"d{n % 70}" / f"s{n}"
            folder.mkdir(parents=True)
            for m in range(100):
                (folder / f"f{m}").write_text(f"{n} {m}")
        (root / "d0/s0/f0").write_bytes(b"large" * 20_000)
        with open_sources("local", root, ledger) as source:
            looked = SnapshotManager(source, ledger, limits=SnapshotLimits(files=21_001))
            assert await looked.take() == []
            (root / "d0/s0/f0").unlink()
            (root / "d1/s1/f1").write_bytes(b"x")
            (root / "d69/s209/f99").rename(root / "moved")
            changes = await looked.last_changes(0)
            looked.close()
        assert told(changes) == {"d0/s0/f0": "-", "d1/s1/f1": "~", "d69/s209/f99": "-", "moved": "+"}
        before = {change.path: ledger.blob(change.before.blob) for change in changes.files if change.before}
        assert before == {
            "d0/s0/f0": b"large" * 20_000,
            "d1/s1/f1": b"1 1",
            "d69/s209/f99": b"209 99",
        }

    async def test_a_thousand_sockets_do_not_bury_the_user_in_notices(
        self, root: Path, snapshots: Open
    ) -> None:
        looked = snapshots()
        await looked.take()
        for n in range(1_000):
            os.mknod(root / f"l{n}", stat.S_IFSOCK | 0o600)
        notices = (await looked.changes()).notices
        assert len(notices) == 21
        assert "980 more" in notices[-1]
