"""Brings what a job has changed into a project: as proposals in its ledger, which the user keeps or rejects hunk by hunk."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from newel.agent.errors import NewelError
from newel.review.checkpoints import new_checkpoint
from newel.review.folders import grown
from newel.review.model.proposal import HunkSize
from newel.review.paths import OutsideProject, check_name
from newel.review.project import ProjectReview
from newel.review.store.ledger import FileVersion
from newel.review.tracking.copy_recorder import ProposalSink
from newel.text.format import one_line
from newel.workspace.glob import is_git
from newel.workspace.snapshots.port import FileChange
from newel.workspace.snapshots.tree import FileSnapshot


class AlreadyProposed(NewelError, code="already_proposed"):
    """The changes of a job are proposed once: a second time, what the user has rejected would be back."""


class JobFile(NamedTuple):
    """A file's content, or where a link leads, and its mode, with the file type bits unless it is a regular file."""

    data: bytes
    mode: int


class JobFileChange(NamedTuple):
    """A file before a job and after it; None if there was none. ``path`` is relative to the project, with ``/``."""

    path: str
    before: JobFile | None
    after: JobFile | None


def session_of(job: str) -> str:
    """The conversation to which the changes of a job belong in the ledger: none of this machine, whatever the job says."""
    return f"fleet_{job}"


class JobChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What the job ``run`` has changed in its folder."""

    run: str
    session: str
    title: str
    edits: Sequence[JobFileChange]


async def propose_changes(project: ProjectReview, changes: JobChanges, size: HunkSize) -> list[str]:
    """Propose them as one run; returns messages for the user about what is not proposed. The project may have changed since the job began:
    what both have changed becomes a conflict of its hunk. Raises ``AlreadyProposed`` and ``LedgerError``.
    """
    ledger = project.ledger
    if ledger.checkpoint_of_run(changes.run) is not None:
        raise AlreadyProposed(
            f"The changes of job {changes.run[:8]} are proposed here already. `newel review` shows those that wait for you."
        )
    notices: list[str] = []
    valid = [edit for edit in changes.edits if _is_valid(project.workspace.root, edit.path, notices)]
    blobs = [state.data for edit in valid for state in (edit.before, edit.after) if state is not None]

    def prepare() -> None:
        ledger.put_blobs(blobs)
        checkpoint = new_checkpoint(changes.run, session=changes.session, title=changes.title)
        files = [
            FileVersion(path=edit.path, blob=before.blob, mode=before.mode)
            for edit in valid
            for before in [_snapshot(edit.before) or FileSnapshot("", 0)]
        ]
        ledger.add_checkpoint(grown(checkpoint, files, ()))

    files = [FileChange(edit.path, _snapshot(edit.before), _snapshot(edit.after)) for edit in valid]
    sink = ProposalSink(project, lambda _: None, size)
    return [*notices, *(await sink.put(changes.run, files, prepare) if files else ())]


def _is_valid(root: str, path: str, notices: list[str]) -> bool:
    """Whether a path is one of the project's files: it comes from an agent on another machine."""
    try:
        check_name(root, path)
    except OutsideProject as error:
        notices.append(str(error))
        return False
    if any(map(is_git, path.split("/"))):
        notices.append(f"{one_line(path)} is not proposed: it is in a folder of git's own.")
        return False
    return True


def _snapshot(state: JobFile | None) -> FileSnapshot | None:
    return None if state is None else FileSnapshot(hashlib.sha256(state.data).hexdigest(), state.mode)
