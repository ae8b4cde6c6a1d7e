"""The contract loop: work, judge, check, and again, until the contract is fulfilled or a limit ends it.

    work ──► judge ──► accept ──► complete
      ▲        │ not yet  │ failed
      └────────┴──────────┘

One turn is work: a request and the tools it calls. Then a model judges the work (``judge``), and once it is
satisfied, Newel itself runs the acceptance command, which no model can talk its way around. The next step follows from the
events alone (``progress``). To the agent a contract is one long prompt: stop and abort work as they do there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio
import msgspec

from newel.agent.agent import AgentTransport
from newel.agent.errors import NewelError, WorkspaceError
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
from newel.contracts.judge import evaluate
from newel.contracts.progress import ContractProgress
from newel.contracts.run_log import RunLog, shorten
from newel.jobs.engine import EngineError, JobCancelled, LeaseLost
from newel.runs.models import Contract
from newel.runs.run_events import AcceptanceEnd, AcceptanceStart, ContractState, ContractStatus, RunEvent
from newel.session.coding_agent import CodingAgent
from newel.workspace.port import CommandResult, Workspace

ONE_TURN = Limits(max_turns=1)
"""Limits apply to the contract as a whole, and ``ContractProgress`` counts them."""
ACCEPTANCE_TIMEOUT_S = 600.0
ACCEPTANCE_HEAD, ACCEPTANCE_TAIL = 4_000, 12_000
"""Characters of each output that are kept: a failure is usually at the end."""

AUTONOMY = (
    "\n\nThe user's first message is a contract. Work on it autonomously until all of it is done: no user can answer "
    "questions meanwhile. When it is done, summarize your work in a few sentences, and make no more tool calls."
)
ACCEPTANCE_RULE = " It counts as done only if this command succeeds afterwards: `{command}`"

EmitRun = Callable[[RunEvent], Awaitable[None]]
FindReasonToStop = Callable[[], Awaitable[str]]
"""Why a run has to end before its next request; empty if it may go on."""
Ending = tuple[EndReason, str]


async def no_reason_to_stop() -> str:
    return ""


async def run_contract(
    contract: Contract,
    agent: CodingAgent,
    *,
    provider: Provider,
    judge: Model,
    emit: EmitRun,
    earlier: Sequence[RunEvent] = (),
    log: RunLog | None = None,
    find_reason_to_stop: FindReasonToStop = no_reason_to_stop,
) -> ContractState:
    """Run a contract; returns its final state, which has been emitted.

    ``agent`` has its session open and journals its own events; ``emit`` takes those of the contract. ``judge`` evaluates the
    work, through ``provider``. ``earlier`` is the journal of a run that died: it is resumed without repeating a message or
    a request; only an acceptance command without a result runs again, as a check is made to be repeated. ``log`` is given
    every event; if it cannot be written, a ``Notice`` says so and the run continues. ``find_reason_to_stop`` is asked before each request.

    ``agent.stop()`` ends the run as ``stopped`` after the request and the tools in progress; ``agent.abort()`` ends it at
    once. A limit ends it as ``stopped``; a failure of the model's server or the session's file, or a lack of progress, as
    ``failed``. Raises ``LeaseLost``, ``JobCancelled`` and ``EngineError`` of the journal.
    """
    progress = ContractProgress(contract, earlier)
    if progress.final is not None:
        if progress.final not in earlier:  # the agent's end was recorded, the contract's was not
            await emit(progress.final)
        return progress.final
    runner = _ContractRunner(
        progress,
        inner=agent.transport,
        workspace=agent.works_in,
        provider=provider,
        judge=judge,
        emit=emit,
        log=log,
        find_reason_to_stop=find_reason_to_stop,
    )
    end = await agent.answer([], transport=runner)
    state = ContractState(state=_FINAL_STATES.get(end.reason, "stopped"), reason=end.message)
    await runner.emit(state)
    return state


_FINAL_STATES: dict[EndReason, ContractStatus] = {"done": "completed", "error": "failed"}


class _ContractRunner:
    """The transport of an agent under contract: one run for the agent, many runs of a single turn each for ``inner``."""

    def __init__(
        self,
        progress: ContractProgress,
        *,
        inner: AgentTransport,
        workspace: Workspace,
        provider: Provider,
        judge: Model,
        emit: EmitRun,
        log: RunLog | None,
        find_reason_to_stop: FindReasonToStop,
    ) -> None:
        self._progress = progress
        self._inner = inner
        self._workspace = workspace
        self._provider = provider
        self._judge = judge
        self._emit = emit
        self._log = log
        self._find_reason_to_stop = find_reason_to_stop
        self._history: list[AppMessage] = []
        self._interrupted = False
        self._started_at = anyio.current_time()

    async def run(
        self,
        messages: Sequence[AppMessage],
        prompts: Sequence[AppMessage],  # noqa: ARG002 — of the port; ``ContractProgress.prompt`` has the prompts
        config: RunConfig,
        emit: Emit,
        /,
    ) -> AgentEnd:
        """Work until the contract ends. Failures of the run end it; see ``AgentTransport``."""
        self._history = list(messages)

        async def pass_on(event: AgentEvent) -> None:
            await emit(event)
            if isinstance(event, MessageEnd):
                self._history.append(event.message)
            self._interrupted |= isinstance(event, Interrupted)
            await self._record(event)

        await self.emit(ContractState(state="running"))
        await pass_on(AgentStart())
        try:
            if self._progress.contract.max_cost is not None and config.check_cost is not None:
                await config.check_cost(config.model)
            ending = await self._steps_in_time(self._one_turn_config(config), pass_on)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                if not self._interrupted:
                    await pass_on(Interrupted())
                await self._end(("aborted", f"Stopped at once. {self._progress.summary()}"), pass_on)
            raise
        except (LeaseLost, JobCancelled, EngineError):
            raise
        except NewelError as error:
            return await self._end(("error", str(error)), pass_on)
        return await self._end(ending, pass_on)

    def _one_turn_config(self, config: RunConfig) -> RunConfig:
        """The configuration of one turn. Newel's own instructions are in the system prompt, so that the conversation begins with
        the contract alone.
        """
        command = self._progress.contract.accept
        rules = AUTONOMY + (ACCEPTANCE_RULE.format(command=command) if command else "")
        return msgspec.structs.replace(config, limits=ONE_TURN, system_prompt=config.system_prompt + rules)

    async def emit(self, event: RunEvent) -> None:
        """Emit an event of the contract itself."""
        await self._emit(event)
        await self._record(event)

    async def _record(self, event: RunEvent) -> None:
        self._progress.apply(event)
        if self._log is not None and (notice := self._log.write(event)) is not None:
            await self._emit(notice)

    async def _end(self, ending: Ending, emit: Emit) -> AgentEnd:
        reason, message = ending
        end = AgentEnd(reason=reason, message=message, usage=self._progress.usage, cost=self._progress.cost)
        await emit(end)
        return end

    async def _steps_in_time(self, config: RunConfig, emit: Emit) -> Ending:
        """All steps, cut off at the limit of time: a server may answer for ever, and a command may wait for it."""
        minutes = self._progress.contract.max_minutes
        with anyio.move_on_after(minutes * 60 - self._progress.seconds):
            return await self._steps(config, emit)
        if not self._interrupted:
            await emit(Interrupted())
        exceeded = self._progress.exceeded_limit(max(self._seconds, minutes * 60))
        return exceeded or ("stopped", f"Stopped at the time limit. {self._progress.summary()}")

    @property
    def _seconds(self) -> float:
        """Of work, in earlier processes and in this one."""
        return self._progress.seconds + anyio.current_time() - self._started_at

    async def _steps(self, config: RunConfig, emit: Emit) -> Ending:
        progress = self._progress
        while progress.step != "complete":
            if config.queue.stop_requested():
                return "stopped", f"Stopped before the next request. {progress.summary()}"
            if progress.step == "accept":
                await self._accept()
                continue
            if exceeded := progress.exceeded_limit(self._seconds):
                return exceeded
            if reason := await self._find_reason_to_stop():
                return "stopped", f"{reason} {progress.summary()}"
            if progress.step == "judge":
                await self._evaluate(config, emit)
            elif stuck := progress.stuck_reason():
                return "error", stuck
            else:
                await self._turn(config, emit)
        return "done", ""

    async def _turn(self, config: RunConfig, emit: Emit) -> None:
        """One request and its tools. Its own start and end are hidden: to the reader a contract is one run."""

        async def within(event: AgentEvent) -> None:
            if not isinstance(event, AgentStart | AgentEnd):
                await emit(event)

        prompt = self._progress.prompt
        prompts = [] if prompt is None else [UserMessage(prompt)]
        await self._inner.run(tuple(self._history), prompts, config, within)

    async def _evaluate(self, config: RunConfig, emit: Emit) -> None:
        try:
            verdict = await evaluate(
                self._progress.contract.text,
                self._history,
                config,
                provider=self._provider,
                judge=self._judge,
                tool_calls=self._progress.tool_calls,
                on_retry=emit,
            )
        except NewelError as error:
            await emit(ErrorEvent(code=error.code, message=str(error)))
            raise
        await self.emit(verdict)

    async def _accept(self) -> None:
        """Run the acceptance command; it passes if it exits with 0 in time."""
        command = self._progress.contract.accept or ""
        await self.emit(AcceptanceStart(command=command))
        started = anyio.current_time()
        try:
            done = await self._workspace.run(command, timeout=ACCEPTANCE_TIMEOUT_S)
            passed, output = done.exit_code == 0 and not done.timed_out, _output(done)
            duration = done.duration
        except WorkspaceError as error:
            passed, output, duration = False, str(error), 0
        except anyio.get_cancelled_exc_class():
            duration = round((anyio.current_time() - started) * 1000)
            output = "Stopped before it ended."
            with anyio.CancelScope(shield=True):
                await self.emit(
                    AcceptanceEnd(command=command, passed=False, output=output, duration=duration)
                )
            raise
        await self.emit(AcceptanceEnd(command=command, passed=passed, output=output, duration=duration))


def _output(done: CommandResult) -> str:
    parts = [
        shorten(text.strip("\n"), ACCEPTANCE_HEAD, ACCEPTANCE_TAIL)
        for text in (done.stdout, done.stderr)
        if text.strip()
    ]
    parts.append(
        f"Stopped after {ACCEPTANCE_TIMEOUT_S:g} seconds."
        if done.timed_out
        else f"exit code: {done.exit_code}"
    )
    return "\n".join(parts)
