"""A copy of a project's folder to work in, brought up to date before each use.

    mirror = Mirror.open(home / "copies", "/home/me/project")
    mirror.update({"src/a.py": content}, lambda: False)
    … work in mirror.root …
    mirror.close()

It has all files of the project, those that git ignores too, as commands need what was installed there; and, where the project
is in a git repository, one with the same history whose commits nobody else sees. It is bounded: of a project that is too large
first what git ignores is left out, and after that there is no copy. A copy lives as long as its process; what one that was
killed left is removed by the next.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Self

import msgspec

from newel.agent.errors import WorkspaceError
from newel.agent.messages import new_id
from newel.workspace.git import ask_git, copy_repository, top_of
from newel.workspace.snapshot_rules import MADE_ANEW

LOCK: Final = "lock"
GONE: Final = ".gone"
_TICK: Final = 20_000_000
"""Nanoseconds: more than the steps in which a file system counts time."""


class MirrorLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The largest project that is copied; ``size`` is in bytes."""

    files: int = 200_000
    size: int = 2 << 30


DEFAULTS: Final = MirrorLimits()


class Content(NamedTuple):
    """A file as it shall be, whatever the project has; ``mode`` are its permission bits."""

    data: bytes
    mode: int


class _Signature(NamedTuple):
    """What tells that a file was written since it was copied."""

    modified: int
    changed: int
    size: int
    mode: int
    number: int


class Mirror:
    """Use ``open``. ``update`` blocks. Methods raise ``WorkspaceError``."""

    def __init__(
        self, project: str, place: Path, lock: int, limits: MirrorLimits, left_out: Iterable[str]
    ) -> None:
        self._limits = limits
        top = top_of(project)
        self._project = project
        self._top = top
        self._inside = os.path.relpath(project, top) if top not in {None, project} else ""
        self._copied_top = place / Path(top or project).name
        self._left_out = frozenset(os.path.realpath(path) for path in left_out)
        self.root = str(self._copied_top / self._inside)
        self._known: dict[str, _Signature | None] = {}
        """What was copied; None for what may have changed since, unseen."""
        self._ignored: frozenset[str] = frozenset()
        self._cleared: set[str] = set()
        self._has_repository = False
        self._notices: list[str] = []
        self._working = threading.Lock()
        self._has_begun = False
        self._gone = threading.Event()
        self.close = weakref.finalize(self, _let_go, place, lock, self._gone)

    @classmethod
    def open(
        cls, folder: Path, project: str, *, limits: MirrorLimits = DEFAULTS, left_out: Iterable[str] = ()
    ) -> Self:
        """An empty copy of the project in ``folder``; what dead processes have left there goes. ``left_out`` are absolute paths
        that are not copied, such as that of ``folder`` itself.
        """
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _sweep(folder)
            place, lock = _place_in(folder, Path(project).name)
            mirror = cls(project, place, lock, limits, [str(folder), *left_out])
            Path(mirror.root).mkdir(parents=True)
        except OSError as error:
            raise WorkspaceError(f"Cannot make a copy of {project} in {folder}: {error.strerror}.") from error
        return mirror

    def begin(self) -> None:
        """Begin to copy, in a thread of its own; ``update`` waits for it. What goes wrong is said there."""
        if not self._has_begun:
            self._has_begun = True
            threading.Thread(target=_begun, args=(weakref.ref(self), self._gone), daemon=True).start()

    def touched(self, path: str) -> None:
        """A file of the copy, relative to the root, is no longer what it was made: the next update makes it so again."""
        self._known[path] = None

    def update(self, contents: Mapping[str, Content | None], stopped: Callable[[], bool]) -> None:
        """Make the copy what the project is by now, but for files that shall have other ``contents`` (None: not be there). Once
        ``stopped`` says so it ends early, to be made up for by the next one.
        """
        try:
            with self._working:  # one that was told to stop may not have done so yet
                self._update(contents, stopped)
        except OSError as error:
            raise WorkspaceError(
                f"Cannot bring the copy of {self._project} up to date in {self.root}: {error.strerror or error}."
            ) from error

    def told(self) -> list[str]:
        """What a person should know of the copy, once."""
        notices, self._notices = self._notices, []
        return notices

    def _update(self, contents: Mapping[str, Content | None], stopped: Callable[[], bool]) -> None:
        if self._top is not None and not self._has_repository:
            self._has_repository = True
            if not copy_repository(self._top, str(self._copied_top), inside=self._inside):
                self._notices.append(
                    "Git could not make a repository of the copy like the project's: do not rely on git in it."
                )
        self._cleared.clear()
        self._known |= dict.fromkeys(contents)
        found = self._found(stopped)
        if stopped():
            return
        for path in sorted(
            self._known.keys() - found.keys() - contents.keys()
        ):  # a folder's name comes before what is in it
            del self._known[path]
            _remove(self._cleared_place(path))
        self._cleared.clear()
        for path, seen in found.items():
            if stopped():
                return
            if path not in contents and self._known.get(path) != seen:
                self._copy(path, seen)
        for path, content in contents.items():
            _write(self._cleared_place(path), content)

    def _found(self, stopped: Callable[[], bool]) -> dict[str, _Signature]:
        """The files of the project that are to be copied. Raises ``WorkspaceError`` if they are too many."""
        found = self._walked(stopped)
        if not self._fits(found) and not self._ignored:
            self._ignored = frozenset(self._asked_ignored())
            found = self._walked(stopped)
            if self._fits(found):
                some = ", ".join(sorted(self._ignored)[:5])
                self._notices.append(
                    f"The copy lacks what git ignores ({some}), as the project is larger than {self._most()}."
                )
        if not self._fits(found):
            size = sum(seen.size for seen in found.values()) >> 20
            raise WorkspaceError(
                f"{self._project} has {len(found):,} files of {size:,} MiB; at most {self._most()} are copied. Raise "
                "max_copy_files and max_copy_bytes in [review] of config.toml, or approve each call (--approve ask)."
            )
        return found

    def _most(self) -> str:
        return f"{self._limits.files:,} files or {self._limits.size >> 20:,} MiB"

    def _fits(self, found: Mapping[str, _Signature]) -> bool:
        return (
            len(found) <= self._limits.files
            and sum(seen.size for seen in found.values()) <= self._limits.size
        )

    def _asked_ignored(self) -> list[str]:
        """What can be made anew, as far as it is a whole folder or file; never all of the project."""
        answer = None
        if self._top is not None:
            words = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
            answer = ask_git(self._project, *words)
        if answer is None:
            return sorted(MADE_ANEW)
        return [
            os.fsdecode(name).rstrip("/") for name in answer.split(b"\0")[:-1] if name.rstrip(b"/") != b"."
        ]

    def _walked(self, stopped: Callable[[], bool]) -> dict[str, _Signature]:
        found: dict[str, _Signature] = {}
        folders = [""]
        while folders and not stopped():
            inside = folders.pop()
            try:
                entries = list(os.scandir(os.path.join(self._project, inside)))  # noqa: PTH118 — a name may be any bytes
            except OSError:  # it has just gone, or may not be read
                continue
            for entry in entries:
                path = f"{inside}/{entry.name}" if inside else entry.name
                if self._is_left_out(entry, path):
                    continue
                with contextlib.suppress(OSError):
                    seen = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(seen.st_mode):
                        folders.append(path)
                    elif stat.S_ISREG(seen.st_mode) or stat.S_ISLNK(seen.st_mode):
                        found[path] = _signature(seen)
        return found

    def _is_left_out(self, entry: os.DirEntry[str], path: str) -> bool:
        if entry.name == ".git":
            # The root's own was made anew; one that is a file leads into another repository.
            return path == ".git" or not entry.is_dir(follow_symlinks=False)
        if path in self._ignored or (self._top is None and entry.name in self._ignored):
            return True
        return entry.path in self._left_out

    def _cleared_place(self, path: str) -> str:
        """Where a file of the copy is, in a folder that is one: an agent may have put a link there, which leads anywhere."""
        folder = os.path.dirname(f"{self.root}/{path}")  # noqa: PTH120 — a name may be any bytes
        if folder not in self._cleared:
            self._cleared.add(folder)
            if os.path.realpath(folder) != folder or not os.path.isdir(folder):  # noqa: PTH112 — as above
                _clear(str(self._copied_top.parent), folder)
        return f"{self.root}/{path}"

    def _copy(self, path: str, seen: _Signature) -> None:
        source, target = f"{self._project}/{path}", self._cleared_place(path)
        _remove(target)  # an agent may have put a link there
        try:
            shutil.copyfile(source, target, follow_symlinks=False)
        except FileNotFoundError:  # it has just gone
            return
        except PermissionError:
            self._notices.append(f"The copy lacks {path}, which may not be read.")
            self._known[path] = seen
            return
        if not stat.S_ISLNK(seen.mode):
            os.utime(target, ns=(seen.modified, seen.modified))
            os.chmod(target, seen.mode & 0o777)  # noqa: PTH101 — as above
        now = os.lstat(source)
        is_sure = now.st_ctime_ns < _now_of(target) - _TICK and _signature(now) == seen
        self._known[path] = seen if is_sure else None


def _signature(seen: os.stat_result) -> _Signature:
    return _Signature(seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_mode, seen.st_ino)


def _now_of(target: str) -> int:
    """The time by the clock of the file system: a file has just been given its attributes."""
    return os.lstat(target).st_ctime_ns


def _write(target: str, content: Content | None) -> None:
    if content is None:
        _remove(target)
        return
    with contextlib.suppress(OSError):
        seen = os.lstat(target)
        is_like_it = stat.S_ISREG(seen.st_mode) and (stat.S_IMODE(seen.st_mode), seen.st_size) == (
            content.mode,
            len(content.data),
        )
        if is_like_it and Path(target).read_bytes() == content.data:
            return
    _remove(target)
    place = Path(target)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content.data)
    place.chmod(content.mode)


def _clear(own: str, folder: str) -> None:
    """Make ``folder``, and all folders between ``own`` and it, real ones."""
    place = own
    for name in os.path.relpath(folder, own).split("/"):
        place = f"{place}/{name}"
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISDIR(os.lstat(place).st_mode):
                continue
            os.unlink(place)  # noqa: PTH108 — a name may be any bytes
        os.mkdir(place)  # noqa: PTH102 — as above


def _remove(target: str) -> None:
    """Whatever an agent has put there."""
    try:
        os.unlink(target)  # noqa: PTH108 — a name may be any bytes
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (IsADirectoryError, PermissionError):
        shutil.rmtree(target, ignore_errors=True)


# -- copies of processes that are gone --------------------------------------------------------------------


def _place_in(folder: Path, name: str) -> tuple[Path, int]:
    """A new folder, and the descriptor of its lock, held as long as this process lives."""
    place = folder / f"{name}-{new_id()[:8]}"
    lock = folder / f".{place.name}.{LOCK}"
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    place.mkdir(mode=0o700)
    lock.rename(place / LOCK)  # whoever sees it there finds it locked
    return place, descriptor


def _begun(mirror: weakref.ref[Mirror], gone: threading.Event) -> None:
    with contextlib.suppress(WorkspaceError):
        if (there := mirror()) is not None:
            there.update({}, gone.is_set)


def _let_go(place: Path, lock: int, gone: threading.Event) -> None:
    gone.set()
    _remove_soon(place)
    os.close(lock)


def _sweep(folder: Path) -> None:
    """Remove the copies that nobody holds."""
    for lock in folder.glob(f"*/{LOCK}"):
        with contextlib.suppress(OSError), lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_soon(lock.parent)
    for gone in folder.glob(f".*{GONE}"):
        _remove_soon(gone)


def _remove_soon(place: Path) -> None:
    """A large folder takes its time, and nobody waits for it."""
    gone = place if place.name.endswith(GONE) else place.with_name(f".{place.name}{GONE}")
    with contextlib.suppress(OSError):
        place.rename(gone)
    if threading.main_thread().is_alive():
        threading.Thread(target=shutil.rmtree, args=(gone,), kwargs={"ignore_errors": True}).start()
    else:  # the process ends, and waits for no more threads
        shutil.rmtree(gone, ignore_errors=True)
