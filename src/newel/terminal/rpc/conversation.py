"""The conversation of a program with the agent: one dispatch for JSON mode and ``newel rpc``.

    line ──> dialect ──> Conversation.accept ──> inline, concurrent, or the queue of turns ──> Answer ──> dialect ──> line

A dialect reads commands from lines and writes their outcomes; events are the same in both.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

import anyio
import msgspec
from anyio.lowlevel import checkpoint

from newel.agent.errors import NewelError
from newel.agent.events import ErrorEvent, Event, MessageEnd
from newel.agent.formatting import describe_error
from newel.agent.messages import UserMessage
from newel.agent.ports import AgentMode
from newel.permissions.approval import Approval, ApprovalRequest
from newel.session.coding_agent import CodingAgent
from newel.terminal.model_names import expand_model_name
from newel.terminal.prompt_record import HeldAnswer, PromptRecord, RunReporter
from newel.terminal.renderers.base import RendererSubscription
from newel.terminal.renderers.json_renderer import JsonRenderer
from newel.terminal.rpc import data as d
from newel.terminal.rpc import protocol as p
from newel.terminal.rpc.requests import InvalidRpcRequest, check_attachment
from newel.terminal.run_result import describe_session
from newel.text.format import one_line

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from newel.agent.events import AgentEvent

Answer = Callable[[d.RpcData | Exception], None]
"""Takes the outcome of a command. Must not raise."""

LOOK_S = 0.25
"""Seconds between two looks whether the reader of the output is there."""

MAX_QUOTED = 100
"""Characters of a message in the report that it was not sent."""

_NOBODY = Approval("nobody")


class TurnAborted(NewelError, code="aborted"):
    """A command was ended before it was done."""


class NothingToCompact(NewelError):
    """The conversation is too short."""


class QueuedTurn:
    """A queued command. Of its outcomes, only the first is passed on."""

    def __init__(self, command: p.QueuedCommand, answer: Answer, message: UserMessage | None = None) -> None:
        self.command = command
        self.message = message
        self.is_promised = False
        """Whether a prompt was accepted before its message was saved."""
        self._answer: Answer | None = answer

    def answer(self, outcome: d.RpcData | Exception) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer(outcome)


class Conversation:
    """Serves commands on one agent. ``output`` gets events and what a dialect writes. ``report`` gets the session and the result
    of each prompt; with ``held`` the answers are held to a schema. ``group`` is set before the first command.
    """

    group: TaskGroup
    reports_dropped = False
    """Whether an ``error`` event tells of queued prompts that were not begun."""

    def __init__(
        self,
        agent: CodingAgent,
        renderer: JsonRenderer,
        *,
        report: RunReporter | None = None,
        held: HeldAnswer | None = None,
    ) -> None:
        self.agent = agent
        self._report = report
        self._held = held
        self.renderer = renderer
        self.output = RendererSubscription(renderer, self.end)
        self.reading = anyio.CancelScope()
        self.finished = anyio.Event()
        self.code = 0
        self._turns: deque[QueuedTurn] = deque()
        self._more = anyio.Event()
        self._no_more = False
        self._ended = False
        self._input_over = anyio.Event()
        self._running: anyio.CancelScope | None = None
        self._is_answering = False
        self._concurrent = 0
        self._deciding = anyio.Lock()
        self._questions: dict[str, anyio.Event] = {}
        """The pending approvals by call, each with the event of its answer."""
        self._approvals: dict[str, Approval] = {}

    # -- the end ----------------------------------------------------------------------------------

    def end(self, code: int = 0) -> None:
        """Stop everything and end with this exit code."""
        self.code, self._ended = code, True
        self.interrupt()
        self.reading.cancel()
        self.no_more()

    def no_more(self) -> None:
        """The input has ended: finish the queued commands, and wait for no more approvals."""
        self._no_more = True
        self._input_over.set()
        self._more.set()
        for answered in self._questions.values():
            answered.set()

    def interrupt(self) -> bool:
        """End the current turn; False if there is none."""
        if self._running is None:
            return False
        self._running.cancel()
        return True

    async def watch_reader(self) -> None:
        """Once the input has ended, end everything when the reader of the output goes, too: the program has died."""
        try:
            poll = select.poll()
            poll.register(self.renderer.out.fileno(), 0)
        except (OSError, ValueError):  # no file descriptor
            return
        await self._input_over.wait()
        while not poll.poll(0):  # noqa: ASYNC110 — no event tells it everywhere
            await anyio.sleep(LOOK_S)
        self.end(1)

    # -- output -----------------------------------------------------------------------------------

    def event(self, event: Event) -> None:
        self.output.guard(lambda: self.renderer.handle(event))

    def report_session(self) -> None:
        """Describe the session that the next lines belong to. Raises ``OSError`` if the reader has gone."""
        if self._report is not None:
            self._report.on_session(describe_session(self.agent))

    def error(self, code: str, message: str) -> None:
        self.event(ErrorEvent(code=code, message=message))

    # -- commands ---------------------------------------------------------------------------------

    async def accept(self, command: p.AnyCommand, answer: Answer) -> None:
        """Begin with a command. ``answer`` gets its outcome, now or later."""
        match command:
            case p.PromptCommand():
                try:
                    message = await self._message(command)
                except Exception as error:  # noqa: BLE001 — the caller's command, not ours
                    answer(error)
                    return
                turn = QueuedTurn(command, answer, message)
                if self._running is not None or self._turns:
                    turn.answer(d.PromptAccepted(message_id=message.id, queued=True))
                    turn.is_promised = True
                await self._enqueue(turn)
            case (
                p.CompactCommand()
                | p.NewSessionCommand()
                | p.SwitchSessionCommand()
                | p.ForkCommand()
                | p.UndoCommand()
            ):
                await self._enqueue(QueuedTurn(command, answer))
            case (
                p.ModelsCommand()
                | p.SessionsCommand()
                | p.ExportCommand()
                | p.ChangesCommand()
                | p.DecideCommand()
            ):
                self._concurrent += 1
                self.group.start_soon(self._serve_concurrently, command, answer)
            case _:
                await self._serve(self._inline, command, answer)

    async def _message(self, command: p.PromptCommand) -> UserMessage:
        """The user's message. Raises ``NewelError`` for a template that is not used."""
        for attachment in command.attachments:
            check_attachment(attachment)
        if not (command.text.strip() or command.attachments):
            raise InvalidRpcRequest("The text is empty.")
        message = UserMessage(content=command.text, attachments=list(command.attachments))
        if not command.expand:
            return message
        from newel.session.typed_prompt import Prompt, prepare

        def note(text: str) -> None:
            self.error("not_attached", text)

        expanded = await prepare(self.agent, Prompt(command.text), note)
        attachments = [*expanded.attachments, *command.attachments]
        return msgspec.structs.replace(message, content=expanded.content, attachments=attachments)

    async def _enqueue(self, turn: QueuedTurn) -> None:
        self._turns.append(turn)
        self._more.set()
        await checkpoint()  # let an idle worker start before the next line acts

    async def _serve_concurrently(self, command: p.ConcurrentCommand, answer: Answer) -> None:
        from newel.terminal.rpc.queries import perform

        async def run(command: p.ConcurrentCommand) -> d.RpcData:
            if not isinstance(command, p.DecideCommand):
                return await perform(self.agent, command)
            async with self._deciding:  # each sees the files as the one before left them
                return await perform(self.agent, command)

        await self._serve(run, command, answer)
        self._concurrent -= 1
        self._more.set()

    async def _serve(self, perform: Callable[..., Any], command: p.AnyCommand, answer: Answer) -> None:
        try:
            data = await perform(command)
        except Exception as error:  # noqa: BLE001 — a failed command must not end the others
            answer(error)
        else:
            answer(data)

    async def _inline(self, command: p.InlineCommand) -> d.RpcData:
        agent = self.agent
        match command:
            case p.SteerCommand() | p.FollowUpCommand():
                if not command.text.strip():
                    raise InvalidRpcRequest("The text is empty.")
                message = UserMessage(content=command.text)
                is_steer = isinstance(command, p.SteerCommand)
                await agent.queue_message(message, "steer" if is_steer else "follow_up")
                return d.QueuedForRun(message_id=message.id)
            case p.AbortCommand():
                return d.RunActivity(running=self.interrupt())
            case p.StopCommand():
                agent.stop()
                return d.RunActivity(running=self._is_answering)
            case p.ApproveCommand():
                self._approve(command)
                return d.ApprovalAnswered(tool_call_id=command.tool_call_id)
            case p.ModelCommand():
                if not command.model.strip():
                    raise InvalidRpcRequest("The name of the model is empty.")
                agent.set_model(await expand_model_name(agent, command.model))
                model = agent.state.model
                return d.ModelData(model=model.id, provider=model.provider, where=agent.models.where)
            case p.ThinkingCommand():
                agent.set_thinking_level(command.level)
                return d.ThinkingData(level=command.level)
            case p.AgentModeCommand():
                return await self._set_agent_mode(command.mode)
            case p.NameSessionCommand():
                agent.session.set_name(command.name)
                return d.NameData(name=agent.session.get_name())
            case p.StateCommand():
                return self.state()
            case p.MessagesCommand() | p.StatsCommand() | p.CommandsCommand():
                from newel.terminal.rpc.queries import describe

                return describe(agent, command)
            case _:
                assert_never(command)

    async def _set_agent_mode(self, mode: AgentMode) -> d.AgentModeData:
        await self.agent.set_agent_mode(mode)
        return d.AgentModeData(mode=mode, model=self.agent.state.model.id, where=self.agent.models.where)

    def state(self) -> d.StateData:
        agent, state, totals = self.agent, self.agent.state, self.agent.totals()
        path = agent.session.get_file_path()
        return d.StateData(
            model=state.model.id,
            where=agent.models.where,
            provider=state.model.provider,
            thinking_level=state.thinking_level,
            agent_mode=state.agent_mode,
            approve=agent.approve,
            sandbox=agent.info.sandbox,
            sandbox_problem=agent.info.sandbox_problem,
            is_streaming=state.is_streaming,
            pending_tool_calls=sorted(state.pending_tool_calls),
            pending_approvals=sorted(self._questions),
            message_count=agent.message_count,
            waiting=len(self._turns),
            steer=len(agent.queue.steer),
            follow_up=len(agent.queue.later),
            session_id=agent.session.get_id(),
            session_name=agent.session.get_name(),
            session_file=str(path) if path else None,
            folder=agent.workspace.name,
            usage=totals.usage,
            cost=totals.cost,
            context=totals.context,
            window=agent.window(),
            error=state.error,
        )

    # -- turns ------------------------------------------------------------------------------------

    async def work(self) -> None:
        """Take turns until the input has ended and all is done."""
        while True:
            while self._turns:
                turn = self._turns.popleft()
                if self._ended:
                    self._drop(turn)
                    continue
                with anyio.CancelScope() as self._running:
                    await self._take(turn)
                self._running = None
                self._leave(turn, "It was aborted.")
            if self._no_more and not self._concurrent:
                self._drop_untaken()
                self.finished.set()
                return
            self._more = anyio.Event()
            await self._more.wait()

    def _drop(self, turn: QueuedTurn) -> None:
        """Report a turn before which Newel was stopped."""
        reason = "Newel was stopped before this turn."
        self._leave(turn, reason)
        if self._report is not None and turn.message is not None:
            result = PromptRecord(self.agent, self._held).result(problem=reason, exit_code=self.code)
            self.output.guard(partial(self._report.on_result, result))

    def _drop_untaken(self) -> None:
        """Drop and report the messages for a run that came when there was none, or that it left. They belong to this session."""
        queue = self.agent.queue
        for message in (*queue.steer, *queue.later):
            if isinstance(message, UserMessage) and not message.is_notice:
                self.agent.unqueue(message.id)
                text = one_line(message.text, MAX_QUOTED)
                about = f"The queued message {message.id} was not sent, because no run took it: {text}"
                self.error("prompt_dropped", about)

    def _leave(self, turn: QueuedTurn, reason: str) -> None:
        """Report a turn that ends without an outcome, and a queued prompt that was not begun."""
        turn.answer(TurnAborted(reason))
        if turn.is_promised and turn.message is not None and self.reports_dropped:
            self.error("prompt_dropped", f"The queued prompt {turn.message.id} was not begun.")

    async def _take(self, turn: QueuedTurn) -> None:
        try:
            if turn.message is not None:
                await self._run(turn, turn.message)
            else:
                turn.answer(await self._queued(turn.command))
        except Exception as error:  # noqa: BLE001 — a failed command must not end the others
            turn.answer(error)

    async def _run(self, turn: QueuedTurn, message: UserMessage) -> None:
        """Answer a prompt; it is accepted when its message is saved."""

        def on_event(event: AgentEvent) -> None:
            if isinstance(event, MessageEnd) and event.message.id == message.id:
                turn.is_promised = False
                turn.answer(d.PromptAccepted(message_id=message.id, queued=False))

        unsubscribe = self.agent.subscribe(on_event)
        record = None if self._report is None else PromptRecord(self.agent, self._held)
        self._is_answering, problem = True, ""
        try:
            await self.agent.answer([message])
        except Exception as error:
            problem = describe_error(error)
            raise
        finally:
            self._is_answering = False
            unsubscribe()
            if self._report is not None and record is not None:
                result = record.result(problem=problem, exit_code=self.code or None)
                self.output.guard(partial(self._report.on_result, result))

    async def _queued(self, command: p.QueuedCommand) -> d.RpcData:
        agent = self.agent
        match command:
            case p.CompactCommand():
                before = agent.totals().context
                if not await agent.compact(command.instructions):
                    raise NothingToCompact("There is nothing to summarize yet.")
                data: dict[str, Any] = getattr(agent.state.messages[-1], "data", {})
                return d.CompactData(summary=str(data.get("summary", "")), context_before=before)
            case p.UndoCommand():
                from newel.terminal.rpc.queries import undo

                async with self._deciding:
                    return await undo(agent, command)
            case p.NewSessionCommand():
                agent.new_session()
            case p.SwitchSessionCommand():
                agent.resume(command.session)
            case p.ForkCommand():
                agent.fork(command.message_id, before=command.before)
            case p.PromptCommand():
                raise AssertionError  # has a message
            case _:
                assert_never(command)
        self._drop_untaken()
        self.output.guard(self.report_session)
        path = agent.session.get_file_path()
        return d.SessionOpened(
            session_id=agent.session.get_id(),
            session_file=str(path) if path else None,
            message_count=agent.message_count,
            damage=list(agent.session.damage),
        )

    # -- approval ---------------------------------------------------------------------------------

    async def ask(self, request: ApprovalRequest) -> Approval:
        """Ask the program, and wait for its ``approve``."""
        if self._no_more:
            return _NOBODY
        call = request.call
        answered = self._questions[call.id] = anyio.Event()
        self.event(
            p.ApprovalAsked(
                tool_call_id=call.id,
                tool_name=call.name,
                args=call.arguments,
                label=request.title,
                preview=request.preview,
                folder=request.folder,
                touches=request.touches,
                rule=request.offer,
                kind=request.kind,
            )
        )
        try:
            await answered.wait()
            return self._approvals.get(call.id, _NOBODY)
        finally:
            del self._questions[call.id]
            self._approvals.pop(call.id, None)

    def _approve(self, command: p.ApproveCommand) -> None:
        answered = self._questions.get(command.tool_call_id)
        if answered is None:
            raise InvalidRpcRequest(f"No call {command.tool_call_id!r} is waiting for approval.")
        # the first counts
        self._approvals.setdefault(command.tool_call_id, Approval(command.decision, command.word))
        answered.set()
