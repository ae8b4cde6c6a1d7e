"""Effects that a killed process left half done: their note says what was before, the disk what came of it.

A note is a file beside the ledger, held locked by its process until the effect is recorded. Whoever finds one that nobody
holds records what happened in its place: of a command, all files that were touched since it began.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from itertools import filterfalse
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from newel.agent.messages import Wire, new_id
from newel.workspace.snapshot_rules import MADE_ANEW, NEVER, Rules, is_never_covered
from newel.workspace.snapshot_tree import State, join, load, state_of

INDEX: Final = "files.index"
_NOTE, _KNOWN, _LEFT_OUT = ".running", ".known", "left_out.json"


class Note(Wire, frozen=True, kw_only=True):
    """An effect: on the file ``path``, which was ``before``, or on any file for None. ``began_ns`` is on the clock of files."""

    run: str
    session: str
    title: str
    began: str
    began_ns: int
    path: str | None = None
    before: State | None = None


class Known(NamedTuple):
    """How files were when they were last looked at all together, ``at`` seconds since 1970."""

    states: dict[str, State]
    at: float


class Notes:
    """The notes in the folder of a ledger; none are kept of a ledger in memory."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._held: dict[str, int] = {}

    def put(self, note: Note) -> str:
        """Leave a note before an effect; returns its name."""
        name = new_id()
        if self._folder is not None:
            beside = self._folder / f".{name}.tmp"
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self._held[name] = descriptor
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.write(descriptor, msgspec.json.encode(note))
            if note.path is None:
                with contextlib.suppress(OSError):  # without it, less is known of what was before
                    os.link(self._folder / INDEX, self._folder / f"{name}{_KNOWN}")
            beside.rename(self._folder / f"{name}{_NOTE}")  # whoever sees it finds it whole and locked
        return name

    def drop(self, name: str) -> None:
        """The effect is recorded."""
        if self._folder is not None and name in self._held:
            _remove(self._folder, name)
            os.close(self._held.pop(name))

    def left(self, root: str) -> Iterator[tuple[Note, Known]]:
        """The notes of processes that are gone, each with the files that were known then. One is removed when the next is
        asked for.
        """
        for path in sorted(self._folder.glob(f"*{_NOTE}")) if self._folder else ():
            with (
                contextlib.suppress(OSError, msgspec.MsgspecError),
                path.open("rb") as file,
            ):  # another may be faster
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                note = msgspec.json.decode(file.read(), type=Note)
                yield note, _known(path.with_suffix(_KNOWN), root)
                _remove(path.parent, path.stem)

    # -- what is not covered ------------------------------------------------------------------------

    def keep_left_out(self, words: Sequence[str]) -> None:
        """Keep for other processes what is not covered."""
        if self._folder is not None:
            beside = self._folder / f".{new_id()}.tmp"
            beside.write_bytes(msgspec.json.encode(words))
            beside.rename(self._folder / _LEFT_OUT)

    def left_out(self) -> list[str]:
        if self._folder is not None:
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                return msgspec.json.decode((self._folder / _LEFT_OUT).read_bytes(), type=list[str])
        return []


def _remove(folder: Path, name: str) -> None:
    for suffix in (_KNOWN, _NOTE):
        (folder / f"{name}{suffix}").unlink(missing_ok=True)


def _known(index: Path, root: str) -> Known:
    states = {
        join(folder, name): state_of(made)
        for folder, files in load(index, root).items()
        for name, made in files.items()
    }
    return Known(states, index.stat().st_mtime if states else 0.0)


def touched(root: str, since_ns: int) -> list[str]:
    """The covered files below a root that were written, or given other permission bits, since a moment."""
    rules = Rules(root)
    repository = rules.repository_of_root()
    skipped = NEVER if repository is not None else NEVER | MADE_ANEW
    found: list[str] = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in skipped]
        inside = os.path.relpath(folder, root)
        for name in filterfalse(is_never_covered, files):
            with contextlib.suppress(OSError):
                seen = os.lstat(os.path.join(folder, name))  # noqa: PTH118 — a name may be any bytes
                if stat.S_ISREG(seen.st_mode) and seen.st_ctime_ns >= since_ns:
                    found.append(join("" if inside == "." else inside, name))
    left_out = rules.left_out((path, repository) for path in found)
    return [path for path in found if path not in left_out]
