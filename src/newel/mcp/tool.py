"""One tool of a server, offered like any other."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

from newel.agent.errors import InvalidArguments
from newel.agent.formatting import escape_newlines
from newel.agent.ports import OnOutput, Planned, ToolResult, ToolSpec
from newel.mcp.elicitation import Elicit
from newel.mcp.tool_info import ToolInfo
from newel.mcp.tool_names import offered_name

if TYPE_CHECKING:
    from newel.mcp.server_connection import Server


class McpTool:
    """Implements ``newel.agent.ports.Tool``. That a call only reads, and so needs no approval, is believed of servers of which
    the user says so.
    """

    def __init__(self, server: Server, facts: ToolInfo, elicit: Elicit | None) -> None:
        self._server = server
        self._facts = facts
        self._elicit = elicit
        self._spec = ToolSpec(
            name=offered_name(server.config.name, facts.name),
            description=facts.description,
            parameters=facts.parameters,
        )

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    @property
    def label(self) -> str:
        return f"{self._server.config.name}: {self._facts.name}"

    @property
    def read_only(self) -> bool:
        return self._facts.reads and self._server.config.trust_read_only

    def parse(self, arguments: dict[str, Any], /) -> dict[str, Any]:
        """The arguments as they are. The server checks them: its schema may hold patterns that take hours, so that
        here only what is required is looked for.
        """
        required: Any = self._facts.parameters.get("required")
        names = cast("list[Any]", required) if isinstance(required, list) else []
        missing = ", ".join(f"`{name}`" for name in names if name not in arguments)
        if missing:
            raise InvalidArguments(f"{self._spec.name}: missing required {missing}.")
        try:
            msgspec.json.encode(arguments)
        except UnicodeEncodeError:
            words = "a text holds half of a surrogate pair, which is no character"
            raise InvalidArguments(f"{self._spec.name}: {words}.") from None
        return arguments

    async def serial_key(self, _: dict[str, Any], /) -> str | None:
        """Calls of one server in their order, but for those that only read."""
        return None if self._facts.reads else f"mcp {self._server.config.name}"

    async def plan(self, arguments: dict[str, Any], /) -> Planned:
        """What files the server opens, it alone knows."""
        return Planned(partial(self._preview, arguments), partial(self._execute, arguments))

    async def _preview(self, arguments: dict[str, Any]) -> str:
        shown = msgspec.json.format(msgspec.json.encode(arguments), indent=2).decode()
        about = f"{self._facts.name} of {self._server.config.name} ({self._server.config.target})"
        return f"{escape_newlines(about)}\n{shown}"

    async def _execute(self, arguments: dict[str, Any], on_output: OnOutput) -> ToolResult:
        return await self._server.call(self._facts.name, arguments, on_output, self._elicit)
