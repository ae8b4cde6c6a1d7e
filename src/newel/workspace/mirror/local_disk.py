"""Mirror backend for a project on this machine. If the process is killed, a small helper process removes its copies, or else the
next Newel.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Self, TypeVar

import anyio.to_thread

from newel.agent.errors import WorkspaceError
from newel.agent.messages import new_id
from newel.storage.file_lock import lock
from newel.storage.files import open_regular
from newel.storage.folder_removal import remove_folder
from newel.workspace.git import LocalGit, find_repository
from newel.workspace.mirror.port import CopyResult, Exclusions, FileContent, Layout, Signature
from newel.workspace.process.environment import child_env

T = TypeVar("T")

LOCK: Final = ".newel-lock"
GONE: Final = ".gone"
_TICK_NS: Final = 20_000_000
"""More than the resolution of file times."""


class LocalMirrorBackend(LocalGit):
    """A ``MirrorBackend``. Use ``open``."""

    def __init__(self, layout: Layout, lock: int, keeper: subprocess.Popen[bytes] | None) -> None:
        self.layout = layout
        self._root = layout.root
        self._lock = lock
        self._cleaner = keeper
        self._cleared: set[str] = set()

    @classmethod
    def open(cls, folder: Path, project: str) -> Self:
        """Create an empty copy of the project in ``folder``, and remove copies of dead processes there."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            sweep(folder)
            place, held = _create_folder(folder, Path(project).name)
            layout = Layout(project, find_repository(project), str(place))
            Path(layout.root).mkdir(parents=True)
        except OSError as error:
            raise WorkspaceError(
                f"Cannot create a copy of {project} in {folder}: {error.strerror}."
            ) from error
        return cls(layout, held, _start_cleaner(place))

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)

    def run_in_background(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, daemon=True).start()

    def acquire(self) -> bool:
        """The lock keeps the copy in use."""
        return True

    def clear_copy(self) -> None:
        _remove(self.layout.copied_top)
        Path(self._root).mkdir(parents=True)

    def release(self) -> None:
        if self._cleaner is not None and self._cleaner.stdin is not None:
            with contextlib.suppress(OSError):  # it was killed
                self._cleaner.stdin.write(b"\n")
                self._cleaner.stdin.close()
            self._cleaner.wait()
        _remove_in_background(Path(self.layout.place))
        os.close(self._lock)

    def walk(self, left_out: Exclusions) -> Iterator[tuple[str, Signature]]:
        folders = [""]
        while folders:
            inside = folders.pop()
            try:
                entries = list(os.scandir(os.path.join(self.layout.project, inside)))  # noqa: PTH118 — a name may be any bytes
            except OSError:
                if not inside:
                    raise  # for a project that is gone, an empty copy would look as if all files were deleted
                continue  # deleted in the meantime, or unreadable
            for entry in entries:
                path = f"{inside}/{entry.name}" if inside else entry.name
                with contextlib.suppress(OSError):
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if left_out.matches(path, entry.name, is_folder=is_folder):
                        continue
                    if is_folder:
                        folders.append(path)
                        continue
                    seen = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(seen.st_mode) or stat.S_ISLNK(seen.st_mode):
                        yield path, Signature.of(seen)

    def copy(self, files: Mapping[str, Signature]) -> Iterator[tuple[str, CopyResult]]:
        self._cleared.clear()
        for path, seen in files.items():
            yield path, self._copy(path, seen)

    def remove(self, paths: Iterable[str]) -> None:
        self._cleared.clear()
        for path in paths:
            _remove(self._safe_path(path))

    def write(self, contents: Mapping[str, FileContent]) -> None:
        self._cleared.clear()
        for path, content in contents.items():
            _write(self._safe_path(path), content)

    def _safe_path(self, path: str) -> str:
        """The path of a file in the copy, with real folders above it: an agent may have created a link that leads elsewhere."""
        folder = os.path.dirname(f"{self._root}/{path}")  # noqa: PTH120 — a name may be any bytes
        if folder not in self._cleared:
            self._cleared.add(folder)
            if os.path.realpath(folder) != folder or not _is_accessible(folder):
                _ensure_folders(self.layout.place, folder)
        return f"{self._root}/{path}"

    def _copy(self, path: str, seen: Signature) -> CopyResult:
        source, target = f"{self.layout.project}/{path}", self._safe_path(path)
        _remove(target)  # an agent may have created a link there
        try:
            shutil.copyfile(source, target, follow_symlinks=False)
        except FileNotFoundError:  # deleted in the meantime
            return CopyResult.UNCERTAIN
        except PermissionError:
            return CopyResult.UNREADABLE
        if not stat.S_ISLNK(seen.mode):
            os.utime(target, ns=(seen.modified, seen.modified))
            os.chmod(target, seen.mode & 0o777)  # noqa: PTH101 — as above
        now = os.lstat(source)
        # The ctime of a file that was just changed is the file system's current time.
        is_sure = now.st_ctime_ns < os.lstat(target).st_ctime_ns - _TICK_NS and Signature.of(now) == seen
        return CopyResult.COPIED if is_sure else CopyResult.UNCERTAIN


def inside(root: str, paths: Iterable[str]) -> list[str]:
    """Make absolute paths relative to a root."""
    return [os.path.relpath(os.path.realpath(path), root) for path in paths]


def _write(target: str, content: FileContent) -> None:
    with contextlib.suppress(OSError):
        seen = os.lstat(target)
        is_like_it = stat.S_ISREG(seen.st_mode) and (stat.S_IMODE(seen.st_mode), seen.st_size) == (
            content.mode,
            len(content.data),
        )
        if is_like_it and Path(target).read_bytes() == content.data:
            return
    _remove(target)
    if stat.S_ISLNK(content.mode):
        os.symlink(content.data, os.fsencode(target))  # noqa: PTH211 — a name may be any bytes
        return
    place = Path(target)
    place.write_bytes(content.data)
    place.chmod(content.mode)


def _ensure_folders(base: str, folder: str) -> None:
    """Make ``folder``, and all folders between ``base`` and it, real and writable."""
    place = base
    for name in os.path.relpath(folder, base).split("/"):
        place = f"{place}/{name}"
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISDIR(mode := os.lstat(place).st_mode):
                _make_accessible(place, mode)
                continue
            os.unlink(place)  # noqa: PTH108 — a name may be any bytes
        os.mkdir(place)  # noqa: PTH102 — as above


def _is_accessible(folder: str) -> bool:
    with contextlib.suppress(OSError):
        mode = os.lstat(folder).st_mode
        return stat.S_ISDIR(mode) and mode & stat.S_IRWXU == stat.S_IRWXU
    return False


def _make_accessible(folder: str, mode: int) -> None:
    """Give the owner all permissions on a folder that is not a link."""
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(folder, stat.S_IMODE(mode) | stat.S_IRWXU)  # noqa: PTH101 — a name may be any bytes


def _remove(target: str) -> None:
    """Remove a file or folder of any kind."""
    try:
        os.unlink(target)  # noqa: PTH108 — a name may be any bytes
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (IsADirectoryError, PermissionError):
        remove_folder(Path(target))


# -- copies of dead processes -----------------------------------------------------------------------------


def _create_folder(folder: Path, name: str) -> tuple[Path, int]:
    """Create a folder; returns it and the descriptor of its lock, held as long as this process lives."""
    place = folder / f"{name}-{new_id()[:8]}"
    lock_file = folder / f".{place.name}{LOCK}"
    descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    lock(descriptor, wait=False)
    place.mkdir(mode=0o700)
    lock_file.rename(place / LOCK)  # never visible there unlocked
    return place, descriptor


_CLEANER: Final = """
read -r word && exit
mv -- "$1" "$2"
n=0; while [ $n -lt 60 ]; do
  chmod -R u+rwx -- "$2"; rm -rf -- "$2" && exit; sleep 0.5; n=$((n + 1))
done
"""
"""Waits for a line, or for the end of the copy's owner; then it removes the copy ``$1``, renamed to ``$2``. Processes that still run
in it may be writing, hence the retries."""


def _start_cleaner(place: Path) -> subprocess.Popen[bytes] | None:
    """Start a process that removes the copy if this process is killed; None on failure, when ``sweep`` removes it later."""
    try:
        return subprocess.Popen(
            ["/bin/sh", "-c", _CLEANER, "newel-copy", str(place), str(_trash_path(place))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=child_env(os.environ),
            start_new_session=True,
        )
    except OSError:
        return None


def sweep(folder: Path) -> None:
    """Remove the copies of all projects that no process uses. Does not raise."""
    for lock_file in folder.glob(f"*/{LOCK}"):
        with contextlib.suppress(OSError), open_regular(lock_file) as file:
            lock(file, wait=False)
            _remove_in_background(lock_file.parent)
    for gone in folder.glob(f".*{GONE}"):
        _remove_in_background(gone)


def _trash_path(place: Path) -> Path:
    return place.with_name(f".{place.name}{GONE}")


def _remove_in_background(place: Path) -> None:
    """Remove a folder without waiting, as that may take long."""
    gone = place if place.name.endswith(GONE) else _trash_path(place)
    with contextlib.suppress(OSError):
        place.rename(gone)
    if threading.main_thread().is_alive():
        threading.Thread(target=remove_folder, args=(gone,)).start()
    else:  # the process is ending and does not wait for new threads
        remove_folder(gone)
