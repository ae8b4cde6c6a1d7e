"""The port to a host: files and processes, in bytes and plain values; with its error messages, and the base of wrappers.

Tools use only this port, so they work on the local disk, over SSH and on a copy alike.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from typing import Final, Generic, Literal, Protocol, TypedDict, TypeVar, Unpack

import msgspec

from newel.agent.errors import StaleFile, WorkspaceError
from newel.agent.ports import OnOutput

Kind = Literal["file", "directory", "other"]

ABSENT: Final = "absent"
"""The hash of a file that does not exist: ``write_bytes(…, expect=ABSENT)`` only creates."""

SCHEME: Final = "ssh://"
"""Begins the name of a workspace on a host."""


class FileInfo(msgspec.Struct, frozen=True):
    """The file at a path, links followed. ``size`` is in bytes, ``mode`` holds the permission bits."""

    kind: Kind
    size: int
    mode: int
    modified_ns: int


class DirectoryEntry(msgspec.Struct, frozen=True):
    """A name in a directory. A link has the kind of its target, or ``other`` if that does not exist."""

    name: str
    kind: Kind
    is_link: bool = False


class FileNode(msgspec.Struct, frozen=True):
    """The node at a path itself, links not followed. ``mode`` contains its kind, as in ``stat``, and ``07777``; for
    a link only the kind, and ``target`` holds the bytes of its target.
    """

    mode: int
    target: bytes = b""

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)


def kept_mode(mode: int) -> int:
    """The bits of a mode that can be restored: some systems report permission bits of links, which cannot be set."""
    return stat.S_IFLNK if stat.S_ISLNK(mode) else mode


class WriteResult(msgspec.Struct, frozen=True):
    """A write: the SHA-256 of the new content, the permission bits of the file and of the one it replaced. ``mode`` is None if
    the host does not report it, and ``replaced_mode`` also if there was no file. ``is_exact`` is False if the content is not what was
    written: an editor may format what it saves.
    """

    sha256: str
    mode: int | None = None
    replaced_mode: int | None = None
    is_exact: bool = True


class ProgramEnded(msgspec.Struct, frozen=True):
    """The end of a program; ``stderr`` is at least the end of its error output."""

    exit_code: int
    stderr: bytes


class ChangedFile(msgspec.Struct, frozen=True):
    """A file that a command has changed. ``path`` is relative to the root, as in ``FileChange``; ``kind`` is ``new``, ``deleted`` or
    ``changed``. The numbers of lines are None where they were not counted, as in binary and in very large files.
    """

    path: str
    kind: Literal["new", "deleted", "changed"]
    added: int | None = None
    removed: int | None = None


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a command.

    ``exit_code`` is 128 + N for a command that signal N ended, as in shells. ``duration`` is in milliseconds. If
    ``truncated``, ``stdout`` and ``stderr`` lack their middle, and ``output_file`` names the file with both in
    order of arrival. ``left_open``: the shell has ended, but a process that it started still holds its output.
    ``left_running`` describes its processes that still run, if known. ``whole`` tells the reader where all output
    is. ``changed`` are the files that the command has changed, where changes are recorded. ``background`` is the id of a command that goes
    on in the background (see ``newel.workspace.background``): it has not ended, and the rest is what is known so far.
    """

    stdout: str
    stderr: str
    exit_code: int
    duration: int
    timed_out: bool = False
    truncated: bool = False
    output_file: str | None = None
    left_open: bool = False
    left_running: Sequence[str] = ()
    whole: str = ""
    changed: Sequence[ChangedFile] = ()
    background: str = ""


class TimeLimit:
    """The time that a command has, in seconds, from its ``start`` on. It can be lifted while the command runs."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.until = float("inf")
        """When it is over, on the clock that ``start`` is given."""
        self._is_started = False

    @classmethod
    def of(cls, given: float | TimeLimit | None) -> TimeLimit:
        return given if isinstance(given, TimeLimit) else cls(given)

    def start(self, now: float) -> None:
        """Begin to count; only the first call does."""
        if not self._is_started and self.seconds is not None:
            self.until = now + self.seconds
        self._is_started = True

    def lift(self) -> None:
        self.seconds, self.until = None, float("inf")


class DetachableCommand(Protocol):
    """A command that may go on in the background while the call that started it returns."""

    async def attach(self, run: RunCommand, folder: str, /) -> CommandResult:
        """Run it by ``run`` in ``folder``, until it has ended or goes to the background. Raises what ``run`` raises."""
        ...


class CommandTerminal(Protocol):
    """The user's terminal, while a command of the user's own has it."""

    async def read(self) -> bytes:
        """Wait for keys; empty if the terminal is gone."""
        ...

    def write(self, data: bytes, /) -> None:
        """Write to the screen as it is; nothing if the terminal is gone."""
        ...

    def fit(self, descriptor: int, /, *, settings: bool = False) -> None:
        """Give another terminal the size of this one, and its ``settings``, such as the key that erases."""
        ...


class RunOptions(TypedDict, total=False):
    """Options of a command. ``timeout`` is in seconds, or a limit that can be lifted; the result then has the output so far, which it would
    not after a cancellation. ``on_output`` gets pieces of both outputs while the command runs, a limited number per second; an error that
    it raises stops the command. ``env`` is added to its environment. ``unsandboxed`` runs it outside of the sandbox, if there is one.
    ``terminal`` lets it converse with the user: it gets no other option then. A sandbox on a host has no terminal. ``detachable`` is for
    where a workspace keeps commands in the background; elsewhere it has no effect.
    """

    timeout: float | TimeLimit | None
    on_output: OnOutput | None
    env: Mapping[str, str] | None
    unsandboxed: bool
    terminal: CommandTerminal | None
    detachable: DetachableCommand | None


class RunCommand(Protocol):
    """Runs a command with an output that the caller chooses."""

    async def __call__(self, *, on_output: OnOutput) -> CommandResult: ...


class Workspace(Protocol):
    """A host's files and processes, as seen from one directory.

    Paths are absolute, as ``resolve`` returns them. Failures are ``WorkspaceError``, with the path in the
    message, which is shown to models and users. Every coroutine may be cancelled: a write then has happened
    completely or not at all, and a command is stopped with all its processes.
    """

    @property
    def root(self) -> str:
        """The absolute path of the directory that relative paths start from and commands run in."""
        ...

    @property
    def name(self) -> str:
        """The unique name of this directory among all hosts: on this machine the root itself, elsewhere
        ``ssh://user@host:port/path``.
        """
        ...

    async def resolve(self, path: str, /) -> str:
        """The absolute path of a file: relative to the root, ``~`` expanded, links followed as far as they exist.
        Two names of one file give the same path. The file need not exist.
        """
        ...

    async def stat(self, path: str, /) -> FileInfo | None:
        """The file at a path, or None."""
        ...

    async def stats(self, paths: Sequence[str], /) -> list[FileInfo | None]:
        """``stat`` of many paths at once; None also for those without permission."""
        ...

    async def list(
        self, path: str, /, *, limit: int = 10_000, nofollow: bool = False
    ) -> list[DirectoryEntry]:
        """The names in a directory, sorted; at most ``limit`` are read. ``nofollow`` as for ``read_bytes``."""
        ...

    async def read_bytes(
        self, path: str, /, *, start: int = 0, size: int | None = None, nofollow: bool = False
    ) -> bytes:
        """At most ``size`` bytes of a file from ``start``. Only regular files can be read. ``nofollow`` raises
        ``StaleFile`` if the path contains a link by now, also as a folder.
        """
        ...

    async def write_bytes(
        self, path: str, data: bytes, /, *, expect: str | None = None, mode: int | None = None
    ) -> WriteResult:
        """Replace or create a file atomically.

        Missing parents are created. ``mode`` are the permission bits of the file; with None it keeps its own, and
        a new file gets the usual ones. ``expect`` is the SHA-256 that the file must have until the last moment,
        or ``ABSENT``; otherwise it raises ``StaleFile`` and changes nothing. With None, any content is replaced.
        """
        ...

    async def remove(self, path: str, /, *, expect: str | None = None) -> None:
        """Remove a regular file. ``expect`` is the SHA-256 that it must have until the last moment; otherwise it
        raises ``StaleFile`` and removes nothing. Links, directories and read-only files are not removed.
        """
        ...

    async def remove_folder(self, path: str, /) -> None:
        """Remove a directory if it is empty. Does nothing otherwise, follows no link, and does not raise."""
        ...

    async def run(self, command: str, /, **options: Unpack[RunOptions]) -> CommandResult:
        """Run a shell command in the root. Returns when the shell ends. A timeout or cancellation stops the command with all its
        processes.
        """
        ...


Inner = TypeVar("Inner", bound=Workspace)


class DelegatingWorkspace(Generic[Inner]):
    """Base of workspaces that change some calls of another one: delegates every call to ``inner``."""

    def __init__(self, inner: Inner) -> None:
        self._inner = inner

    @property
    def root(self) -> str:
        return self._inner.root

    @property
    def name(self) -> str:
        return self._inner.name

    async def _target(self) -> Inner:
        """The workspace for the next call. May wait until it is ready."""
        return self._inner

    async def resolve(self, path: str, /) -> str:
        return await (await self._target()).resolve(path)

    async def stat(self, path: str, /) -> FileInfo | None:
        return await (await self._target()).stat(path)

    async def stats(self, paths: Sequence[str], /) -> list[FileInfo | None]:
        return await (await self._target()).stats(paths)

    async def list(
        self, path: str, /, *, limit: int = 10_000, nofollow: bool = False
    ) -> list[DirectoryEntry]:
        return await (await self._target()).list(path, limit=limit, nofollow=nofollow)

    async def read_bytes(
        self, path: str, /, *, start: int = 0, size: int | None = None, nofollow: bool = False
    ) -> bytes:
        return await (await self._target()).read_bytes(path, start=start, size=size, nofollow=nofollow)

    async def write_bytes(
        self, path: str, data: bytes, /, *, expect: str | None = None, mode: int | None = None
    ) -> WriteResult:
        return await (await self._target()).write_bytes(path, data, expect=expect, mode=mode)

    async def remove(self, path: str, /, *, expect: str | None = None) -> None:
        await (await self._target()).remove(path, expect=expect)

    async def remove_folder(self, path: str, /) -> None:
        await (await self._target()).remove_folder(path)

    async def run(self, command: str, /, **options: Unpack[RunOptions]) -> CommandResult:
        return await (await self._target()).run(command, **options)


# -- errors -----------------------------------------------------------------------------------------------

Doing = Literal["look at", "list", "read", "write", "remove"]


def cannot(doing: Doing, path: str, reason: str) -> WorkspaceError:
    """A failed operation; ``reason`` is the system's."""
    return WorkspaceError(f"Cannot {doing} {path}: {reason}.")


def not_regular(doing: Doing, path: str, kind: Kind) -> WorkspaceError:
    what = "a directory" if kind == "directory" else "not a regular file"
    return cannot(doing, path, f"it is {what}")


def stale(path: str, digest: str, expect: str) -> StaleFile:
    """The file differs from the expected state; both are hashes or ``ABSENT``."""
    if expect == ABSENT:
        what = "was created by another program in the meantime."
    else:
        what = "was deleted in the meantime." if digest == ABSENT else "changed on disk in the meantime."
    return StaleFile(f"{path} {what}")


def leads_elsewhere(path: str) -> StaleFile:
    return StaleFile(f"{path} now contains a symbolic link and leads elsewhere. Nothing was changed.")


def check_path(path: str) -> None:
    """Raises ``WorkspaceError`` for an impossible file name."""
    if not path:
        raise WorkspaceError("The path is empty. Specify a file.")
    if "\0" in path:
        raise WorkspaceError("The path contains a NUL character.")
    try:
        path.encode(errors="surrogateescape")
    except UnicodeEncodeError as error:
        raise WorkspaceError(f"{path!r} is not a valid file name.") from error
