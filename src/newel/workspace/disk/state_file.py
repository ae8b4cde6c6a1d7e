"""Small state files: read leniently, and replaced atomically, also by concurrent processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from newel.agent.errors import ConfigError, StaleFile, WorkspaceError
from newel.storage.file_lock import lock
from newel.storage.files import MOST, read_regular
from newel.text.json import decode_json

TRIES: Final = 20
"""How often a change is repeated because another process was faster."""

T = TypeVar("T")


def load_state(path: Path, kind: type[T], *, most: int | None = MOST) -> T:
    """The JSON in a file as a struct, or an empty struct if it is unreadable or larger than ``most`` bytes: a
    damaged file decides nothing.
    """
    try:
        return _decode(read_regular(path, most), kind)
    except OSError:
        return kind()


def update_state(
    path: Path,
    kind: type[T],
    change: Callable[[T], object],
    *,
    most: int | None = MOST,
    keeps_damaged: bool = False,
) -> None:
    """Apply ``change`` to the struct in a file and replace the file. Raises ``ConfigError`` if the disk refuses, for a name that is not
    valid Unicode, and with ``keeps_damaged`` for a damaged file: what the user wrote into it is not thrown away for a slip.
    """

    def update(before: bytes) -> bytes:
        if keeps_damaged:
            _check(path, before, kind)
        state = _decode(before, kind)
        change(state)
        try:
            return msgspec.json.format(msgspec.json.encode(state)) + b"\n"
        except UnicodeEncodeError as error:  # a path of bytes that are no text
            raise ConfigError(
                f"{path} could not be changed: a name in it is not valid Unicode. Rename the folder or file."
            ) from error

    rewrite(path, update, most=most)


def check_state(path: Path, kind: type[object]) -> None:
    """Raises ``ConfigError`` for a file that ``load_state`` takes for an empty one."""
    if not path.exists():
        return
    try:
        data = read_regular(path)
    except OSError as error:
        raise ConfigError(f"{path} could not be read: {error.strerror or error}.") from error
    _check(path, data, kind)


def _check(path: Path, data: bytes, kind: type[object]) -> None:
    if not data:
        return
    try:
        decode_json(data, kind)
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"{path} is damaged, and was left as it is: {error}. Correct it, or delete it."
        ) from error


def _decode(data: bytes, kind: type[T]) -> T:
    try:
        return decode_json(data, kind)
    except msgspec.DecodeError:
        return kind()


def rewrite(
    path: Path, change: Callable[[bytes], bytes], *, mode: int = 0o600, most: int | None = MOST
) -> None:
    """Replace a file's content by the result of ``change`` (empty if there is no file), atomically.

    ``mode`` is that of a new file. ``change`` is called again if the file changed meanwhile. Raises
    ``ConfigError``, and the errors of ``change``.
    """
    import hashlib

    from newel.workspace.disk.files import replace

    for _ in range(TRIES):
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _alone(path.parent):
                before = read_regular(path, most) if path.exists() else b""
                after = change(before)
                # An empty file of the right mode first, because replacing a file keeps its mode.
                os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, mode))
                replace(str(path), after, hashlib.sha256(before).hexdigest())
        except StaleFile:
            continue
        except OSError as error:
            raise ConfigError(f"{path} could not be changed: {error.strerror or error}.") from error
        except WorkspaceError as error:
            raise ConfigError(f"{path} could not be changed. {error}") from error
        return
    raise ConfigError(f"{path} could not be changed: other processes keep writing it. Try again.")


@contextlib.contextmanager
def _alone(folder: Path) -> Generator[None]:
    """Serialize such changes among processes. The lock is on the folder itself, so that no lock file is left behind;
    without locks the comparison remains, which also detects changes by an editor.
    """
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            lock(held)
        yield
    finally:
        os.close(held)
