"""What is said: the messages of a conversation and the pieces they are made of.

Every type is a frozen ``msgspec.Struct`` and survives a JSON round trip exactly. On the wire the field
names are camelCase and the union is told apart by ``role`` (messages) or ``type`` (content).

    AppMessage = Message | CustomMessage       what an application keeps
    Message    = UserMessage | AssistantMessage | ToolResultMessage        what a model sees
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from msgspec import field


def new_id() -> str:
    """A random identifier of 32 hexadecimal digits."""
    return os.urandom(16).hex()


def now() -> str:
    """The current time as ISO 8601 in UTC with milliseconds, e.g. ``2026-01-31T09:30:00.125Z``."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


class Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base of everything that crosses a wire or a file."""


# -- content --------------------------------------------------------------------------------------


class TextContent(Wire, frozen=True, tag_field="type", tag="text"):
    text: str


class ThinkingContent(Wire, frozen=True, tag_field="type", tag="thinking"):
    """Reasoning the model showed. ``field`` is the wire field it came in, so that it can go back there."""

    thinking: str
    field: str | None = None
    signature: str | None = None


class ImageContent(Wire, frozen=True, tag_field="type", tag="image"):
    """An image; ``data`` is base64 without a ``data:`` prefix."""

    data: str
    mime_type: str


class ToolCall(Wire, frozen=True, tag_field="type", tag="toolCall"):
    """A request to run a tool. ``problem`` says why it must not be run (cut off, mended, not JSON);
    the model is told that instead of a result.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    problem: str | None = None


class Attachment(Wire, frozen=True):
    """A file that comes with a prompt. ``content`` and ``preview`` are base64, ``size`` is in bytes."""

    type: Literal["image", "document"]
    file_name: str
    mime_type: str
    size: int
    content: str
    extracted_text: str | None = None
    preview: str | None = None
    id: str = field(default_factory=new_id)


# -- accounting -----------------------------------------------------------------------------------


class Usage(Wire, frozen=True):
    """Tokens of one response. ``input`` counts the whole prompt, the cached part of it included."""

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
        return self.input + self.output


# -- messages -------------------------------------------------------------------------------------

StopReason = Literal["stop", "length", "toolUse", "error", "aborted"]


class UserMessage(Wire, frozen=True, tag_field="role", tag="user"):
    content: str | list[TextContent | ImageContent]
    attachments: list[Attachment] = []
    id: str = field(default_factory=new_id)
    timestamp: str = field(default_factory=now)

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content if isinstance(part, TextContent))


class AssistantMessage(Wire, frozen=True, tag_field="role", tag="assistant"):
    content: list[TextContent | ThinkingContent | ToolCall]
    model: str = ""
    provider: str = ""
    usage: Usage = Usage()
    cost: float | None = None
    """US dollars, or None where the price is not known."""
    stop_reason: StopReason = "stop"
    error_message: str | None = None
    id: str = field(default_factory=new_id)
    timestamp: str = field(default_factory=now)

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content if isinstance(part, TextContent))

    @property
    def tool_calls(self) -> list[ToolCall]:
        return [part for part in self.content if isinstance(part, ToolCall)]


class ToolResultMessage(Wire, frozen=True, tag_field="role", tag="toolResult"):
    """What a tool answered. ``output`` and ``images`` go to the model, ``details`` to the screens; ``duration`` is in
    milliseconds, 0 if the tool did not run.
    """

    tool_call_id: str
    tool_name: str
    output: str
    is_error: bool
    images: list[ImageContent] = []
    details: dict[str, Any] = {}
    duration: int = 0
    id: str = field(default_factory=new_id)
    timestamp: str = field(default_factory=now)


class CustomMessage(Wire, frozen=True, tag_field="role", tag="custom"):
    """A message kind of the application's own. No model sees it unless a transformer makes it one."""

    name: str
    data: dict[str, Any] = {}
    id: str = field(default_factory=new_id)
    timestamp: str = field(default_factory=now)


Message = UserMessage | AssistantMessage | ToolResultMessage
AppMessage = Message | CustomMessage

INTERRUPTED = "Interrupted: the outcome of this call is unknown. Check the state before you repeat it."


def open_calls(messages: list[AppMessage]) -> list[ToolCall]:
    """The tool calls of the last assistant message that have no result yet, in their order."""
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
    """The result that stands in for one that was never learned, so that the history stays valid."""
    return ToolResultMessage(tool_call_id=call.id, tool_name=call.name, output=INTERRUPTED, is_error=True)
