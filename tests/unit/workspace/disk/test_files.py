"""If these fail, a workspace reads the wrong file, or leaves one half written."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import threading
import time
from pathlib import Path

import anyio
import pytest

from newel.agent.errors import StaleFile, WorkspaceError
from newel.workspace.local import LocalWorkspace
from newel.workspace.port import ABSENT, DirectoryEntry, Workspace

pytestmark = pytest.mark.anyio


def root(workspace: Workspace) -> Path:
    return Path(workspace.root)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def lying_file() -> Path:
    """Files in /proc claim to be empty; macOS has no such files."""
    lying = Path("/proc/self/status")
    return lying if lying.exists() else Path("/etc/hosts")


HOSTS = os.path.realpath("/etc/hosts")
ROOTS_NOTES = os.path.realpath(Path("~root/notes").expanduser())


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class TestPaths:
    async def test_relative_absolute_and_home_paths_resolve_like_in_a_shell(
        self, workspace: Workspace
    ) -> None:
        assert await workspace.resolve("a/../b.txt") == f"{workspace.root}/b.txt"
        assert await workspace.resolve("/etc//hosts") == HOSTS
        home = (await workspace.run("cd && pwd -P")).stdout.rstrip("\n")
        assert await workspace.resolve("~") == home
        assert await workspace.resolve("~/notes") == f"{home}/notes"
        assert await workspace.resolve("~root/notes") == ROOTS_NOTES
        assert await workspace.resolve("~no-such-user-here") == f"{workspace.root}/~no-such-user-here"

    async def test_two_names_of_one_file_are_one_path(self, workspace: Workspace) -> None:
        """Otherwise two writes to one file, by its name and by a link, run at the same time."""
        (root(workspace) / "real").mkdir()
        (root(workspace) / "link").symlink_to("real")
        assert await workspace.resolve("link/x") == await workspace.resolve("real/x")

    @pytest.mark.parametrize("path", ["", "a\0b", "\ud800"])
    async def test_an_invalid_path_is_refused_with_a_message(self, workspace: Workspace, path: str) -> None:
        with pytest.raises(WorkspaceError, match=r"empty|NUL|not a valid file name"):
            await workspace.resolve(path)

    def test_a_root_that_is_no_directory_is_refused_at_once(self, tmp_path: Path) -> None:
        with pytest.raises(WorkspaceError, match="is not a directory"):
            LocalWorkspace(str(tmp_path / "nowhere"))


class TestReading:
    async def test_a_range_of_a_file_is_read_and_no_more(self, workspace: Workspace) -> None:
        path = root(workspace) / "f"
        path.write_bytes(bytes(range(256)))
        assert await workspace.read_bytes(str(path)) == bytes(range(256))
        assert await workspace.read_bytes(str(path), start=10, size=5) == bytes(range(10, 15))
        assert await workspace.read_bytes(str(path), start=250, size=50) == bytes(range(250, 256))
        assert await workspace.read_bytes(str(path), start=999) == b""

    async def test_a_large_file_is_read_completely(self, workspace: Workspace) -> None:
        """It is read in a thread."""
        path = root(workspace) / "large"
        data = os.urandom(3_000_000)
        path.write_bytes(data)
        assert await workspace.read_bytes(str(path)) == data

    async def test_a_file_whose_size_lies_is_read_to_its_end(self, workspace: Workspace) -> None:
        assert await workspace.read_bytes(str(lying_file())) != b""

    async def test_a_pipe_does_not_hang_and_a_directory_is_refused(self, workspace: Workspace) -> None:
        pipe = root(workspace) / "pipe"
        os.mkfifo(pipe)
        with pytest.raises(WorkspaceError, match="not a regular file"):
            await workspace.read_bytes(str(pipe))
        with pytest.raises(WorkspaceError, match="is a directory"):
            await workspace.read_bytes(workspace.root)
        with pytest.raises(WorkspaceError, match="No such file"):
            await workspace.read_bytes(workspace.root + "/gone")

    async def test_stat_and_list_describe_the_entries(self, workspace: Workspace) -> None:
        (root(workspace) / "b.txt").write_bytes(b"12345")
        (root(workspace) / "a").mkdir()
        (root(workspace) / "link").symlink_to("a")
        (root(workspace) / "dangling").symlink_to("nowhere")
        (root(workspace) / "loop").symlink_to("loop")
        info = await workspace.stat(workspace.root + "/b.txt")
        assert info is not None
        assert (info.kind, info.size) == ("file", 5)
        assert await workspace.stat(workspace.root + "/b.txt/below") is None
        assert await workspace.list(workspace.root) == [
            DirectoryEntry("a", "directory"),
            DirectoryEntry("b.txt", "file"),
            DirectoryEntry("dangling", "other", is_link=True),
            DirectoryEntry("link", "directory", is_link=True),
            DirectoryEntry("loop", "other", is_link=True),
        ]
        assert len(await workspace.list(workspace.root, limit=2)) == 2
        there = await workspace.stats([f"{workspace.root}/{name}" for name in ("b.txt", "none", "loop")])
        assert there == [info, None, None]


class TestWriting:
    async def test_a_new_file_gets_its_parents_and_the_usual_mode(self, workspace: Workspace) -> None:
        path = root(workspace) / "a/b/c.txt"
        written = await workspace.write_bytes(str(path), b"hello")
        assert path.read_bytes() == b"hello"
        assert written.sha256 == sha(b"hello")
        (usual := root(workspace) / "usual").touch()
        assert path.stat().st_mode == usual.stat().st_mode
        assert names(path.parent) == ["c.txt"]

    async def test_an_executable_stays_executable(self, workspace: Workspace) -> None:
        """But not one with its owner's rights (setuid), with any new content."""
        path = root(workspace) / "run.sh"
        path.write_bytes(b"old")
        for mode in (0o751, 0o6751):
            path.chmod(mode)
            await workspace.write_bytes(str(path), b"new")
            assert path.stat().st_mode & 0o7777 == 0o751

    async def test_another_owner_stays_the_owner(self, workspace: Workspace) -> None:
        """Where permitted, that is for root; other users own their new files."""
        path = root(workspace) / "theirs"
        path.write_bytes(b"old")
        if os.geteuid() == 0:
            os.chown(path, 12345, 12345)
        before = path.stat()
        await workspace.write_bytes(str(path), b"new")
        assert (path.stat().st_uid, path.stat().st_gid) == (before.st_uid, before.st_gid)

    async def test_extended_attributes_stay(self, workspace: Workspace) -> None:
        """Otherwise labels of programs and users on a file are lost with the first edit."""
        path = root(workspace) / "labelled"
        path.write_bytes(b"old")
        if sys.platform != "linux":
            pytest.skip("Python reads them on Linux only")
        try:
            os.setxattr(path, "user.label", b"kept")
        except OSError:
            pytest.skip("the file system has no extended attributes")
        await workspace.write_bytes(str(path), b"new")
        assert os.getxattr(path, "user.label") == b"kept"

    async def test_a_concurrent_reader_sees_one_complete_content(self, workspace: Workspace) -> None:
        """The file is replaced, never overwritten in place."""
        path = root(workspace) / "f"
        path.write_bytes(b"old content")
        with path.open("rb", buffering=0) as reader:
            assert reader.read(3) == b"old"
            await workspace.write_bytes(str(path), b"new")
            assert reader.read() == b" content"
        assert path.read_bytes() == b"new"

    async def test_a_link_stays_a_link_and_its_target_is_written(self, workspace: Workspace) -> None:
        (root(workspace) / "target").write_bytes(b"old")
        link = root(workspace) / "link"
        link.symlink_to("target")
        await workspace.write_bytes(await workspace.resolve("link"), b"new")
        assert link.is_symlink()
        assert (root(workspace) / "target").read_bytes() == b"new"

    async def test_a_file_changed_by_someone_else_is_not_overwritten(self, workspace: Workspace) -> None:
        path = root(workspace) / "f"
        path.write_bytes(b"theirs")
        with pytest.raises(StaleFile, match="changed on disk"):
            await workspace.write_bytes(str(path), b"ours", expect=sha(b"what we saw"))
        with pytest.raises(StaleFile, match="created by another program"):
            await workspace.write_bytes(str(path), b"ours", expect=ABSENT)
        with pytest.raises(StaleFile, match="deleted"):
            await workspace.write_bytes(str(path) + "2", b"ours", expect=sha(b"x"))
        assert path.read_bytes() == b"theirs"
        assert names(root(workspace)) == ["f"]

    async def test_a_file_in_the_expected_state_is_replaced_or_created(self, workspace: Workspace) -> None:
        path = root(workspace) / "f"
        await workspace.write_bytes(str(path), b"one", expect=ABSENT)
        await workspace.write_bytes(str(path), b"two", expect=sha(b"one"))
        assert path.read_bytes() == b"two"
        assert names(root(workspace)) == ["f"]

    async def test_only_files_are_written(self, workspace: Workspace) -> None:
        os.mkfifo(root(workspace) / "pipe")
        with pytest.raises(WorkspaceError, match="not a regular file"):
            await workspace.write_bytes(workspace.root + "/pipe", b"x")
        with pytest.raises(WorkspaceError, match="is a directory"):
            await workspace.write_bytes(workspace.root, b"x")
        with pytest.raises(WorkspaceError, match=r"Cannot write .*/pipe/x"):
            await workspace.write_bytes(workspace.root + "/pipe/x", b"x")

    async def test_a_name_of_the_maximum_length_can_be_written(self, workspace: Workspace) -> None:
        path = root(workspace) / ("n" * 255)
        await workspace.write_bytes(str(path), b"x")
        assert path.read_bytes() == b"x"

    async def test_the_requested_mode_is_set(self, workspace: Workspace) -> None:
        """Otherwise a restored script cannot be run, and a key can be read by others."""
        path = root(workspace) / "run.sh"
        await workspace.write_bytes(str(path), b"one", expect=ABSENT, mode=0o750)
        assert path.stat().st_mode & 0o7777 == 0o750
        await workspace.write_bytes(str(path), b"two", mode=0o600)
        assert path.stat().st_mode & 0o7777 == 0o600
        await workspace.write_bytes(str(path), b"three", mode=0o4755)
        assert path.stat().st_mode & 0o7777 == 0o755, "a file that takes its owner's rights is never made"

    async def test_a_planted_link_is_not_written_through(self, workspace: Workspace, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "f").write_bytes(b"theirs")
        (root(workspace) / "folder").symlink_to(outside)
        (root(workspace) / "link").symlink_to(outside / "f")
        for name in ("folder/f", "link"):
            with pytest.raises(StaleFile, match="leads elsewhere"):
                await workspace.write_bytes(f"{workspace.root}/{name}", b"ours", expect=sha(b"theirs"))
            with pytest.raises(StaleFile, match="leads elsewhere"):
                await workspace.remove(f"{workspace.root}/{name}")
        assert (outside / "f").read_bytes() == b"theirs"
        assert (root(workspace) / "link").is_symlink()


class TestRemoving:
    async def test_a_folder_is_removed_only_if_empty(self, workspace: Workspace) -> None:
        place = root(workspace)
        (place / "full/-rf sub\n").mkdir(parents=True)
        (place / "outside/sub").mkdir(parents=True)
        (place / "link").symlink_to("outside")
        (place / "file").touch()
        for name in ("full", "link", "link/sub", "file", "none", "none/sub"):
            await workspace.remove_folder(f"{place}/{name}")
        assert names(place) == ["file", "full", "link", "outside"]
        assert names(place / "outside") == ["sub"]
        await workspace.remove_folder(f"{place}/full/-rf sub\n")
        await workspace.remove_folder(f"{place}/full")
        assert names(place) == ["file", "link", "outside"]

    async def test_a_file_in_the_expected_state_is_removed(self, workspace: Workspace) -> None:
        path = root(workspace) / "f"
        path.write_bytes(b"seen")
        await workspace.remove(str(path), expect=sha(b"seen"))
        path.write_bytes(b"any")
        await workspace.remove(str(path))
        assert names(root(workspace)) == []

    async def test_a_file_changed_by_someone_else_is_not_removed(self, workspace: Workspace) -> None:
        path = root(workspace) / "f"
        path.write_bytes(b"theirs")
        with pytest.raises(StaleFile, match="changed on disk"):
            await workspace.remove(str(path), expect=sha(b"seen"))
        with pytest.raises(StaleFile, match="deleted"):
            await workspace.remove(str(path) + "2", expect=sha(b"seen"))
        assert path.read_bytes() == b"theirs"

    async def test_only_regular_files_are_removed(self, workspace: Workspace) -> None:
        (root(workspace) / "folder").mkdir()
        os.mkfifo(root(workspace) / "pipe")
        with pytest.raises(WorkspaceError, match="is a directory"):
            await workspace.remove(workspace.root + "/folder")
        with pytest.raises(WorkspaceError, match="not a regular file"):
            await workspace.remove(workspace.root + "/pipe")
        with pytest.raises(WorkspaceError, match="No such file"):
            await workspace.remove(workspace.root + "/gone")
        assert names(root(workspace)) == ["folder", "pipe"]

    async def test_a_file_without_write_permission_stays(self, workspace: Workspace) -> None:
        path = root(workspace) / "locked"
        path.write_bytes(b"x")
        path.chmod(0o444)
        if os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            pytest.skip("this user may write everything")
        with pytest.raises(WorkspaceError, match="Permission denied"):
            await workspace.remove(str(path))
        assert path.exists()


class TestSwappedFolders:
    async def test_a_folder_repeatedly_swapped_for_a_link_leaks_no_byte(
        self, workspace: Workspace, tmp_path: Path
    ) -> None:
        inside, aside, outside = root(workspace) / "folder", root(workspace) / "aside", tmp_path / "outside"
        for folder in (inside, outside):
            folder.mkdir()
            (folder / "f").write_bytes(b"0")
        untouched = outside.stat().st_mtime_ns
        done = threading.Event()

        def swap() -> None:
            while not done.is_set():
                inside.rename(aside)
                with contextlib.suppress(OSError):  # a write may have created the folder by now
                    inside.symlink_to(outside)
                    inside.unlink()
                while aside.exists():
                    shutil.rmtree(inside, ignore_errors=True)
                    with contextlib.suppress(OSError):
                        aside.rename(inside)

        swapper = threading.Thread(target=swap)
        swapper.start()
        try:
            for number in range(600 if isinstance(workspace, LocalWorkspace) else 60):
                expect = sha(b"0") if number % 3 else ABSENT
                name = "f" if number % 3 else "new"
                with contextlib.suppress(StaleFile, WorkspaceError):
                    await workspace.write_bytes(f"{inside}/{name}", b"0", expect=expect)
                with contextlib.suppress(StaleFile, WorkspaceError):
                    await workspace.remove(f"{inside}/new", expect=sha(b"0"))
        finally:
            done.set()
            swapper.join()
        assert outside.stat().st_mtime_ns == untouched
        assert names(outside) == ["f"]

    async def test_no_folders_are_created_behind_a_link(self, workspace: Workspace, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (root(workspace) / "folder").symlink_to(outside)
        with pytest.raises(StaleFile, match="leads elsewhere"):
            await workspace.write_bytes(f"{workspace.root}/folder/a/b", b"ours", expect=ABSENT)
        assert names(outside) == []

    async def test_a_file_whose_folder_is_gone_is_deleted_and_no_folder_is_created(
        self, workspace: Workspace
    ) -> None:
        path = f"{workspace.root}/gone/f"
        with pytest.raises(StaleFile, match="deleted"):
            await workspace.write_bytes(path, b"ours", expect=sha(b"seen"))
        with pytest.raises(StaleFile, match="deleted"):
            await workspace.remove(path, expect=sha(b"seen"))
        assert names(root(workspace)) == []


class TestWhatKilledProcessesLeave:
    """A partial file beside the real one, by this process."""

    LEFT = ".newel-0123456789abcdef.tmp"

    def leave(self, workspace: Workspace) -> None:
        """A quarter of an hour later: over SSH it is unknown whether the process of a fresh one lives."""
        (root(workspace) / self.LEFT).write_bytes(b"half")
        then = time.time() - 15 * 60
        os.utime(root(workspace) / self.LEFT, (then, then))

    async def test_a_leftover_partial_file_is_removed_by_the_next_change_in_its_folder(
        self, workspace: Workspace
    ) -> None:
        self.leave(workspace)
        await workspace.write_bytes(workspace.root + "/f", b"whole")
        assert names(root(workspace)) == ["f"]
        self.leave(workspace)
        await workspace.remove(workspace.root + "/f")
        assert names(root(workspace)) == []

    async def test_a_partial_file_of_a_live_process_stays(self, workspace: Workspace) -> None:
        """Otherwise two processes that write in one folder fail each other's writes."""
        with (root(workspace) / self.LEFT).open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            await workspace.write_bytes(workspace.root + "/f", b"whole")
            assert names(root(workspace)) == [self.LEFT, "f"]

    async def test_foreign_files_stay(self, workspace: Workspace) -> None:
        mine = [".newel-notes.tmp", ".newel-0123456789abcdeF.tmp", "newel-0123456789abcdef.tmp"]
        for name in mine:
            (root(workspace) / name).touch()
        (root(workspace) / ".newel-0123456789abcde0.tmp").symlink_to(mine[0])
        os.mkfifo(root(workspace) / ".newel-0123456789abcde1.tmp")
        before = names(root(workspace))
        await workspace.write_bytes(workspace.root + "/f", b"whole")
        assert names(root(workspace)) == sorted([*before, "f"])

    async def test_concurrent_writers_in_one_folder_all_succeed(self, workspace: Workspace) -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(40):
                tasks.start_soon(workspace.write_bytes, f"{workspace.root}/{number}", b"x")
        assert len(names(root(workspace))) == 40
