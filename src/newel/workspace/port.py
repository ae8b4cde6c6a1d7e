"""The one port to a host: files and processes, in bytes and plain values.

Every tool works on this port and on nothing behind it, so that it works on the local disk, over SSH and
on a staged copy alike.
"""

from __future__ import annotations

import stat
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Literal, Protocol

import msgspec

Kind = Literal["file", "directory", "other"]

ABSENT: Final = "absent"
"""Stands for the hash of a file that is not there: ``write_bytes(…, expect=ABSENT)`` only creates."""

OnOutput = Callable[[str], Awaitable[None]]


class FileInfo(msgspec.Struct, frozen=True):
    """What a path names, links followed. ``size`` is in bytes, ``mode`` holds the permission bits."""

    kind: Kind
    size: int
    mode: int
    modified_ns: int


class DirectoryEntry(msgspec.Struct, frozen=True):
    """One name in a directory. A link has the kind of its target, or ``other`` if that is not there."""

    name: str
    kind: Kind
    is_link: bool = False


class FileNode(msgspec.Struct, frozen=True):
    """What has a name itself, links not followed. ``mode`` has its kind, as ``stat`` has it, and ``07777``; of a link only
    the kind, and the bytes of its ``target``.
    """

    mode: int
    target: bytes = b""

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)


def kept_mode(mode: int) -> int:
    """As much of a mode as can be given back: some systems have permission bits for links, and nobody can set them."""
    return stat.S_IFLNK if stat.S_ISLNK(mode) else mode


class WriteResult(msgspec.Struct, frozen=True):
    """A write: the SHA-256 of the new content, the permission bits of the file and of the one it replaced. ``mode`` is None if
    the host does not report it, and ``replaced_mode`` also if there was no file.
    """

    sha256: str
    mode: int | None = None
    replaced_mode: int | None = None


class ProgramEnded(msgspec.Struct, frozen=True):
    """How a program ended; ``stderr`` is at least the end of what it wrote there."""

    exit_code: int
    stderr: bytes


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended.

    ``exit_code`` is 128 + N for a command that signal N ended, as shells count. ``duration`` is in
    milliseconds. ``stdout`` and ``stderr`` are cut in their middle where they were too long: then
    ``truncated`` is true, and ``output_file`` names the file that holds both, in the order in which they
    came. ``left_open``: the shell is gone, but a process that it started still holds its output. ``left_running``
    are the processes of it that run on, in words, where that is known. ``whole`` says in words where all of both outputs can
    be read.
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


class Workspace(Protocol):
    """A host's files and processes, seen from one directory.

    Paths are absolute, as ``resolve`` returns them. Failures are ``WorkspaceError``; what it says names
    the path and is fit for a model's and a user's eyes. Every coroutine may be cancelled: a write then
    has happened whole or not at all, a command is stopped with all that it started.
    """

    @property
    def root(self) -> str:
        """The absolute path of the directory that relative paths start from and commands run in."""
        ...

    @property
    def name(self) -> str:
        """What tells this directory from every other, of any host: on this machine the root itself, elsewhere
        ``ssh://user@host:port/path``.
        """
        ...

    async def resolve(self, path: str, /) -> str:
        """The absolute path of the file that ``path`` names: relative to the root, ``~`` expanded, links
        followed as far as they lead. Two names of one file give one path. Need not exist.
        """
        ...

    async def stat(self, path: str, /) -> FileInfo | None:
        """What is there, or None if nothing is."""
        ...

    async def stats(self, paths: Sequence[str], /) -> list[FileInfo | None]:
        """``stat`` of many at once; None also for what may not be looked at."""
        ...

    async def list(
        self, path: str, /, *, limit: int = 10_000, nofollow: bool = False
    ) -> list[DirectoryEntry]:
        """The names in a directory, sorted; no more than ``limit`` are looked at. ``nofollow`` as for ``read_bytes``."""
        ...

    async def read_bytes(
        self, path: str, /, *, start: int = 0, size: int | None = None, nofollow: bool = False
    ) -> bytes:
        """A file's bytes from ``start``, at most ``size`` of them. Only regular files can be read. ``nofollow``: if a link
        is in the path by now, also as a folder, it raises ``StaleFile``.
        """
        ...

    async def write_bytes(
        self, path: str, data: bytes, /, *, expect: str | None = None, mode: int | None = None
    ) -> WriteResult:
        """Replace or create a file atomically.

        Missing parents are made. ``mode`` is the permission bits that the file then has; with None it keeps those it
        had, and a new file gets the usual ones. ``expect`` is the SHA-256 that the file must have until the last
        moment, or ``ABSENT``; otherwise it raises ``StaleFile`` and changes nothing. With None, whatever is there is
        replaced.
        """
        ...

    async def remove(self, path: str, /, *, expect: str | None = None) -> None:
        """Remove a regular file. ``expect`` is the SHA-256 that it must have until the last moment; otherwise it
        raises ``StaleFile`` and removes nothing. A link, a directory or a file that may not be written stays.
        """
        ...

    async def remove_folder(self, path: str, /) -> None:
        """Remove a directory if it is empty. Anything else stays as it is, and no link is followed; nothing is said."""
        ...

    async def run(
        self,
        command: str,
        /,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 — part of the result: partial output, `timed_out`
        on_output: OnOutput | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run a shell command in the root; ``timeout`` is in seconds, ``env`` is added to its environment.

        Returns when the shell ends. On timeout or cancellation the command and all that it started is
        stopped. ``on_output`` is given pieces of both outputs while the command runs, a limited number a
        second; what it raises stops the command.
        """
        ...
