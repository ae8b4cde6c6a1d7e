"""Newel's own folders and small files: private, read only if they are regular, and replaced at once."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from io import BufferedReader
from pathlib import Path
from typing import Final

from newel.storage.file_lock import lock

PRIVATE_FILE: Final = 0o600
_MAX_NAME: Final = 200

MOST: Final = 1 << 20
"""Bytes."""


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading. Raises ``OSError`` for anything else: a pipe would wait, a device might never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, most: int | None = MOST) -> bytes:
    """Read a regular file of at most ``most`` bytes. Raises ``OSError`` for anything else."""
    with open_regular(path) as file:
        data = file.read() if most is None else file.read(most + 1)
        if most is not None and len(data) > most:
            raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
        return data


def real_path(path: str | Path) -> str:
    """A path without links. Those that cannot be followed, of other users' processes below ``/proc``, are where it ends: a project may have
    one anywhere, and no start may fail by it. Raises nothing.
    """
    try:
        return os.path.realpath(path)
    except OSError as error:
        return str(error.filename or path)


def replace_file(path: Path, data: bytes | bytearray, *, sync: bool = False) -> None:
    """Write a private file in place of an earlier one: readers see the old content or the new one. ``sync`` waits for the
    disk. Removes the temporary files that killed processes left of it. Raises ``OSError``, and then leaves everything as
    it was.
    """
    _remove_leftovers(path)
    descriptor, temporary = _open_temporary(path)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(descriptor)
            temporary.replace(path)  # while the lock is held
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _open_temporary(path: Path) -> tuple[int, Path]:
    """A new file beside another one, with a lock that tells it from a leftover."""
    while True:
        temporary = path.with_name(f".{path.name}-{os.urandom(8).hex()}.tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, PRIVATE_FILE)
        with contextlib.suppress(OSError):  # a file system without locks, on which nothing is a leftover
            lock(descriptor)
        if os.fstat(descriptor).st_nlink:
            return descriptor, temporary
        os.close(descriptor)  # it was removed before it was locked


def _remove_leftovers(path: Path) -> None:
    pattern = re.compile(re.escape(f".{path.name}-") + r"[0-9a-f]{16}\.tmp")
    with contextlib.suppress(OSError):
        for name in filter(pattern.fullmatch, os.listdir(path.parent)):  # noqa: PTH208 — names are enough
            remove_unless_locked(path.with_name(name))


def remove_unless_locked(temporary: Path) -> None:
    """Remove a temporary file of a process that has ended; ``lock`` tells that it has not. Never raises."""
    with contextlib.suppress(OSError), open_regular(temporary) as file:
        lock(file, wait=False)
        temporary.unlink()


def project_folder(directory: Path, cwd: str) -> Path:
    """The folder of a project's sessions. Two projects may share one; the ``cwd`` in the metadata distinguishes them."""
    name = cwd.strip("/\\").translate({ord(character): "-" for character in "/\\:"})
    raw = os.fsencode(name)
    if len(raw) > _MAX_NAME:  # file systems take 255 bytes
        import hashlib

        name = f"{raw[:_MAX_NAME].decode(errors='ignore')}-{hashlib.sha256(raw).hexdigest()[:12]}"
    return directory / f"--{name}--"


def nearest_above(directory: Path, cwd: Path) -> Path | None:
    """The nearest folder above that has a ``project_folder``."""
    return next((above for above in cwd.parents if project_folder(directory, str(above)).is_dir()), None)


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents for this user only."""
    for missing in reversed([level for level in (folder, *folder.parents) if not level.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
