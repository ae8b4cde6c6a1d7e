"""A project and its copy on this machine. The copies of a process that was killed are removed by a small process that waits for its end,
or else by the next Newel.
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
from newel.workspace.git import LocalRepositories, top_of
from newel.workspace.mirror.port import Copied, FileContent, Layout, LeftOut, Signature
from newel.workspace.process.environment import child_env

T = TypeVar("T")

LOCK: Final = ".newel-lock"
GONE: Final = ".gone"
_TICK: Final = 20_000_000
"""Nanoseconds: more than the steps in which a file system counts time."""


class LocalMirrorBackend(LocalRepositories):
    """A ``MirrorBackend``. Use ``open``."""

    def __init__(self, layout: Layout, lock: int, keeper: subprocess.Popen[bytes] | None) -> None:
        self.layout = layout
        self._root = layout.root
        self._lock = lock
        self._keeper = keeper
        self._cleared: set[str] = set()

    @classmethod
    def open(cls, folder: Path, project: str) -> Self:
        """An empty copy of the project in ``folder``; what dead processes have left there goes."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            sweep(folder)
            place, held = _place_in(folder, Path(project).name)
            layout = Layout(project, top_of(project), str(place))
            Path(layout.root).mkdir(parents=True)
        except OSError as error:
            raise WorkspaceError(f"Cannot make a copy of {project} in {folder}: {error.strerror}.") from error
        return cls(layout, held, _keeper_of(place))

    async def within(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)

    def meanwhile(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, daemon=True).start()

    def hold(self) -> bool:
        """The lock holds it."""
        return True

    def empty(self) -> None:
        _remove(self.layout.copied_top)
        Path(self._root).mkdir(parents=True)

    def let_go(self) -> None:
        if self._keeper is not None and self._keeper.stdin is not None:
            with contextlib.suppress(OSError):  # somebody has ended it
                self._keeper.stdin.write(b"\n")
                self._keeper.stdin.close()
            self._keeper.wait()
        _remove_soon(Path(self.layout.place))
        os.close(self._lock)

    def walk(self, left_out: LeftOut) -> Iterator[tuple[str, Signature]]:
        folders = [""]
        while folders:
            inside = folders.pop()
            try:
                entries = list(os.scandir(os.path.join(self.layout.project, inside)))  # noqa: PTH118 — a name may be any bytes
            except OSError:
                if not inside:
                    raise  # an empty copy of a project that is gone would say that all was deleted
                continue  # it has just gone, or may not be read
            for entry in entries:
                path = f"{inside}/{entry.name}" if inside else entry.name
                with contextlib.suppress(OSError):
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if left_out.holds(path, entry.name, is_folder=is_folder):
                        continue
                    if is_folder:
                        folders.append(path)
                        continue
                    seen = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(seen.st_mode) or stat.S_ISLNK(seen.st_mode):
                        yield path, Signature.of(seen)

    def copy(self, files: Mapping[str, Signature]) -> Iterator[tuple[str, Copied]]:
        self._cleared.clear()
        for path, seen in files.items():
            yield path, self._copy(path, seen)

    def remove(self, paths: Iterable[str]) -> None:
        self._cleared.clear()
        for path in paths:
            _remove(self._cleared_place(path))

    def write(self, contents: Mapping[str, FileContent]) -> None:
        self._cleared.clear()
        for path, content in contents.items():
            _write(self._cleared_place(path), content)

    def _cleared_place(self, path: str) -> str:
        """Where a file of the copy is, in a folder that is one: an agent may have put a link there, which leads anywhere."""
        folder = os.path.dirname(f"{self._root}/{path}")  # noqa: PTH120 — a name may be any bytes
        if folder not in self._cleared:
            self._cleared.add(folder)
            if os.path.realpath(folder) != folder or not _is_open(folder):
                _clear(self.layout.place, folder)
        return f"{self._root}/{path}"

    def _copy(self, path: str, seen: Signature) -> Copied:
        source, target = f"{self.layout.project}/{path}", self._cleared_place(path)
        _remove(target)  # an agent may have put a link there
        try:
            shutil.copyfile(source, target, follow_symlinks=False)
        except FileNotFoundError:  # it has just gone
            return Copied.UNSURE
        except PermissionError:
            return Copied.SHUT
        if not stat.S_ISLNK(seen.mode):
            os.utime(target, ns=(seen.modified, seen.modified))
            os.chmod(target, seen.mode & 0o777)  # noqa: PTH101 — as above
        now = os.lstat(source)
        is_sure = now.st_ctime_ns < _now_of(target) - _TICK and Signature.of(now) == seen
        return Copied.SURE if is_sure else Copied.UNSURE


def inside(root: str, paths: Iterable[str]) -> list[str]:
    """Absolute paths as seen from a root."""
    return [os.path.relpath(os.path.realpath(path), root) for path in paths]


def _now_of(target: str) -> int:
    """The time by the clock of the file system: a file has just been given its attributes."""
    return os.lstat(target).st_ctime_ns


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


def _clear(own: str, folder: str) -> None:
    """Make ``folder``, and all folders between ``own`` and it, real ones that can be written to."""
    place = own
    for name in os.path.relpath(folder, own).split("/"):
        place = f"{place}/{name}"
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISDIR(mode := os.lstat(place).st_mode):
                _open_up(place, mode)
                continue
            os.unlink(place)  # noqa: PTH108 — a name may be any bytes
        os.mkdir(place)  # noqa: PTH102 — as above


def _is_open(folder: str) -> bool:
    with contextlib.suppress(OSError):
        mode = os.lstat(folder).st_mode
        return stat.S_ISDIR(mode) and mode & stat.S_IRWXU == stat.S_IRWXU
    return False


def _open_up(folder: str, mode: int) -> None:
    """Let the folder, which is no link, be read, entered and written to by its owner."""
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(folder, stat.S_IMODE(mode) | stat.S_IRWXU)  # noqa: PTH101 — a name may be any bytes


def _remove(target: str) -> None:
    """Whatever an agent has put there."""
    try:
        os.unlink(target)  # noqa: PTH108 — a name may be any bytes
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (IsADirectoryError, PermissionError):
        _remove_folder(target)


def _remove_folder(target: str) -> None:
    """With all that is in it, as far as that can be; folders in it may not let their owner in."""
    shutil.rmtree(target, ignore_errors=True)
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(mode := os.lstat(target).st_mode):
            _open_up(target, mode)
            for folder, names, _ in os.walk(target):
                for name in names:
                    below = f"{folder}/{name}"
                    if stat.S_ISDIR(mode := os.lstat(below).st_mode):
                        _open_up(below, mode)
            shutil.rmtree(target, ignore_errors=True)


# -- copies of processes that are gone --------------------------------------------------------------------


def _place_in(folder: Path, name: str) -> tuple[Path, int]:
    """A new folder, and the descriptor of its lock, held as long as this process lives."""
    place = folder / f"{name}-{new_id()[:8]}"
    lock_file = folder / f".{place.name}{LOCK}"
    descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    lock(descriptor, wait=False)
    place.mkdir(mode=0o700)
    lock_file.rename(place / LOCK)  # whoever sees it there finds it locked
    return place, descriptor


_KEEPER: Final = """
read -r word && exit
mv -- "$1" "$2"
n=0; while [ $n -lt 60 ]; do
  chmod -R u+rwx -- "$2"; rm -rf -- "$2" && exit; sleep 0.5; n=$((n + 1))
done
"""
"""Waits for a word, or for the end of the process that holds the copy ``$1``, which is removed then under the name ``$2``.
What still runs in it may be writing."""


def _keeper_of(place: Path) -> subprocess.Popen[bytes] | None:
    """A process that removes a copy as soon as this one is killed; None if it cannot be started: ``sweep`` does it then."""
    try:
        return subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, "newel-copy", str(place), str(_gone(place))],
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
    """Remove the copies, of any project, that no process holds. Does not raise."""
    for lock_file in folder.glob(f"*/{LOCK}"):
        with contextlib.suppress(OSError), open_regular(lock_file) as file:
            lock(file, wait=False)
            _remove_soon(lock_file.parent)
    for gone in folder.glob(f".*{GONE}"):
        _remove_soon(gone)


def _gone(place: Path) -> Path:
    return place.with_name(f".{place.name}{GONE}")


def _remove_soon(place: Path) -> None:
    """A large folder takes its time, and nobody waits for it."""
    gone = place if place.name.endswith(GONE) else _gone(place)
    with contextlib.suppress(OSError):
        place.rename(gone)
    if threading.main_thread().is_alive():
        threading.Thread(target=_remove_folder, args=(str(gone),)).start()
    else:  # the process ends, and waits for no more threads
        _remove_folder(str(gone))
