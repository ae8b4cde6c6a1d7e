"""An agent's contract as a job: its conversation, its log, and where an earlier process left it."""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread

from newel.agent.errors import NewelError
from newel.agent.messages import Wire, new_id
from newel.contracts.run_log import RunLog, log_file
from newel.contracts.runner import carry_out
from newel.jobs.engine import Engine, EngineError, JobCancelled, JobOutcome, Lease, LeaseLost
from newel.permissions.approval import Preset
from newel.runs.chat_session import AgentFactory, ChatSession
from newel.runs.chat_turn import STOPPED, STOPPED_MIDWAY, read_events
from newel.runs.event_hub import EventHub, JournalWriter
from newel.runs.models import Contract
from newel.runs.run_events import ContractState, Notice

CONTRACT = "contract"


class ContractParams(Wire, frozen=True, kw_only=True):
    """``session`` keeps the conversation and ``folder`` is where the agent works; ``log`` is the file of the run's log.
    ``notice`` is what the reader should know before anything else, ``approve`` the preset of approval that it was started
    with, as far as that is the run's own.
    """

    tab: str
    contract: Contract
    session: str
    folder: str
    log: str
    notice: str = ""
    approve: Preset | None = None


async def prepare(
    contract: Contract,
    crew: AgentFactory,
    *,
    tab: str = "",
    project: str,
    home: Path,
    name: str,
    approve: Preset | None = None,
) -> ContractParams:
    """What an agent of that name needs to begin: a conversation, a log and, if it asks for one, a worktree. Raises
    ``WorktreeError``.
    """
    folder, notice = project, ""
    if contract.worktree:
        worktree = await crew.worktree(name)
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


async def carry_out_contract(
    lease: Lease, params: ContractParams, conversation: ChatSession, engine: Engine, feed: EventHub
) -> ContractState:
    """Carry out a contract, or what an earlier process left of it; returns its final state, which the journal has."""
    earlier = await read_events(engine, lease.job) if lease.seq else []
    recorder = JournalWriter(engine, lease, feed)
    crew = conversation.crew
    for event in earlier:
        conversation.count(event)
    try:
        if params.notice and not earlier:
            await recorder(Notice(level="info", message=params.notice))
        with RunLog(params.log, secrets=crew.secrets) as log:
            async with conversation.run(recorder, earlier) as agent:
                has_ended = any(
                    isinstance(each, ContractState) and each.state != "running" for each in earlier
                )
                if conversation.stop_asked and not has_ended:
                    state = ContractState(state="stopped", reason=STOPPED_MIDWAY if earlier else STOPPED)
                    await recorder(state)
                    return state
                agent.run_id = lease.job  # also where it is resumed: one undo takes back all of it
                return await carry_out(
                    params.contract,
                    agent,
                    provider=crew.provider,
                    judge=crew.judge(agent, small=params.contract.small_model),
                    emit=conversation.record,
                    earlier=earlier,
                    log=log,
                )
    except (LeaseLost, JobCancelled, EngineError):
        raise
    except NewelError as error:  # it could not even begin
        state = ContractState(state="failed", reason=str(error))
        await recorder(state)
        return state


def outcome(state: ContractState) -> JobOutcome:
    """How a contract's final state leaves its job."""
    return JobOutcome(state="failed" if state.state == "failed" else "done", reason=state.reason)
