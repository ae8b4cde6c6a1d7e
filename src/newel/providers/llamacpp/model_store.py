"""The folder of pulled models: ``NAME.gguf`` is a downloaded file or a link to a file of the user, ``NAME.gguf.part`` a download
that is not complete.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from newel.agent.errors import ConfigError, UsageError
from newel.providers.http.urls import is_model_name
from newel.providers.llamacpp.model_file import load_model_file
from newel.storage.file_lock import lock
from newel.storage.files import PRIVATE_FILE, make_private

SUFFIX: Final = ".gguf"
PARTIAL: Final = ".part"


class StoredModel(msgspec.Struct, frozen=True):
    """``size`` is in bytes, None if the file is missing. ``target`` is the user's file, None for a downloaded one."""

    name: str
    path: Path
    size: int | None
    target: Path | None = None


class ModelStore:
    """The models in ``folder``, which need not exist. A method that gets a name raises ``UsageError`` for what is none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Return where a model is, or would be."""
        if not is_model_name(name):
            raise UsageError(
                f"'{name[:80]}' is not a model's name. Use letters, digits, dots, hyphens and underscores."
            )
        return self.folder / f"{name}{SUFFIX}"

    def partial_path(self, name: str) -> Path:
        """Return where an incomplete download of a model is, or would be."""
        return self.path(name).with_name(f"{name}{SUFFIX}{PARTIAL}")

    def all(self) -> list[StoredModel]:
        """Return the models, by name."""
        try:
            names = sorted(path.stem for path in self.folder.iterdir() if path.suffix == SUFFIX)
        except OSError:
            return []
        return [self._describe(name) for name in names if is_model_name(name)]

    def find(self, name: str) -> StoredModel | None:
        """Return a model; None if there is none of this name."""
        return self._describe(name) if os.path.lexists(self.path(name)) else None

    def prepare(self) -> None:
        """Create the folder. Raises ``ConfigError``."""
        try:
            make_private(self.folder)
        except OSError as error:
            raise ConfigError(unwritable(self.folder, error)) from error

    def link(self, name: str, file: Path) -> StoredModel:
        """Have ``name`` mean a file of the user, after checking that it is a complete model. An earlier link of this name is
        replaced. Raises ``ConfigError``, and ``RequestRejected`` if the file cannot be a model.
        """
        path = self.path(name)
        file = file.absolute()
        if load_model_file(file).header.parts > 1:
            raise ConfigError(
                f"{file} is the first of several parts, which must keep their names, so it gets no short name. "
                f"Use it by its path: llamacpp:{file}"
            )
        stored = self.find(name)
        if stored is not None and stored.target is None:
            raise ConfigError(
                f"There is a downloaded model '{name}'. Give another name: newel models pull --file {file} NAME"
            )
        self.prepare()
        temporary = path.with_name(f".{path.name}-{os.urandom(8).hex()}.tmp")
        try:
            temporary.symlink_to(file)
            temporary.replace(path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise ConfigError(unwritable(path, error)) from error
        return self._describe(name)

    def remove(self, name: str) -> int | None:
        """Delete a downloaded model, complete or not, or a link. Return how many bytes that frees; None if there is nothing.
        Raises ``ConfigError``.
        """
        freed = [_delete(self.path(name))]
        partial = self.partial_path(name)
        if partial.exists():
            with locked(partial):
                freed.append(_delete(partial))
        deleted = [size for size in freed if size is not None]
        return sum(deleted) if deleted else None

    def _describe(self, name: str) -> StoredModel:
        path = self.path(name)
        target = None
        size = None
        with suppress(OSError):
            if path.is_symlink():
                target = path.readlink()
            size = path.stat().st_size
        return StoredModel(name, path, size, target)


@contextmanager
def locked(partial: Path) -> Generator[int]:
    """Open an incomplete download for this process alone, and create it if necessary. Raises ``ConfigError`` if another process
    has it, and ``OSError``.
    """
    descriptor = _open_locked(partial)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_locked(partial: Path) -> int:
    while True:
        descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_FILE)
        try:
            lock(descriptor, wait=False)
            # Between these two calls another process may have completed the download, and so renamed the file.
            if partial.exists() and os.path.samestat(os.fstat(descriptor), partial.stat()):
                return descriptor
        except BlockingIOError as error:
            os.close(descriptor)
            raise ConfigError(
                f"Another Newel is downloading {partial.name.removesuffix(SUFFIX + PARTIAL)}. Wait for it, or stop it."
            ) from error
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _delete(path: Path) -> int | None:
    """Delete a file or link. Return its size in bytes; None if there is none."""
    try:
        size = path.lstat().st_size
        path.unlink()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be deleted: {error.strerror}.") from error
    return size


def unwritable(path: Path, error: OSError) -> str:
    """The message about a file or folder that cannot be written."""
    return (
        f"{path} cannot be written: {error.strerror or error}. Check its permissions, or set NEWEL_HOME to "
        "another folder."
    )
