"""The messages of a conversation and their content.

Every type is a frozen ``msgspec.Struct`` and survives a JSON round trip exactly. On the wire, field names are camelCase, and
``role`` (messages) or ``type`` (content) tags the union.

    AppMessage = Message | CustomMessage                                    what an application stores
    Message    = UserMessage | AssistantMessage | ToolResultMessage         what a model sees
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec
from msgspec import field


def new_id() -> str:
    """A random identifier of 32 hexadecimal digits."""
    return os.urandom(16).hex()


def now() -> str:
    """The current time as ISO 8601 in UTC with milliseconds, e.g. ``2026-01-31T09:30:00.125Z``."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


class Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base of all types that are sent or stored."""


# -- content --------------------------------------------------------------------------------------


class TextContent(Wire, frozen=True, tag_field="type", tag="text"):
    """A text."""

    text: str


class ThinkingContent(Wire, frozen=True, tag_field="type", tag="thinking"):
    """Reasoning of the model. ``field`` is the wire field of the response, in which it is sent back. ``signature`` is opaque: only
    the model that made it, at the same provider, accepts it back.
    """

    thinking: str
    field: str | None = None
    signature: str | None = None


class ImageContent(Wire, frozen=True, tag_field="type", tag="image"):
    """An image; ``data`` is base64 without a ``data:`` prefix."""

    data: str
    mime_type: str


class ToolCall(Wire, frozen=True, tag_field="type", tag="toolCall"):
    """A request to run a tool. ``problem`` is the reason why it must not run (cut off, repaired, not JSON); the model gets it
    instead of a result. ``signature`` belongs to the reasoning behind the call, like that of ``ThinkingContent``.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    problem: str | None = None
    signature: str | None = None


class Attachment(Wire, frozen=True):
    """A file attached to a prompt. ``content`` and ``preview`` are base64, ``size`` is in bytes."""

    type: Literal["image", "document"]
    file_name: str
    mime_type: str
    size: int
    content: str
    extracted_text: str | None = None
    preview: str | None = None
    id: str = field(default_factory=new_id)

    @property
    def only_text(self) -> str:
        """The text, if no file is behind it: a command of the user's own, and what it printed."""
        return "" if self.content else self.extracted_text or ""


# -- accounting -----------------------------------------------------------------------------------


class Usage(Wire, frozen=True):
    """Tokens of one response. ``input`` is the whole prompt, including its cached part."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
        )

    @property
    def total(self) -> int:
        """The tokens of the request and the answer together."""
        return self.input + self.output


def add_costs(*costs: float | None) -> float | None:
    """The sum of the known costs; None if none is known."""
    known_costs = [cost for cost in costs if cost is not None]
    return sum(known_costs) if known_costs else None


# -- messages -------------------------------------------------------------------------------------

StopReason = Literal["stop", "length", "toolUse", "error", "aborted"]


NOTICE_IDS: Final = ("decided_", "ended_", "hook_")
"""How the ids of messages begin that Newel sends in place of the user."""


class UserMessage(Wire, frozen=True, tag_field="role", tag="user"):
    """A message by the user, with attachments. ``content`` is a text, or texts and images."""

    content: str | list[TextContent | ImageContent]
    attachments: list[Attachment] = []
    id: str = field(default_factory=new_id)
    timestamp: str = field(default_factory=now)

    @property
    def text(self) -> str:
        """The text without images and attachments."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content if isinstance(part, TextContent))

    @property
    def is_notice(self) -> bool:
        """Whether Newel sent it, to tell the model what the user has decided, that a command in the background has ended, or what a hook
        says.
        """
        return self.id.startswith(NOTICE_IDS)


class AssistantMessage(Wire, frozen=True, tag_field="role", tag="assistant"):
    """An answer of the model: text, reasoning and tool calls, in their order. ``error_message`` says why it is incomplete, if
    ``stop_reason`` is ``error``. ``duration`` is in milliseconds, from the request to ``timestamp``; ``retries`` are when the request was
    repeated, in milliseconds after it began.
    """

    content: list[TextContent | ThinkingContent | ToolCall]
    model: str = ""
    provider: str = ""
    usage: Usage = Usage()
    cost: float | None = None
    """US dollars; None if the price is unknown."""
    stop_reason: StopReason = "stop"
    error_message: str | None = None
    duration: int = 0
    retries: list[int] = []
    id: str = field(default_factory=new_id)
    timestamp: str = field(default_factory=now)

    @property
    def text(self) -> str:
        """The text without reasoning and tool calls."""
        return "".join(part.text for part in self.content if isinstance(part, TextContent))

    @property
    def is_incomplete(self) -> bool:
        """Whether the request failed or was stopped; the content is what had come by then, without tool calls."""
        return self.stop_reason in {"error", "aborted"}

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls, in the order in which they run."""
        return [part for part in self.content if isinstance(part, ToolCall)]


class ToolResultMessage(Wire, frozen=True, tag_field="role", tag="toolResult"):
    """The result of a tool call. ``output`` and ``images`` go to the model, ``details`` to screens. ``duration`` is in
    milliseconds, 0 if the tool did not run; ``waited`` is how long its approval took before. ``is_invalid``: the call itself was wrong, so
    that no tool could run. ``usage`` and ``cost`` are those of an agent that the tool ran.
    """

    tool_call_id: str
    tool_name: str
    output: str
    is_error: bool
    images: list[ImageContent] = []
    details: dict[str, Any] = {}
    duration: int = 0
    waited: int = 0
    is_invalid: bool = False
    usage: Usage = Usage()
    cost: float | None = None
    id: str = field(default_factory=new_id)
    timestamp: str = field(default_factory=now)


class CustomMessage(Wire, frozen=True, tag_field="role", tag="custom"):
    """A message of the application. No model sees it unless a transformer converts it."""

    name: str
    data: dict[str, Any] = {}
    id: str = field(default_factory=new_id)
    timestamp: str = field(default_factory=now)


Message = UserMessage | AssistantMessage | ToolResultMessage
AppMessage = Message | CustomMessage

INTERRUPTED = "Interrupted: the outcome of this call is unknown. Check the state before you repeat the call."


def has_tool_results(messages: Sequence[AppMessage]) -> bool:
    """Whether a tool has been called."""
    return any(isinstance(message, ToolResultMessage) for message in messages)


def open_calls(messages: Sequence[AppMessage]) -> list[ToolCall]:
    """The tool calls of the last assistant message that have no result yet, in order."""
    answered: set[str] = set()
    for message in reversed(messages):
        match message:
            case ToolResultMessage():
                answered.add(message.tool_call_id)
            case AssistantMessage():
                return [call for call in message.tool_calls if call.id not in answered]
            case UserMessage():
                return []
            case CustomMessage():
                continue
    return []


def interrupted_result(call: ToolCall) -> ToolResultMessage:
    """The result of a call whose outcome is unknown: every provider requires one."""
    return ToolResultMessage(tool_call_id=call.id, tool_name=call.name, output=INTERRUPTED, is_error=True)
