"""Files on the local disk: read in pieces, replaced whole."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from pathlib import Path
from typing import Final

from newel.agent.errors import StaleFile, WorkspaceError
from newel.workspace.port import ABSENT, Entry, FileInfo, Kind

BLOCK: Final = 1 << 20


def kind_of(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    return "directory" if stat.S_ISDIR(mode) else "other"


def failure(doing: str, path: str, error: OSError) -> WorkspaceError:
    """The error in words: what was tried, where, and why it failed."""
    return WorkspaceError(f"Cannot {doing} {path}: {error.strerror or error}.")


def info(path: str) -> FileInfo | None:
    try:
        found = Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise failure("look at", path, error) from error
    return FileInfo(
        kind=kind_of(found.st_mode),
        size=found.st_size,
        mode=stat.S_IMODE(found.st_mode),
        modified_ns=found.st_mtime_ns,
    )


def entries(path: str, limit: int) -> list[Entry]:
    found: list[Entry] = []
    try:
        with os.scandir(path) as names:
            for _, item in zip(range(limit), names, strict=False):
                found.append(Entry(item.name, _kind(item)))
    except OSError as error:
        raise failure("list", path, error) from error
    return sorted(found, key=lambda entry: entry.name)


def _kind(item: os.DirEntry[str]) -> Kind:
    try:
        return "directory" if item.is_dir() else "file" if item.is_file() else "other"
    except OSError:  # a link that leads to itself
        return "other"


def open_regular(path: str) -> tuple[int, int]:
    """A descriptor to read from and the file's size; it never waits for a pipe or reads a device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise failure("read", path, error) from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        what = "a directory" if stat.S_ISDIR(found.st_mode) else "not a regular file"
        raise WorkspaceError(f"Cannot read {path}: it is {what}.")
    return descriptor, found.st_size


def read_all(descriptor: int, start: int, size: int | None) -> bytes:
    """At most ``size`` bytes from ``start`` to the real end, which the size of a file need not tell."""
    if start:
        os.lseek(descriptor, start, os.SEEK_SET)
    pieces: list[bytes] = []
    room = size
    while room is None or room > 0:
        piece = os.read(descriptor, BLOCK if room is None else min(room, BLOCK))
        if not piece:
            break
        pieces.append(piece)
        if room is not None:
            room -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def digest(path: str) -> str:
    """The SHA-256 of a file, or ``ABSENT``."""
    import hashlib

    try:
        with Path(path).open("rb", buffering=0) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT


def replace_resolved(path: str, data: bytes, expect: str | None, mode: int | None) -> str:
    """``replace`` of a path that had no link in it when it was resolved, and still has none."""
    if expect is not None:
        _check_resolved(path)
    return replace(path, data, expect, mode)


def replace(path: str, data: bytes, expect: str | None, mode: int | None = None) -> str:
    """Put ``data`` in the place of a file, whole or not at all; see ``Workspace.write_bytes``.

    The new content is written beside the file, flushed to the disk, and renamed over it, so that at any
    moment, after a crash too, either the old or the new content is there. Other hard links to the file
    keep the old content. A file that may not be written stays: to replace it, the folder's permission would do.
    """
    import hashlib

    before = info(path)
    if before is not None:
        _check_writable("write", path, before)
    directory = Path(path).parent
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # Not the file's own name: that may already be as long as the system allows.
        beside = directory / f".newel-{os.urandom(8).hex()}.tmp"
        try:
            _write_beside(beside, path, data, new=before is None, mode=mode)
            _put(beside, path, expect)
        finally:
            beside.unlink(missing_ok=True)
        _flush_directory(directory)
    except OSError as error:
        raise failure("write", path, error) from error
    return hashlib.sha256(data).hexdigest()


def remove(path: str, expect: str | None) -> None:
    """Remove a file if it is what the caller saw; see ``Workspace.remove``."""
    _check_resolved(path)
    before = info(path)
    try:
        if before is None:
            if expect is not None:
                raise StaleFile(f"{path} {_what_happened(ABSENT, expect)}")
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        _check_writable("remove", path, before)
        if expect is not None and (found := digest(path)) != expect:
            raise StaleFile(f"{path} {_what_happened(found, expect)}")
        Path(path).unlink()
        _flush_directory(Path(path).parent)
    except OSError as error:
        raise failure("remove", path, error) from error


def _check_resolved(path: str) -> None:
    if os.path.realpath(path) != path:
        raise StaleFile(
            f"{path} leads elsewhere: a link stands in it that was not there before. Nothing was changed."
        )


def _check_writable(doing: str, path: str, before: FileInfo) -> None:
    if before.kind != "file":
        what = "a directory" if before.kind == "directory" else "not a regular file"
        raise WorkspaceError(f"Cannot {doing} {path}: it is {what}.")
    if not _may_write(path):
        raise failure(doing, path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


def _may_write(path: str) -> bool:
    """Whether the file itself could be opened for writing."""
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _write_beside(beside: Path, path: str, data: bytes, *, new: bool, mode: int | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(beside, flags, 0o666 if new else 0o600)  # a new file's mode is the umask's matter
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if not new:
            _keep_attributes(descriptor, path)
            _keep_owner_and_mode(descriptor, Path(path).stat())
        if mode is not None:
            os.fchmod(descriptor, mode & 0o777)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _keep_attributes(descriptor: int, path: str) -> None:
    """Give a file the extended attributes of another, those that can be given: labels, access lists."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):  # a file system without them
        for name in os.listxattr(path):
            # The system takes a program's capabilities, too, from a file that is written.
            if name != "security.capability":
                with contextlib.suppress(OSError):
                    os.setxattr(descriptor, name, os.getxattr(path, name))


def _keep_owner_and_mode(descriptor: int, before: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        # Only root may give a file away; to another group of one's own, anybody.
        for owner in (before.st_uid, -1):
            with contextlib.suppress(PermissionError):
                os.fchown(descriptor, owner, before.st_gid)
                break
    # Without set-user-id and set-group-id: the system, too, takes them from a file that is written.
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode) & 0o777)


def _put(beside: Path, path: str, expect: str | None) -> None:
    if expect is not None and (found := digest(path)) != expect:
        raise StaleFile(f"{path} {_what_happened(found, expect)}")
    if expect == ABSENT:
        try:
            os.link(beside, path)
        except FileExistsError:
            raise StaleFile(f"{path} {_what_happened('', expect)}") from None
        except OSError:
            pass  # a file system without hard links; the check above has to do
        else:
            return
    beside.rename(path)


def _what_happened(found: str, expect: str) -> str:
    if expect == ABSENT:
        return "was created by someone else meanwhile."
    return "has been deleted meanwhile." if found == ABSENT else "changed on disk meanwhile."


def _flush_directory(directory: Path) -> None:
    """Make the new name durable, where the file system can."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
