"""An editor that drives ``newel acp``, built on the protocol's official SDK: it reads every message by the schema."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from acp import PROTOCOL_VERSION, schema
from acp.client.connection import ClientSideConnection
from acp.connection import StreamDirection, StreamEvent
from acp.exceptions import RequestError
from acp.helpers import text_block

from tests.forked import Process as Started
from tests.forked import start
from tests.support import BIN, Newel

PATIENCE_S = 20.0
"""Only a failure takes so long."""


class Editor:
    """Implements the SDK's ``Client``. ``buffers`` are texts that are not saved yet. ``decide`` chooses the option of a permission
    request by its kind, or by its id; None is a cancellation.
    """

    def __init__(self) -> None:
        self.updates: list[dict[str, Any]] = []
        self.sent: list[str] = []
        self.asked: list[dict[str, Any]] = []
        self.buffers: dict[str, str] = {}
        self.read: list[str] = []
        self.written: list[str] = []
        self.on_read: Callable[[], object] = lambda: None
        self.on_save: Callable[[str], str] = str
        self.refuses_writes = False
        self.decide: Callable[[dict[str, Any]], str | None] = lambda _: "allow_once"
        self.hold: asyncio.Event | None = None
        self.terminals: dict[str, tuple[Process, bytearray]] = {}
        self.arrived = asyncio.Event()

    # -- what the agent asks for --------------------------------------------------------------------

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """Messages are collected as they are on the wire: see ``observe``."""

    async def request_permission(self, session_id: str, tool_call: Any, options: list[Any], **_: Any) -> Any:
        asked: dict[str, Any] = {"toolCall": dump(tool_call), "options": [dump(option) for option in options]}
        self.asked.append(asked)
        self.arrived.set()
        if self.hold is not None:
            await self.hold.wait()
        kind = self.decide(asked)
        if kind is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        chosen = next(
            option["optionId"] for option in asked["options"] if kind in {option["kind"], option["optionId"]}
        )
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen)
        )

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> Any:
        self.read.append(path)
        try:
            text = self.buffers[path] if path in self.buffers else _load(path)
        except OSError as error:
            raise RequestError.resource_not_found(path) from error
        self.on_read()
        return schema.ReadTextFileResponse(content=text.replace("\r\n", "\n"))

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> Any:
        if self.refuses_writes:
            raise RequestError(-32003, "the user said no")
        self.written.append(path)
        self.buffers.pop(path, None)
        _save(path, self.on_save(content))
        return schema.WriteTextFileResponse()

    async def create_terminal(
        self, session_id: str, command: str, args: list[str], env: list[Any], cwd: str, **_: Any
    ) -> Any:
        environ = os.environ | {"OPENAI_API_KEY": "sk-of-the-editor"}
        environ |= {variable.name: variable.value for variable in env}
        process = await asyncio.create_subprocess_exec(
            command, *args, cwd=cwd, env=environ, stdout=PIPE, stderr=asyncio.subprocess.STDOUT
        )
        name, output = f"term-{len(self.terminals)}", bytearray()
        self.terminals[name] = process, output
        self._reading = asyncio.create_task(_read_all(process, output))
        return schema.CreateTerminalResponse(terminal_id=name)

    async def terminal_output(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        process, output = self.terminals[terminal_id]
        code = process.returncode
        status = None if code is None else schema.TerminalExitStatus(exit_code=code if code >= 0 else None)
        return schema.TerminalOutputResponse(
            output=output.decode(errors="replace"), truncated=False, exit_status=status
        )

    async def wait_for_terminal_exit(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        process, _output = self.terminals[terminal_id]
        code = await process.wait()
        await self._reading
        name = None if code >= 0 else signal.Signals(-code).name
        return schema.WaitForTerminalExitResponse(exit_code=code if code >= 0 else None, signal=name)

    async def kill_terminal(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        process, _output = self.terminals[terminal_id]
        if process.returncode is None:
            process.kill()
        return schema.KillTerminalResponse()

    async def release_terminal(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        await self.kill_terminal(session_id, terminal_id)
        return schema.ReleaseTerminalResponse()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        raise RequestError.method_not_found(method)

    # -- what it has seen ---------------------------------------------------------------------------

    def observe(self, event: StreamEvent) -> None:
        message = event.message
        if event.direction is StreamDirection.OUTGOING:
            self.sent.append(str(message.get("method")))
            self.arrived.set()
        if message.get("method") == "session/update":
            params = message["params"]
            # The SDK drops fields that it does not understand; ours are all to be understood.
            assert dump(schema.SessionNotification.model_validate(params)) == params
            self.updates.append(params["update"])
            self.arrived.set()

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"].get("text", "") for update in self.of_kind(kind))

    def call(self, number: int = -1) -> dict[str, Any]:
        """A tool call with all its updates, as a client keeps it."""
        start = self.of_kind("tool_call")[number]
        call = dict(start)
        for update in self.of_kind("tool_call_update"):
            if update["toolCallId"] == start["toolCallId"]:
                call |= update
        return call

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self.arrived.clear()
                await self.arrived.wait()


def dump(model: Any) -> dict[str, Any]:
    return model.model_dump(by_alias=True, exclude_unset=True, mode="json")


def _load(path: str) -> str:
    return Path(path).read_bytes().decode()


def _save(path: str, text: str) -> None:
    Path(path).write_text(text, newline="")


async def until_written(file: Path) -> None:
    """Wait until a file holds a line."""

    def is_written() -> bool:
        return file.exists() and file.read_text().endswith("\n")

    async with asyncio.timeout(PATIENCE_S):
        while not is_written():  # noqa: ASYNC110 — another process writes it
            await asyncio.sleep(0.02)


async def _read_all(process: Process, output: bytearray) -> None:
    assert process.stdout is not None
    while piece := await process.stdout.read(65_536):
        output += piece


class Running:
    """A running ``newel acp``: its pipes as asyncio has them."""

    def __init__(self, process: Started, stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader) -> None:
        self._process = process
        self.stdin = stdin
        self.stdout = stdout
        self.kill = process.kill

    async def wait(self) -> int:
        return await asyncio.to_thread(self._process.wait, PATIENCE_S)


@asynccontextmanager
async def _connected(process: Started) -> AsyncGenerator[Running]:
    loop = asyncio.get_running_loop()
    stdout, unread = asyncio.StreamReader(limit=2**26), asyncio.StreamReader()
    reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdout), process.stdout)
    writing, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(unread), process.stdin
    )
    try:
        yield Running(process, asyncio.StreamWriter(writing, protocol, None, loop), stdout)
    finally:
        reading.close()
        writing.close()


class Connection:
    """A running ``newel acp``, and the editor at its other end."""

    def __init__(self, process: Running, agent: ClientSideConnection, editor: Editor, project: Path) -> None:
        self.process = process
        self.agent = agent
        self.editor = editor
        self.project = project
        self.session = ""

    async def new_session(self, *servers: Any) -> Any:
        answer = await self.agent.new_session(cwd=str(self.project), mcp_servers=list(servers))
        self.session = answer.session_id
        return answer

    async def prompt(self, *blocks: Any) -> Any:
        return await self.prompt_in(self.session, *blocks)

    async def prompt_in(self, session: str, *blocks: Any) -> Any:
        content = [text_block(block) if isinstance(block, str) else block for block in blocks]
        return await asyncio.wait_for(self.agent.prompt(prompt=content, session_id=session), PATIENCE_S)

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        """A request that the SDK has no method for."""
        return await self.agent._conn.send_request(method, params)  # pyright: ignore[reportPrivateUsage]


@asynccontextmanager
async def editing(
    newel: Newel,
    *options: str,
    files: bool = True,
    terminals: bool = False,
    editor: Editor | None = None,
    under: Sequence[str] = (),
) -> AsyncGenerator[Connection]:
    """An editor that has started ``newel acp`` and said what it can do. ``under`` is a command that runs it."""
    editor = editor or Editor()
    command = [*under, str(BIN / "newel"), "acp", *options]
    started = start(command, cwd=newel.home, env=newel.environ, stdin=PIPE, stderr=2)
    async with _connected(started) as process:
        agent = ClientSideConnection(
            cast("Any", editor),
            process.stdin,
            process.stdout,
            use_unstable_protocol=True,
            observers=[editor.observe],
        )
        try:
            await agent.initialize(
                protocol_version=PROTOCOL_VERSION,
                client_capabilities=schema.ClientCapabilities(
                    fs=schema.FileSystemCapabilities(read_text_file=files, write_text_file=files),
                    terminal=terminals,
                ),
            )
            yield Connection(process, agent, editor, newel.project)
        finally:
            await agent.close()
            process.stdin.close()
            try:
                await process.wait()
            finally:
                process.kill()
