"""The life cycle of a server: start, list of tools, calls, loss, restart; with its current state.

untrusted, disabled ──► starting ──► active ──► broken ──► starting (three times at most)
                           └───────────────────►┘
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import anyio
import anyio.to_thread
import msgspec

from newel.agent.errors import InvalidArguments, ToolError
from newel.agent.formatting import escape_newlines
from newel.agent.ports import OnOutput, Planned, ToolResult, ToolSpec
from newel.concurrency import background_tasks
from newel.mcp import sdk
from newel.mcp.client_handlers import ClientHandlers
from newel.mcp.framing import StderrTail
from newel.mcp.server_config import ServerConfig, expand
from newel.mcp.tool_call import call_tool
from newel.mcp.transport_http import HttpTransport
from newel.mcp.transport_stdio import ShutdownTimeouts, StdioTransport
from newel.mcp.trust import MAX_REMEMBERED, Trust
from newel.mcp.types import Caller, Sample, ServerState, ServerStatus, ToolInfo, ToolStatus, offered_name
from newel.workspace.process.launcher import DIRECT, FindServerLauncher
from newel.workspace.process.own_programs import with_project_last

if TYPE_CHECKING:
    from mcp.client import Client


REFRESH_TIMEOUT: Final = 30.0
"""Seconds for a changed list of tools."""
RESTART_DELAYS: Final = (1.0, 4.0, 16.0)
"""Seconds before each restart of a lost server; their number limits the restarts."""
STABLE_AFTER: Final = 300.0
"""Seconds of activity after which earlier losses are forgotten."""
TOOLS_CHANGED_DELAY: Final = 0.3
"""Seconds for which changes of tools are collected."""


class ServerContext(msgspec.Struct, frozen=True, kw_only=True):
    """The shared context of all servers: ``root`` is their working folder; ``environ`` provides the variables in
    configurations, and a few of them are passed on. With ``sample``, servers may ask the model. ``shutdown`` has the timeouts
    of stopping them, ``pauses`` the seconds before each restart of a lost server. ``find_launcher`` gives what starts a server in a
    sandbox of its own, by its name, and is told who decides what it may reach; None if commands have none.
    """

    trust: Trust
    root: Path
    environ: Mapping[str, str]
    sample: Sample | None = None
    shutdown: ShutdownTimeouts = ShutdownTimeouts()
    pauses: Sequence[float] = RESTART_DELAYS
    find_launcher: FindServerLauncher | None = None


class Transport(Protocol):
    """A connection to a server; see ``StdioTransport`` and ``HttpTransport``."""

    reason: str
    exited: bool
    ended: anyio.Event
    tail: StderrTail

    def streams(self) -> Any: ...


class Server:
    """A configured server. ``run`` keeps it running; all other methods may be called from any task. ``on_change`` is called
    with every new state.
    """

    def __init__(self, config: ServerConfig, context: ServerContext, on_change: Callable[[], None]) -> None:
        self.config = config
        self.state: ServerState = "starting"
        self.reason = ""
        self.tools: list[ToolInfo] = []
        self.withheld: list[str] = []
        self._remembered: frozenset[str] = frozenset()
        self.omitted: list[str] = []
        self.tools_off = context.trust.tools_off(config)
        self._context = context
        self._on_change = on_change
        self._tail = StderrTail()
        self._client: Client | None = None
        self._callbacks = ClientHandlers(config.name, sample=context.sample, root=context.root)
        self._attempt = anyio.CancelScope()
        self._down = anyio.Event()
        self._stale = anyio.Event()

    def status(self) -> ServerStatus:
        return ServerStatus(
            name=self.config.name,
            state=self.state,
            origin=str(self.config.origin),
            target=self.config.target,
            folder=self.config.folder(self._context.root),
            env=self.config.variables,
            reason=self.reason,
            stderr=self._tail.text,
            tools=[
                ToolStatus(
                    name=tool.name, description=tool.description, enabled=tool.name not in self.tools_off
                )
                for tool in self.tools
            ],
        )

    def restart(self) -> None:
        """Read the user's decisions again, and restart."""
        if self._standby() is None:
            self._set("starting")  # now, so that a task that waits for the start from here on does wait
        self._down.set()
        self._attempt.cancel()

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        on_output: OnOutput,
        caller: Caller,
    ) -> ToolResult:
        """Call a tool. Raises ``ToolError`` if the server cannot be called now."""
        if self._client is None:
            raise ToolError(
                f"The server '{self.config.name}' is {self.state}, so nothing was done. {self.reason}"
            )
        return await call_tool(
            self._client,
            self._callbacks,
            server=self.config.name,
            tool=tool,
            arguments=arguments,
            timeout=self.config.timeout,
            on_output=on_output,
            caller=caller,
            why_lost=self._why_lost,
        )

    async def _why_lost(self) -> str:
        with anyio.move_on_after(2):
            await self._down.wait()
        return self.reason or "It was restarted or switched off."

    # -- its life -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            with anyio.CancelScope() as self._attempt:
                standby = self._standby()
                if standby is None:
                    await self._stay_connected()
                else:
                    self._set(*standby)
                await anyio.sleep_forever()

    def _standby(self) -> tuple[ServerState, str] | None:
        """The state of a server that must not start, with the reason."""
        if not self._context.trust.is_trusted(self.config):
            message = f"{self.config.origin.name} of this project names it. It starts when you trust it."
            return "untrusted", message
        if not self._context.trust.is_enabled(self.config):
            return "disabled", ""
        return None

    async def _stay_connected(self) -> None:
        """Connect, and reconnect after a loss, or after a restart that failed. Returns when the restarts are used up, or if it never
        started; the state is broken then.
        """
        legacy = False
        restarts = 0
        was_active = False
        while True:
            active, exited = await self._connect(legacy=legacy)
            was_active = was_active or active > 0
            if not was_active:
                if legacy or not exited:
                    return
                legacy = True  # some servers exit on a first message that they do not know
                continue
            if active > STABLE_AFTER:
                restarts = 0
            if restarts == len(self._context.pauses):
                self._set(
                    "broken", f"{self.reason} It was restarted {restarts} times, and is not started again."
                )
                return
            await anyio.sleep(self._context.pauses[restarts])
            restarts += 1

    async def _connect(self, *, legacy: bool) -> tuple[float, bool]:
        """Start the server and stay connected until it is lost. Returns the seconds that it was active, 0 if never,
        and whether it ended by itself.
        """
        self._set("starting")
        self._down = anyio.Event()
        started_at = 0.0
        reason = ""
        exited = False
        with anyio.move_on_after(self.config.startup_timeout) as starting:
            try:
                transport = await self._transport()
                self._tail = transport.tail
                try:
                    async with sdk.client(
                        transport.streams(), self._callbacks, self._mark_stale, legacy=legacy
                    ) as client:
                        await self._offer(await sdk.list_tools(client))
                        # It has started; from now on it may be silent for ever.
                        starting.deadline = math.inf
                        started_at = anyio.current_time()
                        self._client = client
                        self._set("active", self._notice())
                        await self._wait_until_lost(client, transport)
                finally:
                    self._client = None
                    reason, exited = transport.reason, transport.exited
            except Exception as error:  # noqa: BLE001 — whatever a server does, it costs itself only
                reason = reason or sdk.describe_error(error)
        if starting.cancelled_caught:
            reason = f"It did not answer within {self.config.startup_timeout:g} seconds (`startup_timeout`)."
        self._lose(reason)
        return (anyio.current_time() - started_at if started_at else 0.0), exited

    async def _transport(self) -> Transport:
        """The transport to it. Raises ``ConfigError`` if a variable is missing, or an argument means another folder than it seems."""
        environ, folder = self._context.environ, self._context.root
        config = expand(self.config, environ, folder)
        config.check_arguments()
        await sdk.load()
        if config.url is not None:
            return HttpTransport(config)
        timeouts = self._context.shutdown
        find_launcher = self._context.find_launcher if config.is_confined else None
        launcher = (
            DIRECT if find_launcher is None else await find_launcher(config.name, self._callbacks.reach)
        )
        if config.level == "user" and not config.is_confined:
            environ = with_project_last(environ, str(folder))
        place = config.folder(folder)
        return StdioTransport(config, folder=place, environ=environ, timeouts=timeouts, launcher=launcher)

    async def _wait_until_lost(self, client: Client, transport: Transport) -> None:
        async with background_tasks() as tasks:
            tasks.start_soon(sdk.listen, client, self._mark_stale)
            tasks.start_soon(self._refresh_tools, client)
            await transport.ended.wait()
            self._lose(transport.reason)  # shown at once; closing it may take seconds

    def _lose(self, reason: str) -> None:
        self._client = None
        self._set("broken", reason or "It closed the connection.")
        self._down.set()

    def _mark_stale(self) -> None:
        self._stale.set()

    async def _refresh_tools(self, client: Client) -> None:
        """Update the list of tools after changes; if that fails, the old list remains."""
        while True:
            await self._stale.wait()
            await anyio.sleep(TOOLS_CHANGED_DELAY)
            self._stale = anyio.Event()
            try:
                with anyio.fail_after(REFRESH_TIMEOUT):
                    await self._offer(await sdk.list_tools(client))
                self.reason = self._notice()
            except Exception as error:  # noqa: BLE001 — as above
                self.reason = f"Its list of tools could not be refreshed: {sdk.describe_error(error)}"
            self._on_change()

    async def _offer(self, listed: sdk.ListedTools) -> None:
        """Offer the tools whose descriptions the user has accepted."""
        pins = self._context.trust.pins
        self.tools = await anyio.to_thread.run_sync(pins.accepted, self.config, listed.tools)
        self._remembered = await anyio.to_thread.run_sync(pins.remembered, self.config)
        offered = {info.name for info in self.tools}
        self.withheld = [info.name for info in listed.tools if info.name not in offered]
        self.omitted = listed.omitted

    def _notice(self) -> str:
        """The notice to the user about tools that are not offered."""
        notices: list[str] = []
        changed = [name for name in self.withheld if name in self._remembered]
        if changed:
            notices.append(
                f"Withheld, because their descriptions changed: {_quoted(changed)}. "
                f"Review the change and accept it: `newel mcp trust {self.config.name}`"
            )
        if beyond := [name for name in self.withheld if name not in self._remembered]:
            notices.append(
                f"Withheld, because the server has offered {MAX_REMEMBERED:,} other names before: {_quoted(beyond)}. To forget them, "
                f"remove the server and add it again: `newel mcp remove {self.config.name}`"
            )
        if self.omitted:
            limits = f"{sdk.MAX_TOOLS} tools, {sdk.MAX_SCHEMA // 1024} KiB of a schema, {sdk.MAX_NAME} characters of a name"
            notices.append(f"Left out, because they exceed a limit ({limits}): {_quoted(self.omitted)}.")
        return " ".join(notices)

    def _set(self, state: ServerState, reason: str = "") -> None:
        if state in {"untrusted", "disabled"}:
            self.tools, self.withheld = [], []
        self.state, self.reason = state, reason
        self._on_change()


def _quoted(names: list[str]) -> str:
    most = 20
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + rest


class McpTool:
    """Implements ``newel.agent.ports.Tool``. A claim to be read-only, which avoids approval, counts only for servers
    that the user trusts in this.
    """

    def __init__(self, server: Server, info: ToolInfo, caller: Caller) -> None:
        self._server = server
        self._info = info
        self._caller = caller
        self._spec = ToolSpec(
            name=offered_name(server.config.name, info.name),
            description=info.description,
            parameters=info.parameters,
        )

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    @property
    def label(self) -> str:
        return f"{self._server.config.name}: {self._info.name}"

    @property
    def read_only(self) -> bool:
        return self._info.reads and self._server.config.trust_read_only

    def parse(self, arguments: dict[str, Any], /) -> dict[str, Any]:
        """The arguments unchanged. The server validates them: a schema may contain patterns that take hours, so only
        required arguments are checked here.
        """
        required: Any = self._info.parameters.get("required")
        names = cast("list[Any]", required) if isinstance(required, list) else []
        missing = ", ".join(f"`{name}`" for name in names if name not in arguments)
        if missing:
            raise InvalidArguments(f"{self._spec.name}: missing required {missing}.")
        try:
            msgspec.json.encode(arguments)
        except UnicodeEncodeError:
            problem = "a string holds half of a surrogate pair, which is not a character"
            raise InvalidArguments(f"{self._spec.name}: {problem}.") from None
        return arguments

    async def serial_key(self, _: dict[str, Any], /) -> str | None:
        """Calls of one server run in order, except read-only ones."""
        return None if self._info.reads else f"mcp {self._server.config.name}"

    async def plan(self, arguments: dict[str, Any], /) -> Planned:
        """Only the server knows which files it opens."""
        return Planned(partial(self._preview, arguments), partial(self._execute, arguments))

    async def _preview(self, arguments: dict[str, Any]) -> str:
        preview = msgspec.json.format(msgspec.json.encode(arguments), indent=2).decode()
        about = f"{self._info.name} of {self._server.config.name} ({self._server.config.target})"
        return f"{escape_newlines(about)}\n{preview}"

    async def _execute(self, arguments: dict[str, Any], on_output: OnOutput) -> ToolResult:
        return await self._server.call(self._info.name, arguments, on_output, self._caller)
