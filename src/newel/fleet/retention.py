"""Removes from a store what the database has deleted.

    delete a job ──→ its rows are gone, and its name is noted, in one transaction
                          │  the process that deletes, and each worker now and then
    claim names ──→ remove their snapshots ──→ finish, and once more after a day

Only noted names are removed: a store may have snapshots of other databases, or of jobs that are being submitted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import anyio.to_thread

from newel.fleet.engine import Retention
from newel.fleet.snapshot_store import SnapshotStore
from newel.jobs.engine import is_job_id, not_a_job_id


async def empty_store(retention: Retention, store: SnapshotStore, report: Callable[[str], None]) -> int:
    """Remove the snapshots that are noted, and free their space; returns of how many jobs and fleets. Several processes may do it at once.
    A name that no job can have removes nothing, and ``report`` gets a line about it. Raises ``EngineError`` and ``SnapshotError``; the
    names stay noted then.
    """
    count = 0
    while noted := await retention.claim_removals():
        names = [name for name in noted if is_job_id(name)]
        for name in noted:
            if name not in names:
                report(f"Removed nothing from {store.name}: {not_a_job_id(name)}")
        if names:
            await anyio.to_thread.run_sync(partial(store.remove, names))
        await retention.finish_removals(noted)
        count += len(names)
    await anyio.to_thread.run_sync(store.collect_garbage)
    return count
