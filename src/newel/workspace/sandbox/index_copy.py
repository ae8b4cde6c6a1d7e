"""The copy of a repository's index to which a call of the sandbox adds.

A repository inside the project must not be in the index at any time: the user's next ``git status`` would look into it, and obey its
settings, which commands can write. So git adds to a copy; what does not belong there is taken out of it, and then it takes the place of
the index.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final, Self

from newel.text.format import join_names
from newel.workspace.git import run_git
from newel.workspace.sandbox.git_rules import GitRefused
from newel.workspace.sandbox.repository import SandboxRepository

_PREFIX: Final = "newel-index-"
_LOCKED_S: Final = 10.0
_PAUSE_S: Final = 0.02
"""Seconds to wait for a git of the user's that has locked the index, and between two looks."""


class IndexCopy:
    """A context in which the copy exists, in a folder of ``.git``, which commands cannot change. One at a time for a repository."""

    def __init__(self, repository: SandboxRepository) -> None:
        self._top = repository.top
        self._index = Path(repository.folder, "index")
        for left in self._index.parent.glob(f"{_PREFIX}*"):  # by a Newel that was killed
            shutil.rmtree(left, ignore_errors=True)
        self._folder = self._index.with_name(f"{_PREFIX}{secrets.token_hex(8)}")
        self.path = self._folder / "index"

    def __enter__(self) -> Self:
        self._folder.mkdir(0o700)
        if self._index.exists():
            shutil.copy2(
                self._index, self.path
            )  # with its time, by which git knows what it has to read again
        self._before = self._entries(self.path)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def take_out_repositories(self) -> list[str]:
        """Take those out that were added; returns a note about them. Raises ``GitRefused``."""
        new = _repositories(self._entries(self.path)) - _repositories(self._before)
        if not new:
            return []
        names = sorted(os.fsdecode(path) for path in new)
        stdin = b"".join(path + b"\0" for path in new)
        removal = ("update-index", "--force-remove", "-z", "--stdin")
        if run_git(self._top, *removal, stdin=stdin, index=str(self.path)) is None:
            raise GitRefused(f"{names[0]!r} is a repository, so nothing was added. Name the files to add.")
        return [
            f"note: not added, as it is a repository of its own: {join_names(names, shown=3)}. Leave it to the user."
        ]

    def publish(self) -> None:
        """Let the copy take the place of the index. Raises ``GitRefused`` if git outside has changed that, or keeps it locked."""
        if self._entries(self.path) == self._before:
            return
        status = self.path.stat()
        with _lock(self._index) as lock:
            lock.write_bytes(self.path.read_bytes())
            os.utime(lock, ns=(status.st_atime_ns, status.st_mtime_ns))
            if self._index.exists():
                shutil.copymode(self._index, lock)
            if self._entries(self._index) != self._before:
                raise GitRefused("git outside of the sandbox has changed the index meanwhile. Try again.")
            lock.replace(self._index)

    def _entries(self, index: Path) -> bytes:
        """The files with their contents and marks, without what git remembers of the disk. Raises ``GitRefused``."""
        listed = run_git(self._top, "ls-files", "--stage", "-v", "-z", index=str(index))
        if listed is None:
            raise GitRefused("the index cannot be read. Leave it to the user.")
        return listed


def _repositories(entries: bytes) -> set[bytes]:
    found = (entry.partition(b"\t") for entry in entries.split(b"\0"))
    return {path for facts, _, path in found if facts[2:].startswith(b"160000 ")}


@contextlib.contextmanager
def _lock(index: Path) -> Generator[Path]:
    """The file with which git locks its index, for the block to move it into the place of that. Raises ``GitRefused``."""
    lock = index.with_name("index.lock")
    until = time.monotonic() + _LOCKED_S
    while True:
        try:
            os.close(os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
            break
        except FileExistsError:
            if time.monotonic() > until:
                raise GitRefused(f"git outside of the sandbox has locked the index: {lock}.") from None
            time.sleep(_PAUSE_S)
    try:
        yield lock
    except BaseException:
        lock.unlink(missing_ok=True)
        raise
