"""Reading the beginning of a file that somebody else wrote: bounded, and never waiting."""

from __future__ import annotations

import codecs
import os
import stat
from pathlib import Path

import msgspec

from newel.agent.errors import WorkspaceError


class Head(msgspec.Struct, frozen=True):
    """The first bytes of a file, its whole ``size`` in bytes, and what tells it from every other file."""

    data: bytes
    size: int
    identity: tuple[int, int]

    @property
    def is_text(self) -> bool:
        """No NUL in the first 8 KiB, which is how git tells too."""
        return b"\0" not in self.data[:8192]

    def text(self, limit: int) -> tuple[str, int]:
        """At most ``limit`` bytes as text, and how many bytes of the file are not in it. A cut falls on a
        line's end if one is near. Bytes that are not UTF-8 become U+FFFD; a byte order mark goes.
        """
        data = self.data[:limit]
        if len(data) < self.size:
            data = data[: data.rfind(b"\n", len(data) // 2) + 1] or data
        whole = len(data) >= self.size
        text = codecs.getincrementaldecoder("utf-8-sig")("replace").decode(data, final=whole)
        return text, max(self.size - len(data), 0)


def read_head(path: Path, limit: int) -> Head:
    """The first ``limit`` bytes of a regular file, links followed. Raises ``WorkspaceError`` for anything
    else: no such file, not allowed, a loop of links, a folder, a pipe, a device.
    """
    try:
        # Without O_NONBLOCK, opening a named pipe would wait for a writer that may never come.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise WorkspaceError(f"{path} is not a regular file.")
            with os.fdopen(handle, "rb", closefd=False) as file:
                data = file.read(limit)
        finally:
            os.close(handle)
    except (OSError, ValueError) as error:
        raise WorkspaceError(f"{path} cannot be read: {_reason(error)}.") from None
    return Head(data, max(status.st_size, len(data)), (status.st_dev, status.st_ino))


def _reason(error: OSError | ValueError) -> str:
    """Why a path is refused; a ValueError means that it holds a character that no path can hold."""
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else "not a possible path"
