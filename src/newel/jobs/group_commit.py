"""The thread that writes a journal, with group commit.

Changes that arrive during a transaction share the next one: flushing two hundred changes costs as much as flushing one.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread

from newel.agent.errors import NewelError
from newel.jobs.engine import EngineError
from newel.jobs.queries import JOURNAL
from newel.storage.sqlite import roll_back

T = TypeVar("T")
Change = Callable[[sqlite3.Connection], T]
"""Runs in a transaction, and perhaps again in another. May raise ``NewelError`` only before it changes anything."""


class _PendingWrite(Generic[T]):
    """A requested change. ``then`` is called in the event loop once it is durable."""

    def __init__(self, change: Change[T], then: Callable[[T], None]) -> None:
        self._change = change
        self._then = then
        self.done = anyio.Event()
        self._result: T
        self._error: Exception | None = None

    def execute(self, connection: sqlite3.Connection) -> None:
        self._error = None
        try:
            self._result = self._change(connection)
        except NewelError as error:
            self._error = error

    def fail(self, error: Exception) -> None:
        self._error = error

    def complete(self) -> None:
        if self._error is None:
            self._then(self._result)
        self.done.set()

    def outcome(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result


class Writer:
    """Called with a change, returns when it is on disk.

    A caller that is cancelled meanwhile still waits, so that it learns the outcome. If a change fails, for instance
    because the disk is full, its caller gets an ``EngineError`` and the writer continues. ``lock`` guards the connection.
    """

    def __init__(self, connection: sqlite3.Connection, path: str, lock: threading.Lock) -> None:
        self._connection = connection
        self._path = path
        self._lock = lock
        self._entries: queue.SimpleQueue[_PendingWrite[Any] | None] = queue.SimpleQueue()
        self._closed = False
        self._loop = anyio.lowlevel.current_token()
        self._thread = threading.Thread(target=self._work, name="newel-journal", daemon=True)
        self._thread.start()

    async def __call__(self, change: Change[T], then: Callable[[T], None] = lambda _: None) -> T:
        await anyio.lowlevel.checkpoint_if_cancelled()
        if self._closed:
            raise EngineError(f"The journal {self._path} was closed.")
        entry = _PendingWrite(change, then)
        self._entries.put(entry)
        with anyio.CancelScope(shield=True):
            await entry.done.wait()
        return entry.outcome()

    async def aclose(self) -> None:
        """Write the requested changes and stop."""
        self._closed = True
        self._entries.put(None)
        await anyio.to_thread.run_sync(self._thread.join)

    def _work(self) -> None:
        is_open = True
        while is_open:
            batch = [self._entries.get()]
            while not self._entries.empty():
                batch.append(self._entries.get())
            is_open = batch[-1] is not None
            entries = [entry for entry in batch if entry is not None]
            with self._lock:
                self._commit(entries)
            try:
                anyio.from_thread.run_sync(_complete_all, entries, token=self._loop)
            except anyio.RunFinishedError:  # the event loop has ended
                return

    def _commit(self, entries: Sequence[_PendingWrite[Any]]) -> None:
        """Execute changes in one transaction; if that fails, each in its own."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for entry in entries:
                entry.execute(self._connection)
            self._connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 — the callers must get any error
            roll_back(self._connection)
            failure = JOURNAL.failure(self._path, error) if isinstance(error, sqlite3.Error) else error
            for entry in entries:
                if len(entries) > 1:
                    self._commit([entry])
                else:
                    entry.fail(failure)


def _complete_all(entries: Sequence[_PendingWrite[Any]]) -> None:
    for entry in entries:
        entry.complete()
