"""Composes the review of a fleet's job: what it has changed is read from the store, and proposed in a project."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from newel.agent.errors import NewelError
from newel.agent.messages import new_id
from newel.app.fleet import params_of
from newel.app.review_limits import hunk_size
from newel.fleet.changes import read_changes
from newel.fleet.folder_cleaner import remove_leftovers
from newel.fleet.folders import open_store
from newel.fleet.proposals import JobChanges, JobFileChange, propose_changes, session_of
from newel.fleet.snapshot_repository import check_job
from newel.jobs.engine import FINAL
from newel.review.project import ProjectReview
from newel.review.store.ledger import Ledger
from newel.review.tracking.recording_workspace import ledger_folder
from newel.runs.chat_turn import read_events
from newel.runs.run_events import FolderSnapshot
from newel.text.format import one_line
from newel.workspace.local import LocalWorkspace

if TYPE_CHECKING:
    from newel.config.settings import Settings
    from newel.fleet.engine import FleetEngine
    from newel.jobs.placement import Placement


class JobNotEnded(NewelError, code="not_ended"):
    """A job still changes files, and its changes are proposed once."""


async def read_job_changes(settings: Settings, engine: FleetEngine, placement: Placement) -> JobChanges:
    """What a job that has ended has changed. Raises ``JobNotEnded``, ``ConfigError``, ``SnapshotError`` and ``EngineError``."""
    job, params = placement.job, params_of(placement)
    check_job(job.id)  # its submitter chose the id
    if job.state not in FINAL:
        raise JobNotEnded(
            f"Job {job.id[:8]} has not ended yet, and its changes are proposed once. `newel fleet log -f {job.id[:8]}` follows it, "
            f"`newel fleet cancel {job.id[:8]}` ends it."
        )
    snapshots = [event for event in await read_events(engine, job.id) if isinstance(event, FolderSnapshot)]
    edits: list[JobFileChange] = []
    if len(snapshots) > 1:
        store = open_store(settings.fleet.find_store(os.environ))
        await anyio.to_thread.run_sync(remove_leftovers, settings.home / "fleet")
        folder = settings.home / "fleet" / f"changes-{job.id}-{new_id()[:8]}"
        edits = await anyio.to_thread.run_sync(partial(read_changes, folder, store, snapshots))
    return JobChanges(
        run=job.id, session=session_of(job.id), title=one_line(params.contract.text, 80), edits=edits
    )


async def propose_job(settings: Settings, engine: FleetEngine, placement: Placement) -> list[str]:
    """Propose a job's changes in the project of the settings; returns messages for the user, the first of which says what was proposed.
    Raises ``NewelError``.
    """
    changes = await read_job_changes(settings, engine, placement)
    if not changes.edits:
        return [no_changes(placement)]
    root = str(await anyio.Path(settings.cwd).resolve())
    with Ledger.open(ledger_folder(settings.home, root)) as ledger:
        project = ProjectReview(ledger, LocalWorkspace(root))
        notices = await propose_changes(project, changes, hunk_size(settings))
    count = "1 file" if len(changes.edits) == 1 else f"{len(changes.edits)} files"
    return [f"Proposed the changes of {count}. `newel review` shows them, `newel decide` decides.", *notices]


def no_changes(placement: Placement) -> str:
    return f"Job {placement.job.id[:8]} has changed no file."
