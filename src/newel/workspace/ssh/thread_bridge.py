"""Lets a thread ask a host, while the task that waits for the thread does the asking.

So a task that is cancelled leaves no thread behind that waits for an answer, and nobody asks in the name of who is gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import NamedTuple, TypeVar

import anyio.to_thread

from newel.workspace.snapshots.port import Stopped
from newel.workspace.ssh.port import HostAnswer, RemoteHostPort

T = TypeVar("T")


class _BridgedCall(NamedTuple):
    text: str
    given: bytes
    changes: bool
    answer: Future[HostAnswer]


class _BridgeServer:
    """Where a thread leaves its questions, one after the other, and None at the end of its work."""

    def __init__(self) -> None:
        self.left: SimpleQueue[_BridgedCall | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._waiting: Future[HostAnswer] | None = None

    def ask(self, text: str, given: bytes, *, changes: bool) -> HostAnswer:
        question = _BridgedCall(text, given, changes, Future())
        with self._lock:
            if self._closed:
                raise Stopped
            self._waiting = question.answer
        self.left.put(question)
        return question.answer.result()

    def answer(self, question: _BridgedCall, answer: HostAnswer | Exception) -> None:
        if self._closed:
            return
        if isinstance(answer, Exception):
            question.answer.set_exception(answer)
        else:
            question.answer.set_result(answer)

    def close(self) -> None:
        """Who asks, or was not answered yet, is told that nobody is there any more."""
        with self._lock:
            self._closed = True
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_exception(Stopped())


class ThreadBridge:
    """Asks ``host``."""

    def __init__(self, host: RemoteHostPort) -> None:
        self._host = host
        self._desk = threading.local()
        self._open: set[_BridgeServer] = set()

    def ask(self, text: str, given: bytes = b"") -> HostAnswer:
        """See ``RemoteHostPort.ask``. For work ``within``; raises ``Stopped`` if nobody waits for that, and what the host raises."""
        desk: _BridgeServer = self._desk.at
        return desk.ask(text, given, changes=False)

    def change(self, text: str, given: bytes = b"") -> HostAnswer:
        """As ``ask``, but see ``RemoteHostPort.change``."""
        desk: _BridgeServer = self._desk.at
        return desk.ask(text, given, changes=True)

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """What the work returns or raises, which is done in a thread. If this is cancelled, it gets no more answers."""
        outcome: Future[T] = Future()
        desk = _BridgeServer()

        def begin() -> None:
            self._desk.at = desk
            try:
                outcome.set_result(work())
            except BaseException as error:  # noqa: BLE001 — raised again by whoever waits
                outcome.set_exception(error)
            desk.left.put(None)

        self._open.add(desk)
        threading.Thread(target=begin, daemon=True).start()
        try:
            while question := await anyio.to_thread.run_sync(desk.left.get, abandon_on_cancel=True):
                try:
                    put = self._host.change if question.changes else self._host.ask
                    answer = await put(question.text, given=question.given)
                except Exception as error:  # noqa: BLE001 — raised again by who asked
                    desk.answer(question, error)
                else:
                    desk.answer(question, answer)
            return outcome.result()
        finally:
            self._open.remove(desk)
            desk.close()

    def cancel(self) -> None:
        """No work gets an answer any more. For the thread of the event loop."""
        for desk in self._open:
            desk.close()
