"""A contract as a job: its parameters, its conversation and log, how it is resumed, and how it runs without a workbench."""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread
import msgspec

from newel.agent.errors import ConfigError, NewelError
from newel.agent.messages import Wire, new_id
from newel.contracts.run_log import RunLog, log_file
from newel.contracts.runner import FindReasonToStop, no_reason_to_stop, run_contract
from newel.jobs.engine import FINAL, Engine, EngineError, Job, JobCancelled, JobOutcome, Lease, LeaseLost
from newel.permissions.approval import ApprovalMode
from newel.runs.chat_session import AgentFactory, ChatChange, ChatSession, nobody_answers
from newel.runs.chat_turn import STOPPED, STOPPED_MIDWAY, read_events
from newel.runs.event_hub import EventHub, JournalWriter
from newel.runs.models import Contract
from newel.runs.run_events import ContractState, Notice
from newel.text.json import to_json
from newel.workspace.glob import is_text

CONTRACT = "contract"


class ContractParams(Wire, frozen=True, kw_only=True):
    """``session`` has the conversation, ``folder`` is the agent's, ``log`` the file of the run's log. ``notice`` is shown before
    anything else; ``approve`` is the approval mode of the run, if it has one of its own.
    """

    tab: str
    contract: Contract
    session: str
    folder: str
    log: str
    notice: str = ""
    approve: ApprovalMode | None = None


async def prepare(
    contract: Contract,
    factory: AgentFactory,
    *,
    tab: str = "",
    project: str,
    home: Path,
    name: str,
    approve: ApprovalMode | None = None,
) -> ContractParams:
    """The parameters for an agent of that name: a session, a log and, if the contract wants one, a worktree. Raises
    ``WorktreeError``, and ``ConfigError`` for a ``home`` whose name is not UTF-8.
    """
    if not is_text(str(home)):
        raise ConfigError(
            f"The name of {home} is not UTF-8, so the journal of an agent on a contract cannot name the log in it. Set NEWEL_HOME to another folder."
        )
    folder, notice = project, ""
    if contract.worktree:
        worktree = await factory.create_worktree(name)
        folder, notice = worktree.folder, worktree.notice
    log = await anyio.to_thread.run_sync(log_file, home / "logs", name)
    return ContractParams(
        tab=tab,
        contract=contract,
        session=new_id(),
        folder=folder,
        log=str(log),
        notice=notice,
        approve=approve,
    )


async def run_contract_job(
    lease: Lease,
    params: ContractParams,
    chat: ChatSession,
    engine: Engine,
    hub: EventHub,
    *,
    journal: JournalWriter | None = None,
    find_reason_to_stop: FindReasonToStop = no_reason_to_stop,
) -> ContractState:
    """Run a contract, or the rest of one that an earlier process left; returns its final state, which the journal has. ``journal`` is that
    of the lease, if there is one already, and ``find_reason_to_stop`` that of ``run_contract``.
    """
    earlier = await read_events(engine, lease.job) if lease.seq else []
    journal = journal or JournalWriter(engine, lease, hub)
    for event in earlier:
        chat.count_verdict(event)
    try:
        if params.notice and not earlier:
            await journal(Notice(level="info", message=params.notice))
        with RunLog(params.log, secrets=chat.factory.secrets) as log:
            async with chat.run(journal, earlier) as agent:
                has_ended = any(
                    isinstance(each, ContractState) and each.state != "running" for each in earlier
                )
                if chat.stop_requested and not has_ended:
                    state = ContractState(state="stopped", reason=STOPPED_MIDWAY if earlier else STOPPED)
                    await journal(state)
                    return state
                agent.run_id = lease.job  # the same one when resumed, so that one undo reverts all of it
                return await run_contract(
                    params.contract,
                    agent,
                    provider=chat.factory.provider,
                    judge=chat.factory.judge_model(agent, small=params.contract.small_model),
                    emit=chat.record,
                    earlier=earlier,
                    log=log,
                    find_reason_to_stop=find_reason_to_stop,
                )
    except (LeaseLost, JobCancelled, EngineError):
        raise
    except NewelError as error:  # it could not even start
        state = ContractState(state="failed", reason=str(error))
        await journal(state)
        return state


def outcome(state: ContractState) -> JobOutcome:
    """The outcome of a job whose contract ended so."""
    return JobOutcome(
        state="failed" if state.state == "failed" else "done", reason=state.reason, result=state.state
    )


async def submit(
    engine: Engine,
    contract: Contract,
    factory: AgentFactory,
    *,
    project: str,
    home: Path,
    name: str,
    approve: ApprovalMode,
) -> str:
    """Submit a contract for an agent of that name; returns the run. Raises ``WorktreeError``."""
    params = await prepare(contract, factory, project=project, home=home, name=name, approve=approve)
    return await engine.submit(CONTRACT, to_json(params), queue=params.session)


def decline_questions(chat: ChatSession, change: ChatChange) -> None:
    """Answer for a user who is not there: a question would block the run forever."""
    for question in chat.questions.pending if change == "questions" else []:
        chat.questions.answer(question.id, nobody_answers(question))


class HeadlessRun:
    """A run that was submitted, or that an earlier process left, in this process and without a user to ask. It works in the
    mode of ``factory``.
    """

    def __init__(self, engine: Engine, hub: EventHub, factory: AgentFactory, job: Job) -> None:
        self.params = msgspec.json.decode(job.params, type=ContractParams)
        self._engine = engine
        self._hub = hub
        self._job = job
        self._chat = ChatSession(
            session=self.params.session,
            folder=self.params.folder,
            model=None,
            agent_mode=None,
            factory=factory,
            on_change=lambda change: decline_questions(self._chat, change),
        )

    async def run(self) -> ContractState:
        """Run it. If it is cancelled, it can be resumed later. Raises ``EngineError`` and ``LeaseLost``."""
        leases = await self._engine.claim(1, "agent", queues=[self._job.queue])
        if not leases:
            if self._job.state in FINAL:
                session = f"`newel --session {self.params.session}`"
                raise EngineError(f"This run has ended. Its conversation goes on with {session}.")
            raise EngineError("Another process runs it.")
        state = await run_contract_job(leases[0], self.params, self._chat, self._engine, self._hub)
        await self._engine.finish(leases[0], outcome(state))
        return state

    def stop(self, *, now: bool = False) -> bool:
        """End it before its next request, or at once; False if it is not in progress."""
        is_active = self._chat.active_agent is not None
        self._chat.stop(now=now)
        return is_active
