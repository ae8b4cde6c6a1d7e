"""Overviews: files with pending changes, and checkpoints with what became of their hunks."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec
from anyio.to_thread import run_sync

from newel.review.checkpoints import UnknownCheckpoint
from newel.review.model.file_kinds import described
from newel.review.model.file_lines import head_of, is_blob, lines_of, text_hash
from newel.review.model.file_review import FileReview, Lines, buffer
from newel.review.model.patch import patch_size
from newel.review.serialize import runs_of
from newel.review.store.hunk_runs import HunkRuns, hunk_runs
from newel.review.store.ledger import Checkpoint, Ledger, Revision
from newel.review.store.line_counts import recorded_lines
from newel.review.undo_order import UndoOrder
from newel.review_jobs.responses import (
    CheckpointList,
    CheckpointSummary,
    FileCounts,
    PendingFile,
    PendingFiles,
    PendingRun,
)

EMPTY: Final = text_hash(lines_of(b""))
"""Empty files are never paired as moves."""

NO_FILE: Final = text_hash(())

MovableFile = TypeVar("MovableFile", PendingFile, FileCounts)


class _CachedFile(NamedTuple):
    """A file at a revision. ``runs`` counts the hunks of each run; ``after`` is the hash of the file as proposed."""

    revision: Revision
    file: PendingFile
    runs: Mapping[str, FileCounts]
    after: str


class _LedgerFile(NamedTuple):
    """A file at a revision: all its hunks, and the file itself if some are pending."""

    revision: Revision
    hunks: Sequence[HunkRuns]
    file: _CachedFile | None


class Overview:
    """Lists files and runs. Windows poll, and a ledger may hold many files, so a file is read again only if its revision
    has changed.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._known: dict[str, _LedgerFile] = {}
        """All files."""
        self._decided: dict[str, _CachedFile] = {}
        """Files without pending hunks that a checkpoint list needed."""
        self._runs: dict[str, Checkpoint] = {}
        self._loaded_runs: set[str] = set()
        """The runs whose checkpoints were loaded; some may have none any more."""

    async def files(self) -> tuple[PendingFile, ...]:
        """The files with undecided or unsaved hunks, by name."""
        return tuple(cached.file for cached in await run_sync(self._load_pending))

    async def pending(self) -> PendingFiles:
        """The same, with their runs, the oldest first."""
        return await run_sync(self._list_pending)

    async def checkpoints(self, *, limit: int = 100, before: str = "", session: str = "") -> CheckpointList:
        """Up to ``limit`` checkpoints, the newest first: only those older than checkpoint ``before``, or of one session.
        Raises ``UnknownCheckpoint``.
        """
        return await run_sync(self._list_checkpoints, limit, before, session)

    def _list_pending(self) -> PendingFiles:
        files = self._load_pending()
        counts: dict[str, list[FileCounts]] = {}
        for cached in files:
            for run in cached.file.run_ids:
                counts.setdefault(run, []).append(cached.runs[run])
        closed = [
            (path, hunk)
            for path, known in self._known.items()
            for hunk in known.hunks
            if hunk.state in {"rejected", "applied"} and not hunk.runs.isdisjoint(counts)
        ]
        in_file = Counter((path, hunk.state) for path, hunk in closed)
        of_run = Counter((run, hunk.state) for _, hunk in closed for run in hunk.runs)
        listed = [_with_closed(file, in_file) for file in _with_moves(files)]
        runs = [_pending_run(run, self._runs.get(run), counts[run], of_run) for run in counts]
        decided = len(closed) + sum(file.accepted for file in listed)
        return PendingFiles(
            files=tuple(listed),
            runs=tuple(sorted(runs, key=lambda run: run.created_at)),
            decided=decided,
            total=decided + sum(file.pending for file in listed),
        )

    def _list_checkpoints(self, limit: int, before: str, session: str) -> CheckpointList:
        checkpoints = self._ledger.checkpoints()
        order = UndoOrder(checkpoints)
        if before:
            ids = [checkpoint.id for checkpoint in checkpoints]
            if before not in ids:
                raise UnknownCheckpoint(
                    f"Checkpoint {before} does not exist. Reload the list from the beginning."
                )
            checkpoints = checkpoints[ids.index(before) + 1 :]
        if session:
            checkpoints = [checkpoint for checkpoint in checkpoints if checkpoint.session == session]
        with self._lock:
            revs = self._ledger.revisions()
            page = tuple(self._summary(checkpoint, revs, order) for checkpoint in checkpoints[:limit])
        return CheckpointList(checkpoints=page, more=len(checkpoints) > limit)

    def _load_pending(self) -> list[_CachedFile]:
        """The files with pending hunks."""
        with self._lock:
            cache = self._known
            self._known = {
                path: cache[path] if path in cache and cache[path].revision == rev else self._look(path, rev)
                for path, rev in self._ledger.revisions().items()
            }
            files = [known.file for known in self._known.values() if known.file is not None]
            runs = {run for cached in files for run in cached.file.run_ids}
            if runs - self._loaded_runs:
                self._runs = self._ledger.checkpoints_of_runs(runs)
                self._loaded_runs = runs
            return [self._with_sessions(cached) for cached in files]

    def _look(self, path: str, revision: Revision) -> _LedgerFile:
        hunks = hunk_runs(self._ledger, path)
        is_pending = any(hunk.state in {"pending", "accepted"} for hunk in hunks)
        return _LedgerFile(revision, hunks, self._read(path, revision) if is_pending else None)

    def _read(self, path: str, revision: Revision) -> _CachedFile:
        review = self._ledger.get(path)
        return _CachedFile(revision, _pending_file(review), _counts(review), text_hash(buffer(review)))

    def _with_sessions(self, cached: _CachedFile) -> _CachedFile:
        sessions = (self._runs[run].session for run in cached.file.run_ids if run in self._runs)
        session_ids = tuple(dict.fromkeys(session for session in sessions if session))
        return cached._replace(file=msgspec.structs.replace(cached.file, session_ids=session_ids))

    def _summary(
        self, checkpoint: Checkpoint, revs: Mapping[str, Revision], order: UndoOrder
    ) -> CheckpointSummary:
        run = checkpoint.run
        paths = [file.path for file in checkpoint.files]
        files = [self._runs_of(path, revs.get(path)).get(run) or _no_hunks(path) for path in paths]
        return CheckpointSummary(
            checkpoint_id=checkpoint.id,
            session_id=checkpoint.session,
            job_id=run,
            created_at=checkpoint.created,
            title=checkpoint.title,
            files=tuple(_name_moves(files, self._moves(checkpoint, files))),
            is_undone=order.is_undone(checkpoint),
            kept_files=self._kept_files(checkpoint, order, files),
        )

    def _moves(self, checkpoint: Checkpoint, files: Sequence[FileCounts]) -> Mapping[str, str]:
        """The old names of files that a run moved, by the new ones. The journal is read only if there may be any."""
        pairs = list(zip(checkpoint.files, files, strict=True))
        gone = {before.path for before, file in pairs if before.blob and not file.added}
        new = {before.path for before, file in pairs if not before.blob and not file.removed}
        if not gone or not new:
            return {}
        steps = {
            path: [step for step in steps if step.kind in {"record", "propose"}]
            for path, steps in recorded_lines(self._ledger, checkpoint.run).items()
        }
        changes = {path: (own[0].hash_before, own[-1].hash_after) for path, own in steps.items() if own}
        return _find_moves(
            [
                (path, before)
                for path, (before, after) in changes.items()
                if path in gone and after == NO_FILE
            ],
            [(path, after) for path, (before, after) in changes.items() if path in new and before == NO_FILE],
        )

    def _kept_files(
        self, checkpoint: Checkpoint, order: UndoOrder, files: Sequence[FileCounts]
    ) -> tuple[str, ...]:
        """The files of an undone run that the undo has not changed, although the run had. Rejected hunks left nothing to undo."""
        if not order.is_undone(checkpoint):
            return ()
        undo = order.now(checkpoint)
        undone = {entry.path for entry in self._ledger.entries(run=undo.run, kind="rollback")}
        rejected = {file.file_path for file in files if file.rejected and not file.applied}
        run = self._ledger.entries(run=checkpoint.run)
        return tuple(dict.fromkeys(entry.path for entry in run if entry.path not in undone | rejected))

    def _runs_of(self, path: str, revision: Revision | None) -> Mapping[str, FileCounts]:
        if revision is None:
            return {}
        known = self._known.get(path)
        for cached in (self._decided.get(path), known and known.file):
            if cached is not None and cached.revision == revision:
                return cached.runs
        self._decided[path] = self._read(path, revision)
        return self._decided[path].runs


def _pending_run(
    run: str, checkpoint: Checkpoint | None, files: Sequence[FileCounts], closed: Counter[tuple[str, str]]
) -> PendingRun:
    return PendingRun(
        run_id=run,
        session_id=checkpoint.session if checkpoint else "",
        title=checkpoint.title if checkpoint else "",
        created_at=checkpoint.created if checkpoint else "",
        files=len(files),
        pending=sum(file.pending for file in files),
        accepted=sum(file.accepted for file in files),
        rejected=closed[run, "rejected"],
        applied=closed[run, "applied"],
    )


def _with_closed(file: PendingFile, closed: Counter[tuple[str, str]]) -> PendingFile:
    path = file.file_path
    return msgspec.structs.replace(file, rejected=closed[path, "rejected"], applied=closed[path, "applied"])


def _no_hunks(path: str) -> FileCounts:
    return FileCounts(file_path=path, pending=0, accepted=0, rejected=0, applied=0, added=0, removed=0)


def _counts(review: FileReview) -> dict[str, FileCounts]:
    """The hunks of each run in a file, by state."""
    states = Counter((run, hunk.state) for hunk in review.hunks for run in runs_of(hunk))
    applied = Counter(hunk.run for hunk in review.applied)
    added, removed = _line_counts(review)
    return {
        run: FileCounts(
            file_path=review.path,
            pending=states[run, "pending"],
            accepted=states[run, "accepted"],
            rejected=states[run, "rejected"],
            applied=applied[run],
            added=added[run],
            removed=removed[run],
        )
        for run in {run for run, _ in states} | applied.keys()
    }


def _line_counts(review: FileReview) -> tuple[Counter[str], Counter[str]]:
    """The lines that each run adds and removes in a file."""
    added, removed = Counter[str](), Counter[str]()
    for hunk in review.hunks:
        if not hunk.is_shown:
            continue
        more, less = patch_size(review.base[hunk.a : hunk.b], hunk.top.lines)
        for run in runs_of(hunk):
            added[run] += more
            removed[run] += less
    for saved in review.applied:
        more, less = patch_size(saved.before, review.base[saved.a : saved.b])
        added[saved.run] += more
        removed[saved.run] += less
    return added, removed


def _find_moves(deleted: Iterable[tuple[str, str]], created: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """The old names of moved files, by the new ones. Each file is a path and the hash of its content. A deleted and a created file
    with the same content are a move if no third file has that content.
    """
    old_names, new_names = _by_content(deleted), _by_content(created)
    pairs = [
        (old_names[content], new_names[content]) for content in old_names.keys() & new_names.keys() - {EMPTY}
    ]
    return {new[0]: old[0] for old, new in pairs if len(old) == len(new) == 1}


def _by_content(files: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path, content in files:
        found.setdefault(content, []).append(path)
    return found


def _with_moves(files: Sequence[_CachedFile]) -> Iterator[PendingFile]:
    plain = [cached for cached in files if cached.file.kind == "file"]
    deleted = [
        (each.file.file_path, each.file.base_file_hash) for each in plain if each.file.change == "deleted"
    ]
    created = [(each.file.file_path, each.after) for each in plain if each.file.change == "created"]
    return _name_moves([cached.file for cached in files], _find_moves(deleted, created))


def _name_moves(files: Sequence[MovableFile], sources: Mapping[str, str]) -> Iterator[MovableFile]:
    """The files, with the other name of those that were moved."""
    targets = {old: new for new, old in sources.items()}
    for file in files:
        source, target = sources.get(file.file_path), targets.get(file.file_path)
        is_moved = source is not None or target is not None
        yield msgspec.structs.replace(file, moved_from=source, moved_to=target) if is_moved else file


def _mode(lines: Lines) -> str | None:
    mode = head_of(lines)
    return None if mode is None else f"{mode:o}"


def _pending_file(review: FileReview) -> PendingFile:
    """Without the sessions, which a review does not know."""
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
        pending_conflicts=sum(hunk.conflict and hunk.state == "pending" for hunk in hunks),
        unsaved=sum(hunk.state == "accepted" or hunk.by_user for hunk in hunks),
        hunk_ids=tuple(hunk.id for hunk in hunks),
        run_ids=tuple(dict.fromkeys(runs)),
        session_ids=(),
        **described(before, after)._asdict(),
        is_binary=is_blob(after or before),
        base_mode=_mode(before),
        mode=_mode(after),
    )
