"""The write-ahead log of effects: what a process was doing to files when it was killed, for the next process to record.

Before an effect, a row in the ledger says what is about to happen; the transaction that records the result removes it. A
process with effects holds a lock file beside the ledger, ``NAME.running``: rows of an owner whose lock is free are those of a
process that is gone. Before each command, the process also saves the states of all files (``NAME.known``): after the first
time it appends those that have changed since. While runs have commands, the time of the lock file says until when the process lived.
All of this survives a kill, but not a power cut: none of it is flushed.

Older versions kept the effects in the lock file, one line each; ``recover`` still reads them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections.abc import Generator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from newel.agent.messages import Wire, new_id
from newel.review.model.file_lines import content_of
from newel.review.store.ledger import EffectRecord, Ledger
from newel.review.store.schema import LedgerError
from newel.review.tracking.effects import TrackedOperation
from newel.storage.file_lock import lock
from newel.storage.files import open_regular, read_regular, remove_unless_locked, replace_file
from newel.text.json import to_json
from newel.workspace.snapshots.index import UNKNOWN, SavedTree, load
from newel.workspace.snapshots.rule_history import CLOCK_LAG_NS
from newel.workspace.snapshots.tree import FileSnapshot

INDEX: Final = "files.index"
_RUNNING, _KNOWN, _KNOWN_NEXT, _LEFT_OUT = ".running", ".known", ".known-next", "left_out.json"

_SPARE: Final = 1 << 20
"""Bytes that may be appended to a small file of known states before it is written anew."""

HEARTBEAT_S: Final = 1.0
"""Seconds between two signs of life."""


class KnownFiles(NamedTuple):
    """The files before the last command, ``at`` seconds since 1970."""

    tree: SavedTree
    at: float


class PendingEffect(NamedTuple):
    """An effect of a killed process. ``id`` is empty if an older version logged it. ``died_ns``: the process was gone by then; 0 if
    that is unknown.
    """

    id: str
    record: EffectRecord
    known: KnownFiles
    died_ns: int = 0


def effect_of(operation: TrackedOperation, *, is_run: bool = False) -> EffectRecord:
    """What is about to happen, as it is logged."""
    run = operation.run
    return EffectRecord(
        run=run.id,
        session=run.session,
        title=run.title,
        began=operation.started_at,
        began_ns=time.time_ns() - CLOCK_LAG_NS,
        run_began_ns=run.commands_began_ns,
        path=operation.path,
        before=operation.before,
        folders=tuple(operation.folders),
        is_run=is_run,
    )


def recorded_since(ledger: Ledger, at: float) -> dict[str, FileSnapshot | None]:
    """The states of the files whose changes were recorded since a moment, in seconds since 1970. Blocks."""
    states: dict[str, FileSnapshot | None] = {}
    for path in ledger.paths():
        last = ledger.entries(path=path)[-1]
        if datetime.fromisoformat(last.ts).timestamp() >= at:
            states[path] = None
            if content := content_of(ledger.get(path).base):
                blob = content.blob or ledger.put_blobs([content.data])[0]
                states[path] = FileSnapshot(blob, content.mode)
    return states


class EffectLog:
    """The pending effects of this process. ``folder`` is that of the ledger; with None nothing is logged. One caller at a time;
    all methods block for as long as the disk takes.
    """

    def __init__(self, ledger: Ledger, folder: Path | None) -> None:
        self._ledger = ledger
        self._folder = folder
        self._name = ""
        self._lock = -1
        self._known = -1
        self._known_size = 0
        self._known_limit = 0
        self._runs: set[str] = set()
        self._heart: _Heart | None = None

    def begin(self, effect: EffectRecord) -> str:
        """Log an effect before it happens; returns its id."""
        if self._folder is None:
            return ""
        self._acquire(self._folder)
        return self._ledger.begin_effect(self._name, effect)

    def end(self, effect_id: str) -> None:
        """The effect is recorded: within a batch of the ledger, together with its record."""
        if effect_id:
            self._ledger.end_effect(effect_id)

    def begin_run(self, effect: EffectRecord) -> str:
        """``begin`` for a run, and show signs of life until its end."""
        effect_id = self.begin(effect)
        if effect_id:
            self._runs.add(effect_id)
            self._heart = self._heart or _Heart(self._lock)
        return effect_id

    def end_run(self, effect_id: str) -> None:
        """The files were looked at, or cannot be."""
        self.end(effect_id)
        self._runs.discard(effect_id)
        if not self._runs:
            self._stop_heart()

    def _stop_heart(self) -> None:
        if self._heart is not None:
            self._heart.stop()
            self._heart = None

    def close(self) -> None:
        """Release the lock. A pending effect, but for a run, is then like one of a killed process."""
        self._stop_heart()
        if self._folder is not None and self._lock >= 0:
            with contextlib.suppress(LedgerError):
                for effect_id in self._runs:
                    self.end(effect_id)
                if not self._ledger.effects(self._name):
                    _remove(self._folder, self._name)
            os.close(self._lock)
            self._lock = -1
            self._close_known()

    def _acquire(self, folder: Path) -> None:
        if self._lock >= 0:
            return
        while not self._create(folder):
            pass  # another process took the file for a leftover, before it was locked

    def _create(self, folder: Path) -> bool:
        name = new_id()
        temporary = folder / f".{name}.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            lock(descriptor)
            temporary.rename(folder / f"{name}{_RUNNING}")  # no other process ever sees it unlocked
        except BaseException as error:
            taken = isinstance(error, FileNotFoundError) and not os.fstat(descriptor).st_nlink
            os.close(descriptor)
            if taken and folder.is_dir():
                return False
            with contextlib.suppress(OSError):  # the first error counts
                temporary.unlink()
            raise
        self._name, self._lock = name, descriptor
        return True

    # -- the states of all files ------------------------------------------------------------------------

    @property
    def is_kept(self) -> bool:
        """Whether another process can ever find this log."""
        return self._folder is not None

    @property
    def wants_all(self) -> bool:
        """Whether ``save_known`` needs the states of all files: there is nothing to append to, or too much was appended."""
        return self._known < 0 or self._known_size > self._known_limit

    def save_known(self, block: bytes | bytearray) -> None:
        """Save the states of all files, as ``snapshots.index`` packs them, or append those that have changed since, unless
        ``wants_all``.
        """
        if self._folder is None:
            return
        self._acquire(self._folder)
        if self.wants_all:
            self._close_known()
            self._known = self._replace_known(self._folder, block)
            self._known_limit = 2 * len(block) + _SPARE
            self._known_size = 0
        else:
            self._append_known(block)
        self._known_size += len(block)

    def _append_known(self, block: bytes | bytearray) -> None:
        is_whole = False
        try:
            is_whole = os.write(self._known, block) == len(block)
        finally:
            if not is_whole:
                self._close_known()  # so that the next call replaces the file
        if not is_whole:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._folder))

    def _replace_known(self, folder: Path, block: bytes | bytearray) -> int:
        """Atomically, as effects of commands that still run rely on the file."""
        temporary = folder / f"{self._name}{_KNOWN_NEXT}"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o600)
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(block)
            temporary.rename(folder / f"{self._name}{_KNOWN}")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _close_known(self) -> None:
        if self._known >= 0:
            os.close(self._known)
            self._known = -1

    # -- after a crash ----------------------------------------------------------------------------------

    def recover(self, root: str) -> Generator[PendingEffect]:
        """The effects of killed processes, of their runs one at most: if no command was running. The caller records each, and calls
        ``end``, before it asks for the next one.
        """
        if self._folder is None:
            return
        names = {path.stem for path in self._folder.glob(f"*{_RUNNING}")}
        for name in sorted(names.union(self._ledger.effect_owners())):
            # Its process lives, or another is faster.
            with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
                logged, died_ns = b"", 0
                with contextlib.suppress(FileNotFoundError):
                    file = stack.enter_context(open_regular(self._folder / f"{name}{_RUNNING}"))
                    lock(file, wait=False)
                    logged = file.read()
                    died_ns = os.fstat(file.fileno()).st_mtime_ns + int(2e9 * HEARTBEAT_S)
                effects = [("", record) for record in _read_lines(logged)]
                effects += self._ledger.effects(name).items()  # not before the lock is held
                runs = [effect_id for effect_id, record in effects if record.is_run]
                effects = _without_runs(effects)
                records = [record for _, record in effects]
                known = _load_known(self._folder / f"{name}{_KNOWN}", root, records)
                for effect_id, record in effects:
                    yield PendingEffect(effect_id, record, known, died_ns if runs else 0)
                for effect_id in runs:
                    self.end(effect_id)
                _remove(self._folder, name)
        for temporary in self._folder.glob(".*.tmp"):
            remove_unless_locked(temporary)

    # -- files that are not covered -----------------------------------------------------------------------

    def save_left_out(self, messages: Sequence[str]) -> None:
        """Tell other processes which files are not covered."""
        if self._folder is None:
            return
        with contextlib.suppress(OSError):  # no reason to record nothing
            replace_file(self._folder / _LEFT_OUT, to_json(messages))

    def load_left_out(self) -> list[str]:
        if self._folder is not None:
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                return msgspec.json.decode(read_regular(self._folder / _LEFT_OUT), type=list[str])
        return []


class _Heart:
    """Sets the time of an open file once in a while, in a thread: an event loop may be busy for longer."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._stopped = threading.Event()
        self._beat()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(HEARTBEAT_S):
            self._beat()

    def _beat(self) -> None:
        now_ns = time.time_ns()  # by this machine's clock
        with contextlib.suppress(OSError):
            os.utime(self._descriptor, ns=(now_ns, now_ns))


class _LogLine(Wire, frozen=True, kw_only=True):
    """A line of an older version: an effect that begins, or one that is recorded for ``note`` None."""

    name: str
    note: EffectRecord | None = None


def _read_lines(data: bytes) -> list[EffectRecord]:
    """The pending effects in a lock file of an older version. An effect whose line is incomplete has not begun."""
    notes: dict[str, EffectRecord] = {}
    for text in data.split(b"\n")[:-1]:
        with contextlib.suppress(msgspec.MsgspecError):
            line = msgspec.json.decode(text, type=_LogLine)
            if line.note is not None:
                notes[line.name] = line.note
            else:
                notes.pop(line.name, None)
    return list(notes.values())


def _remove(folder: Path, name: str) -> None:
    """Remove the files of a process. If one cannot be removed, the lock file stays, so that a later process tries again."""
    with contextlib.suppress(OSError):
        for suffix in (_KNOWN_NEXT, _KNOWN, _RUNNING):
            (folder / f"{name}{suffix}").unlink(missing_ok=True)


def _without_runs(effects: Sequence[tuple[str, EffectRecord]]) -> list[tuple[str, EffectRecord]]:
    """Without runs if a command was running, as all files are looked at for it; otherwise with the first one."""
    runs = [one for one in effects if one[1].is_run]
    others = [one for one in effects if not one[1].is_run]
    if not runs or all(record.path is not None for _, record in others):
        return [*others, *runs[:1]]
    began_ns = min(record.began_ns for _, record in runs)
    return [
        (effect_id, msgspec.structs.replace(record, run_began_ns=began_ns)) for effect_id, record in others
    ]


def _load_known(index: Path, root: str, effects: Sequence[EffectRecord]) -> KnownFiles:
    commands = [effect for effect in effects if effect.path is None]
    if not commands:
        return KnownFiles(UNKNOWN, 0.0)
    if commands[0].is_run:  # between commands: what was recorded since the last one has been written since
        return KnownFiles(load(index, root), index.stat().st_mtime if index.exists() else 0.0)
    return KnownFiles(load(index, root), max(effect.began_ns for effect in commands) / 1e9)
