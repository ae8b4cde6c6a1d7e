"""Calls functions of the user's, and describes how they fail."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, Final, TypeVar, cast

import anyio
import anyio.from_thread
import anyio.lowlevel

T = TypeVar("T")

TOO_LONG_S: Final = 1.0
"""In which no key is read, and nothing else goes on."""
HELD_UP: Final = "blocked all of Newel for {seconds:.1f} s. Leave out `async`, so that it runs in a thread, or await what takes long"


async def call_function(function: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
    """Call a function of the user's: one that is not ``async`` in a thread, so that it holds up nothing else. A cancellation does not end
    such a thread; it is no longer waited for, and does not keep Newel from ending. Raises what the function raises.
    """
    if iscoroutinefunction(function):
        return await function(*arguments, **more)
    answer = await _in_thread(lambda: function(*arguments, **more))
    return await cast("Awaitable[Any]", answer) if hasattr(answer, "__await__") else answer


class LoopWatch:
    """Measures for how long coroutines keep the event loop from all others. Costs two looks at the clock whenever one of them waits."""

    def __init__(self) -> None:
        self.longest = 0.0
        """Seconds."""

    def run(self, work: Awaitable[T]) -> Awaitable[T]:
        """To be awaited in place of ``work``."""
        return _WatchedCoroutine(_awaited(work), self)

    @property
    def problem(self) -> str:
        """What the user has to know; empty if there is nothing."""
        return HELD_UP.format(seconds=self.longest) if self.longest > TOO_LONG_S else ""


async def _awaited(work: Awaitable[T]) -> T:
    return await work


class _WatchedCoroutine(Awaitable[T]):
    def __init__(self, work: Coroutine[Any, Any, T], watch: LoopWatch) -> None:
        self._work = work
        self._watch = watch

    def __await__(self) -> Generator[Any, Any, T]:
        step = partial(self._work.send, None)
        while True:
            began = time.monotonic()
            try:
                waits_for = step()
            except StopIteration as end:
                return end.value
            finally:
                self._watch.longest = max(self._watch.longest, time.monotonic() - began)
            try:
                sent = yield waits_for
            except GeneratorExit:
                self._work.close()
                raise
            except BaseException as error:  # noqa: BLE001 — raised where the coroutine waits, such as a cancellation
                step = partial(self._work.throw, error)
            else:
                step = partial(self._work.send, sent)


async def _in_thread(work: Callable[[], T]) -> T:
    """A thread of its own: one of ``anyio`` would be waited for at the end of the program."""
    done, token, context = anyio.Event(), anyio.lowlevel.current_token(), copy_context()
    answers: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(context.run(work))
        except BaseException as error:  # noqa: BLE001 — raised where it is waited for
            failures.append(error)
        with suppress(RuntimeError):  # the event loop has ended
            anyio.from_thread.run_sync(done.set, token=token)

    threading.Thread(target=run, name="newel-extension", daemon=True).start()
    await done.wait()
    if failures:
        raise failures[0]
    return answers[0]


def describe_failure(error: BaseException, file: str = "") -> str:
    """An error of the user's code: its class, its text, and the place; see ``failure_place``."""
    where, line = failure_place(error, file)
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}{said and f': {said}'}{where and f' ({where}, line {line})'}"


def failure_place(error: BaseException, file: str = "") -> tuple[str, int]:
    """The last line of a file that led to an error; without one, the last outside of Newel. Else the file and line 1."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno or 1
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == file] or [
        frame for frame in frames if not frame.filename.startswith((_NEWEL, "<"))
    ]
    return (own[-1].filename, own[-1].lineno or 1) if own else (file, 1)


_NEWEL: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # noqa: PTH100, PTH120 — a text
