"""Removes from a store what the database has deleted.

    delete a job ──→ its rows are gone, and its name is noted, in one transaction
                          │  the process that deletes, and each worker now and then
    claim names ──→ remove their snapshots ──→ finish, and once more after a day

Only noted names are removed: a store may have snapshots of other databases, or of jobs that are being submitted.
"""

from __future__ import annotations

from functools import partial

import anyio.to_thread

from newel.fleet.engine import Retention
from newel.fleet.snapshot_store import SnapshotStore


async def empty_store(retention: Retention, store: SnapshotStore) -> int:
    """Remove the snapshots that are noted, and free their space; returns of how many jobs and fleets. Several processes may do it at once. Raises
    ``EngineError`` and ``SnapshotError``; the names stay noted then.
    """
    count = 0
    while names := await retention.claim_removals():
        await anyio.to_thread.run_sync(partial(store.remove, names))
        await retention.finish_removals(names)
        count += len(names)
    await anyio.to_thread.run_sync(store.collect_garbage)
    return count
