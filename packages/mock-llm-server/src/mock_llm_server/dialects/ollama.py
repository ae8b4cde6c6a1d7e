"""Ollama's own API: ``POST /api/chat``, ``/api/show`` and ``/api/pull``, ``GET /api/tags``, ``/api/ps`` and ``/api/version``.

A stream is one JSON object per line; its last line has ``done``, the reason and the counts. From ``api/types.go`` and
``server/routes.go`` of Ollama v0.33.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from mock_llm_server.answer import Answer, Call, tokens
from mock_llm_server.conversation import ChatRequest, Message, Problem
from mock_llm_server.dialects.base import Dialect
from mock_llm_server.http1 import Request
from mock_llm_server.reply import Piece, Reply, json_reply
from mock_llm_server.scenarios import Script, ServedModel

NDJSON = "application/x-ndjson"
DEFAULT_CONTEXT = 4096
"""Tokens of a context for which a request sets no ``num_ctx``."""

_CHAT = "/api/chat"
_ROLES = ("system", "user", "assistant", "tool")
_EPOCH = "2026-01-01T00:00:00Z"
_DIGEST = f"{0:064x}"
_OVERFLOW = (
    "the prompt is longer than the context length currently available to the model; shorten the prompt, adjust the "
    "context length in settings, or use a model with a longer context length"
)


class _Function(msgspec.Struct):
    name: str = ""
    arguments: dict[str, Any] = {}


class _ToolCall(msgspec.Struct):
    function: _Function
    id: str = ""


class _Message(msgspec.Struct):
    role: str = ""
    content: str | None = None
    thinking: str | None = None
    images: list[bytes] | None = None
    """Base64 on the wire."""
    tool_calls: list[_ToolCall] | None = None
    tool_name: str = ""
    tool_call_id: str = ""


class _ToolSpec(msgspec.Struct):
    function: dict[str, Any]
    type: str = "function"


class _ChatBody(msgspec.Struct):
    """A request, with the types that Ollama's decoder demands. It ignores unknown fields, and so does the server."""

    model: str
    messages: list[_Message] = []
    stream: bool | None = None
    think: bool | Literal["low", "medium", "high", "max"] | None = None
    tools: list[_ToolSpec] | None = None
    options: dict[str, Any] | None = None
    format: dict[str, Any] | str | None = None
    truncate: bool | None = None
    shift: bool | None = None
    keep_alive: str | float | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None

    @property
    def num_ctx(self) -> int:
        """The tokens of the context that the request asks for."""
        size = (self.options or {}).get("num_ctx")
        return size if isinstance(size, int) and size > 0 else DEFAULT_CONTEXT

    def size(self) -> int:
        """The tokens of the conversation: one per four bytes of text."""
        return sum(len((message.content or "").encode()) for message in self.messages) // 4


class _ModelBody(msgspec.Struct):
    """A request about a model; ``name`` is the old name of the field."""

    model: str = ""
    name: str = ""
    stream: bool | None = None


class Ollama(Dialect):
    """See ``mock_llm_server.dialects.base.Dialect``."""

    path = _CHAT
    content_type = NDJSON
    end = b""
    closing = 1

    def handles(self, request: Request) -> bool:
        return request.path == _CHAT

    def read(self, request: Request) -> ChatRequest:
        body = _body(request)
        messages = [Message(each.role.lower(), each.content) for each in body.messages]
        return ChatRequest(messages, body.model, stream=body.stream is not False)

    def refusal(
        self,
        request: Request,
        conversation: ChatRequest,  # noqa: ARG002 — the port's shape
        script: Script,
    ) -> Reply | None:
        body = _body(request)
        model = _find(script.served_models, body.model)
        if model is None:
            return self.error(404, f"model '{body.model}' not found")
        if body.think and "thinking" not in model.capabilities:
            return self.error(400, f'"{body.model}" does not support thinking')
        if body.tools and "tools" not in model.capabilities:
            return self.error(400, f"registry.ollama.ai/library/{body.model} does not support tools")
        if "vision" not in model.capabilities and any(each.images for each in body.messages):
            return self.error(500, "image input is not supported")
        if body.truncate is False and body.size() > min(body.num_ctx, model.context_length):
            return self.error(400, _OVERFLOW)
        return None

    def problem(self, request: Request, conversation: ChatRequest) -> Problem | None:  # noqa: ARG002 — the port's shape
        body = _body(request)
        if body.truncate is not False and body.size() > body.num_ctx:
            return (
                "truncate",
                f"The conversation has more than {body.num_ctx} tokens: Ollama would drop its oldest messages silently.",
            )
        return _unknown_field(msgspec.json.decode(request.body)) or _history_problem(body.messages)

    def query(self, request: Request, script: Script) -> Reply | None:
        models = script.served_models
        match request.path:
            case "/api/version" if script.ollama_version:
                return json_reply(200, {"version": script.ollama_version})
            case "/api/tags":
                return json_reply(200, {"models": [_listed(model) for model in models]})
            case "/api/ps":
                loaded = [_loaded(model) for model in models if model.loaded_context]
                return json_reply(200, {"models": loaded})
            case "/api/show" | "/api/pull":
                return msgspec.structs.replace(self._about_model(request, models), methods="POST")
            case _:
                return None

    def document(self, answer: Answer) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.content or ""}
        if thinking := _thinking(answer):
            message["thinking"] = thinking
        if answer.calls:
            message["tool_calls"] = [_call(call, index) for index, call in enumerate(answer.calls)]
        return _head(answer) | {"message": message} | _ending(answer)

    def events(self, answer: Answer, request: ChatRequest) -> Iterator[bytes]:  # noqa: ARG002 — the port's shape
        def part(**fields: Any) -> bytes:
            message = {"role": "assistant", "content": ""} | fields
            return _line(_head(answer) | {"message": message, "done": False})

        yield from (part(thinking=token) for token in tokens(_thinking(answer)))
        yield from (part(content=token) for token in tokens(answer.content or ""))
        yield from (part(tool_calls=[_call(call, index)]) for index, call in enumerate(answer.calls))
        yield _line(_head(answer) | {"message": {"role": "assistant", "content": ""}} | _ending(answer))

    def error(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,  # noqa: ARG002 — the port's shape
        code: str | None = None,  # noqa: ARG002
        headers: dict[str, str] | None = None,
    ) -> Reply:
        return json_reply(status, {"error": message}, headers)

    def stream_error(self, message: str, kind: str, code: str | None) -> dict[str, Any]:  # noqa: ARG002 — the port's shape
        return {"error": message}

    def error_event(self, error: dict[str, Any]) -> bytes:
        return _line(error)

    def _about_model(self, request: Request, models: Sequence[ServedModel]) -> Reply:
        try:
            body = msgspec.json.decode(request.body or b"{}", type=_ModelBody)
        except (msgspec.DecodeError, RecursionError) as error:
            return self.error(400, str(error))
        name = body.model or body.name
        model = _find(models, name)
        if not name:
            return self.error(400, "model is required")
        if request.path == "/api/pull":
            return _pull(model, streamed=body.stream is not False)
        return json_reply(200, _shown(model)) if model else self.error(404, f"model '{name}' not found")


def _body(request: Request) -> _ChatBody:
    return msgspec.json.decode(request.body, type=_ChatBody)


def _full_name(name: str) -> str:
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _find(models: Sequence[ServedModel], name: str) -> ServedModel | None:
    full = _full_name(name)
    return next((model for model in models if _full_name(model.name) == full), None)


def _unknown_field(body: dict[str, Any]) -> Problem | None:
    """A field that Ollama ignores, such as one of another API, so that its content would be lost."""
    messages = [(f"messages[{i}].", message, _Message) for i, message in enumerate(body["messages"])]
    for where, fields, known in [("", body, _ChatBody), *messages]:
        for name in fields.keys() - set(known.__struct_fields__):
            return f"{where}{name}", f"Ollama would ignore the field {where}{name}."
    return None


def _history_problem(messages: list[_Message]) -> Problem | None:
    """What Ollama accepts, but a model's template then drops or shows at the wrong place."""
    open_calls: list[_ToolCall] = []
    for i, message in enumerate(messages):
        where = f"messages[{i}]"
        role = message.role.lower()
        if role not in _ROLES:
            return f"{where}.role", f"No template knows the role {message.role!r}; use {', '.join(_ROLES)}."
        if role == "tool":
            answered = next((call for call in open_calls if _answers(message, call)), None)
            if not message.tool_name:
                return f"{where}.tool_name", "A tool message needs the name of its tool."
            if answered is None:
                return f"{where}.role", "A tool message must be the result of a preceding call."
            open_calls.remove(answered)
            continue
        if open_calls:
            break
        if any(not call.function.name for call in message.tool_calls or []):
            return f"{where}.tool_calls", "A call needs the name of its function."
        if role == "assistant" and not (message.content or message.tool_calls):
            return f"{where}.content", "The message is empty."
        open_calls = list(message.tool_calls or [])
    if open_calls:
        missing = ", ".join(call.id or call.function.name for call in open_calls)
        return "messages", f"Each call needs a tool message right after it. Missing: {missing}."
    return None


def _answers(result: _Message, call: _ToolCall) -> bool:
    """Whether a message is the result of a call. Ids are optional in this API."""
    if result.tool_call_id and call.id:
        return result.tool_call_id == call.id
    return result.tool_name == call.function.name


def _thinking(answer: Answer) -> str:
    return "".join(answer.reasoning.values())


def _call(call: Call, index: int) -> dict[str, Any]:
    """A call; arguments that are no JSON object, which only a fault makes, are sent as text."""
    try:
        arguments = msgspec.json.decode(call.arguments, type=dict[str, Any])
    except msgspec.DecodeError:
        arguments = call.arguments
    return {"id": call.id, "function": {"index": index, "name": call.name, "arguments": arguments}}


def _head(answer: Answer) -> dict[str, Any]:
    created = datetime.fromtimestamp(answer.created, UTC).isoformat().replace("+00:00", "Z")
    return {"model": answer.model, "created_at": created}


def _ending(answer: Answer) -> dict[str, Any]:
    """The last fields; durations are in nanoseconds. A model that calls tools stops like any other."""
    return {
        "done": True,
        "done_reason": "length" if answer.finish_reason == "length" else "stop",
        "total_duration": 4_000_000,
        "load_duration": 1_000_000,
        "prompt_eval_count": answer.usage["prompt_tokens"],
        "prompt_eval_duration": 1_000_000,
        "eval_count": answer.usage["completion_tokens"],
        "eval_duration": 2_000_000,
    }


def _line(value: Any) -> bytes:
    return msgspec.json.encode(value) + b"\n"


_DETAILS = {
    "parent_model": "",
    "format": "gguf",
    "family": "mock",
    "families": ["mock"],
    "parameter_size": "1B",
    "quantization_level": "Q4_K_M",
}


def _listed(model: ServedModel) -> dict[str, Any]:
    name = _full_name(model.name)
    return {
        "name": name,
        "model": name,
        "modified_at": _EPOCH,
        "size": 1_000_000_000,
        "digest": _DIGEST,
        "details": _DETAILS,
    }


def _loaded(model: ServedModel) -> dict[str, Any]:
    listed = {name: value for name, value in _listed(model).items() if name != "modified_at"}
    return listed | {
        "expires_at": _EPOCH,
        "size_vram": listed["size"],
        "context_length": model.loaded_context,
    }


def _shown(model: ServedModel) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "modelfile": "",
        "template": "{{ .Prompt }}",
        "details": _DETAILS,
        "model_info": {"general.architecture": "mock", "mock.context_length": model.context_length},
        "capabilities": model.capabilities,
        "modified_at": _EPOCH,
    }
    return shown | ({"parameters": f"num_ctx {model.num_ctx}"} if model.num_ctx else {})


def _pull(model: ServedModel | None, *, streamed: bool) -> Reply:
    """The download of a model of the list; another one does not exist in the library."""
    if model is None:
        problem = {"error": "pull model manifest: file does not exist"}
        if not streamed:
            return json_reply(500, problem)
        lines = [{"status": "pulling manifest"}, problem]
    else:
        layer = {"status": f"pulling {_DIGEST[:12]}", "digest": f"sha256:{_DIGEST}", "total": 1_000_000_000}
        progress = [layer | {"completed": part * 500_000_000} for part in range(3)]
        lines = [{"status": "pulling manifest"}, *progress, {"status": "success"}]
    if not streamed:
        return json_reply(200, lines[-1])
    return Reply(200, {"content-type": NDJSON}, [Piece(_line(line)) for line in lines])
