"""Files on the local disk: read in parts, replaced atomically."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Final

from newel.agent.errors import StaleFile, WorkspaceError
from newel.workspace.disk.dir_fd import FilePlace, open_nofollow, open_place, temporary_file
from newel.workspace.port import (
    ABSENT,
    DirectoryEntry,
    Doing,
    FileInfo,
    FileNode,
    Kind,
    WriteResult,
    cannot,
    kept_mode,
    not_regular,
    stale,
)

BLOCK: Final = 1 << 20


def kind_of(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    return "directory" if stat.S_ISDIR(mode) else "other"


def failure(doing: Doing, path: str, error: OSError) -> WorkspaceError:
    """The error message: the operation, the path, and the reason."""
    return cannot(doing, path, error.strerror or str(error))


def resolved(root: str, path: str) -> str:
    """The absolute path of a file, links followed; see ``Workspace.resolve``. Raises ``WorkspaceError`` for an
    unreadable link.
    """
    relative = Path(path)
    with contextlib.suppress(RuntimeError):  # `~name` without such a user is a file's name
        relative = relative.expanduser()
    try:
        return os.path.realpath(Path(root, relative))
    except OSError as error:  # a link of another user's process
        raise failure("look at", path, error) from error


def infos(paths: Sequence[str]) -> list[FileInfo | None]:
    """``info`` of each path; None also for those without permission."""
    results: list[FileInfo | None] = []
    for path in paths:
        try:
            results.append(info(path))
        except WorkspaceError:
            results.append(None)
    return results


def info(path: str) -> FileInfo | None:
    try:
        status = os.stat(path)  # noqa: PTH116 — around each command in the sandbox, of fifty paths
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise failure("look at", path, error) from error
    return FileInfo(
        kind=kind_of(status.st_mode),
        size=status.st_size,
        mode=stat.S_IMODE(status.st_mode),
        modified_ns=status.st_mtime_ns,
    )


def lstat(path: str) -> FileNode | None:
    """See ``TrackedWorkspace.lstat``."""
    try:
        mode = kept_mode(Path(path).lstat().st_mode)
        target = os.readlink(os.fsencode(path)) if stat.S_ISLNK(mode) else b""  # noqa: PTH115 — Path makes `x` of `./x`
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise failure("look at", path, error) from error
    return FileNode(mode, target)


def entries(path: str, limit: int, *, nofollow: bool = False) -> list[DirectoryEntry]:
    results: list[DirectoryEntry] = []
    try:
        with _folder(path, nofollow=nofollow) as folder, os.scandir(folder) as names:
            for _, item in zip(range(limit), names, strict=False):
                results.append(DirectoryEntry(item.name, _kind(item), item.is_symlink()))
    except OSError as error:
        raise failure("list", path, error) from error
    return sorted(results, key=lambda entry: entry.name)


@contextlib.contextmanager
def _folder(path: str, *, nofollow: bool) -> Generator[str | int]:
    """The argument for listing a folder: its path, or a descriptor if links must not be followed."""
    if not nofollow:
        yield path
        return
    descriptor = open_nofollow(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _kind(item: os.DirEntry[str]) -> Kind:
    try:
        return "directory" if item.is_dir() else "file" if item.is_file() else "other"
    except OSError:  # a link to itself
        return "other"


def open_regular(path: str, *, nofollow: bool = False) -> tuple[int, int]:
    """A descriptor for reading and the file's size; never blocks on a pipe or reads a device. ``nofollow``: see
    ``Workspace.read_bytes``.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = open_nofollow(path, flags) if nofollow else os.open(path, flags)
    except OSError as error:
        raise failure("read", path, error) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise not_regular("read", path, kind_of(status.st_mode))
    return descriptor, status.st_size


def read_all(descriptor: int, start: int, size: int | None) -> bytes:
    """At most ``size`` bytes from ``start`` to the actual end, which may differ from the reported size."""
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


def replace(
    path: str, data: bytes, expect: str | None, mode: int | None = None, *, resolved: bool = False
) -> WriteResult:
    """Replace a file's content by ``data`` atomically; see ``Workspace.write_bytes``.

    The new content is written to a temporary file beside it, flushed to the disk, and renamed, so that at any
    moment, also after a crash, either the old or the new content exists. Other hard links to the file keep the
    old content. A read-only file is not replaced, although the folder's permission would suffice. ``resolved``:
    the path contains no link; if it does by now, nothing is written.
    """
    import hashlib

    try:
        with open_place(path, resolved=resolved, make=expect in {None, ABSENT}) as place:
            before = place.stat()
            if before is not None:
                _check_writable("write", place, before)
            # The umask determines a new file's mode.
            with temporary_file(place.folder, 0o600 if before else 0o666) as (descriptor, name):
                _fill(descriptor, data, mode, place, before)
                status = os.fstat(descriptor)
                _rename_into_place(name, place, expect)
            place.flush()
    except OSError as error:
        if expect not in {None, ABSENT} and isinstance(error, FileNotFoundError):  # its folder is gone
            raise stale(path, ABSENT, str(expect)) from error
        raise failure("write", path, error) from error
    replaced_mode = stat.S_IMODE(before.st_mode) if before else None
    return WriteResult(hashlib.sha256(data).hexdigest(), stat.S_IMODE(status.st_mode), replaced_mode)


def remove(path: str, expect: str | None) -> None:
    """Remove a file if it has the expected content; see ``Workspace.remove``. The path contains no link."""
    try:
        with open_place(path, resolved=True) as place:
            before = place.stat()
            if before is not None:
                _check_writable("remove", place, before)
            if expect is not None and (digest := place.digest()) != expect:
                raise stale(path, digest, expect)
            os.unlink(place.name, dir_fd=place.folder)
            place.flush()
    except OSError as error:
        if expect is not None and isinstance(error, FileNotFoundError):
            raise stale(path, ABSENT, expect) from error
        raise failure("remove", path, error) from error


def remove_folder(path: str) -> None:
    """See ``Workspace.remove_folder``. The path contains no link."""
    with contextlib.suppress(OSError, StaleFile), open_place(path, resolved=True) as place:
        os.rmdir(place.name, dir_fd=place.folder)


def _check_writable(doing: Doing, place: FilePlace, before: os.stat_result) -> None:
    if not stat.S_ISREG(before.st_mode):
        raise not_regular(doing, place.path, kind_of(before.st_mode))
    if not place.may_write():
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _fill(
    descriptor: int, data: bytes, mode: int | None, place: FilePlace, before: os.stat_result | None
) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    if before is not None:
        _keep_attributes(descriptor, place)
        _keep_owner_and_mode(descriptor, before)
    if mode is not None:
        os.fchmod(descriptor, mode & 0o777)
    os.fsync(descriptor)  # before the rename, or a power failure could leave an empty file under the name


def _keep_attributes(descriptor: int, place: FilePlace) -> None:
    """Copy the extended attributes of another file as far as possible: labels, access lists."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError), place.open() as other:  # a file system without them
        for name in os.listxattr(other):
            # Like the system, drop a program's capabilities when its file is written.
            if name != "security.capability":
                with contextlib.suppress(OSError):
                    os.setxattr(descriptor, name, os.getxattr(other, name))


def _keep_owner_and_mode(descriptor: int, before: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        # Only root may change the owner; anyone may use another of their own groups.
        for owner in (before.st_uid, -1):
            with contextlib.suppress(PermissionError):
                os.fchown(descriptor, owner, before.st_gid)
                break
    # Without set-user-id and set-group-id: the system drops them, too, when a file is written.
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode) & 0o777)


def _rename_into_place(name: str, place: FilePlace, expect: str | None) -> None:
    """Rename the temporary file to its name, if the current file is the expected one."""
    if expect is not None and (digest := place.digest()) != expect:
        raise stale(place.path, digest, expect)
    folder = place.folder
    if expect == ABSENT:
        try:
            os.link(name, place.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            raise stale(place.path, "", expect) from None
        except OSError:  # a file system without hard links; the check above must suffice
            pass
        else:
            return
    os.rename(name, place.name, src_dir_fd=folder, dst_dir_fd=folder)
