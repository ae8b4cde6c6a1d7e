"""The official SDK as we use it. It is large, and loaded when the first server starts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec

from newel.agent.errors import NewelError
from newel.concurrency import first_error
from newel.mcp.client_handlers import ClientHandlers
from newel.mcp.tool_info import ToolInfo

if TYPE_CHECKING:
    from mcp import types
    from mcp.client import Client, IncomingMessage

MAX_PAGES: Final = 50
MAX_TOOLS: Final = 500
MAX_NAME: Final = 256
MAX_DESCRIPTION: Final = 8_000
"""Characters; a tool's description costs tokens with every request."""
MAX_SCHEMA: Final = 64 * 1024
"""Bytes; a tool with a larger schema is left out."""
MAX_WORDS: Final = 500


async def load() -> None:
    """Import it without holding up anybody else."""
    await anyio.to_thread.run_sync(_import)


@cache
def _import() -> None:
    import logging
    from importlib import import_module

    import_module("mcp.client.client")
    # What a server does wrong is told in its status. The SDK would print it on the terminal.
    for name in ("mcp", "client"):
        logging.getLogger(name).addHandler(logging.NullHandler())


@asynccontextmanager
async def client(
    transport: Any, callbacks: ClientHandlers, tools_changed: Callable[[], None], *, legacy: bool
) -> AsyncGenerator[Client]:
    """A connection over a transport, its handshake done. ``legacy`` does without the question which protocol it is."""
    from importlib.metadata import version

    from mcp import types
    from mcp.client import Client

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            tools_changed()

    async with Client(
        transport,
        client_info=types.Implementation(name="newel", version=version("newel")),
        list_roots_callback=callbacks.list_roots,
        elicitation_callback=callbacks.elicit,
        sampling_callback=callbacks.sample if callbacks.samples else None,
        message_handler=on_message,
        cache=None,
        mode="legacy" if legacy else "auto",
    ) as connected:
        # The SDK would check results against the server's schema, whose patterns could hold up everything for hours.
        connected.session.validate_tool_result = _believe
        yield connected


async def _believe(name: str, result: types.CallToolResult) -> None:
    pass


async def listen(client: Client, tools_changed: Callable[[], None]) -> None:
    """Hear of changed tools from a server of the newest protocol; an older one sends notifications by itself."""
    from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
    from mcp.shared.exceptions import MCPError

    tools = client.server_capabilities.tools
    if tools is None or not tools.list_changed:
        return
    try:
        async with client.listen(tools_list_changed=True) as news:
            async for _ in news:
                tools_changed()
    except (ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
        return


async def list_tools(client: Client) -> list[ToolInfo]:
    """All tools that can be offered, each name once."""
    if client.server_capabilities.tools is None:
        return []
    found: dict[str, ToolInfo] = {}
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            facts = _facts(tool)
            small = len(tool.name) <= MAX_NAME and len(msgspec.json.encode(facts.parameters)) <= MAX_SCHEMA
            if small and len(found) < MAX_TOOLS:
                found.setdefault(tool.name, facts)
        cursor = page.next_cursor
        if cursor is None:
            break
    return list(found.values())


def _facts(tool: types.Tool) -> ToolInfo:
    return ToolInfo(
        name=tool.name,
        description=(tool.description or tool.title or "")[:MAX_DESCRIPTION],
        parameters={"type": "object", "properties": {}, **tool.input_schema},
        reads=bool(tool.annotations and tool.annotations.read_only_hint),
    )


async def tell_roots_changed(client: Client) -> None:
    """Say that the folders are others now, to a server whose protocol knows that."""
    from mcp import types
    from mcp.types.version import MODERN_PROTOCOL_VERSIONS

    if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        await client.session.send_notification(types.RootsListChangedNotification())


def in_words(error: BaseException) -> str:
    """What went wrong, of a group the first of it."""
    error = first_error(error)
    if isinstance(error, NewelError):
        return str(error)
    words = str(error) or type(error).__name__
    return f"{words[:MAX_WORDS].rstrip('.')}."
