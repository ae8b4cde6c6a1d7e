"""Where the files lie that are looked at: on this machine or on a host. What a look decides, it decides the same for both."""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, NamedTuple, Protocol, TypeVar

from newel.workspace.snapshot_rules import Rules
from newel.workspace.snapshot_tree import Stat

T = TypeVar("T")

GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""What a source raises where a directory or file was and is no longer, or a link is now."""


class Stopped(Exception):
    """The look was not wanted any more."""


class Reading(NamedTuple):
    """A file's bytes or a link's target, None if it is longer than allowed, or neither. ``fresh``: it was written so shortly before,
    or meanwhile, that its times do not tell whether it was written again.
    """

    data: bytes | None
    found: Stat
    fresh: bool


Entries = Iterable[tuple[str, Stat]]
"""Names in a directory, with what they are; of a directory only its mode may be known."""

Touched = dict[str, set[str]]
"""The names that were touched, by directory."""


class Source(Protocol):
    """The directories and files below a root. Paths are relative to it; its own is empty.

    Most methods block, and are for work ``within``, one at a time; ``is_quiet`` and ``close`` are for any thread. Raises ``OSError``
    with what a file system answers, and ``WorkspaceError`` for all else.
    """

    @property
    def root(self) -> str: ...

    @property
    def left_out(self) -> Collection[str]:
        """Paths that are not covered, such as where the store itself lies."""
        ...

    @property
    def rules(self) -> Rules: ...

    async def within(self, work: Callable[[], T]) -> T:
        """What work returns or raises that is done in a thread. If this is cancelled, the work goes on until it finds out."""
        ...

    def stop(self) -> None:
        """Have no work wait for what only the thread of the event loop can bring, which calls this. It raises ``Stopped``."""
        ...

    def touched(self, linked: Iterable[str], /, *, everywhere: bool) -> Touched | None:
        """Begin to look, and say where to: at what was touched since this was last asked, and at the files ``linked`` if
        it might not know of those. None for everywhere, always if that is asked for.
        """
        ...

    def begin(self) -> None:
        """Be ready for what follows, until ``end``. Raises ``OSError`` if the root is not there."""
        ...

    def ahead(self, paths: Iterable[str]) -> None:
        """All of these directories will be asked for: what is far away is fetched at once."""
        ...

    def entries(self, path: str, names: Collection[str] | None) -> Entries:
        """What is in a directory: all of it, or some names. Asked for all of it, it counts as looked at from then on."""
        ...

    def read(self, wanted: Iterable[tuple[str, int]], limit: int) -> Iterator[tuple[str, Reading | OSError]]:
        """The contents of files, each with its expected size, as they were at one moment if their writers let that be.
        ``wanted`` is asked for as late as possible.
        """
        ...

    def forget(self, path: str) -> None:
        """A directory is gone."""
        ...

    def end(self) -> None: ...

    def is_quiet(self) -> bool:
        """Whether ``touched`` would say that nothing was, as far as can be told at once."""
        ...

    def umask(self) -> int:
        """The permission bits that new folders do not get."""
        ...

    def clock(self) -> int:
        """The least by which the clock that these files' times are of is ahead of ours, in nanoseconds."""
        ...

    def close(self) -> None:
        """Let the system forget what was watched. The source can be used again."""
        ...
