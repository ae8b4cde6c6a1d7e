"""What the clients of ``newel rpc`` return and raise: streams of events, finished runs, errors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Self

import anyio
import msgspec
from anyio.lowlevel import checkpoint

from newel.agent.errors import NewelError
from newel.agent.events import AgentEnd
from newel.agent.messages import AppMessage, AssistantMessage
from newel.terminal.rpc import protocol as p

MAX_EVENTS: Final = 100_000
"""Events that wait for the reader of a stream."""


# -- errors -------------------------------------------------------------------------------------------


class RpcClientError(NewelError):
    """Root of the errors of the client."""


class CommandFailed(RpcClientError):
    """Newel refused a command, or failed at it. ``failure`` has the code and the message."""

    def __init__(self, command: str, failure: p.RpcFailure) -> None:
        super().__init__(f"{command}: {failure.message}")
        self.command = command
        self.failure = failure


class CommandTimedOut(RpcClientError):
    """There was no response in time. The command may have been carried out, or may still be."""


class ProcessEnded(RpcClientError):
    """The process has ended. ``failure`` is the error that it reported at its start, if any; ``stderr`` its last output there."""

    def __init__(self, exit_code: int | None, stderr: str, failure: p.RpcFailure | None) -> None:
        how = f"ended with exit code {exit_code}" if exit_code is not None else "cannot be reached any more"
        said = failure.message if failure else stderr.strip()
        super().__init__(f"newel rpc {how}. It said: {said}" if said else f"newel rpc {how}.")
        self.exit_code = exit_code
        self.stderr = stderr
        self.failure = failure


class EventsLost(RpcClientError):
    """A stream's reader was too slow, and its oldest events do not fit into memory."""


# -- events -------------------------------------------------------------------------------------------


class OtherEvent(msgspec.Struct, frozen=True):
    """An event of a newer Newel; ``type`` is that of ``fields``."""

    type: str
    fields: dict[str, Any]


ClientEvent = p.RpcEvent | OtherEvent


class RpcEventStream:
    """The events from the stream's creation on, as an async iterator. It ends when the client is closed, and raises
    ``ProcessEnded`` if the process ends before, ``EventsLost`` if its reader is too slow.
    """

    def __init__(self, leave: Callable[[RpcEventStream], None]) -> None:
        self._leave = leave
        self._events: deque[ClientEvent] = deque()
        self._more = anyio.Event()
        self._has_ended = False
        self._error: RpcClientError | None = None

    def put(self, event: ClientEvent) -> None:
        """Add an event for the reader."""
        if len(self._events) >= MAX_EVENTS:
            self.end(EventsLost(f"More than {MAX_EVENTS:,} events have not been read. Read them faster."))
        else:
            self._events.append(event)
            self._more.set()

    def holds(self, kind: type[ClientEvent]) -> bool:
        """Whether such an event waits for the reader."""
        return any(isinstance(event, kind) for event in self._events)

    def end(self, error: RpcClientError | None) -> None:
        """Let the reader read what there is, and then this error."""
        self._leave(self)
        self._has_ended, self._error = True, error
        self._more.set()

    def close(self) -> None:
        """Take no more events."""
        self._events.clear()
        self.end(None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ClientEvent:
        await checkpoint()
        while not self._events:
            if self._error is not None:
                raise self._error
            if self._has_ended:
                raise StopAsyncIteration
            if self._more.is_set():  # else another reader waits for it
                self._more = anyio.Event()
            await self._more.wait()
        return self._events.popleft()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class RunResult(msgspec.Struct, frozen=True):
    """A finished run: its last event, and its messages from the prompt on."""

    end: AgentEnd
    messages: list[AppMessage]

    @property
    def text(self) -> str:
        """The text of the last answer."""
        answers = (message for message in reversed(self.messages) if isinstance(message, AssistantMessage))
        return next((answer.text for answer in answers), "")
