"""One call of a server's tool: progress is shown, its time is limited, and there is always a result."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec

from newel.agent.messages import ImageContent
from newel.agent.ports import OnOutput, ToolResult
from newel.concurrency import task_group
from newel.mcp.client_handlers import CURRENT, Call, ClientHandlers
from newel.mcp.tolerant_reader import NOTE
from newel.mcp.types import Caller
from newel.workspace.process.output import Capture

if TYPE_CHECKING:
    from mcp import types
    from mcp.client import Client

LONGEST_CALL: Final = 3600.0
"""Seconds after which a call ends, even if it reports progress."""
PROGRESS_INTERVAL: Final = 0.1
"""Seconds between two displayed progress messages."""
MAX_MESSAGE_CHARS: Final = 1_000
CLOSED: Final = "Connection closed"
"""The SDK's message for a lost connection."""


class Progress:
    """The latest progress of a call; messages that arrive too fast are skipped."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._news = ""
        self._changed = anyio.Event()
        self._over = anyio.Event()

    async def note(self, progress: float, total: float | None, message: str | None) -> None:
        self._call.alive()
        count = f"{progress:g}/{total:g}" if total else f"{progress:g}"
        self._news = f"{message[:MAX_MESSAGE_CHARS]} ({count})" if message else count
        self._changed.set()

    def close(self) -> None:
        self._over.set()
        self._changed.set()

    async def report(self, on_output: OnOutput) -> None:
        """Report progress until it is closed."""
        while not self._over.is_set() or self._news:
            await self._changed.wait()
            self._changed = anyio.Event()
            news, self._news = self._news, ""
            if news:
                await on_output(f"{news}\n")
            with anyio.move_on_after(PROGRESS_INTERVAL):
                await self._over.wait()
            if self._over.is_set():
                self._changed.set()


async def call_tool(
    client: Client,
    callbacks: ClientHandlers,
    *,
    server: str,
    tool: str,
    arguments: dict[str, Any],
    timeout: float,  # noqa: ASYNC109 — begins again with each sign of life, which a scope of the caller's cannot
    on_output: OnOutput,
    caller: Caller,
    why_lost: Callable[[], Awaitable[str]],
) -> ToolResult:
    """Make the call. The result is an error if the server returns one, is silent for ``timeout`` seconds, or is
    lost; then it says whether the outcome is known. Raises the errors of ``on_output``. Cancellation cancels the
    call at the server.
    """
    answered: ToolResult | None = None
    with anyio.move_on_after(LONGEST_CALL), anyio.move_on_after(timeout) as scope:
        call = Call(caller, scope, timeout)
        token = CURRENT.set(call)
        callbacks.calls.append(call)
        progress = Progress(call)
        ask = partial(client.call_tool, tool, arguments)
        try:
            async with task_group() as tasks:
                tasks.start_soon(progress.report, on_output)
                answered = await _answer(ask, server, tool, progress, why_lost)
                progress.close()
        finally:
            callbacks.calls.remove(call)
            call.close()
            CURRENT.reset(token)
    if answered is not None:
        return answered
    return _failure(
        f"The call was cancelled: '{server}' showed no progress for {timeout:g} seconds. "
        "It may have had an effect; check before you repeat it."
    )


async def _answer(
    ask: Callable[..., Awaitable[types.CallToolResult]],
    server: str,
    tool: str,
    progress: Progress,
    why_lost: Callable[[], Awaitable[str]],
) -> ToolResult:
    from mcp import types
    from mcp.shared.exceptions import MCPError

    try:
        answer = await ask(progress_callback=progress.note)
    except MCPError as error:
        reason = f"{server}: {error.message}"
        if error.code != types.CONNECTION_CLOSED:
            return _failure(reason)
        # The SDK's code for a lost connection is also the first of those that servers may use for errors of their own.
        if error.message == CLOSED:
            reason = f"'{server}' was lost during the call. {await why_lost()}"
        return _failure(f"{reason}\nThe call may have had an effect; check before you repeat it.")
    except Exception as error:  # noqa: BLE001 — what a server sends may fail in the SDK in any way
        return _failure(f"The response of '{server}' is invalid: {type(error).__name__}: {error}")
    return to_result(answer, server=server, tool=tool)


def _failure(message: str) -> ToolResult:
    most = 10 * MAX_MESSAGE_CHARS
    return ToolResult(message if len(message) <= most else f"{message[:most]} …", is_error=True)


MAX_TEXT: Final = 1_000_000
"""Bytes of text; longer text is cut to its head and tail."""
MAX_IMAGE: Final = 10 * 1024 * 1024
MAX_IMAGES: Final = 20
MAX_STRUCTURED: Final = 256 * 1024
"""Bytes of structured content that user interfaces get besides the text."""
IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def to_result(answer: types.CallToolResult, *, server: str, tool: str) -> ToolResult:
    """A server's result. Structured content is shown as JSON if there is no text; ``details`` includes it too."""
    content = _ResultContent()
    for block in answer.content:
        content.add(block)
    details: dict[str, Any] = {"server": server, "tool": tool}
    if answer.structured_content is not None:
        data = msgspec.json.encode(answer.structured_content)
        if not content.said:
            content.say(data.decode())
        if len(data) <= MAX_STRUCTURED:
            details["structured"] = answer.structured_content
    return ToolResult(
        output=content.text() or ("" if content.images else "(The tool returned nothing.)"),
        details=details,
        images=content.images,
        is_error=bool(answer.is_error),
    )


class _ResultContent:
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

    def note(self, text: str) -> None:
        """Add a note in place of content that the model cannot get."""
        reported = self.said
        self.say(f"[{text}]")
        self.said = reported

    def add(self, block: types.ContentBlock) -> None:
        match block.type:
            case "text" if block.meta is not None and NOTE in block.meta:
                self.note(block.text)
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
