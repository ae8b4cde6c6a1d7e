"""Converts a recording to a scenario file that repeats its answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import field

from mock_llm_server import templates
from mock_llm_server.conversation import ChatRequest, Conversation, read_conversation
from mock_llm_server.recording import Exchange, ResponseRecord
from mock_llm_server.scenarios import (
    OWN_HEADERS,
    Function,
    Match,
    Response,
    Scenario,
    Script,
    StatusFault,
    Step,
    ToolCall,
    Usage,
)

_NOT_RECORDED = Step(fault=StatusFault(status=404, body="The recording does not contain this step."))


class RecordingError(ValueError):
    """An unreadable recording. The message names the file and the line."""


class RecordedAnswer(msgspec.Struct, frozen=True):
    """A recorded answer: verbatim, and as a response if it was complete and valid."""

    raw: StatusFault
    response: Response | None
    delay_ms: float
    token_delay_ms: float


class _Key(msgspec.Struct, frozen=True):
    """Requests with the same key belong to one scenario."""

    user: str
    turn: int
    model: str


class Replay(msgspec.Struct):
    """A script. ``skipped`` describes the exchanges that it does not contain."""

    script: Script
    skipped: list[str] = field(default_factory=list[str])


def read(path: Path) -> Iterator[Exchange]:
    """Read the exchanges of a recording. Raises ``RecordingError`` and ``OSError``."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield msgspec.json.decode(line, type=Exchange)
            except (msgspec.DecodeError, RecursionError) as error:
                raise RecordingError(
                    f"{path}:{number}: this line is not a recorded exchange: {error}"
                ) from error


def script_from(exchanges: Iterable[Exchange], *, timing: bool = False) -> Replay:
    """Build a script that repeats the recorded answers.

    If one request was answered several times, the answers come in the recorded order, and then the last one always. With
    ``timing``, the answers keep their pace.
    """
    recorded = Replay(Script(scenarios=[]))
    groups: dict[_Key, dict[int, list[RecordedAnswer]]] = defaultdict(lambda: defaultdict(list))
    for number, exchange in enumerate(exchanges, 1):
        conversation = _conversation(exchange)
        if conversation is None:
            continue
        try:
            answer = _answer(exchange)
        except ValueError as error:
            recorded.skipped.append(f"exchange {number}: {error}")
            continue
        groups[_Key(conversation.user, conversation.turn, conversation.model)][
            len(conversation.tool_results)
        ].append(answer)
    models = {key.model for key in groups}
    turns: dict[str, set[int]] = defaultdict(set)
    for key in groups:
        turns[key.user].add(key.turn)
    scenarios = [
        _scenario(
            key,
            f"recorded {number}",
            list(_steps(answers, f"recorded {number}", recorded.skipped, timing=timing)),
            Match(
                model=key.model if len(models) > 1 else None,
                turn=key.turn if len(turns[key.user]) > 1 else None,
            ),
        )
        for number, (key, answers) in enumerate(groups.items(), 1)
    ]
    # The longest trigger first: a shorter one may be part of it.
    scenarios.sort(key=lambda scenario: -len(scenario.trigger or ""))
    recorded.script = Script(
        scenarios=[scenario for scenario in scenarios if scenario.steps],
        default_response=Response(content="The recording does not contain an answer to this message."),
        models=[*sorted(models)],
        description="Made from a recording.",
    )
    return recorded


def _conversation(exchange: Exchange) -> Conversation | None:
    """The conversation of an exchange; None if it is not a chat completion."""
    if not exchange.request.path.endswith("/chat/completions"):
        return None
    try:
        return read_conversation(msgspec.convert(exchange.request.body, type=ChatRequest))
    except msgspec.ValidationError:
        return None


def _scenario(key: _Key, name: str, steps: list[Step], match: Match) -> Scenario:
    if key.user:
        return Scenario(name=name, trigger=key.user, match=match, steps=steps)
    return Scenario(name=name, trigger_regex=r"\A\Z", match=match, steps=steps)


def _steps(
    answers: dict[int, list[RecordedAnswer]], name: str, skipped: list[str], *, timing: bool
) -> Iterator[Step]:
    """The steps of a scenario. ``answers`` maps the number of earlier tool results to the recorded answers."""
    results = 0
    for count in sorted(answers):
        if count < results:
            skipped.append(
                f"{name}: the answer after {count} tool results, because other calls had no result yet"
            )
            continue
        for _ in range(results, count):
            yield _NOT_RECORDED
        step = _step(answers[count], timing=timing)
        yield step
        results = count + max(1, len(step.response.tool_calls) if step.response else 0)


def _step(answers: list[RecordedAnswer], *, timing: bool) -> Step:
    last = answers[-1]
    if all(answer.response == last.response for answer in answers) and last.response:
        answers = [last]
    faults = [msgspec.structs.replace(answer.raw, times=1) for answer in answers[:-1]]
    if last.response is None:
        faults.append(last.raw)
    strings = templates.strings(msgspec.to_builtins(last.response))
    return Step(
        response=last.response,
        fault=(faults[0] if len(faults) == 1 else [*faults]) if faults else None,
        literal=any(templates.has_template(text) for text in strings),
        delay_ms=last.delay_ms if timing else 0,
        token_delay_ms=last.token_delay_ms if timing else 0,
    )


def _answer(exchange: Exchange) -> RecordedAnswer:
    """Raises ``ValueError`` if the answer cannot be repeated."""
    response = exchange.response
    if response.cut:
        raise ValueError("the answer was too long to record")
    whole = _response(response)
    if whole is None and response.ending == "client left":
        raise ValueError("the client disconnected before the answer was complete")
    headers = {
        name: value
        for name, value in response.headers.items()
        if name.lower() not in OWN_HEADERS and value != "***"
    }
    pieces = [chunk.data for chunk in response.chunks]
    raw = StatusFault(status=response.status, headers=headers, body=pieces, reset=response.ending == "reset")
    times = [chunk.ms for chunk in response.chunks]
    gap = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 0
    first = times[0] if times else 0
    return RecordedAnswer(raw, whole, round(first, 1), round(max(gap, 0), 1))


def _response(response: ResponseRecord) -> Response | None:
    """The answer as a response; None if it was an error, was incomplete, or has fields that a response cannot express.

    A client may disconnect after the last event, before the body ends.
    """
    if response.status != 200 or response.ending == "reset":
        return None
    content_type = response.headers.get("content-type", "")
    try:
        if content_type.startswith("text/event-stream"):
            return _from_stream(response.text)
        if content_type.startswith("application/json"):
            return _from_completion(msgspec.json.decode(response.text, type=_Completion))
    except (msgspec.DecodeError, RecursionError):
        pass
    return None


# The fields of an answer that are used.


class _FunctionPart(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _CallPart(msgspec.Struct):
    index: int = 0
    id: str | None = None
    function: _FunctionPart = field(default_factory=_FunctionPart)


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_CallPart] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta = field(default_factory=_Delta)
    message: _Delta = field(default_factory=_Delta)
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    usage: dict[str, Any] | None = None


def _from_completion(completion: _Completion) -> Response | None:
    if not completion.choices or completion.choices[0].finish_reason is None:
        return None
    choice = completion.choices[0]
    message = choice.message
    calls = [_call(part.id, part.function) for part in message.tool_calls or []]
    return _build_response(message, calls, choice.finish_reason, completion.usage)


def _from_stream(text: str) -> Response | None:
    lines = [line.removeprefix("data:").strip() for line in text.split("\n") if line.startswith("data:")]
    if not lines or lines[-1] != "[DONE]":
        return None
    whole = _Delta()
    parts: dict[int, _CallPart] = {}
    finish_reason = usage = None
    for line in lines[:-1]:
        chunk = msgspec.json.decode(line, type=_Completion)
        usage = chunk.usage or usage
        for choice in chunk.choices[:1]:
            finish_reason = choice.finish_reason or finish_reason
            for name in ("content", "reasoning_content", "reasoning"):
                setattr(whole, name, _joined(getattr(whole, name), getattr(choice.delta, name)))
            for part in choice.delta.tool_calls or []:
                known = parts.setdefault(part.index, _CallPart())
                known.id = known.id or part.id
                known.function.name = known.function.name or part.function.name
                known.function.arguments = _joined(known.function.arguments, part.function.arguments)
    if finish_reason is None:
        return None
    calls = [_call(part.id, part.function) for _, part in sorted(parts.items())]
    return _build_response(whole, calls, finish_reason, usage)


def _joined(text: str | None, more: str | None) -> str | None:
    return text if more is None else (text or "") + more


def _call(call_id: str | None, function: _FunctionPart) -> ToolCall:
    return ToolCall(
        id=call_id, function=Function(name=function.name or "", arguments=function.arguments or "")
    )


def _build_response(
    message: _Delta, calls: list[ToolCall], finish_reason: str | None, usage: dict[str, Any] | None
) -> Response:
    """Raises ``msgspec.ValidationError`` for values that a response cannot express."""
    fields: dict[str, Any] = {
        "content": message.content,
        "reasoning_content": message.reasoning_content,
        "reasoning": message.reasoning,
        "tool_calls": msgspec.to_builtins(calls),
    }
    if finish_reason != ("tool_calls" if calls else "stop"):
        fields["finish_reason"] = finish_reason
    if usage:
        fields["usage"] = {
            name: usage[name] for name in Usage.__struct_fields__ if usage.get(name) is not None
        }
    return msgspec.convert(fields, type=Response)
