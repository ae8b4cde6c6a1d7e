"""Lets a thread send requests to a host through the task that waits for the thread.

A cancelled task therefore leaves no thread behind that waits for an answer, and no request is sent on its behalf. Unlike
``anyio.from_thread``, the event loop's thread can also cut the work off without running the loop (``cancel``).
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
    """Queue for the calls of one thread, with None at the end of its work."""

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
        """Make pending and later calls raise ``Stopped``."""
        with self._lock:
            self._closed = True
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_exception(Stopped())


class ThreadBridge:
    """Sends requests to ``host``."""

    def __init__(self, host: RemoteHostPort) -> None:
        self._host = host
        self._desk = threading.local()
        self._open: set[_BridgeServer] = set()

    def ask(self, text: str, given: bytes = b"") -> HostAnswer:
        """See ``RemoteHostPort.ask``. Only within ``run_in_thread``; raises ``Stopped`` if its caller is gone, and what the host raises."""
        desk: _BridgeServer = self._desk.at
        return desk.ask(text, given, changes=False)

    def change(self, text: str, given: bytes = b"") -> HostAnswer:
        """As ``ask``, but see ``RemoteHostPort.change``."""
        desk: _BridgeServer = self._desk.at
        return desk.ask(text, given, changes=True)

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """Run work in a thread and return its result. If this is cancelled, its requests raise ``Stopped``."""
        outcome: Future[T] = Future()
        desk = _BridgeServer()

        def begin() -> None:
            self._desk.at = desk
            try:
                outcome.set_result(work())
            except BaseException as error:  # noqa: BLE001 — raised again in the caller
                outcome.set_exception(error)
            desk.left.put(None)

        self._open.add(desk)
        threading.Thread(target=begin, daemon=True).start()
        try:
            while question := await anyio.to_thread.run_sync(desk.left.get, abandon_on_cancel=True):
                try:
                    put = self._host.change if question.changes else self._host.ask
                    answer = await put(question.text, given=question.given)
                except Exception as error:  # noqa: BLE001 — raised again in the thread
                    desk.answer(question, error)
                else:
                    desk.answer(question, answer)
            return outcome.result()
        finally:
            self._open.remove(desk)
            desk.close()

    def cancel(self) -> None:
        """Make all requests raise ``Stopped``. For the event loop's thread."""
        for desk in self._open:
            desk.close()
