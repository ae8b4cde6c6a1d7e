"""What there is to look at, in short: the sessions, the files that wait for a decision, and the runs that changed something."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from newel.jobs.engine import Job
from newel.review.checkpoints import UnknownCheckpoint
from newel.review.model.file_kinds import described
from newel.review.model.file_lines import head_of, is_blob, lines_of, text_hash
from newel.review.model.file_review import FileReview, Lines, buffer
from newel.review.serialize import runs_of
from newel.review.store.ledger import Checkpoint, Ledger
from newel.review.store.watch import Revision, has_shown_hunks, revisions
from newel.review_jobs.journal import JobJournal, params_of
from newel.review_jobs.presenters import Known, pending_of
from newel.review_jobs.schemas import (
    CheckpointList,
    CheckpointSummary,
    FileCounts,
    JobSummary,
    PendingFile,
    PendingFiles,
    PendingRun,
    SessionSummary,
)
from newel.review_jobs.session_store import Session
from newel.text.sanitize import plain_line

_TITLE: Final = 80
EMPTY: Final = text_hash(lines_of(b""))
"""Files without content are no sign of a move."""


def session_summary(session: Session, jobs: Sequence[Job], live: Sequence[Known]) -> SessionSummary:
    """A session with its jobs, and those of them that have not ended, the oldest first."""
    return SessionSummary(
        id=session.id,
        status=session.status,
        created_at=session.created_at,
        updated_at=max((job.updated for job in jobs), default=session.created_at),
        title=plain_line(params_of(jobs[0]).instruction, _TITLE) if jobs else "",
        jobs=len(jobs),
        last_job_id=jobs[-1].id if jobs else None,
        pending_review=pending_of(live),
        asking_job_id=next(
            (job.id for job, journal in live if journal.state.status == "waiting_for_user"), None
        ),
    )


def job_summary(job: Job, journal: JobJournal) -> JobSummary:
    state = journal.state
    return JobSummary(
        id=job.id,
        session_id=journal.params.session,
        status=state.status,
        instruction=plain_line(journal.params.instruction, _TITLE),
        created_at=state.created_at,
        finished_at=state.finished_at,
        files=len(state.hashes),
    )


class _OverviewCache(NamedTuple):
    """A file as it was at a revision. ``runs`` is what has become of the hunks of each run in it, ``after`` the hash of what
    it would be.
    """

    revision: Revision
    file: PendingFile
    runs: Mapping[str, FileCounts]
    after: str


class Overview:
    """The files that wait, and the runs. What was read of a file is read again only once it has changed, for windows ask often
    and a ledger may know many files. Any thread may ask; methods block.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[Revision, _OverviewCache | None]] = {}
        """All files; None of one in which nothing waits."""
        self._settled: dict[str, _OverviewCache] = {}
        """Of those in which nothing waits, the ones that were asked for."""
        self._runs: dict[str, Checkpoint] = {}
        self._sought: set[str] = set()
        """The runs that were looked for among the checkpoints, which may have forgotten them."""

    def files(self) -> tuple[PendingFile, ...]:
        """Those with hunks that are undecided or unsaved, by their names."""
        return tuple(read.file for read in self._looked())

    def pending(self) -> PendingFiles:
        """The same, with their runs."""
        read = self._looked()
        counts: dict[str, list[FileCounts]] = {}
        for each in read:
            for run in each.file.run_ids:
                counts.setdefault(run, []).append(each.runs[run])
        known = [(self._runs.get(run), run) for run in counts]
        known.sort(key=lambda each: each[0].created if each[0] else "")
        runs = (_pending_run(run, checkpoint, counts[run]) for checkpoint, run in known)
        return PendingFiles(files=tuple(_with_moves(read)), runs=tuple(runs))

    def checkpoints(self, limit: int, before: str = "", session: str = "") -> CheckpointList:
        """Up to ``limit`` checkpoints, the latest first: those before another one, those of one session. Raises
        ``UnknownCheckpoint``.
        """
        found = self._ledger.checkpoints()
        if before:
            place = next((n for n, each in enumerate(found) if each.id == before), None)
            if place is None:
                raise UnknownCheckpoint(f"There is no checkpoint {before}. Read the list from its beginning.")
            found = found[place + 1 :]
        if session:
            found = [each for each in found if each.session == session]
        with self._lock:
            revs = revisions(self._ledger)
            shown = tuple(self._summary(each, revs) for each in found[:limit])
        return CheckpointList(checkpoints=shown, more=len(found) > limit)

    def _looked(self) -> list[_OverviewCache]:
        """The files in which something waits."""
        with self._lock:
            known, now = self._waiting, revisions(self._ledger)
            self._waiting = {
                path: known[path]
                if path in known and known[path][0] == rev
                else (rev, self._read(path, rev) if has_shown_hunks(self._ledger, path) else None)
                for path, rev in now.items()
            }
            found = [read for _, read in self._waiting.values() if read is not None]
            runs = {run for read in found for run in read.file.run_ids}
            if runs - self._sought:
                self._runs = {each.run: each for each in self._ledger.checkpoints() if each.run in runs}
                self._sought = runs
            return [self._with_sessions(read) for read in found]

    def _read(self, path: str, revision: Revision) -> _OverviewCache:
        review = self._ledger.get(path)
        return _OverviewCache(revision, _pending_file(review), _counts(review), text_hash(buffer(review)))

    def _with_sessions(self, read: _OverviewCache) -> _OverviewCache:
        found = (self._runs[run].session for run in read.file.run_ids if run in self._runs)
        sessions = tuple(dict.fromkeys(session for session in found if session))
        return read._replace(file=msgspec.structs.replace(read.file, session_ids=sessions))

    def _summary(self, checkpoint: Checkpoint, revs: Mapping[str, Revision]) -> CheckpointSummary:
        run = checkpoint.run
        paths = [before.path for before in checkpoint.files]
        return CheckpointSummary(
            checkpoint_id=checkpoint.id,
            session_id=checkpoint.session,
            job_id=run,
            created_at=checkpoint.created,
            title=checkpoint.title,
            files=tuple(self._runs_of(path, revs.get(path)).get(run) or _none(path) for path in paths),
        )

    def _runs_of(self, path: str, revision: Revision | None) -> Mapping[str, FileCounts]:
        if revision is None:
            return {}
        known, waiting = self._settled.get(path), self._waiting.get(path)
        for read in (known, waiting[1] if waiting else None):
            if read is not None and read.revision == revision:
                return read.runs
        self._settled[path] = self._read(path, revision)
        return self._settled[path].runs


def _pending_run(run: str, checkpoint: Checkpoint | None, files: Sequence[FileCounts]) -> PendingRun:
    return PendingRun(
        run_id=run,
        session_id=checkpoint.session if checkpoint else "",
        title=checkpoint.title if checkpoint else "",
        created_at=checkpoint.created if checkpoint else "",
        files=len(files),
        pending=sum(file.pending for file in files),
        accepted=sum(file.accepted for file in files),
    )


def _none(path: str) -> FileCounts:
    return FileCounts(file_path=path, pending=0, accepted=0, rejected=0, applied=0)


def _counts(review: FileReview) -> dict[str, FileCounts]:
    """What has become of the hunks of each run in a file."""
    states = Counter((run, hunk.state) for hunk in review.hunks for run in runs_of(hunk))
    applied = Counter(one.run for one in review.applied)
    return {
        run: FileCounts(
            file_path=review.path,
            pending=states[run, "pending"],
            accepted=states[run, "accepted"],
            rejected=states[run, "rejected"],
            applied=applied[run],
        )
        for run in {run for run, _ in states} | applied.keys()
    }


def _with_moves(read: Sequence[_OverviewCache]) -> list[PendingFile]:
    """The files, a deleted and a new one with the same content paired, where no third one has it."""
    gone: dict[str, list[str]] = {}
    made: dict[str, list[str]] = {}
    for each in read:
        if each.file.kind != "file":
            continue
        if each.file.change == "deleted":
            gone.setdefault(each.file.base_file_hash, []).append(each.file.file_path)
        elif each.file.change == "created":
            made.setdefault(each.after, []).append(each.file.file_path)
    pairs = [(gone[content], made[content]) for content in gone.keys() & made.keys() - {EMPTY}]
    to = {old[0]: new[0] for old, new in pairs if len(old) == len(new) == 1}
    back = {new: old for old, new in to.items()}
    return [
        msgspec.structs.replace(file, moved_from=back.get(file.file_path), moved_to=to.get(file.file_path))
        for file in (each.file for each in read)
    ]


def _mode(lines: Lines) -> str | None:
    mode = head_of(lines)
    return None if mode is None else f"{mode:o}"


def _pending_file(review: FileReview) -> PendingFile:
    """Without the sessions, of which a review knows nothing."""
    hunks = [hunk for hunk in review.hunks if hunk.is_shown]
    runs = (run for hunk in hunks for run in runs_of(hunk))
    before, after = review.base, buffer(review)
    return PendingFile(
        file_path=review.path,
        rev=review.rev,
        base_file_hash=text_hash(review.base),
        pending=sum(hunk.state == "pending" and (hunk.conflict or not hunk.by_user) for hunk in hunks),
        accepted=sum(hunk.state == "accepted" for hunk in hunks),
        conflicts=sum(hunk.conflict for hunk in hunks),
        unsaved=sum(hunk.state == "accepted" or hunk.by_user for hunk in hunks),
        hunk_ids=tuple(hunk.id for hunk in hunks),
        run_ids=tuple(dict.fromkeys(runs)),
        session_ids=(),
        **described(before, after)._asdict(),
        is_binary=is_blob(after or before),
        base_mode=_mode(before),
        mode=_mode(after),
    )
