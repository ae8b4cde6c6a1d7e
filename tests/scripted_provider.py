"""A provider that answers from a script, for tests of everything that needs a model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator

from newel.agent.errors import BadResponse
from newel.agent.events import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from newel.agent.messages import AssistantMessage, TextContent, ThinkingContent, ToolCall
from newel.agent.ports import ModelRequest, OnDelta
from newel.text.json import to_json

Answer = (
    AssistantMessage | Exception | Callable[[ModelRequest], AssistantMessage | Awaitable[AssistantMessage]]
)
"""A message, an error to raise, or a function that creates the message, and may wait or raise."""

PIECE = 16
"""Characters of a delta."""


class ScriptedProvider:
    """A ``Provider`` that returns one answer of ``script`` per request; ``requests`` records the requests."""

    def __init__(self, script: Iterable[Answer]) -> None:
        self._script = list(script)
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """The next answer, with its deltas first. Raises ``BadResponse`` at the end of the script."""
        self.requests.append(request)
        if len(self.requests) > len(self._script):
            raise BadResponse(
                f"The script has {len(self._script)} answers; this is request {len(self.requests)}."
            )
        answer = self._script[len(self.requests) - 1]
        if isinstance(answer, Exception):
            raise answer
        made = answer if isinstance(answer, AssistantMessage) else answer(request)
        message = made if isinstance(made, AssistantMessage) else await made
        for delta in deltas(message):
            await on_delta(delta)
        return message


def deltas(message: AssistantMessage) -> Iterator[Delta]:
    """The message split into deltas, as a server would send it."""
    calls = 0
    for part in message.content:
        match part:
            case TextContent():
                yield from (TextDelta(piece) for piece in _pieces(part.text))
            case ThinkingContent():
                yield from (ThinkingDelta(piece) for piece in _pieces(part.thinking))
            case ToolCall():
                yield ToolCallDelta(index=calls, name=part.name)
                yield from (
                    ToolCallDelta(index=calls, delta=piece)
                    for piece in _pieces(to_json(part.arguments).decode())
                )
                calls += 1


def _pieces(text: str) -> Iterator[str]:
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))
