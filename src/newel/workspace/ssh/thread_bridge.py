"""Lets a thread send requests to a host through the task that waits for the thread.

A cancelled task therefore leaves no thread behind that waits for an answer, and no request is sent on its behalf. Unlike
``anyio.from_thread``, the event loop's thread can also cut the work off without running the loop (``cancel``).
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

import anyio.to_thread

from newel.workspace.snapshots.port import ScanCancelled
from newel.workspace.ssh.port import HostAnswer, RemoteHostPort

T = TypeVar("T")


_BridgedCall = tuple[Callable[[], Awaitable[HostAnswer]], Future[HostAnswer]]


class _Calls:
    """The calls of one thread, with None at the end of its work."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[_BridgedCall | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._waiting: Future[HostAnswer] | None = None

    def call(self, ask: Callable[[], Awaitable[HostAnswer]]) -> HostAnswer:
        answer: Future[HostAnswer] = Future()
        with self._lock:
            if self._closed:
                raise ScanCancelled
            self._waiting = answer
        self.queue.put((ask, answer))
        return answer.result()

    def close(self) -> None:
        """Make pending and later calls raise ``ScanCancelled``."""
        with self._lock:
            self._closed = True
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_exception(ScanCancelled())


class ThreadBridge:
    """Sends requests to ``host``."""

    def __init__(self, host: RemoteHostPort) -> None:
        self._host = host
        self._thread = threading.local()
        self._open: set[_Calls] = set()

    def ask(self, text: str, stdin: bytes = b"") -> HostAnswer:
        """See ``RemoteHostPort.ask``. Only within ``run_in_thread``; raises ``ScanCancelled`` if its caller is gone, and what the host
        raises.
        """
        calls: _Calls = self._thread.calls
        return calls.call(partial(self._host.ask, text, stdin=stdin))

    def change(self, text: str, stdin: bytes = b"") -> HostAnswer:
        """As ``ask``, but see ``RemoteHostPort.change``."""
        calls: _Calls = self._thread.calls
        return calls.call(partial(self._host.change, text, stdin=stdin))

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """Run work in a thread and return its result. If this is cancelled, its requests raise ``ScanCancelled``."""
        outcome: Future[T] = Future()
        calls = _Calls()

        def run() -> None:
            self._thread.calls = calls
            try:
                outcome.set_result(work())
            except BaseException as error:  # noqa: BLE001 — raised again in the caller
                outcome.set_exception(error)
            calls.queue.put(None)

        self._open.add(calls)
        threading.Thread(target=run, daemon=True).start()
        try:
            # A cancelled caller does not wait for the thread: its next request raises, which ends it.
            while call := await anyio.to_thread.run_sync(calls.queue.get, abandon_on_cancel=True):
                ask, answer = call
                try:
                    data = await ask()
                except Exception as error:  # noqa: BLE001 — raised again in the thread
                    if not answer.done():  # as it is after `cancel`
                        answer.set_exception(error)
                else:
                    if not answer.done():
                        answer.set_result(data)
            return outcome.result()
        finally:
            self._open.remove(calls)
            calls.close()

    def cancel(self) -> None:
        """Make all requests raise ``ScanCancelled``. For the event loop's thread."""
        for calls in self._open:
            calls.close()
