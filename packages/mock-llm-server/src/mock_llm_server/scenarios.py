"""The format of scenario files, and loading them. Errors name the file, the line and the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta, field

from mock_llm_server import templates
from mock_llm_server.json_location import explain, line_of

Count: TypeAlias = Annotated[int, Meta(ge=0)]
Milliseconds: TypeAlias = Annotated[float, Meta(ge=0, le=86_400_000)]
FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "function_call", "error"]

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x21-\xff]([\t\x20-\xff]*[\x21-\xff])?|")
OWN_HEADERS = {"content-length", "transfer-encoding", "connection"}


class ScenarioError(ValueError):
    """An unusable scenario file. ``line`` counts from 1; None if the error belongs to no line."""

    def __init__(self, file: str, line: int | None, reason: str) -> None:
        super().__init__(f"{file}:{line}: {reason}" if line else f"{file}: {reason}")
        self.file = file
        self.line = line
        self.reason = reason


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of all parts of a scenario file. An unknown field is an error."""


# -- responses -----------------------------------------------------------------------------------


class Function(Spec, frozen=True):
    name: str
    arguments: str | dict[str, Any] = "{}"
    """JSON text, sent verbatim, or an object."""


class ToolCall(Spec, frozen=True):
    function: Function
    id: str | None = None
    """Without an id, each answer gets a fresh one."""
    type: Literal["function"] = "function"


class Usage(Spec, frozen=True):
    prompt_tokens: Count
    completion_tokens: Count
    total_tokens: Count | None = None
    prompt_tokens_details: dict[str, Count | None] | None = None
    completion_tokens_details: dict[str, Count | None] | None = None


class Response(Spec, frozen=True):
    content: str | None = None
    tool_calls: list[ToolCall] = field(default_factory=list[ToolCall])
    reasoning_content: str | None = None
    reasoning: str | None = None
    finish_reason: FinishReason | None = None
    usage: Usage | None = None


# -- faults ---------------------------------------------------------------------------------------


class BaseFault(Spec, frozen=True, tag_field="kind"):
    times: Annotated[int, Meta(ge=1)] | None = None
    """How often it occurs after the server starts; None: always."""


class StatusFault(BaseFault, frozen=True, tag="status"):
    """Another status, headers and body. The strings of a list are sent one by one."""

    status: Annotated[int, Meta(ge=200, le=599)] = 500
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: str | list[str] | dict[str, Any] | None = None
    message: str | None = None
    """The message of the API's error, if there is no ``body``."""
    reset: bool = False
    """Reset the connection after the body instead of ending it."""

    def __post_init__(self) -> None:
        if self.status in {204, 205, 304}:
            raise ValueError(f"status {self.status} has no body; choose another")
        for name, value in self.headers.items():
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise ValueError(f"{name!r}: {value!r} is not a valid HTTP header")
            if name.lower() in OWN_HEADERS:
                raise ValueError(f"the server sets the header {name}; remove it")


class ResetFault(BaseFault, frozen=True, tag="reset"):
    """A TCP reset after ``after_chunks`` events; 0: before the first byte of the answer."""

    after_chunks: Count = 2


class StallFault(BaseFault, frozen=True, tag="stall"):
    """Silence after ``after_chunks`` events (0: before the first byte), for ``seconds`` or until the client disconnects."""

    after_chunks: Count = 2
    seconds: Annotated[float, Meta(ge=0, le=86_400)] | None = None


class TruncatedJsonFault(BaseFault, frozen=True, tag="truncated_json"):
    """A proper end of the body inside an event's JSON, after ``after_chunks`` events."""

    after_chunks: Count = 2


class EndEarlyFault(BaseFault, frozen=True, tag="end_early"):
    """A proper end of the body after ``after_chunks`` events, without finish_reason and [DONE]."""

    after_chunks: Count = 2


class MissingDoneFault(BaseFault, frozen=True, tag="missing_done"):
    """A complete stream without its ``data: [DONE]``."""


class MalformedArgumentsFault(BaseFault, frozen=True, tag="malformed_arguments"):
    """Tool calls with ``arguments`` that are not JSON; None: their own, cut in half."""

    arguments: str | None = None


class WrongContentTypeFault(BaseFault, frozen=True, tag="wrong_content_type"):
    content_type: str = "text/html; charset=utf-8"

    def __post_init__(self) -> None:
        if not _HEADER_VALUE.fullmatch(self.content_type):
            raise ValueError(f"{self.content_type!r} is not a valid header value")


class StreamErrorFault(BaseFault, frozen=True, tag="stream_error"):
    """An error object under status 200: in the stream after ``after_chunks`` events, or as the whole plain body."""

    after_chunks: Count = 2
    message: str = "The server had an error while processing your request."
    type: str = "server_error"
    code: str | None = None


class EndlessBodyFault(BaseFault, frozen=True, tag="endless_body"):
    """An endless body, sent as fast as the client reads it.

    ``junk`` is one line without an end, ``content`` repeats the first delta, ``comments`` repeats ``: ping``. A body that is
    not streamed is always junk.
    """

    of: Literal["junk", "content", "comments"] = "junk"


Fault: TypeAlias = (
    StatusFault
    | ResetFault
    | StallFault
    | TruncatedJsonFault
    | EndEarlyFault
    | MissingDoneFault
    | MalformedArgumentsFault
    | WrongContentTypeFault
    | StreamErrorFault
    | EndlessBodyFault
)


# -- steps and scenarios ---------------------------------------------------------------------------


class Step(Spec, frozen=True):
    """One answer. Several faults occur in order, each ``times`` times."""

    response: Response | None = None
    delay_ms: Milliseconds = 0
    """Before the first byte."""
    token_delay_ms: Milliseconds = 0
    """Before each further piece of text."""
    fault: Fault | list[Fault] | None = None
    literal: bool = False
    """Do not fill templates in this step."""

    def __post_init__(self) -> None:
        faults = self.faults
        if any(fault.times is None for fault in faults[:-1]):
            raise ValueError('only the last of several faults may omit "times"')
        calls = self.response.tool_calls if self.response else []
        if not calls and any(isinstance(fault, MalformedArgumentsFault) for fault in faults):
            raise ValueError('the fault "malformed_arguments" needs a response with tool_calls')
        only_faults = bool(faults) and faults[-1].times is None
        own_body = all(isinstance(fault, StatusFault) for fault in faults)
        if self.response is None and not (only_faults and own_body):
            raise ValueError('"response" is missing; only a step that always fails with a status may omit it')

    @property
    def faults(self) -> list[Fault]:
        if self.fault is None:
            return []
        return self.fault if isinstance(self.fault, list) else [self.fault]


class Match(Spec, frozen=True):
    """Further conditions, all of which must hold."""

    model: str | None = None
    """The exact name of the requested model."""
    system: str | None = None
    """A substring of the system prompt."""
    turn: Annotated[int, Meta(ge=1)] | None = None
    """The number of user messages in the conversation."""


class Scenario(Spec, frozen=True):
    """The answers to a user message that contains ``trigger`` and matches ``trigger_regex``."""

    name: str
    steps: Annotated[list[Step], Meta(min_length=1)]
    trigger: str | None = None
    trigger_regex: str | None = None
    match: Match = Match()
    loop: bool = False
    """The first step follows the last one, instead of the default response."""
    description: str = ""

    def __post_init__(self) -> None:
        if self.trigger is None and self.trigger_regex is None:
            raise ValueError(
                '"trigger" is missing (or "trigger_regex"); the empty trigger matches every message'
            )
        try:
            re.compile(self.trigger_regex or "")
        except re.error as error:
            raise ValueError(f"trigger_regex is not a valid regular expression: {error}") from error

    @property
    def groups(self) -> list[str]:
        """The groups of trigger_regex that templates can name: by number, then by name."""
        pattern = re.compile(self.trigger_regex or "")
        return [*map(str, range(1, pattern.groups + 1)), *pattern.groupindex]


_SORRY = "This is a mock server. It answers only what its scenarios describe."


class ServedModel(Spec, frozen=True):
    """A model in the lists of models. Sizes are in tokens; only some APIs report the fields besides ``name``."""

    name: str
    capabilities: list[str] = field(default_factory=lambda: ["completion", "tools", "thinking", "vision"])
    """Ollama refuses requests for others."""
    context_length: Annotated[int, Meta(ge=1)] = 131_072
    num_ctx: Annotated[int, Meta(ge=1)] | None = None
    """The context that Ollama's settings of the model ask for."""
    loaded_context: Annotated[int, Meta(ge=1)] | None = None
    """The context with which Ollama has loaded the model; None if it is not loaded."""


DEFAULT_MODEL = ServedModel(name="mock-model")


class Script(Spec, frozen=True):
    """A scenario file. The first scenario that matches a conversation answers it."""

    scenarios: list[Scenario]
    default_response: Response = Response(content=_SORRY)
    models: list[str | ServedModel] = field(default_factory=list[str | ServedModel])
    """Listed by GET /models, besides ``mock-model``. Requests may use any name, except those of Ollama's API."""
    responses_only: list[str] = field(default_factory=list[str])
    """Models that chat completions refuse, as OpenAI does for its coding models."""
    ollama_version: str | None = None
    """The answer of GET /api/version, by which clients recognize Ollama. Without it, the server does not pretend to be one."""
    description: str = ""

    @property
    def served_models(self) -> list[ServedModel]:
        """The models of all lists. An entry for ``mock-model`` replaces the default one."""
        models = {DEFAULT_MODEL.name: DEFAULT_MODEL}
        for entry in self.models:
            model = entry if isinstance(entry, ServedModel) else ServedModel(name=entry)
            models[model.name] = model
        return list(models.values())


# -- loading ---------------------------------------------------------------------------------------

BUNDLED = Path(__file__).with_name("scenarios.json")


def load(path: Path | None = None) -> Script:
    """Load a scenario file, or the bundled one. Raises ``ScenarioError``."""
    path = BUNDLED if path is None else path
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ScenarioError(str(path), None, f"cannot be read: {error.strerror}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ScenarioError(str(path), line, "the file is not UTF-8 text") from error
    return parse(text, str(path))


def parse(text: str, name: str = "<scenarios>") -> Script:
    """Parse scenarios from JSON; ``name`` is the file's name in errors. Raises ``ScenarioError``."""
    try:
        script = msgspec.json.decode(text, type=Script)
    except RecursionError as error:
        raise ScenarioError(name, 1, "the JSON is nested too deeply") from error
    except msgspec.DecodeError as error:
        line, reason = explain(error, text)
        if ".kind: Invalid value" in reason:
            reason += f"; the kinds are {', '.join(_kinds())}"
        raise ScenarioError(name, line, reason) from error
    for path, reason in _template_problems(script):
        raise ScenarioError(name, line_of(text, path), f"{path.removeprefix('$.')}: {reason}")
    return script


def _kinds() -> list[str]:
    return [str(fault.__struct_config__.tag) for fault in get_args(Fault)]


def _template_problems(script: Script) -> Iterator[tuple[str, str]]:
    for i, scenario in enumerate(script.scenarios):
        for j, step in enumerate(scenario.steps):
            if step.response and not step.literal:
                for text in templates.strings(msgspec.to_builtins(step.response)):
                    if reason := templates.problem(text, scenario.groups):
                        yield f"$.scenarios[{i}].steps[{j}].response", reason
    for text in templates.strings(msgspec.to_builtins(script.default_response)):
        if reason := templates.problem(text, ()):
            yield "$.default_response", reason
