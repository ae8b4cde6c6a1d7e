"""The state of a tab after a restart: what its latest run and the journal of that say."""

from __future__ import annotations

from datetime import datetime

import msgspec

from newel.agent.events import MessageEnd
from newel.jobs.engine import FINAL, Engine, Job
from newel.runs.chat_turn import MAX_PENDING, is_held
from newel.runs.models import Tab
from newel.runs.run_events import ContractState, RunEvent, decode

_LAST_EVENTS = 20
"""The last events of a run, among which are its last message and the last state of its contract."""


async def restore(tab: Tab, engine: Engine) -> Tab:
    """A tab of an earlier process with the state of its latest run, if there was one."""
    job = await _latest_run(tab.id, engine)
    if job is None:
        return tab
    entries = await engine.read(job.id, max(0, job.seq - _LAST_EVENTS))
    last = [decode(entry.data) for entry in entries]
    state = _state_after(job, last if tab.kind == "agent" else [])
    if tab.kind == "chat" and state.state != "running":
        state = ContractState(state="ready")
    return msgspec.structs.replace(
        tab,
        run=job.id,
        status="idle" if state.state == "ready" else state.state,
        reason=state.reason,
        activity=max(
            [0, *(milliseconds(event.message.timestamp) for event in last if isinstance(event, MessageEnd))]
        ),
    )


def milliseconds(timestamp: str) -> int:
    """The milliseconds since 1970 of a time as ``newel.agent.messages.now`` writes it; 0 for none."""
    try:
        return int(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except ValueError:
        return 0


async def _latest_run(tab: str, engine: Engine) -> Job | None:
    """The latest run: neither a held message, nor one that another run took."""
    # Jobs are read with their messages and attachments: first try a single one.
    for limit in (1, MAX_PENDING):
        jobs = await engine.find(queue=tab, limit=limit)
        if runs := [job for job in jobs if not is_held(job) and (job.seq or job.state != "cancelled")]:
            return runs[0]
    return None


def _state_after(job: Job, last: list[RunEvent]) -> ContractState:
    if job.state not in FINAL:
        return ContractState(state="running")
    states = [event for event in last if isinstance(event, ContractState)]
    if not states or states[-1].state == "running":  # the worker gave it up
        return ContractState(state="failed", reason=job.reason)
    return states[-1]
