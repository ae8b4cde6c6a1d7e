"""The lines that ``--input-format stream-json`` reads, and their validation."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import msgspec

from newel.agent.errors import NewelError
from newel.agent.messages import ImageContent, TextContent, UserMessage
from newel.context.attachments import IMAGES
from newel.text.json import decode_json


class InvalidInputLine(NewelError, code="bad_request"):
    """A line that is no valid input."""


class _InputMessage(msgspec.Struct, frozen=True, tag_field="type"):
    """Fields that Newel does not use are ignored."""


class _Text(_InputMessage, frozen=True, tag="text"):
    text: str


class _Base64(_InputMessage, frozen=True, tag="base64"):
    media_type: str
    data: str


class _Image(_InputMessage, frozen=True, tag="image"):
    source: _Base64


class _SentMessage(msgspec.Struct, frozen=True):
    content: str | list[_Text | _Image]
    role: Literal["user"]


class UserLine(_InputMessage, frozen=True, tag="user"):
    """A prompt."""

    message: _SentMessage


class ControlRequest(_InputMessage, frozen=True, tag="control_request"):
    """A request that acts at once and is answered by a ``control_response``."""

    request_id: str
    request: dict[str, Any]


class ControlResponse(_InputMessage, frozen=True, tag="control_response"):
    """The answer to a ``control_request`` of Newel's own."""

    response: dict[str, Any]


class KeepAlive(_InputMessage, frozen=True, tag="keep_alive"):
    """Has no effect."""


InputLine = UserLine | ControlRequest | ControlResponse | KeepAlive


@cache
def _decoder() -> msgspec.json.Decoder[InputLine]:
    return msgspec.json.Decoder[InputLine](InputLine)


def read_line(line: str) -> InputLine:
    """Parse a line. Raises ``InvalidInputLine``."""
    try:
        return decode_json(line, _decoder())
    except msgspec.DecodeError as error:
        reason = "it ends too early" if "truncated" in str(error) else str(error)
        raise InvalidInputLine(f"Invalid input: {reason}. It begins: {line[:200]}") from error


def prompt_of(line: UserLine) -> UserMessage:
    """The prompt in a line. Raises ``InvalidInputLine`` for content that no server accepts: once in the conversation, it would
    fail every later request.
    """
    content = line.message.content
    if isinstance(content, str):
        parts: list[TextContent | ImageContent] = [TextContent(content)]
    else:
        parts = [_part(part, index) for index, part in enumerate(content)]
    images = [part for part in parts if isinstance(part, ImageContent)]
    text = "\n\n".join(part.text for part in parts if isinstance(part, TextContent))
    if not text.strip() and not images:
        raise InvalidInputLine("The content is empty.")
    if not images:
        return UserMessage(content=text)
    return UserMessage(
        content=[part for part in parts if isinstance(part, ImageContent) or part.text.strip()]
    )


def _part(part: _Text | _Image, index: int) -> TextContent | ImageContent:
    if isinstance(part, _Text):
        return TextContent(part.text)
    from binascii import a2b_base64

    data, media_type = part.source.data, part.source.media_type
    if media_type not in IMAGES:
        raise InvalidInputLine(f"Block {index}: media_type is not one of {', '.join(IMAGES)}.")
    try:
        decoded = a2b_base64(data, strict_mode=True)
    except ValueError:
        raise InvalidInputLine(f"Block {index}: the data of the image is not base64.") from None
    if not decoded:
        raise InvalidInputLine(f"Block {index}: the image is empty.")
    return ImageContent(data, media_type)
