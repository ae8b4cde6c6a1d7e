"""Small folders as bytes, to send a task to another machine and the files of a trial back.

What an agent or a strange machine has packed is hostile: sizes are limited before memory is taken, names stay in the new folder, and
nothing but plain files and folders comes out of it.
"""

from __future__ import annotations

import math
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from newel.agent.errors import NewelError
from newel.evals.checks import walk
from newel.evals.golden import PLACE
from newel.evals.host import LOCAL
from newel.evals.links import is_reached_without_links, problem_of_link
from newel.evals.replay import EXCHANGES
from newel.evals.trial import PROJECT, TRACE
from newel.storage.files import make_private, read_regular

MOST_OF_TASK: Final = 8 << 20
"""Bytes of a task's folder. It is sent with each of its trials."""

MOST_OF_TRIAL: Final = 64 << 20
MOST_PACKED: Final = 16 << 20
"""Bytes of the files of a trial, before and after they are compressed."""

MOST_FILES: Final = 5_000

LEFT_OUT: Final = "left-out.txt"
"""Names, in the folder of a trial, what was not sent of it."""

_MOST_OF_FILE: Final = 1 << 20
_MOST_OF_FILES: Final = 4 << 20
"""Bytes of the files of a trial besides its trace."""

_AGENT_TRACES: Final = "home/.newel/traces/"
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_NAMED: Final = 1_000
_ROOM_FOR_NAMES: Final = 2 << 20
"""Bytes of the paths of files, for which there is no other limit."""


class PackingError(NewelError):
    """A folder that cannot be packed or unpacked; the message says why."""


class PackedFile(msgspec.Struct, frozen=True, array_like=True):
    """``path`` is relative to the folder, ``data`` the content, or the target of a link. ``mode`` has the nine bits of permissions."""

    path: str
    kind: Literal["file", "folder", "link"]
    data: bytes = b""
    mode: int = 0o644


def pack(files: Iterable[PackedFile]) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(list(files)))


def pack_task(folder: Path) -> bytes:
    """The folder of a task. Raises ``PackingError`` if it has too many or too large files."""
    try:
        return pack(_read_task(folder))
    except OSError as error:
        raise PackingError(f"{error.filename} cannot be read: {error.strerror}.") from error


def _read_task(folder: Path) -> Iterator[PackedFile]:
    left = MOST_OF_TASK - _ROOM_FOR_NAMES
    for number, path in enumerate(sorted(folder.rglob("*"))):
        name, info = path.relative_to(folder).as_posix(), path.lstat()
        mode = stat.S_IMODE(info.st_mode) & 0o777
        left -= info.st_size if stat.S_ISREG(info.st_mode) else 0
        if left < 0 or number == MOST_FILES:
            raise PackingError(f"It has more than {MOST_OF_TASK:,} bytes, or {MOST_FILES:,} files.")
        if stat.S_ISLNK(info.st_mode):
            yield PackedFile(name, "link", os.fsencode(path.readlink()))
        elif stat.S_ISDIR(info.st_mode):
            yield PackedFile(name, "folder", mode=mode)
        else:
            yield PackedFile(name, "file", read_regular(path, MOST_OF_TASK), mode)


def unpack_task(packed: bytes, folder: Path) -> None:
    """Write a task into a new folder, with links that stay in its files. Raises ``PackingError``."""
    files = _decode(packed, MOST_OF_TASK)
    _check_paths(files)
    _check_links(files)
    _write(files, folder, is_trusted=True)


def pack_trial(place: Path, mask: Callable[[bytes], bytes]) -> bytes:
    """The files of a trial, for its user to look at: the traces first, then what there is room for. Secrets are masked; links, repositories
    and what is too large are left out, and named in ``LEFT_OUT``.
    """
    files: list[PackedFile] = []
    left_out: list[str] = []
    room = {True: MOST_OF_TRIAL - _MOST_OF_FILES - _ROOM_FOR_NAMES, False: _MOST_OF_FILES}
    for path in _ordered(place):
        name = os.fsencode(path.relative_to(place)).decode("utf-8", "backslashreplace")
        is_trace = _is_trace(name)
        most = room[is_trace] if is_trace else min(room[False], _MOST_OF_FILE)
        data = _read_of_trial(path, most) if len(files) < MOST_FILES - 1 else None
        if data is None:
            left_out.append(name)
            continue
        room[is_trace] -= len(data)
        data = mask(data)
        if is_trace:
            data = data.replace(str(place).encode(), PLACE.encode())
        files.append(PackedFile(name, "file", data, 0o755 if os.access(path, os.X_OK) else 0o644))
    while len(packed := pack([*files, *_name_left_out(left_out)])) > MOST_PACKED:
        largest = max(files, key=lambda file: len(file.data))
        files.remove(largest)
        left_out.append(largest.path)
    return packed


def _name_left_out(names: Sequence[str]) -> list[PackedFile]:
    if not names:
        return []
    more = [f"and {len(names) - _MOST_NAMED:,} more"] if len(names) > _MOST_NAMED else []
    text = "\n".join([*(name[:200] for name in names[:_MOST_NAMED]), *more, ""])
    return [PackedFile(LEFT_OUT, "file", text.encode())]


def _ordered(place: Path) -> Iterator[Path]:
    """The files of a trial, what tells most first: the traces, and then small files."""
    first = [place / TRACE, place / "stderr.txt", place / EXCHANGES]
    traces = place / _AGENT_TRACES
    yield from (path for path in first if path.exists())
    for folder in (traces, place / PROJECT, place / LOCAL, place / "home"):
        if folder.is_dir() and is_reached_without_links(folder, place):
            found = (path for path, _ in walk(folder))
            yield from sorted(
                (path for path in found if folder == traces or not path.is_relative_to(traces)), key=_size
            )


def _size(path: Path) -> float:
    try:
        return path.lstat().st_size
    except OSError:  # a path that is too long
        return math.inf


def _is_trace(name: str) -> bool:
    return name in {TRACE, EXCHANGES} or name.startswith(_AGENT_TRACES)


def _read_of_trial(path: Path, most: int) -> bytes | None:
    """The content of a file that can be sent; else None."""
    try:
        if path.is_symlink() or not path.is_file() or not path.name.isprintable():
            return None
        return read_regular(path, most)
    except OSError:
        return None


def unpack_trial(packed: bytes, place: Path) -> None:
    """Write the files of a trial into the new folder ``place``. Raises ``PackingError`` for what ``pack_trial`` does not make."""
    files = _decode(packed, MOST_OF_TRIAL)
    _check_paths(files)
    for file in files:
        if file.kind != "file" or ".git" in file.path.lower().split("/"):
            raise PackingError(f"{file.path[:200]!r} is not a file that a trial sends.")
    here = str(place).encode()
    _write(
        (
            msgspec.structs.replace(file, data=file.data.replace(PLACE.encode(), here))
            if _is_trace(file.path)
            else file
            for file in files
        ),
        place,
        is_trusted=False,
    )


def _decode(packed: bytes, most: int) -> list[PackedFile]:
    unzip = zlib.decompressobj()
    try:
        data = unzip.decompress(packed, most + 1)
        if len(data) > most or not unzip.eof:
            raise PackingError(f"They have more than {most:,} bytes, or are cut off.")
        return msgspec.msgpack.decode(data, type=list[PackedFile])
    except (zlib.error, msgspec.MsgspecError) as error:
        raise PackingError(f"They are damaged: {error}.") from error


def _check_paths(files: Sequence[PackedFile]) -> None:
    if len(files) > MOST_FILES:
        raise PackingError(f"They are more than {MOST_FILES:,}.")
    for file in files:
        if not {"", ".", ".."}.isdisjoint(file.path.split("/")) or "\0" in file.path:
            raise PackingError(f"{file.path[:200]!r} is not a path inside their folder.")


def _check_links(files: Sequence[PackedFile]) -> None:
    links = {file.path: os.fsdecode(file.data) for file in files if file.kind == "link"}
    for path, target in links.items():
        if problem := problem_of_link(path, target):
            raise PackingError(f"{path[:200]!r} {problem}.")
    for file in files:  # what is written through a link may be anywhere
        parts = file.path.split("/")
        if any("/".join(parts[:end]) in links for end in range(1, len(parts))):
            raise PackingError(f"{file.path[:200]!r} is below a link.")


def _write(files: Iterable[PackedFile], folder: Path, *, is_trusted: bool) -> None:
    """Files before links, so that nothing is written through one."""
    links: list[PackedFile] = []
    modes: list[tuple[Path, int]] = []
    try:
        make_private(folder)
        for file in files:
            path = folder / file.path
            if file.kind == "link":
                links.append(file)
                continue
            (path if file.kind == "folder" else path.parent).mkdir(parents=True, exist_ok=True)
            mode = file.mode & 0o777 if is_trusted else 0o600 | file.mode & 0o100
            if file.kind == "folder":
                modes.append((path, mode))
                continue
            descriptor = os.open(path, _CREATE, mode)
            with os.fdopen(descriptor, "wb") as out:
                out.write(file.data)
                os.fchmod(descriptor, mode)
        for link in links:
            (folder / link.path).symlink_to(os.fsdecode(link.data))
        for path, mode in reversed(modes):
            path.chmod(mode | 0o700)
    except (OSError, ValueError) as error:
        raise PackingError(f"They cannot be written: {error}.") from error
