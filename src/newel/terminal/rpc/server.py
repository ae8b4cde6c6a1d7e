"""JSON mode: requests in, events out, one JSON object a line, for programs that drive the agent.

In: ``message``, ``clear`` and ``compact`` are queued; all others act immediately.

    {"type": "message", "content": "…", "attachments": [Attachment…]}
    {"type": "interrupt"}                         abort the current run
    {"type": "stop"}                              stop it before its next request
    {"type": "steer", "content": "…"}             reaches the model after the current tools
    {"type": "follow_up", "content": "…"}         reaches it when it would be done
    {"type": "clear"}                             start a new session
    {"type": "compact", "instructions": "…"}      summarise the conversation
    {"type": "set_model", "model": "…"}           {"type": "set_thinking", "level": "low"}
    {"type": "set_agent_mode", "mode": "local"}   local, remote or hybrid_auto
    {"type": "get_state"}                         answered by a ``state`` line
    {"type": "approve", "toolCallId": "…", "decision": "once|always|no", "word": "…"}

Out: a ``session`` line, every event as ``newel.agent.events`` writes it, a ``result`` line at the end of each prompt
(``newel.terminal.run_result``), ``approval_request`` and ``state``. An invalid
line is answered with an ``error`` event that names it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, BinaryIO, assert_never

import anyio
from anyio.lowlevel import checkpoint

from newel.agent.errors import NewelError
from newel.agent.events import ErrorEvent, Event
from newel.agent.messages import Usage, UserMessage
from newel.agent.ports import AgentMode, ThinkingLevel, Touch
from newel.permissions.approval import Approval, ApprovalRequest
from newel.providers.routing import read_agent_mode
from newel.session.coding_agent import CodingAgent
from newel.terminal.model_names import expand_model_name
from newel.terminal.renderers.base import JsonRenderer, RendererSubscription, report_damage
from newel.terminal.rpc.requests import (
    AnyRequest,
    Approve,
    ChangeAgentMode,
    ChangeModel,
    Clear,
    CompactHistory,
    FollowUp,
    GetState,
    Interrupt,
    InTurn,
    InvalidRpcRequest,
    Say,
    SetThinking,
    Steer,
    StopRun,
    read_request,
)
from newel.terminal.run_result import HeldAnswer, PromptRecord, describe_session
from newel.terminal.signals import exit_code, on_signals
from newel.terminal.stdout import discard_stdout
from newel.terminal.ui.approval import Approver
from newel.terminal.ui.line_reader import LineReader

# -- output besides the events ---------------------------------------------------------------


class ApprovalAsked(Event, frozen=True, kw_only=True, tag="approval_request"):
    """A call needs an ``approve`` request; ``preview`` is its exact effect. ``touches`` are the files that it opens itself. The
    same call asks again if one of them changes meanwhile.
    """

    tool_call_id: str
    tool_name: str
    args: dict[str, Any]
    label: str
    preview: str
    folder: str
    touches: Sequence[Touch] = ()


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


# -- the conversation -------------------------------------------------------------------------------


async def run_json(
    agent: CodingAgent, stdin: int, out: BinaryIO, *, approver: Approver, held: HeldAnswer | None = None
) -> int:
    """Serve the requests that come from the file descriptor ``stdin`` until it ends, and finish what was
    asked. ``held`` is set if the answers are held to a schema. Returns 0, 1 if the reader has gone, 128 + N if signal N ended it.
    """
    mode = _JsonMode(agent, JsonRenderer(out), held)
    approver.handler = mode.ask
    subscription = RendererSubscription(mode.renderer, mode.end)
    unsubscribe = agent.subscribe(subscription.handle)
    try:
        mode.renderer.on_session(describe_session(agent))
        report_damage(agent, mode.renderer)
        async with on_signals(lambda number: mode.end(exit_code(number))) as group:
            group.start_soon(mode.work)
            with mode.reading:
                await mode.read(LineReader(stdin))
            await mode.finished.wait()
        subscription.check()
    except OSError as error:
        discard_stdout(error)
        return 1
    finally:
        unsubscribe()
        approver.handler = None
    return mode.code


class _JsonMode:
    def __init__(self, agent: CodingAgent, renderer: JsonRenderer, held: HeldAnswer | None = None) -> None:
        self.agent = agent
        self.renderer = renderer
        self.held = held
        self.reading = anyio.CancelScope()
        self.finished = anyio.Event()
        self.code = 0
        self._turns: deque[InTurn] = deque()
        self._more = anyio.Event()
        self._no_more = False
        self._running: anyio.CancelScope | None = None
        self._questions: dict[str, anyio.Event] = {}
        """The pending approvals by call, each with the event of its answer."""
        self._approvals: dict[str, Approval] = {}

    def end(self, code: int = 0) -> None:
        """Stop everything and end with this exit code."""
        self.code = code
        self._turns.clear()
        self.interrupt()
        self.reading.cancel()
        self.no_more()

    def no_more(self) -> None:
        """The input has ended: finish the queued requests, and wait for no more approvals."""
        self._no_more = True
        self._more.set()
        for answered in self._questions.values():
            answered.set()

    def interrupt(self) -> None:
        if self._running is not None:
            self._running.cancel()

    def error(self, code: str, message: str) -> None:
        self.renderer.handle(ErrorEvent(code=code, message=message))

    # -- requests ---------------------------------------------------------------------------------

    async def read(self, lines: LineReader) -> None:
        number = 0
        while True:
            number += 1
            try:
                line = await lines.next()
            except ValueError as error:
                self.error("bad_request", f"Line {number}: {error}.")
                continue
            if line is None:
                break
            if number == 1:
                line = line.removeprefix("\N{BYTE ORDER MARK}")
            if line.strip():
                await self.serve(line, number)
        self.no_more()

    async def serve(self, line: str, number: int) -> None:
        try:
            await self.act(read_request(line))
        except NewelError as error:
            self.error(error.code, f"Line {number}: {error}")

    async def act(self, request: AnyRequest) -> None:
        agent = self.agent
        match request:
            case Say() | Clear() | CompactHistory():
                self._turns.append(request)
                self._more.set()
                await checkpoint()  # let an idle worker start before the next line acts
            case Interrupt():
                self.interrupt()
            case StopRun():
                agent.stop()
            case Steer():
                await agent.queue_message(UserMessage(content=request.content), "steer")
            case FollowUp():
                await agent.queue_message(UserMessage(content=request.content), "follow_up")
            case ChangeModel():
                agent.set_model(await expand_model_name(agent, request.model))
            case SetThinking():
                agent.set_thinking_level(request.level)
            case ChangeAgentMode():
                await agent.set_agent_mode(read_agent_mode(request.mode))
            case GetState():
                self.renderer.handle(self.state())
            case Approve():
                self.answer(request)
            case _:
                assert_never(request)

    def state(self) -> RpcState:
        agent, state, totals = self.agent, self.agent.state, self.agent.totals()
        path = agent.session.get_file_path()
        return RpcState(
            model=state.model.id,
            where=agent.where,
            provider=state.model.provider,
            thinking_level=state.thinking_level,
            agent_mode=state.agent_mode,
            is_streaming=state.is_streaming,
            pending_tool_calls=sorted(state.pending_tool_calls),
            message_count=len(state.messages),
            waiting=len(self._turns),
            session_id=agent.session.get_id(),
            session_file=str(path) if path else None,
            folder=agent.workspace.name,
            usage=totals.usage,
            cost=totals.cost,
            context=totals.context,
            error=state.error,
        )

    # -- queued requests ----------------------------------------------------------------------

    async def work(self) -> None:
        while True:
            while self._turns:
                with anyio.CancelScope() as self._running:
                    await self.take(self._turns.popleft())
                self._running = None
            if self._no_more:
                self.finished.set()
                return
            self._more = anyio.Event()
            await self._more.wait()

    async def take(self, request: InTurn) -> None:
        agent = self.agent
        try:
            match request:
                case Say():
                    record = PromptRecord(agent, self.held)
                    try:
                        await agent.prompt(request.content, request.attachments)
                    finally:
                        self.renderer.on_result(record.result())
                case Clear():
                    agent.new_session()
                    self.renderer.on_session(describe_session(agent))
                case CompactHistory():
                    if not await agent.compact(request.instructions):
                        self.error("nothing_to_compact", "There is nothing to summarise yet.")
                case _:
                    assert_never(request)
        except OSError:  # the reader has gone
            raise
        except Exception as error:  # noqa: BLE001 — a failed request must not end the others
            if not isinstance(request, Say):  # events have shown the error of a run
                self.error(error.code if isinstance(error, NewelError) else "internal", str(error))

    # -- approval ---------------------------------------------------------------------------------

    async def ask(self, request: ApprovalRequest) -> Approval:
        if self._no_more:
            return _NOBODY
        call = request.call
        answered = self._questions[call.id] = anyio.Event()
        self.renderer.handle(
            ApprovalAsked(
                tool_call_id=call.id,
                tool_name=call.name,
                args=call.arguments,
                label=request.label,
                preview=request.preview,
                folder=request.folder,
                touches=request.touches,
            )
        )
        try:
            await answered.wait()
            return self._approvals.get(call.id, _NOBODY)
        finally:
            del self._questions[call.id]
            self._approvals.pop(call.id, None)

    def answer(self, request: Approve) -> None:
        answered = self._questions.get(request.tool_call_id)
        if answered is None:
            raise InvalidRpcRequest(f"No call {request.tool_call_id!r} is waiting for approval.")
        self._approvals.setdefault(
            request.tool_call_id, Approval(request.decision, request.word)
        )  # the first counts
        answered.set()


_NOBODY = Approval("nobody")
