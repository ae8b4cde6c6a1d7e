"""A client of ``newel rpc``, for code with an event loop."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import cache
from pathlib import Path
from subprocess import PIPE
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, get_args

import anyio
import msgspec

from newel.agent.errors import UsageError
from newel.agent.events import AgentEnd, ErrorEvent, MessageEnd
from newel.agent.formatting import describe_error
from newel.agent.messages import AppMessage, Attachment, UserMessage
from newel.agent.ports import AgentMode, ThinkingLevel
from newel.client.streams import (
    ClientEvent,
    CommandFailed,
    CommandTimedOut,
    OtherEvent,
    ProcessEnded,
    RpcClientError,
    RpcEventStream,
    RunResult,
)
from newel.concurrency import background_tasks, hosted, is_async, task_group
from newel.terminal.rpc import data as d
from newel.terminal.rpc import protocol as p
from newel.text.json import to_json
from newel.text.lines import LineSplitter

if TYPE_CHECKING:
    from anyio.abc import Process

Data = TypeVar("Data")

TIMEOUT_S: Final = 30.0
"""For the response to a command that does not wait for a run."""

GRACE_S: Final = 5.0
"""For the process to end after it was asked to."""

LAST_WORDS_S: Final = 1.0
"""For the rest of the output, once the process has ended."""

STDERR_BYTES: Final = 8_192
"""Kept of the end of the process's standard error."""

MAX_LINE: Final = 256 * 1024 * 1024
"""Bytes of a line that the client reads; the messages of a long conversation with images are one."""


class _Response(msgspec.Struct, frozen=True, tag_field="type", tag="response"):
    id: int | str | float | None
    success: bool
    data: msgspec.Raw = msgspec.Raw(b"null")
    error: p.RpcFailure | None = None


class _PendingCommand:
    """A command that waits for its response."""

    def __init__(self) -> None:
        self.answered = anyio.Event()
        self.response: _Response | None = None


_TAKING_TURNS: Final = {
    p.name_of(command) for command in get_args(p.QueuedCommand) if command is not p.PromptCommand
}


@cache
def _decoder() -> msgspec.json.Decoder[_Response | p.RpcEvent]:
    return msgspec.json.Decoder[_Response | p.RpcEvent](_Response | p.RpcEvent)


class RpcClient:
    """A running ``newel rpc``, as an async context manager: leaving it ends the process with all that its tools have started,
    also in the middle of a run.

    ``arguments`` are the options of ``newel rpc``, ``cwd`` is the folder to work in, ``environ`` the whole environment of the
    process (default: this process's), ``timeout`` is in seconds; None waits forever. ``command`` starts another Newel.
    """

    def __init__(
        self,
        *arguments: str,
        cwd: str | Path | None = None,
        environ: Mapping[str, str] | None = None,
        timeout: float | None = TIMEOUT_S,
        command: Sequence[str] = (),
    ) -> None:
        # -P: a project's folder must not offer modules to Newel.
        self._command = [*(command or (sys.executable, "-P", "-m", "newel", "rpc")), *arguments]
        self._cwd = cwd
        self._environ = environ
        self._timeout = timeout
        self._pending: dict[int | str | float, _PendingCommand] = {}
        self._streams: list[RpcEventStream] = []
        self._last_id = 0
        self._sending = anyio.Lock()
        self._stderr = b""
        self._start_failure: p.RpcFailure | None = None
        self._has_answered = False
        self._is_closing = False
        self._ended: ProcessEnded | None = None
        self._has_ended = anyio.Event()
        self._has_read_stdout, self._has_read_stderr = anyio.Event(), anyio.Event()
        self._process: Process | None = None
        self._stack = AsyncExitStack()

    @property
    def pid(self) -> int:
        """The process id of ``newel rpc``."""
        return self._running().pid

    async def __aenter__(self) -> Self:
        try:
            self._process = await anyio.open_process(
                self._command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                cwd=self._cwd,
                env=self._environ,
                start_new_session=True,  # Ctrl+C is for this program, which then ends Newel
            )
        except OSError as error:
            raise RpcClientError(f"Newel cannot be started: {describe_error(error)}") from error
        await self._stack.enter_async_context(hosted(background_tasks(self._read)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closing = True
        try:
            await self._end_process()
        finally:
            await self._stack.aclose()
        for stream in tuple(self._streams):
            stream.end(None)

    # -- the conversation -------------------------------------------------------------------------

    def events(self) -> RpcEventStream:
        """A stream of the events from now on. Create it before the prompt, so that it misses none."""
        stream = RpcEventStream(self._leave)
        self._streams.append(stream)
        return stream

    async def run(
        self,
        text: str,
        *,
        attachments: Sequence[Attachment] = (),
        expand: bool = False,
        on_event: Callable[[ClientEvent], object] | None = None,
    ) -> RunResult:
        """Send a prompt and wait for the end of its run, whose events go to ``on_event``. Raises ``CommandFailed`` if it does
        not begin; a run that fails has an ``end`` with the reason. Cancelling it aborts the run, and so does an error of ``on_event``.
        Raises ``UsageError`` for an ``async`` one.
        """
        if is_async(on_event):
            raise UsageError(
                "on_event: nobody would await an `async` function. Give a plain one, or iterate over `events()`."
            )
        async with self.events() as events:
            accepted = await self.prompt(text, attachments=attachments, expand=expand)
            messages: list[AppMessage] = []
            try:
                async for event in events:
                    match event:
                        case MessageEnd(message=UserMessage(id=sent)) if sent == accepted.message_id:
                            messages.append(event.message)
                        case MessageEnd() if messages:
                            messages.append(event.message)
                        case ErrorEvent(code="prompt_dropped") if accepted.message_id in event.message:
                            raise CommandFailed("prompt", p.RpcFailure(event.code, event.message))  # noqa: TRY301 — leaves the method
                        case _:
                            pass
                    if messages and on_event is not None:
                        on_event(event)
                    if messages and isinstance(event, AgentEnd):
                        return RunResult(event, messages)
            except BaseException:
                if (messages or not accepted.queued) and not events.holds(AgentEnd):
                    with anyio.CancelScope(shield=True), suppress(RpcClientError):
                        await self.abort()
                raise
        raise RpcClientError("The client was closed during the run.")

    async def prompt(
        self, text: str, *, attachments: Sequence[Attachment] = (), expand: bool = False
    ) -> d.PromptAccepted:
        return await self.request(p.PromptCommand(text=text, attachments=list(attachments), expand=expand))

    async def steer(self, text: str) -> d.QueuedForRun:
        return await self.request(p.SteerCommand(text=text))

    async def follow_up(self, text: str) -> d.QueuedForRun:
        return await self.request(p.FollowUpCommand(text=text))

    async def abort(self) -> d.RunActivity:
        return await self.request(p.AbortCommand())

    async def stop(self) -> d.RunActivity:
        return await self.request(p.StopCommand())

    async def approve(
        self, tool_call_id: str, decision: Literal["once", "always", "rule", "no"], word: str = ""
    ) -> d.ApprovalAnswered:
        return await self.request(p.ApproveCommand(tool_call_id=tool_call_id, decision=decision, word=word))

    async def state(self) -> d.StateData:
        return await self.request(p.StateCommand())

    async def messages(self, limit: int | None = None) -> d.MessagesData:
        return await self.request(p.MessagesCommand(limit=limit))

    async def stats(self) -> d.StatsData:
        return await self.request(p.StatsCommand())

    async def commands(self) -> d.CommandsData:
        return await self.request(p.CommandsCommand())

    async def model(self, model: str) -> d.ModelData:
        return await self.request(p.ModelCommand(model=model))

    async def models(self) -> d.ModelsData:
        return await self.request(p.ModelsCommand())

    async def thinking(self, level: ThinkingLevel) -> d.ThinkingData:
        return await self.request(p.ThinkingCommand(level=level))

    async def agent_mode(self, mode: AgentMode) -> d.AgentModeData:
        return await self.request(p.AgentModeCommand(mode=mode))

    # -- sessions ---------------------------------------------------------------------------------

    async def compact(self, instructions: str = "") -> d.CompactData:
        return await self.request(p.CompactCommand(instructions=instructions))

    async def sessions(self, *, all_folders: bool = False, limit: int = 20) -> d.SessionsData:
        return await self.request(p.SessionsCommand(all=all_folders, limit=limit))

    async def new_session(self) -> d.SessionOpened:
        return await self.request(p.NewSessionCommand())

    async def switch_session(self, session: str) -> d.SessionOpened:
        return await self.request(p.SwitchSessionCommand(session=session))

    async def name_session(self, name: str) -> d.NameData:
        return await self.request(p.NameSessionCommand(name=name))

    async def fork(self, message_id: str | None = None, *, before: bool = False) -> d.SessionOpened:
        return await self.request(p.ForkCommand(message_id=message_id, before=before))

    async def export(
        self, path: str | None = None, *, html: bool = False, unmasked: bool = False
    ) -> d.ExportData:
        return await self.request(p.ExportCommand(path=path, html=html, unmasked=unmasked))

    # -- changes ----------------------------------------------------------------------------------

    async def changes(self, limit: int = 10) -> d.ChangesData:
        return await self.request(p.ChangesCommand(limit=limit))

    async def decide(
        self,
        verdict: Literal["keep", "reject"],
        *names: str,
        everything: bool = False,
        mine: Literal["peel", "base"] | None = None,
    ) -> d.DecideData:
        return await self.request(
            p.DecideCommand(verdict=verdict, names=list(names), all=everything, mine=mine)
        )

    async def undo(
        self, checkpoint: str | None = None, *, preview: bool = False, redo: bool = False
    ) -> d.UndoData:
        return await self.request(p.UndoCommand(checkpoint=checkpoint, preview=preview, redo=redo))

    # -- requests ---------------------------------------------------------------------------------

    async def request(
        self,
        command: p.RpcCommand[Data],
        *,
        timeout: float | msgspec.UnsetType | None = msgspec.UNSET,  # noqa: ASYNC109 — a program's own limit
    ) -> Data:
        """Send a command and return the data of its response. ``timeout`` is in seconds, None for no limit; by default it is the
        client's, and none for commands that take turns with runs. Raises ``RpcClientError``.
        """
        kind = type(command)
        name = p.name_of(kind)
        if timeout is msgspec.UNSET:
            timeout = None if name in _TAKING_TURNS else self._timeout
        self._last_id += 1
        request_id = self._last_id
        line = to_json(msgspec.structs.replace(command, id=request_id)) + b"\n"
        if len(line) > p.MAX_LINE:
            raise CommandFailed(name, p.RpcFailure("bad_request", f"It has more than {p.MAX_LINE:,} bytes."))
        pending = self._pending[request_id] = _PendingCommand()
        try:
            with anyio.fail_after(timeout):
                await self._send(line)
                await pending.answered.wait()
        except TimeoutError as error:
            raise CommandTimedOut(f"{name}: no response within {timeout:g} s.") from error
        finally:
            del self._pending[request_id]
        response = pending.response
        if response is None:
            raise self._end()
        if not response.success:
            raise CommandFailed(name, response.error or p.RpcFailure("internal", "It failed."))
        return msgspec.json.decode(response.data, type=p.data_of(kind))

    async def _send(self, line: bytes) -> None:
        stdin = self._running().stdin
        assert stdin is not None  # noqa: S101 — a pipe
        try:
            async with self._sending:
                await stdin.send(line)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            await self._has_ended.wait()  # with the exit code and the last words
            raise self._end() from None

    def _running(self) -> Process:
        if self._process is None:
            raise RpcClientError("The client is not open. Use it in `async with`.")
        if self._ended is not None or self._is_closing:
            raise self._end()
        return self._process

    def _end(self) -> RpcClientError:
        return RpcClientError("The client is closed.") if self._is_closing or not self._ended else self._ended

    # -- the process ------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Read until the process has ended. Cancellation must not end this: Newel could not write its last lines, and would hang."""
        process = self._process
        assert process is not None  # noqa: S101 — started
        code: int | None = None
        with anyio.CancelScope(shield=True):
            async with task_group() as group:
                group.start_soon(self._read_stdout, process)
                group.start_soon(self._read_stderr, process)
                code = await process.wait()
                with anyio.move_on_after(LAST_WORDS_S):  # another process may hold the pipes
                    await self._has_read_stdout.wait()
                    await self._has_read_stderr.wait()
                group.cancel_scope.cancel()
        self._ended = ProcessEnded(code, self._stderr.decode(errors="replace"), self._start_failure)
        self._has_ended.set()
        for pending in self._pending.values():
            pending.answered.set()
        for stream in tuple(self._streams):
            stream.end(None if self._is_closing else self._ended)

    async def _read_stdout(self, process: Process) -> None:
        lines = LineSplitter(MAX_LINE)
        assert process.stdout is not None  # noqa: S101 — a pipe
        async for chunk in process.stdout:
            for line in lines.feed(chunk):
                try:
                    self._handle(line)
                except msgspec.DecodeError:
                    self._break(f"It is not Newel: it wrote {line[:200].decode(errors='replace')!r}.")
            if lines.overflow:
                self._break(f"It wrote a line of more than {MAX_LINE:,} bytes.")
        self._has_read_stdout.set()

    async def _read_stderr(self, process: Process) -> None:
        assert process.stderr is not None  # noqa: S101 — a pipe
        async for chunk in process.stderr:
            self._stderr = (self._stderr + chunk)[-STDERR_BYTES:]
        self._has_read_stderr.set()

    def _break(self, problem: str) -> None:
        """Kill a process that cannot be understood."""
        self._start_failure = self._start_failure or p.RpcFailure("bad_response", problem)
        self._kill()

    def _handle(self, line: bytes) -> None:
        try:
            message = _decoder().decode(line)
        except msgspec.ValidationError:
            fields = msgspec.json.decode(line, type=dict[str, Any])
            message = OtherEvent(str(fields.get("type")), fields)
        if isinstance(message, _Response):
            self._has_answered = True
            pending = self._pending.get(message.id) if message.id is not None else None
            if pending is not None:  # else it has timed out
                pending.response = message
                pending.answered.set()
            return
        if isinstance(message, ErrorEvent) and not self._has_answered:
            self._start_failure = p.RpcFailure(message.code, message.message)
        for stream in tuple(self._streams):
            stream.put(message)

    def _leave(self, stream: RpcEventStream) -> None:
        if stream in self._streams:
            self._streams.remove(stream)

    async def _end_process(self) -> None:
        """End the process in good order, or else by force. Newel ends the processes of its tools, also if it is killed."""
        process = self._process
        if process is None:
            return
        with anyio.CancelScope(shield=True):
            with suppress(ProcessLookupError):
                process.terminate()
            with anyio.move_on_after(GRACE_S):
                await self._has_ended.wait()
            if not self._has_ended.is_set():
                self._kill()
            await self._has_ended.wait()
            await process.aclose()

    def _kill(self) -> None:
        """Kill the process and those of its group."""
        with suppress(ProcessLookupError):
            if self._process is not None:
                os.killpg(self._process.pid, signal.SIGKILL)
