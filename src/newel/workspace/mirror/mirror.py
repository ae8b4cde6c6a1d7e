"""A copy of a project's folder to work in, updated before each use.

    mirror = await workspace.mirror(home / "copies")
    await mirror.update({"src/a.py": content})
    … work in mirror.root …
    mirror.close()

It has all files of the project, including ignored ones, as commands need installed dependencies. If the project is in a git
repository, the copy has its own repository with the same history. If the project is too large, ignored files are left out; if
it still is, no copy is made. The copy is on the project's host, and is removed when its process ends.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import msgspec

from newel.agent.errors import ConnectionLost, WorkspaceError
from newel.workspace.git import copy_repository
from newel.workspace.mirror.port import CopyResult, Exclusions, FileContent, MirrorBackend, Signature
from newel.workspace.snapshots.ignore_rules import BUILD_DIRS
from newel.workspace.snapshots.port import ScanCancelled


class MirrorLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The largest project that is copied; ``size`` is in bytes."""

    files: int = 200_000
    size: int = 2 << 30


class Mirror:
    """See ``TrackedWorkspace.mirror``. Methods raise ``WorkspaceError``."""

    def __init__(self, backend: MirrorBackend, limits: MirrorLimits, left_out: Iterable[str]) -> None:
        """``left_out`` are paths relative to the project."""
        self._backend = backend
        self._limits = limits
        self._project = backend.layout.project
        self._always_excluded = Exclusions(frozenset(left_out))
        self.root = backend.layout.root
        self._known: dict[str, Signature | None] = {}
        """Signatures of the copied files; None for those that may have changed since."""
        self._ignored: Exclusions | None = None
        self._has_repository = False
        self._notices: list[str] = []
        self._working = threading.Lock()
        self._has_started = False
        self._closed = threading.Event()
        self.close = weakref.finalize(self, _release, backend, self._closed)

    def start(self) -> None:
        """Start copying in the background; ``update`` waits for it, and reports errors."""
        if not self._has_started:
            self._has_started = True
            self._backend.run_in_background(partial(_start_update, weakref.ref(self), self._closed))

    def invalidate(self, path: str) -> None:
        """A file of the copy, relative to the root, was changed: the next update restores it."""
        self._known[path] = None

    async def update(self, contents: Mapping[str, FileContent | None]) -> None:
        """Make the copy equal to the project, except for files with other ``contents`` (None: absent). After a failed or
        cancelled update the next one completes it.
        """
        stop = threading.Event()
        try:
            await self._backend.run_in_thread(partial(self.run_update, contents, stop.is_set))
        finally:
            stop.set()

    def drain_notices(self) -> list[str]:
        """Messages to the user about the copy, each once."""
        notices, self._notices = self._notices, []
        return notices

    def run_update(self, contents: Mapping[str, FileContent | None], stopped: Callable[[], bool]) -> None:
        """``update`` in the backend's thread; returns early once ``stopped`` is true."""
        try:
            # A cancelled update may still be stopping.
            with self._working, contextlib.suppress(ScanCancelled):
                self._update_or_clear(contents, stopped)
        except ConnectionLost as lost:
            raise ConnectionLost(
                f"The connection was lost while the copy of {self._project} was being updated. The project is unchanged, and "
                "nothing was run in the copy. Try again."
            ) from lost
        except OSError as error:
            raise WorkspaceError(
                f"Cannot update the copy of {self._project} in {self.root}: {error.strerror or error}."
            ) from error

    def _update_or_clear(
        self, contents: Mapping[str, FileContent | None], stopped: Callable[[], bool]
    ) -> None:
        """Remove a copy that does not fit: half of it is useless and takes up space."""
        try:
            self._update(contents, stopped)
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise
            self._reset()
            with contextlib.suppress(OSError, WorkspaceError):
                self._backend.clear_copy()
            raise WorkspaceError(
                f"Not enough space for a copy of {self._project} in {self._backend.layout.place}: {error.strerror}. The partial copy was "
                "removed, and the project is unchanged. Free some space, or approve each call instead (--approve ask)."
            ) from error

    def _reset(self) -> None:
        self._known = {}
        self._has_repository = False

    def _update(self, contents: Mapping[str, FileContent | None], stopped: Callable[[], bool]) -> None:
        if not self._backend.acquire():
            self._reset()
        self._make_repository()
        self._known |= dict.fromkeys(contents)
        listing = self._list_project(stopped)
        if stopped():
            return
        gone = self._known.keys() - listing.keys() - contents.keys()
        nothing = {path for path, content in contents.items() if content is None}
        self._backend.remove(sorted(gone | nothing))
        for path in gone:
            del self._known[path]
        self._copy(
            {
                path: seen
                for path, seen in listing.items()
                if path not in contents and self._known.get(path) != seen
            },
            stopped,
        )
        if not stopped():
            self._backend.write({path: content for path, content in contents.items() if content is not None})

    def _make_repository(self) -> None:
        layout = self._backend.layout
        if layout.top is None or self._has_repository:
            return
        if not copy_repository(self._backend, layout.top, layout.copied_top, inside=layout.inside):
            self._notices.append("Git could not set up the repository in the copy: do not rely on git there.")
        self._has_repository = True

    def _copy(self, files: Mapping[str, Signature], stopped: Callable[[], bool]) -> None:
        for path, result in self._backend.copy(files):
            if result is CopyResult.UNREADABLE:
                self._notices.append(f"The copy lacks {path}, which is not readable.")
            self._known[path] = None if result is CopyResult.UNCERTAIN else files[path]
            if stopped():
                return

    def _list_project(self, stopped: Callable[[], bool]) -> dict[str, Signature]:
        """The project files to copy. Raises ``WorkspaceError`` if they exceed the limits."""
        listing = self._walk_project(stopped)
        if not listing.is_within_limits and self._ignored is None:
            self._ignored = self._query_ignored()
            listing = self._walk_project(stopped)
            if listing.is_within_limits:
                some = ", ".join(sorted({*self._ignored.paths, *self._ignored.names})[:5])
                self._notices.append(
                    f"The copy lacks files that git ignores ({some}), as the project has more than {self._describe_limits()}."
                )
        if not listing.is_within_limits:
            raise WorkspaceError(
                f"{self._project} is too large to copy: {listing.count:,} files of {listing.size >> 20:,} MiB; the limit is {self._describe_limits()}. "
                "Raise max_copy_files and max_copy_bytes in [review] of config.toml, or approve each call (--approve ask)."
            )
        return listing.files

    def _walk_project(self, stopped: Callable[[], bool]) -> _ProjectListing:
        ignored = self._ignored or Exclusions()
        paths = frozenset({*self._always_excluded.paths, *ignored.paths})
        listing = _ProjectListing(self._limits)
        for path, seen in self._backend.walk(Exclusions(paths, ignored.names)):
            listing.add(path, seen)
            if stopped():
                break
        return listing

    def _describe_limits(self) -> str:
        return f"{self._limits.files:,} files or {self._limits.size >> 20:,} MiB"

    def _query_ignored(self) -> Exclusions:
        """Ignored files and folders, but never the whole project; without git, build directories."""
        answer = None
        if self._backend.layout.top is not None:
            args = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
            answer = self._backend.run_git(self._project, *args)
        if answer is None:
            return Exclusions(names=BUILD_DIRS)
        names = (name.rstrip(b"/") for name in answer.split(b"\0")[:-1])
        return Exclusions(frozenset(os.fsdecode(name) for name in names if name != b"."))


class _ProjectListing:
    """The files of a project, within the limits."""

    def __init__(self, limits: MirrorLimits) -> None:
        self._limits = limits
        self.files: dict[str, Signature] = {}
        self.count = 0
        self.size = 0

    @property
    def is_within_limits(self) -> bool:
        return self.count <= self._limits.files and self.size <= self._limits.size

    def add(self, path: str, seen: Signature) -> None:
        self.count += 1
        self.size += seen.size
        if self.count <= self._limits.files:
            self.files[path] = seen


def _start_update(mirror: weakref.ref[Mirror], gone: threading.Event) -> None:
    with contextlib.suppress(WorkspaceError):
        if (alive := mirror()) is not None:
            alive.run_update({}, gone.is_set)


def _release(backend: MirrorBackend, gone: threading.Event) -> None:
    gone.set()
    backend.release()
