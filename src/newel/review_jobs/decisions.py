"""The user's changes of files under review: decisions, edits, undo and save, each on a revision."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import NamedTuple

import msgspec
from anyio.to_thread import run_sync

from newel.review.model.batch_edit import Piece, behind_mark, edit_each
from newel.review.model.decisions import Verdict, decided, undecided
from newel.review.model.file_lines import head_of, is_blob, kind_of, text_hash
from newel.review.model.file_review import BadRange, FileReview, Layer, Lines, buffer, new_hunk_id
from newel.review.model.history import Kind
from newel.review_jobs.dependencies import ReviewLimits
from newel.review_jobs.errors import BadRequest, TooLarge, Unprocessable
from newel.review_jobs.files import ReviewFiles
from newel.review_jobs.job_registry import JobRegistry
from newel.review_jobs.job_service import JobService, utf8_size
from newel.review_jobs.requests import DecideAll, Decision, EditRequest, Splice
from newel.review_jobs.responses import (
    DecidedFile,
    DecidedFiles,
    FileAction,
    FileState,
    SavedFile,
    SavedFiles,
)


class _SeenDecision(NamedTuple):
    """A decision on the hunks of one file that the user has seen."""

    review: FileReview
    hunk_ids: tuple[str, ...]


class ReviewDecisions:
    """Changes the ledger, then records each change in the jobs that have the file under review. Methods raise
    ``ReviewError``, and nothing has changed then.
    """

    def __init__(
        self, files: ReviewFiles, registry: JobRegistry, jobs: JobService, limits: ReviewLimits
    ) -> None:
        self._files = files
        self._registry = registry
        self._jobs = jobs
        self._limits = limits

    async def decide(self, decision: Decision) -> FileState:
        """Decide on hunks, or on all of a file, in one change. Hunks that are already decided so stay unchanged."""
        path = await self._files.resolve(decision.file_path)
        match decision.action:
            case "accept_all_file" | "reject_all_file":
                path = await self._files.resolve_file(path)
                verdict: Verdict = "accept" if decision.action == "accept_all_file" else "reject"
                hunk_ids = undecided(await self._files.get(path), verdict, decision.mine)
            case verdict:
                hunk_ids = decision.hunk_ids or [decision.hunk_id]
        make = partial(decided, hunk_ids=hunk_ids, verdict=verdict, mine=decision.mine)
        kind: Kind = "peel" if verdict == "reject" and decision.mine == "peel" else verdict
        return await self._change(
            path, kind, make, decision.rev, action=decision.action, hunk_ids=tuple(hunk_ids)
        )

    async def decide_all(self, request: DecideAll) -> DecidedFiles:
        """Decide on the undecided hunks of several files that the user has seen, in one transaction. Unseen hunks, and
        those that need a decision of their own, stay undecided; a file that changed meanwhile is no error.
        """
        seen = {await self._files.resolve_file(file.file_path): set(file.hunk_ids) for file in request.files}
        for path in seen:
            await self._files.saver.refresh(path)

        def write() -> list[_SeenDecision]:
            with self._files.ledger.batch():
                return [self._decide_seen(path, hunk_ids, request) for path, hunk_ids in seen.items()]

        actions: dict[str, FileAction] = {"accept": "accept_all_file", "reject": "reject_all_file"}
        action = actions.get(request.action, "reopen")
        files: list[DecidedFile] = []
        for review, hunk_ids in await run_sync(write):
            if hunk_ids:
                await self._registry.publish(review, action, hunk_ids)
            pending = sum(hunk.state == "pending" for hunk in review.hunks)
            files.append(DecidedFile(file_path=review.path, rev=review.rev, hunk_ids=hunk_ids, left=pending))
        return DecidedFiles(files=tuple(files))

    def _decide_seen(self, path: str, seen: AbstractSet[str], request: DecideAll) -> _SeenDecision:
        review = self._files.ledger.get(path)
        if request.action == "reopen":
            chosen = [hunk.id for hunk in review.hunks if hunk.state != "pending"]
        else:
            chosen = undecided(review, request.action, request.mine)
        hunk_ids = tuple(name for name in chosen if name in seen)
        make = partial(decided, hunk_ids=hunk_ids, verdict=request.action, mine=request.mine)
        result = self._files.ledger.change(path, request.action, make, hunks=hunk_ids)
        return _SeenDecision(result.review, hunk_ids)

    async def edit(self, request: EditRequest) -> FileState:
        """Apply the user's edits to the buffer. Raises ``BadRequest`` and ``TooLarge``."""
        path = await self._files.resolve(request.file_path)
        _check_edit(request, self._limits)
        if (await self._files.get(path)).rev == 0:  # never read so far
            await self._files.saver.refresh(path)
        make = partial(apply_splices, splices=request.splices)
        return await self._change(path, "user_edit", make, request.rev, action="edit")

    async def undo(self, path: str, rev: int, *, redo: bool = False) -> FileState:
        """Undo, or redo, the latest change of a file."""
        ledger = self._files.ledger
        change = partial(ledger.redo if redo else ledger.undo, await self._files.resolve(path), rev=rev)
        result = await run_sync(change)
        hunk_ids = result.entry.hunks if result.entry is not None else ()
        return await self._publish(result.review, "redo" if redo else "undo", hunk_ids)

    async def save(
        self, paths: Sequence[str], *, revs: Mapping[str, int] | None = None, overwrite: Collection[str] = ()
    ) -> SavedFiles:
        """Write accepted hunks and the user's own edits to the files. ``revs`` are the revisions that the user saw; ``overwrite`` as in
        ``DiskSync.save``. Completes the jobs whose hunks are all saved or rejected.
        """
        names = {path: await self._files.resolve_file(path) for path in paths}
        seen = {names[path]: rev for path, rev in (revs or {}).items()}
        saved = await self._files.saver.save(
            dict.fromkeys(names.values()), revs=seen, overwrite=[names[path] for path in overwrite]
        )
        for file in saved:
            await self._registry.publish(file.review, "save")
        await self._jobs.complete_decided(list(names.values()))
        return SavedFiles(
            saved_files=tuple(
                SavedFile(
                    file_path=file.path,
                    saved_hunks=file.applied,
                    left_hunks=file.left,
                    rev=file.review.rev,
                    base_file_hash=text_hash(file.review.base),
                )
                for file in saved
            )
        )

    async def _change(
        self,
        path: str,
        kind: Kind,
        make: Callable[[FileReview], FileReview],
        rev: int,
        *,
        action: FileAction,
        hunk_ids: tuple[str, ...] = (),
    ) -> FileState:
        change = partial(self._files.ledger.change, path, kind, make, rev=rev, hunks=hunk_ids)
        return await self._publish((await run_sync(change)).review, action, hunk_ids)

    async def _publish(self, review: FileReview, action: FileAction, hunk_ids: tuple[str, ...]) -> FileState:
        await self._registry.publish(review, action, hunk_ids)
        return await self._files.state_of(review)


# -- edits --------------------------------------------------------------------------------------------


def _check_edit(request: EditRequest, limits: ReviewLimits) -> None:
    """Raises ``BadRequest`` and ``TooLarge``."""
    if len(request.splices) > limits.max_splices:
        raise TooLarge(f"The edit has {len(request.splices)} splices; the limit is {limits.max_splices}.")
    size = sum(utf8_size(splice.new_text) for splice in request.splices)
    if size > limits.max_edit_bytes:
        raise TooLarge(f"The edit has {size} bytes of new text; the limit is {limits.max_edit_bytes}.")
    for splice in request.splices:
        if "\0" in splice.new_text:
            raise BadRequest("The text contains a NUL character, which a text file cannot hold.")
        try:
            splice.new_text.encode()
        except UnicodeEncodeError as error:
            raise BadRequest(
                "The text contains half of a surrogate pair, which is not valid UTF-8."
            ) from error


def apply_splices(review: FileReview, splices: Sequence[Splice]) -> FileReview:
    """The review with the user's splices in its buffer. Raises ``BadRange`` if lines do not exist or splices overlap, and
    ``Unprocessable`` for a file without lines.
    """
    if not splices:
        return review
    after = edit_each(review, _pieces(review, splices), new_hunk_id)
    return msgspec.structs.replace(after, rev=review.rev + 1)


def _pieces(review: FileReview, splices: Sequence[Splice]) -> list[Piece]:
    """The splices in order, validated."""
    text = buffer(review)
    if is_blob(text):
        raise Unprocessable(f"{review.path} is not UTF-8 text; its lines cannot be edited.")
    if kind_of(text) not in {"absent", "file"}:
        raise Unprocessable(f"{review.path} is a {kind_of(text)}; only files can be edited.")
    head = int(head_of(text) is not None)  # the line that holds a file's mode
    pieces: list[Piece] = []
    for splice in sorted(splices, key=lambda splice: (splice.start_line, splice.delete_lines)):
        start = splice.start_line - 1 + head
        end = start + splice.delete_lines
        if splice.start_line < 1 or splice.delete_lines < 0 or end > len(text):
            raise BadRange(
                f"{review.path} has {len(text) - head} lines; cannot delete {splice.delete_lines} from line "
                f"{splice.start_line}."
            )
        if pieces and start < pieces[-1][1]:
            raise BadRange(f"{review.path}: two splices overlap at line {splice.start_line}.")
        pieces.append((start, end, Layer(origin="user", lines=_lines(splice.new_text))))
    return behind_mark(text, pieces)


def _lines(text: str) -> Lines:
    parts = text.split("\n")
    last = parts.pop()
    return (*(part + "\n" for part in parts), *([last] if last else []))
