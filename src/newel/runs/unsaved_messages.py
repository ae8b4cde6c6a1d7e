"""What failed runs leave behind: messages that were taken, or said, and that no session has."""

from __future__ import annotations

from itertools import takewhile

import msgspec

from newel.agent.events import MessageEnd
from newel.agent.messages import AppMessage
from newel.jobs.engine import Engine, Job
from newel.runs.chat_turn import TURN, TurnParams, read_events

MAX_RUNS = 100
"""Failed runs that are looked at."""


async def find_unsaid(engine: Engine, tab: str, session: str) -> list[AppMessage]:
    """The messages of the runs of a conversation that failed since its last good one, in their order. Its session lacks
    some if it could not be opened or written then: another program had it, or the disk was full.
    """
    found: list[AppMessage] = []
    for job in reversed(await _failed(engine, tab)):
        params = msgspec.json.decode(job.params, type=TurnParams)
        if params.session == session:
            said = [
                event.message for event in await read_events(engine, job.id) if isinstance(event, MessageEnd)
            ]
            if params.message is not None and all(each.id != params.message.id for each in said):
                said.insert(0, params.message)
            found += said
    return found


async def _failed(engine: Engine, tab: str) -> list[Job]:
    """The failed runs behind the last good one, the newest first."""
    latest = await engine.find(queue=tab, kind=TURN, states=["done", "failed"], limit=1)
    if not latest or latest[0].state == "done":
        return []
    ended = await engine.find(queue=tab, kind=TURN, states=["done", "failed"], limit=MAX_RUNS)
    return list(takewhile(lambda job: job.state == "failed", ended))
