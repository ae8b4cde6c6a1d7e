"""If these fail, a model's reasoning is shown as its answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from newel.agent.events import MessageEnd, MessageUpdate, TextDelta, ThinkingDelta
from newel.agent.messages import AssistantMessage, ThinkingContent, UserMessage
from newel.runs.models import LiveSnapshot, SequencedEvent
from newel.workbench.tab_reader import Frame, follow
from tests.integration.workbench.conftest import Bench
from tests.support import scenario

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "response",
    [
        {"reasoning": "It is a greeting.", "content": "Good day."},
        {"reasoning_content": "It is a greeting.", "content": "Good day."},
        {"content": "<think>It is a greeting.</think>Good day."},
        {"content": "<thinking>It is a greeting.</thinking>Good day."},
    ],
    ids=["reasoning", "reasoning_content", "think", "thinking"],
)
async def test_reasoning_is_never_part_of_the_answer(
    bench_with: Callable[..., Bench], response: dict[str, Any]
) -> None:
    bench = bench_with(scenario("hello", {"response": response, "token_delay_ms": 1}))
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        frames = follow(workbench.tab(tab.id))
        await anext(frames)
        await workbench.tab(tab.id).send(UserMessage(content="hello"))
        with anyio.fail_after(8):
            thought, said, message = await read(frames)
    assert (thought, said, message.text) == ("It is a greeting.", "Good day.", "Good day.")
    kept = [part.thinking for part in message.content if isinstance(part, ThinkingContent)]
    assert kept == ["It is a greeting."]


async def read(frames: AsyncGenerator[Frame]) -> tuple[str, str, AssistantMessage]:
    """The deltas of reasoning and text up to an assistant's message, and that message."""
    thought = said = ""
    async with aclosing(frames):
        async for frame in frames:
            match frame:
                case SequencedEvent(event=MessageUpdate(assistant_message_event=ThinkingDelta(piece))):
                    thought += piece
                case SequencedEvent(event=MessageUpdate(assistant_message_event=TextDelta(piece))):
                    said += piece
                case SequencedEvent(event=MessageEnd(message=AssistantMessage() as message)):
                    return thought, said, message
                case SequencedEvent(
                    event=LiveSnapshot(message=AssistantMessage() as message)
                ):  # the run was faster
                    thought = "".join(
                        part.thinking for part in message.content if isinstance(part, ThinkingContent)
                    )
                    said = message.text
                case _:
                    pass
    raise AssertionError("no message came")
