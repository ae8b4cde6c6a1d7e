"""Effects that a killed process left half done: their note says what was before, the disk what came of it.

The notes of a process are lines of one file beside the ledger, which it holds locked: what it began, and what of that is
recorded. Whoever finds such a file that nobody holds records what happened in the place of its process: of a command, all
files that were touched since it began. How they were stands in a second file of the process, to which is added before each command
what became another since the last. That holds when a process dies, and not when the machine does: nothing is flushed.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from newel.agent.messages import Wire, new_id
from newel.review.model.file_lines import content_of
from newel.review.store.ledger import Ledger
from newel.storage.file_lock import lock
from newel.storage.files import open_regular, read_regular, replace_file
from newel.workspace.snapshots.index import load
from newel.workspace.snapshots.tree import FileSnapshot, join, state_of

INDEX: Final = "files.index"
_NOTES, _KNOWN, _KNOWN_NEXT, _LEFT_OUT = ".running", ".known", ".known-next", "left_out.json"


MAX_NOTES: Final = 1 << 20

_SPARE: Final = 1 << 20
"""Bytes that may be added to what is known of few files, until it is kept anew."""


class LogRecord(Wire, frozen=True, kw_only=True):
    """An effect: on the file ``path``, which was ``before``, or on any file for None. ``began_ns`` is on the clock of files."""

    run: str
    session: str
    title: str
    began: str
    began_ns: int
    path: str | None = None
    before: FileSnapshot | None = None


class KnownFiles(NamedTuple):
    """How files were before the last command that was begun, ``at`` seconds since 1970. Not ``whole``: nobody can say of
    others that they were not there.
    """

    states: dict[str, FileSnapshot]
    at: float
    whole: bool


def states_before(ledger: Ledger, known: KnownFiles) -> dict[str, FileSnapshot]:
    """How files were, by what was known of them or by what was recorded since. Blocks."""
    states = dict(known.states)
    for path in ledger.paths():
        last = ledger.entries(path=path)[-1]
        if datetime.fromisoformat(last.ts).timestamp() >= known.at:
            states.pop(path, None)
            if content := content_of(ledger.get(path).base):
                blob = content.blob or ledger.put_blobs([content.data])[0]
                states[path] = FileSnapshot(blob, content.mode)
    return states


class WriteAheadLog:
    """The notes in the folder of a ledger; none are kept of a ledger in memory. ``size`` is the most bytes of a file that
    notes are added to. For one caller at a time.
    """

    def __init__(self, folder: Path | None, *, size: int = MAX_NOTES) -> None:
        self._folder = folder
        self._most = size
        self._name = ""
        self._file = -1
        self._size = 0
        self._held: dict[str, bytes] = {}
        self._known = -1
        self._known_size = 0
        self._known_most = 0

    def put(self, note: LogRecord) -> str:
        """Leave a note before an effect; returns its name."""
        name = new_id()
        if self._folder is not None:
            line = msgspec.json.encode(_LogLine(name=name, note=note)) + b"\n"
            if self._file < 0:
                self._begin(self._folder)
            self._append(line)
            self._held[name] = line
        return name

    def drop(self, name: str) -> None:
        """The effect is recorded."""
        if self._folder is None or self._held.pop(name, None) is None:
            return
        if not self._held:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, 0)
                self._size = 0
                return
        if self._size < self._most:
            self._append(msgspec.json.encode(_LogLine(name=name)) + b"\n")
        else:
            old, old_name = self._file, self._name
            self._begin(self._folder)
            if self._known >= 0:
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
            self._close_known()

    def _begin(self, folder: Path) -> None:
        """Begin a file, with the notes that are held."""
        name, held = new_id(), b"".join(self._held.values())
        beside = folder / f".{name}.tmp"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        file = os.open(beside, flags, 0o600)
        try:
            lock(file)
            _put_whole(file, held)
            beside.rename(folder / f"{name}{_NOTES}")  # whoever sees it finds it whole and locked
        except BaseException:
            beside.unlink(missing_ok=True)
            os.close(file)
            raise
        self._name, self._file, self._size = name, file, len(held)

    def _append(self, data: bytes) -> None:
        _put_whole(self._file, data)
        self._size += len(data)

    # -- what is known of all files -------------------------------------------------------------------

    @property
    def is_kept(self) -> bool:
        """Whether anybody will ever find them."""
        return self._folder is not None

    @property
    def wants_all(self) -> bool:
        """Whether all that is known is to be kept anew: there is nothing to add to, or too much was added."""
        return self._known < 0 or self._known_size > self._known_most

    def know(self, block: bytes) -> None:
        """Keep what is known of all files, as ``snapshot_index`` packs it, for whoever finds the notes that follow; or what
        became another since, unless that ``wants_all``. Blocks for as long as the disk takes.
        """
        if self._folder is None:
            return
        if self._file < 0:
            self._begin(self._folder)
        if self.wants_all:
            self._close_known()
            self._known = self._known_anew(self._folder, block)
            self._known_most = 2 * len(block) + _SPARE
            self._known_size = 0
        else:
            self._add_to_known(block)
        self._known_size += len(block)

    def _add_to_known(self, block: bytes) -> None:
        whole = False
        try:
            whole = os.write(self._known, block) == len(block)
        finally:
            if not whole:
                self._close_known()  # all is wanted then
        if not whole:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._folder))

    def _known_anew(self, folder: Path, block: bytes) -> int:
        """Put a file in the place of what is known, at once: notes of commands under way rely on it."""
        beside = folder / f"{self._name}{_KNOWN_NEXT}"
        descriptor = os.open(
            beside, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
        )
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(block)
            beside.rename(folder / f"{self._name}{_KNOWN}")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _close_known(self) -> None:
        if self._known >= 0:
            os.close(self._known)
            self._known = -1

    def left(self, root: str) -> Iterator[tuple[LogRecord, KnownFiles]]:
        """The notes of processes that are gone, each with the files that were known then. Those of a process are removed
        when the one behind its last is asked for.
        """
        for path in sorted(self._folder.glob(f"*{_NOTES}")) if self._folder else ():
            with contextlib.suppress(OSError), open_regular(path) as file:  # another may be faster
                lock(file, wait=False)
                notes = _left(file.read())
                known = (
                    _known(path.with_suffix(_KNOWN), root, notes)
                    if notes
                    else KnownFiles({}, 0.0, whole=False)
                )
                for note in notes:
                    yield note, known
                _remove(path.parent, path.stem)

    # -- what is not covered ------------------------------------------------------------------------

    def keep_left_out(self, words: Sequence[str]) -> None:
        """Keep for other processes what is not covered."""
        if self._folder is None:
            return
        with contextlib.suppress(OSError):  # words that are not kept are no reason to record nothing
            replace_file(self._folder / _LEFT_OUT, msgspec.json.encode(words))

    def left_out(self) -> list[str]:
        if self._folder is not None:
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                return msgspec.json.decode(read_regular(self._folder / _LEFT_OUT), type=list[str])
        return []


class _LogLine(Wire, frozen=True, kw_only=True):
    """An effect that begins, or is recorded for ``note`` None."""

    name: str
    note: LogRecord | None = None


def _put_whole(file: int, data: bytes) -> None:
    """Raises ``OSError`` also for half a line."""
    if os.write(file, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _let_go(folder: Path, name: str, descriptor: int) -> None:
    """Remove a file of notes that hold no more, before it can be locked by others."""
    os.ftruncate(descriptor, 0)
    _remove(folder, name)
    os.close(descriptor)


def _left(data: bytes) -> list[LogRecord]:
    """The effects that were begun and not recorded. What is behind the last end of a line was never begun."""
    notes: dict[str, LogRecord] = {}
    for text in data.split(b"\n")[:-1]:
        with contextlib.suppress(msgspec.MsgspecError):
            line = msgspec.json.decode(text, type=_LogLine)
            if line.note is not None:
                notes[line.name] = line.note
            else:
                notes.pop(line.name, None)
    return list(notes.values())


def _remove(folder: Path, name: str) -> None:
    for suffix in (_KNOWN_NEXT, _KNOWN, _NOTES):
        (folder / f"{name}{suffix}").unlink(missing_ok=True)


def _known(index: Path, root: str, notes: Sequence[LogRecord]) -> KnownFiles:
    records = load(index, root)
    states = {
        join(folder, name): state_of(made)
        for folder, files in (records or {}).items()
        for name, made in files.items()
    }
    at = max((note.began_ns for note in notes if note.path is None), default=0) / 1e9
    return KnownFiles(states, at, whole=records is not None)
