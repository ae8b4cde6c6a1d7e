"""Reading the small files that Newel keeps, or is given: never a pipe, which waits for ever, or a device, which never ends."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

MOST: Final = 1 << 20


def open_regular(path: Path) -> BinaryIO:
    """A regular file, for reading. Raises ``OSError`` for all else, with words."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, most: int | None = MOST) -> bytes:
    """The content of a regular file of at most ``most`` bytes. Raises ``OSError`` for all else, with words."""
    with open_regular(path) as file:
        data = file.read() if most is None else file.read(most + 1)
        if most is not None and len(data) > most:
            raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
        return data
