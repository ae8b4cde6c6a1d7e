"""A job that runs on another machine, followed as it happens: its journal, and what its worker has beyond that."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

import msgspec

from newel.fleet.engine import FleetEngine
from newel.jobs.engine import FINAL, JournalEntry
from newel.jobs.placement import JobPage, LiveData, Placement
from newel.runs.event_hub import EventHub
from newel.runs.models import LiveSnapshot
from newel.text.json import decode_json, to_json

WAIT_S: Final = 1.0
"""A longer one would ask the worker later."""

JobUpdate = Placement | JournalEntry | LiveSnapshot


def read_live_data(hub: EventHub, job: str) -> LiveData:
    """What the journal of a job on this machine lacks."""
    seq, snapshot = hub.live(job)
    return LiveData(seq=seq, data=b"" if snapshot is None else to_json(snapshot))


async def follow_job(engine: FleetEngine, job: str, after_seq: int = 0) -> AsyncGenerator[JobUpdate]:
    """The job, and again whenever its state has changed; its events after number ``after_seq``, each once and in order; and, after the
    events so far, a snapshot that replaces the live state before it, also by nothing. Ends when the job has ended and all was delivered, or
    was deleted. Raises ``EngineError``.
    """
    version, updated, is_current = 0, "", False
    while True:
        wait = WAIT_S if is_current else 0.0
        page = await engine.live.read(job, after_seq, version=version, updated=updated, wait=wait)
        if page is None:
            return
        if page.updated != updated:
            updated = page.updated
            for placement in await engine.fleets.find_jobs(job, limit=1):
                yield placement
        for entry in page.entries:
            after_seq = entry.seq
            yield entry
        if page.entries:
            continue  # live data belongs after the last of them
        if page.version != version or not is_current:
            snapshot = _snapshot(page, after_seq)
            if snapshot is not None or not is_current:
                yield snapshot or LiveSnapshot()
            version, is_current = page.version, True
        if page.state in FINAL:
            return


def _snapshot(page: JobPage, seq: int) -> LiveSnapshot | None:
    """The live state after event ``seq``; None if it was read too late for that. A worker may write anything."""
    if page.live is None:
        return LiveSnapshot()
    if page.live.seq != seq:
        return None
    try:
        return decode_json(page.live.data, LiveSnapshot)
    except msgspec.DecodeError:
        return LiveSnapshot()
