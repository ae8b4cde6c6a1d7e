"""The servers of programs on standard input and output: JSON mode, and ``newel rpc``.

Both read one JSON object a line and write one a line, on the same conversation. ``requests`` has the lines of JSON mode, which
are answered by events alone, with a ``session`` line at the start and a ``result`` line at the end of each prompt
(``newel.terminal.run_result``); ``protocol`` has those of ``newel rpc``, each of which is answered by a response.
"""

from __future__ import annotations

import contextlib
import errno
from functools import cache
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from newel.agent.errors import NewelError
from newel.agent.events import Event
from newel.agent.formatting import describe_error
from newel.agent.messages import Usage
from newel.agent.ports import AgentMode, ThinkingLevel
from newel.session.coding_agent import CodingAgent
from newel.terminal.renderers.base import report_start
from newel.terminal.renderers.json_renderer import JsonRenderer
from newel.terminal.rpc import data as d
from newel.terminal.rpc import protocol as p
from newel.terminal.rpc.conversation import Conversation, TurnAborted
from newel.terminal.rpc.requests import command_of, explain, read_request
from newel.terminal.signals import code_without_reader, exit_code, on_signals
from newel.terminal.stdout import discard_stdout
from newel.terminal.ui.line_reader import LineHandler, LineReader, serve_lines
from newel.text.json import decode_json

if TYPE_CHECKING:
    from newel.terminal.prompt_record import HeldAnswer
    from newel.terminal.ui.approval import Approver


async def run_json(
    agent: CodingAgent, stdin: int, out: BinaryIO, *, approver: Approver, held: HeldAnswer | None = None
) -> int:
    """Serve the requests of JSON mode that come from the file descriptor ``stdin`` until it ends, and finish what was
    asked. ``held`` is set if the answers are held to a schema. Returns 0, 1 if the reader has gone, 128 + N if signal N ended it.
    """
    renderer = JsonRenderer(out)
    conversation = Conversation(agent, renderer, report=renderer, held=held)
    return await _serve(conversation, JsonMode(conversation), LineReader(stdin), approver)


async def run_rpc(agent: CodingAgent, stdin: int, out: BinaryIO, *, approver: Approver) -> int:
    """Serve ``newel rpc`` in the same way."""
    conversation = Conversation(agent, JsonRenderer(out))
    lines = LineReader(stdin, limit=p.MAX_LINE)
    return await _serve(conversation, RpcMode(conversation), lines, approver)


async def _serve(
    conversation: Conversation, handler: LineHandler, lines: LineReader, approver: Approver
) -> int:
    approver.handler = conversation.ask
    unsubscribe = conversation.agent.subscribe(conversation.output.handle)
    try:
        conversation.report_session()
        report_start(conversation.agent, conversation.renderer)
        async with on_signals(lambda number: conversation.end(exit_code(number))) as group:
            conversation.group = group
            group.start_soon(conversation.work)
            group.start_soon(conversation.watch_reader)
            with conversation.reading:
                await serve_lines(lines, handler)
                conversation.no_more()
            await conversation.finished.wait()
        conversation.output.check()
    except OSError as error:
        discard_stdout(error)
        return code_without_reader()
    finally:
        unsubscribe()
        approver.handler = None
    if conversation.code == 1:  # the reader has gone, and nothing can be flushed
        discard_stdout(BrokenPipeError(errno.EPIPE, "Broken pipe"))
    return conversation.code


def failure_of(error: Exception) -> p.RpcFailure:
    """An error for the program: of a defect in Newel, the class, too."""
    if isinstance(error, NewelError):
        return p.RpcFailure(error.code, str(error))
    if isinstance(error, OSError):
        return p.RpcFailure("os_error", describe_error(error))
    return p.RpcFailure("internal", describe_error(error))


# -- JSON mode ----------------------------------------------------------------------------------------


class RpcState(Event, frozen=True, kw_only=True, omit_defaults=False, tag="state"):
    """``waiting`` counts the queued requests; ``context`` is in tokens. ``where`` is the model's location if it is not the
    configured server: ``on host (ollama run)``.
    """

    model: str
    where: str
    provider: str
    thinking_level: ThinkingLevel
    agent_mode: AgentMode
    is_streaming: bool
    pending_tool_calls: list[str]
    message_count: int
    waiting: int
    session_id: str
    session_file: str | None
    folder: str
    usage: Usage
    cost: float | None
    context: int
    error: str | None


class JsonMode:
    """Answers with events: a ``state`` to a ``get_state``, and an ``error`` to a request that fails. Other requests have no answer."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    async def serve(self, line: str, number: int, /) -> None:
        prefix = f"Line {number}: "

        def answer(outcome: d.RpcData | Exception) -> None:
            match outcome:
                case d.StateData():
                    self._conversation.event(_state_event(outcome))
                case Exception() if not isinstance(outcome, TurnAborted):
                    failure = failure_of(outcome)
                    self._conversation.error(failure.code, f"{prefix}{failure.message}")
                case _:
                    pass

        try:
            command = command_of(read_request(line))
        except NewelError as error:
            answer(error)
            return
        if isinstance(command, p.PromptCommand):
            await self._conversation.accept(command, _ignore)  # events show the error of a run
        else:
            await self._conversation.accept(command, answer)
            prefix = ""  # of a request that was queued

    def skip(self, problem: str, number: int, /) -> None:
        self._conversation.error("bad_request", f"Line {number}: {problem}")


def _ignore(_: d.RpcData | Exception) -> None:
    """Take no answer."""


def _state_event(data: d.StateData) -> RpcState:
    fields = (field.name for field in msgspec.structs.fields(RpcState) if field.name != "timestamp")
    return RpcState(**{name: getattr(data, name) for name in fields})


# -- newel rpc ----------------------------------------------------------------------------------------


class InvalidCommand(NewelError, code="bad_request"):
    """A line that is no valid command."""


class RpcMode:
    """Answers each command with one response."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        conversation.reports_dropped = True

    async def serve(self, line: str, _: int, /) -> None:
        try:
            command = decode_json(line, _command_decoder())
        except msgspec.DecodeError as error:
            name, request_id = _head_of(line)
            problem = InvalidCommand(_explain(error, line, name))
            self._respond(name, request_id, problem)
            return
        name = p.name_of(type(command))
        await self._conversation.accept(command, lambda outcome: self._respond(name, command.id, outcome))

    def skip(self, problem: str, _: int, /) -> None:
        self._respond(None, None, InvalidCommand(f"The line cannot be read: {problem}"))

    def _respond(
        self, name: str | None, request_id: p.RequestId | None, outcome: d.RpcData | Exception
    ) -> None:
        answer = failure_of(outcome) if isinstance(outcome, Exception) else outcome
        message = p.response(name, request_id, answer)
        self._conversation.output.guard(lambda: self._conversation.renderer.write(message))


@cache
def _command_decoder() -> msgspec.json.Decoder[p.AnyCommand]:
    return msgspec.json.Decoder[p.AnyCommand](p.AnyCommand)


class _CommandName(msgspec.Struct, frozen=True):
    type: str


class _CommandId(msgspec.Struct, frozen=True):
    id: p.RequestId | None = None


def _head_of(line: str) -> tuple[str | None, p.RequestId | None]:
    """The name and the id of an invalid command, as far as they can be read."""
    name, request_id = None, None
    with contextlib.suppress(msgspec.DecodeError):
        name = decode_json(line, _CommandName).type[:100]
    with contextlib.suppress(msgspec.DecodeError):
        request_id = decode_json(line, _CommandId).id
    return name, request_id


def _explain(error: Exception, line: str, name: str | None) -> str:
    names = [p.name_of(command) for command in p.COMMANDS]
    if name is not None and name not in names:
        return f"There is no command {name!r}. The commands are {', '.join(sorted(names))}."
    return f"Invalid command: {explain(error, line)}. It begins: {line[:200]}"
