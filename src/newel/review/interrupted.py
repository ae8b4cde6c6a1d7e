"""Effects that a killed process left half done: their note says what was before, the disk what came of it.

The notes of a process are lines of one file beside the ledger, which it holds locked: what it began, and what of that is
recorded. Whoever finds such a file that nobody holds records what happened in the place of its process: of a command, all
files that were touched since it began. That holds when a process dies, and not when the machine does: notes are not flushed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from newel.agent.messages import Wire, new_id
from newel.workspace.snapshot_tree import State, join, load, state_of

INDEX: Final = "files.index"
_NOTES, _KNOWN, _LEFT_OUT = ".running", ".known", "left_out.json"


MAX_NOTES: Final = 1 << 20


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
    """The notes in the folder of a ledger; none are kept of a ledger in memory. ``size`` is the most bytes of a file that
    notes are added to.
    """

    def __init__(self, folder: Path | None, *, size: int = MAX_NOTES) -> None:
        self._folder = folder
        self._most = size
        self._name = ""
        self._file = -1
        self._size = 0
        self._held: dict[str, bytes] = {}
        self._commands: set[str] = set()
        self._known: os.stat_result | None = None

    def put(self, note: Note) -> str:
        """Leave a note before an effect; returns its name."""
        name = new_id()
        if self._folder is not None:
            line = msgspec.json.encode(_Line(name=name, note=note)) + b"\n"
            if self._file < 0:
                self._begin(self._folder)
            if note.path is None:
                if not self._commands:
                    self._keep_known(self._folder)
                self._commands.add(name)
            self._append(line)
            self._held[name] = line
        return name

    def drop(self, name: str) -> None:
        """The effect is recorded."""
        if self._folder is None or self._held.pop(name, None) is None:
            return
        self._commands.discard(name)
        if not self._held:
            os.ftruncate(self._file, 0)
            self._size = 0
        elif self._size < self._most:
            self._append(msgspec.json.encode(_Line(name=name)) + b"\n")
        else:
            old, old_name = self._file, self._name
            self._begin(self._folder)
            with contextlib.suppress(OSError):
                (self._folder / f"{old_name}{_KNOWN}").rename(self._folder / f"{self._name}{_KNOWN}")
            _let_go(self._folder, old_name, old)

    def close(self) -> None:
        """Keep notes no longer. One that was not dropped is as that of a process that is gone."""
        if self._folder is not None and self._file >= 0:
            if self._held:
                os.close(self._file)
            else:
                _let_go(self._folder, self._name, self._file)
            self._file = -1

    def _begin(self, folder: Path) -> None:
        """Begin a file, with the notes that are held."""
        self._name = new_id()
        beside = folder / f".{self._name}.tmp"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(beside, flags, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._size = 0
        self._append(b"".join(self._held.values()))
        beside.rename(folder / f"{self._name}{_NOTES}")  # whoever sees it finds it whole and locked

    def _append(self, data: bytes) -> None:
        self._size += os.write(self._file, data)

    def _keep_known(self, folder: Path) -> None:
        """Have the index stay as it is now, whoever replaces it while a command runs."""
        with contextlib.suppress(OSError):  # without it, less is known of what was before
            now = (folder / INDEX).stat()
            if self._known is None or not os.path.samestat(now, self._known):
                beside = folder / f".{new_id()}.tmp"
                os.link(folder / INDEX, beside)
                beside.rename(folder / f"{self._name}{_KNOWN}")
                self._known = now

    def left(self, root: str) -> Iterator[tuple[Note, Known]]:
        """The notes of processes that are gone, each with the files that were known then. Those of a process are removed
        when the one behind its last is asked for.
        """
        for path in sorted(self._folder.glob(f"*{_NOTES}")) if self._folder else ():
            with contextlib.suppress(OSError), path.open("rb") as file:  # another may be faster
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                notes = _left(file.read())
                known = _known(path.with_suffix(_KNOWN), root) if notes else Known({}, 0.0)
                for note in notes:
                    yield note, known
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


class _Line(Wire, frozen=True, kw_only=True):
    """An effect that begins, or is recorded for ``note`` None."""

    name: str
    note: Note | None = None


def _let_go(folder: Path, name: str, descriptor: int) -> None:
    """Remove a file of notes that hold no more, before it can be locked by others."""
    os.ftruncate(descriptor, 0)
    _remove(folder, name)
    os.close(descriptor)


def _left(data: bytes) -> list[Note]:
    """The effects that were begun and not recorded. What is behind the last end of a line was never begun."""
    notes: dict[str, Note] = {}
    for text in data.split(b"\n")[:-1]:
        with contextlib.suppress(msgspec.MsgspecError):
            line = msgspec.json.decode(text, type=_Line)
            if line.note is not None:
                notes[line.name] = line.note
            else:
                notes.pop(line.name, None)
    return list(notes.values())


def _remove(folder: Path, name: str) -> None:
    for suffix in (_KNOWN, _NOTES):
        (folder / f"{name}{suffix}").unlink(missing_ok=True)


def _known(index: Path, root: str) -> Known:
    states = {
        join(folder, name): state_of(made)
        for folder, files in load(index, root).items()
        for name, made in files.items()
    }
    return Known(states, index.stat().st_mtime if states else 0.0)
