"""What there is to look at, in short: the sessions, and the files that wait for a decision."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import msgspec

from newel.jobs.engine import Job
from newel.jobs.review.journal import params_of
from newel.jobs.review.payloads import PendingFile, SessionSummary
from newel.jobs.review.sessions import Session
from newel.jobs.review.showing import Known, pending_of
from newel.review.ledger import FileReview
from newel.review.store import Ledger
from newel.review.text import text_hash
from newel.review.watching import Revision, has_shown_hunks, revisions
from newel.session.text import one_line

_TITLE: Final = 80


def session_summary(session: Session, jobs: Sequence[Job], live: Sequence[Known]) -> SessionSummary:
    """A session with its jobs, and those of them that have not ended, the oldest first."""
    return SessionSummary(
        id=session.id,
        status=session.status,
        created_at=session.created_at,
        updated_at=max((job.updated for job in jobs), default=session.created_at),
        title=one_line(params_of(jobs[0]).instruction, _TITLE) if jobs else "",
        jobs=len(jobs),
        last_job_id=jobs[-1].id if jobs else None,
        pending_review=pending_of(live),
    )


class Waiting:
    """The files that wait. What was read of them is read again only once it has changed, for windows ask often and a ledger
    may know many files. Any thread may ask.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Revision, PendingFile | None]] = {}
        self._sessions: dict[str, str] = {}
        """Of runs."""

    def files(self) -> tuple[PendingFile, ...]:
        """Those with hunks that are undecided or unsaved, by their names. Blocks."""
        with self._lock:
            known, now = self._known, revisions(self._ledger)
            self._known = {
                path: known[path] if path in known and known[path][0] == rev else (rev, self._read(path))
                for path, rev in now.items()
            }
            return tuple(file for _, file in self._known.values() if file is not None)

    def _read(self, path: str) -> PendingFile | None:
        if not has_shown_hunks(self._ledger, path):
            return None
        file = _pending_file(self._ledger.get(path))
        if not self._sessions.keys() >= set(file.run_ids):
            self._sessions = {each.run: each.session for each in self._ledger.checkpoints()}
        sessions = dict.fromkeys(self._sessions.get(run, "") for run in file.run_ids)
        return msgspec.structs.replace(file, session_ids=tuple(session for session in sessions if session))


def _pending_file(review: FileReview) -> PendingFile:
    """Without the sessions, of which a review knows nothing."""
    hunks = [hunk for hunk in review.hunks if hunk.is_shown]
    runs = (layer.run for hunk in hunks for layer in hunk.layers if layer.run)
    return PendingFile(
        file_path=review.path,
        rev=review.rev,
        base_file_hash=text_hash(review.base),
        pending=sum(hunk.state == "pending" for hunk in hunks),
        accepted=sum(hunk.state == "accepted" for hunk in hunks),
        conflicts=sum(hunk.conflict for hunk in hunks),
        hunk_ids=tuple(hunk.id for hunk in hunks),
        run_ids=tuple(dict.fromkeys(runs)),
        session_ids=(),
    )
