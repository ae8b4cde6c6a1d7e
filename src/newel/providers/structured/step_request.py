"""Asks a model for one step, which its server holds to a JSON Schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from newel.agent.events import Delta, Retry, TextDelta
from newel.agent.messages import (
    AssistantMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    UserMessage,
    add_costs,
)
from newel.agent.ports import ModelRequest, OnDelta, Provider, ProviderEvent
from newel.providers.parsing.text_tool_calls import find_calls
from newel.providers.parsing.tool_calls import ToolIndex, fresh_id
from newel.providers.structured.objections import MAX_OBJECTIONS, Objection, find_objection
from newel.providers.structured.step_prompt import as_steps, describe_steps, merge_users
from newel.providers.structured.step_schema import ANSWER, TEXT, step_schema
from newel.providers.structured.step_stream import StepStream
from newel.text.json import as_dict, as_str, find_object

ENDLESS: Final = "it repeated the same text without end. Send a short call, or do it in several steps."


async def request_step(provider: Provider, request: ModelRequest, on_delta: OnDelta) -> AssistantMessage:
    """Ask for a step, as an answer under a schema; see ``Provider.complete``.

    Four kinds of step are not accepted at once: one that repeats the last call, whether that succeeded or failed, an answer
    after a change or a command that failed, and one that only copies the prompt. The model is asked again with the reason: after a failure
    without that tool, and if it repeats a success twice, for nothing but its answer. A ``Retry`` without delay reports each.
    """
    steps = msgspec.structs.replace(
        request,
        system_prompt=describe_steps(request.short_prompt or request.system_prompt, request.tools),
        messages=as_steps(request.messages),
        tools=[],
        response_schema=step_schema(request.tools),
    )
    message = await _ask(provider, steps, request, on_delta)
    earlier: list[Objection] = []
    while len(earlier) < MAX_OBJECTIONS:
        objection = find_objection(message, request, earlier)
        if objection is None:
            break
        earlier.append(objection)
        await on_delta(
            Retry(attempt=len(earlier), max_attempts=MAX_OBJECTIONS, delay=0.0, reason=objection.reason)
        )
        again = msgspec.structs.replace(
            steps,
            messages=merge_users([*steps.messages, UserMessage(objection.hint)]),
            response_schema=step_schema(objection.tools),
        )
        message = _with_usage_of(message, await _ask(provider, again, request, on_delta))
    return message


async def _ask(
    provider: Provider, steps: ModelRequest, request: ModelRequest, on_delta: OnDelta
) -> AssistantMessage:
    """One answer to ``steps``, as the message that ``request`` asks for."""
    stream = StepStream()

    async def on_piece(event: ProviderEvent) -> None:
        nonlocal stream
        match event:
            case TextDelta(delta):
                for each in stream.feed(delta):
                    await on_delta(each)
                if stream.is_endless:
                    raise _EndlessStep
            case Retry():
                stream = StepStream()
                await on_delta(event)
            case _:
                await on_delta(event)

    try:
        answer = await provider.complete(steps, on_piece)
    except _EndlessStep:  # the connection is closed, so the server stops
        answer = AssistantMessage([], request.model.id, request.model.provider, stop_reason="length")
    step = _read_step(answer, stream, ToolIndex(request.tools))
    for each in step.late:
        await on_delta(each)
    return msgspec.structs.replace(
        answer,
        content=step.content,
        stop_reason="toolUse" if step.calls else answer.stop_reason,
    )


class _EndlessStep(Exception):
    """Ends a request whose answer repeats itself."""


class _ParsedStep(msgspec.Struct, frozen=True):
    """``late`` are deltas that the stream could not tell."""

    content: list[TextContent | ThinkingContent | ToolCall]
    calls: list[ToolCall]
    late: Sequence[Delta]


def _read_step(answer: AssistantMessage, stream: StepStream, tools: ToolIndex) -> _ParsedStep:
    """The step in an answer. An answer that is no step, as of a server that knows no schemas, is searched for calls; without any
    it is the model's last word.
    """
    text, late, calls = stream.text, list[Delta](), list[ToolCall]()
    is_cut = answer.stop_reason == "length"
    action = as_dict(find_object(answer.text).get("action"))
    name = as_str(action.get("tool")) or (stream.tool if is_cut else "")
    if name and name != ANSWER:
        arguments = {key: value for key, value in action.items() if key != "tool"}
        call = tools.call(fresh_id(), name, arguments, cut=is_cut)
        calls = [msgspec.structs.replace(call, problem=ENDLESS) if stream.is_endless else call]
    elif not name and not text:
        text, found = find_calls(answer.text, tools)
        calls = [tools.call(fresh_id(), each.name, each.arguments, repaired=each.repaired) for each in found]
        late = [TextDelta(text)] if text else []
    elif name == ANSWER and not text and (text := as_str(action.get(TEXT))):
        late = [TextDelta(text)]
    thoughts = [part for part in answer.content if isinstance(part, ThinkingContent)]
    content: list[TextContent | ThinkingContent | ToolCall] = [*thoughts]
    if stream.thought:
        content.append(ThinkingContent(stream.thought))
    if text:
        content.append(TextContent(text))
    return _ParsedStep([*content, *calls], calls, late)


def _with_usage_of(earlier: AssistantMessage, message: AssistantMessage) -> AssistantMessage:
    return msgspec.structs.replace(
        message, usage=earlier.usage + message.usage, cost=add_costs(earlier.cost, message.cost)
    )
