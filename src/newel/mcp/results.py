"""Convert a server's result of a tool call: text and images for the model, notes for other content."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final

import msgspec

from newel.agent.messages import ImageContent
from newel.agent.ports import ToolResult
from newel.workspace.process.output import Capture

if TYPE_CHECKING:
    from mcp import types

MAX_TEXT: Final = 1_000_000
"""Bytes of text; longer text is cut to its head and tail."""
MAX_IMAGE: Final = 10 * 1024 * 1024
MAX_IMAGES: Final = 20
MAX_STRUCTURED: Final = 256 * 1024
"""Bytes of structured content that user interfaces get besides the text."""
IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def to_result(answer: types.CallToolResult, *, server: str, tool: str) -> ToolResult:
    """A server's result. Structured content is shown as JSON if there is no text; ``details`` includes it too."""
    gathered = _Gathered()
    for block in answer.content:
        gathered.add(block)
    details: dict[str, Any] = {"server": server, "tool": tool}
    if answer.structured_content is not None:
        data = msgspec.json.encode(answer.structured_content)
        if not gathered.said:
            gathered.say(data.decode())
        if len(data) <= MAX_STRUCTURED:
            details["structured"] = answer.structured_content
    return ToolResult(
        output=gathered.text() or ("" if gathered.images else "(The tool answered with nothing.)"),
        details=details,
        images=gathered.images,
        is_error=bool(answer.is_error),
    )


class _Gathered:
    """The content so far; ``said`` is true once the server has provided text."""

    def __init__(self) -> None:
        self.images: list[ImageContent] = []
        self.said = False
        self._text = Capture(MAX_TEXT)

    def text(self) -> str:
        return self._text.text("the answer of the server was longer than a result may be")

    def say(self, text: str) -> None:
        data = text.encode(errors="replace")
        self._text.add(b"\n" + data if self._text.size else data)
        self.said = True

    def note(self, words: str) -> None:
        """Add a note in place of content that the model cannot get."""
        said = self.said
        self.say(f"[{words}]")
        self.said = said

    def add(self, block: types.ContentBlock) -> None:
        match block.type:
            case "text":
                self.say(block.text)
            case "image":
                self._image(block.data, block.mime_type, "image")
            case "audio":
                self.note(f"audio left out: {block.mime_type}, {_size(block.data):,} bytes")
            case "resource_link":
                about = f": {block.description}" if block.description else ""
                self.note(f"resource {block.name}, {block.uri}{about}")
            case "resource":
                self._resource(block.resource)

    def _resource(self, resource: types.TextResourceContents | types.BlobResourceContents) -> None:
        kind = resource.mime_type or "unknown type"
        text = getattr(resource, "text", None)
        if isinstance(text, str):
            self.note(f"resource {resource.uri}, {kind}")
            self.say(text)
        else:
            blob: str = getattr(resource, "blob", "")
            self._image(blob, kind, f"resource {resource.uri}")

    def _image(self, data: str, kind: str, what: str) -> None:
        size = _size(data)
        if kind not in IMAGES:
            self.note(f"{what} left out: {kind}, {size:,} bytes")
        elif size > MAX_IMAGE or len(self.images) == MAX_IMAGES:
            limit = f"{MAX_IMAGE // 2**20} MiB" if size > MAX_IMAGE else f"{MAX_IMAGES} images"
            self.note(f"{what} left out: more than {limit}")
        elif not _is_base64(data):
            self.note(f"{what} left out: its data is not base64")
        else:
            self.images.append(ImageContent(data=data, mime_type=kind))


def _size(data: str) -> int:
    """The size in bytes of base64 data."""
    return len(data) * 3 // 4 - data[-2:].count("=")


def _is_base64(data: str) -> bool:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return False
    return bool(data)
