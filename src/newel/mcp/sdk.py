"""Our use of the official SDK. It is large, so it is loaded when the first server starts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio
import msgspec

from newel.agent.errors import NewelError
from newel.concurrency import first_error
from newel.mcp.client_handlers import ClientHandlers
from newel.mcp.tolerant_reader import tolerant
from newel.mcp.types import ToolInfo
from newel.version import VERSION

if TYPE_CHECKING:
    from mcp import types
    from mcp.client import Client, IncomingMessage

MAX_PAGES: Final = 50
MAX_TOOLS: Final = 500
MAX_NAME: Final = 256
MAX_DESCRIPTION: Final = 8_000
"""Characters; a tool's description costs tokens with every request."""
MAX_SCHEMA: Final = 64 * 1024
"""Bytes; a tool with a larger schema is omitted."""
MAX_ERROR: Final = 500
"""Characters of an error message."""


async def load() -> None:
    """Import the SDK without blocking other tasks."""
    await anyio.to_thread.run_sync(_import)


@cache
def _import() -> None:
    import logging
    from importlib import import_module

    import_module("mcp.client.client")
    # Errors of a server are shown in its status. The SDK would print them on the terminal.
    for name in ("mcp", "client"):
        logging.getLogger(name).addHandler(logging.NullHandler())


@asynccontextmanager
async def client(
    transport: Any, callbacks: ClientHandlers, tools_changed: Callable[[], None], *, legacy: bool
) -> AsyncGenerator[Client]:
    """A connected session over a transport. ``legacy`` skips the detection of the protocol version."""
    from mcp import types
    from mcp.client import Client

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            tools_changed()

    async with Client(
        tolerant(transport),
        client_info=types.Implementation(name="newel", version=VERSION),
        list_roots_callback=callbacks.list_roots,
        elicitation_callback=callbacks.elicit,
        sampling_callback=callbacks.sample if callbacks.samples else None,
        message_handler=on_message,
        cache=None,
        mode="legacy" if legacy else "auto",
    ) as connected:
        # The SDK would validate results with the server's schema, whose patterns could block everything for hours.
        connected.session.validate_tool_result = _skip_validation
        yield connected


async def _skip_validation(name: str, result: types.CallToolResult) -> None:
    pass


async def listen(client: Client, tools_changed: Callable[[], None]) -> None:
    """Subscribe to changes of tools, with the newest protocol; older servers send notifications unasked."""
    from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
    from mcp.shared.exceptions import MCPError

    tools = client.server_capabilities.tools
    if tools is None or not tools.list_changed:
        return
    try:
        async with client.listen(tools_list_changed=True) as changes:
            async for _ in changes:
                tools_changed()
    except (ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
        return


class ListedTools(NamedTuple):
    """The tools that can be offered, without duplicate names, and the names of those that exceed a limit."""

    tools: list[ToolInfo]
    omitted: list[str]


async def list_tools(client: Client) -> ListedTools:
    tools: dict[str, ToolInfo] = {}
    omitted: dict[str, None] = {}
    if client.server_capabilities.tools is None:
        return ListedTools([], [])
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            info = _tool_info(tool)
            is_small = len(tool.name) <= MAX_NAME and len(msgspec.json.encode(info.parameters)) <= MAX_SCHEMA
            if is_small and len(tools) < MAX_TOOLS:
                tools.setdefault(tool.name, info)
            elif tool.name not in tools:
                omitted[tool.name[:MAX_NAME]] = None
        cursor = page.next_cursor
        if cursor is None:
            break
    return ListedTools(list(tools.values()), list(omitted))


def _tool_info(tool: types.Tool) -> ToolInfo:
    return ToolInfo(
        name=tool.name,
        description=(tool.description or tool.title or "")[:MAX_DESCRIPTION],
        parameters={"type": "object", "properties": {}, **tool.input_schema},
        reads=bool(tool.annotations and tool.annotations.read_only_hint),
    )


def describe_error(error: BaseException) -> str:
    """The message of an error; of a group, that of the first."""
    error = first_error(error)
    if isinstance(error, NewelError):
        return str(error)
    message = str(error) or type(error).__name__
    return f"{message[:MAX_ERROR].rstrip('.')}."
