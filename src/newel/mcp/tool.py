"""A server's tool as a tool of the agent."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

from newel.agent.errors import InvalidArguments
from newel.agent.formatting import escape_newlines
from newel.agent.ports import OnOutput, Planned, ToolResult, ToolSpec
from newel.mcp.elicitation import Elicit
from newel.mcp.types import ToolInfo, offered_name

if TYPE_CHECKING:
    from newel.mcp.server_connection import Server


class McpTool:
    """Implements ``newel.agent.ports.Tool``. A claim to be read-only, which avoids approval, counts only for servers
    that the user trusts in this.
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
        """The arguments unchanged. The server validates them: a schema may contain patterns that take hours, so only
        required arguments are checked here.
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
        """Calls of one server run in order, except read-only ones."""
        return None if self._facts.reads else f"mcp {self._server.config.name}"

    async def plan(self, arguments: dict[str, Any], /) -> Planned:
        """Only the server knows which files it opens."""
        return Planned(partial(self._preview, arguments), partial(self._execute, arguments))

    async def _preview(self, arguments: dict[str, Any]) -> str:
        shown = msgspec.json.format(msgspec.json.encode(arguments), indent=2).decode()
        about = f"{self._facts.name} of {self._server.config.name} ({self._server.config.target})"
        return f"{escape_newlines(about)}\n{shown}"

    async def _execute(self, arguments: dict[str, Any], on_output: OnOutput) -> ToolResult:
        return await self._server.call(self._facts.name, arguments, on_output, self._elicit)
