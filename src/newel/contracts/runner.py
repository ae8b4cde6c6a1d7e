"""A contract carried out: work, judge, check, and again, until it is fulfilled or must not go on.

    work ──► judge ──► accept ──► complete
      ▲        │ not yet  │ failed
      └────────┴──────────┘

One turn is work: a request and the tools it calls. Then a model judges the work (``evaluation``), and once it is
satisfied, Newel runs the acceptance command itself (``acceptance``). What comes next follows from the events alone
(``contract_course``). To the agent a contract is one long prompt: stop and abort mean what they mean there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio
import msgspec

from newel.agent.agent import AgentTransport
from newel.agent.errors import NewelError
from newel.agent.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    EndReason,
    ErrorEvent,
    Interrupted,
    MessageEnd,
)
from newel.agent.messages import AppMessage, UserMessage
from newel.agent.ports import Emit, Limits, Model, Provider, RunConfig
from newel.contracts.acceptance import accept
from newel.contracts.judge import evaluate
from newel.contracts.progress import ContractProgress
from newel.contracts.run_log import RunLog
from newel.jobs.engine import EngineError, JobCancelled, LeaseLost
from newel.runs.models import Contract
from newel.runs.run_events import AcceptanceEnd, AcceptanceStart, ContractState, RunEvent
from newel.session.coding_agent import CodingAgent
from newel.workspace.port import Workspace

ONE_TURN = Limits(max_turns=1)
"""What is limited is the contract as a whole, and ``ContractProgress`` counts that."""

ALONE = (
    "\n\nThe user's first message is a contract. Work on it on your own until all of it is done: no one can answer "
    "questions meanwhile. When it is done, say in a few sentences what you did, and call no more tools."
)
CHECKED = " It counts as done only if this command succeeds afterwards: `{command}`"

EmitRun = Callable[[RunEvent], Awaitable[None]]
Ending = tuple[EndReason, str]


async def carry_out(
    contract: Contract,
    agent: CodingAgent,
    *,
    provider: Provider,
    judge: Model,
    emit: EmitRun,
    earlier: Sequence[RunEvent] = (),
    log: RunLog | None = None,
) -> ContractState:
    """Carry a contract out; returns its final state, which has been emitted.

    ``agent`` has the tab's session open and journals its own events; ``emit`` takes those of the contract. ``judge``
    evaluates the work, through ``provider``. ``earlier`` is the journal of a run that died: it goes on from there, says
    and asks nothing twice, and only runs an acceptance command again whose result was never learned: it is a check, made
    to be repeated. ``log`` is given every event; if it cannot be written, a ``Notice`` says so and the run goes on.

    ``agent.stop()`` lets the request and the tools that are under way finish and ends the run as ``stopped``;
    ``agent.abort()`` ends it at once. A limit ends it as ``stopped``; what the model's server, the session's file or a
    lack of progress make impossible, as ``failed``. Raises ``LeaseLost``, ``JobCancelled`` and ``EngineError`` of the journal.
    """
    course = ContractProgress(contract, earlier)
    if course.final is not None:
        if course.final not in earlier:  # the end was told, but not yet what it means
            await emit(course.final)
        return course.final
    work = _ContractRunner(
        course,
        inner=agent.transport,
        workspace=agent.works_in,
        provider=provider,
        judge=judge,
        emit=emit,
        log=log,
    )
    agent.transport = work
    try:
        end = await agent.answer([])
    finally:
        agent.transport = work.inner
    state = _state(end)
    await work.tell(state)
    return state


def _state(end: AgentEnd) -> ContractState:
    match end.reason:
        case "done":
            return ContractState(state="completed", reason=end.message)
        case "error":
            return ContractState(state="failed", reason=end.message)
        case _:
            return ContractState(state="stopped", reason=end.message)


class _ContractRunner:
    """The transport of an agent under contract: to the agent one run, behind it many of a single turn each."""

    def __init__(
        self,
        course: ContractProgress,
        *,
        inner: AgentTransport,
        workspace: Workspace,
        provider: Provider,
        judge: Model,
        emit: EmitRun,
        log: RunLog | None,
    ) -> None:
        self.course = course
        self.inner = inner
        self._workspace = workspace
        self._provider = provider
        self._judge = judge
        self._emit = emit
        self._log = log
        self._history: list[AppMessage] = []
        self._interrupted = False
        self._began = anyio.current_time()

    async def run(
        self,
        messages: Sequence[AppMessage],
        prompts: Sequence[AppMessage],  # noqa: ARG002 — the port's shape; ``ContractProgress.words`` has what is to be said
        config: RunConfig,
        emit: Emit,
        /,
    ) -> AgentEnd:
        """Work until the contract ends. Failures that belong to the run end it; see ``AgentTransport``."""
        self._history = list(messages)

        async def pass_on(event: AgentEvent) -> None:
            await emit(event)
            if isinstance(event, MessageEnd):
                self._history.append(event.message)
            self._interrupted |= isinstance(event, Interrupted)
            await self._note(event)

        await self.tell(ContractState(state="running"))
        await pass_on(AgentStart())
        try:
            if self.course.contract.max_cost is not None and config.check_cost is not None:
                await config.check_cost(config.model)
            ending = await self._steps(self._for_one_turn(config), pass_on)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                if not self._interrupted:
                    await pass_on(Interrupted())
                await self._end(("aborted", f"Stopped at once. {self.course.done()}"), pass_on)
            raise
        except (LeaseLost, JobCancelled, EngineError):
            raise
        except NewelError as error:
            return await self._end(("error", str(error)), pass_on)
        return await self._end(ending, pass_on)

    def _for_one_turn(self, config: RunConfig) -> RunConfig:
        """What a turn of work is run with. What Newel itself has to say of a contract stands in the system prompt: the
        conversation begins with the contract, and nothing but it.
        """
        command = self.course.contract.accept
        manner = ALONE + (CHECKED.format(command=command) if command else "")
        return msgspec.structs.replace(config, limits=ONE_TURN, system_prompt=config.system_prompt + manner)

    async def tell(self, event: RunEvent) -> None:
        """Emit an event of the contract itself."""
        await self._emit(event)
        await self._note(event)

    async def _note(self, event: RunEvent) -> None:
        self.course.see(event)
        if self._log is not None and (notice := self._log.write(event)) is not None:
            await self._emit(notice)

    async def _end(self, ending: Ending, emit: Emit) -> AgentEnd:
        reason, words = ending
        end = AgentEnd(reason=reason, message=words, usage=self.course.usage, cost=self.course.cost)
        await emit(end)
        return end

    async def _steps(self, config: RunConfig, emit: Emit) -> Ending:
        course = self.course
        while course.step != "complete":
            if config.queue.stop_requested():
                return "stopped", f"Stopped before the next request. {course.done()}"
            if course.step == "accept":
                await self._accept()
                continue
            if spent := course.spent(course.seconds + anyio.current_time() - self._began):
                return spent
            if course.step == "judge":
                await self._evaluate(config, emit)
            elif stuck := course.stuck():
                return "error", stuck
            else:
                await self._turn(config, emit)
        return "done", ""

    async def _turn(self, config: RunConfig, emit: Emit) -> None:
        """One request and its tools. That each turn is a run of its own is nobody else's business."""

        async def within(event: AgentEvent) -> None:
            if not isinstance(event, AgentStart | AgentEnd):
                await emit(event)

        words = self.course.words
        prompts = [] if words is None else [UserMessage(words)]
        await self.inner.run(tuple(self._history), prompts, config, within)

    async def _evaluate(self, config: RunConfig, emit: Emit) -> None:
        try:
            verdict = await evaluate(
                self.course.contract.text,
                self._history,
                config,
                provider=self._provider,
                judge=self._judge,
                tool_calls=self.course.tool_calls,
                on_retry=emit,
            )
        except NewelError as error:
            await emit(ErrorEvent(code=error.code, message=str(error)))
            raise
        await self.tell(verdict)

    async def _accept(self) -> None:
        command = self.course.contract.accept or ""
        await self.tell(AcceptanceStart(command=command))
        began = anyio.current_time()
        try:
            result = await accept(self._workspace, command)
        except anyio.get_cancelled_exc_class():
            milliseconds = round((anyio.current_time() - began) * 1000)
            with anyio.CancelScope(shield=True):
                await self.tell(
                    AcceptanceEnd(
                        command=command,
                        passed=False,
                        output="Stopped before it ended.",
                        duration=milliseconds,
                    )
                )
            raise
        await self.tell(result)
