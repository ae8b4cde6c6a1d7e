"""A scripted response as the answer to a request: with filled templates, ids and token counts. No API is involved yet."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from mock_llm_server import templates
from mock_llm_server.conversation import ChatRequest
from mock_llm_server.scenarios import Function, Response, ToolCall

_TOKEN = re.compile(r"\s*\S{1,16}|\s+")
ARGUMENT_PIECE = 12
"""Characters of arguments in one event."""


class Call(msgspec.Struct, frozen=True):
    id: str
    name: str
    arguments: str


class Answer(msgspec.Struct, frozen=True):
    """A response with filled templates, ids and token counts. ``reasoning`` maps the name of a field to its text; ``request`` is
    the request that it answers.
    """

    id: str
    created: int
    model: str
    content: str | None
    reasoning: dict[str, str]
    calls: list[Call]
    finish_reason: str
    usage: dict[str, Any]
    request: ChatRequest


def fill_response(response: Response, values: Mapping[str, str]) -> Response:
    """Fill the templates of a response. Raises ``TemplateError``."""

    def fill(text: str | None) -> str | None:
        return None if text is None else templates.fill(text, values)

    return msgspec.structs.replace(
        response,
        content=fill(response.content),
        reasoning=fill(response.reasoning),
        reasoning_content=fill(response.reasoning_content),
        tool_calls=[_fill_call(call, values) for call in response.tool_calls],
    )


def _fill_call(call: ToolCall, values: Mapping[str, str]) -> ToolCall:
    arguments = templates.fill_arguments(call.function.arguments, values)
    return msgspec.structs.replace(
        call, function=Function(name=templates.fill(call.function.name, values), arguments=arguments)
    )


def build_answer(request: ChatRequest, response: Response) -> Answer:
    calls = [
        Call(
            call.id or f"call_{uuid.uuid4().hex[:24]}",
            call.function.name,
            _arguments_text(call.function.arguments),
        )
        for call in response.tool_calls
    ]
    fields = {"reasoning_content": response.reasoning_content, "reasoning": response.reasoning}
    reasoning = {name: text for name, text in fields.items() if text is not None}
    return Answer(
        id=f"mock-{uuid.uuid4().hex}",
        created=int(time.time()),
        model=request.model,
        content=response.content,
        reasoning=reasoning,
        calls=calls,
        finish_reason=response.finish_reason or ("tool_calls" if calls else "stop"),
        usage=_usage(request, response, [*reasoning.values(), *(call.arguments for call in calls)]),
        request=request,
    )


def _arguments_text(arguments: str | dict[str, Any]) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()


def _usage(request: ChatRequest, response: Response, texts: list[str]) -> dict[str, Any]:
    """The scripted counts; without any, one token per four characters, rounded up."""
    if response.usage:
        usage = response.usage
        total = usage.total_tokens
        scripted: dict[str, Any] = msgspec.to_builtins(usage)
        return scripted | {
            "total_tokens": usage.prompt_tokens + usage.completion_tokens if total is None else total
        }
    prompt = -(-sum(len(message.text) for message in request.messages) // 4)
    completion = -(-sum(map(len, [response.content or "", *texts])) // 4)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def tokens(text: str) -> list[str]:
    """Split a text into pieces of about a word."""
    return _TOKEN.findall(text)
