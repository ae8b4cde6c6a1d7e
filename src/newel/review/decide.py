"""Decisions on pending hunks outside an editor: load them, select some by name, decide, and write the accepted ones.

    found = await load_pending(project)                               # updated from the disk
    choice = select_hunks(found, ["h_1a", "src/b.py"], "keep")
    reviews = await decide(project, choice)                   # in the ledger, in one transaction
    written = await write(project, reviews, choice.hunks)     # accepted hunks, to the disk

A decision changes the ledger; the files are written after it. A hunk that cannot be written stays decided.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple

import anyio.to_thread

from newel.agent.errors import WorkspaceError
from newel.review.folders import parents
from newel.review.hunk_warnings import hunk_warning
from newel.review.model.decisions import Mine, decided
from newel.review.model.file_kinds import Change, described
from newel.review.model.file_lines import Kind as FileKind
from newel.review.model.file_lines import kind_of
from newel.review.model.file_review import (
    ChoiceNeeded,
    FileReview,
    Hunk,
    HunkState,
    Lines,
    Origin,
    ReviewError,
    StaleRevision,
    UnknownHunk,
    new_hunk_id,
    render,
    root_of,
)
from newel.review.model.history import Kind
from newel.review.model.hunk_text import with_text
from newel.review.model.patch import file_patch, patch_of_hunk
from newel.review.project import ProjectReview
from newel.review.save_outcome import SaveFailed, SaveResult
from newel.review.save_plans import overwrites
from newel.review.serialize import HunkKind, View, hunk_kind
from newel.review.store.ledger import Checkpoint, Ledger
from newel.review.store.schema import LedgerError

Verdict = Literal["keep", "reject"]

NAMED: Final = 5
"""Hunks that an error names if a prefix is ambiguous."""


class DecisionProblem(NamedTuple):
    """A file that was left unchanged, and why."""

    path: str
    reason: str


class PendingReviews(NamedTuple):
    """The files with hunks, sorted by path, and those that could not be read."""

    reviews: list[FileReview]
    problems: list[DecisionProblem]

    @property
    def waiting(self) -> int:
        """The number of hunks that need a decision or are not written yet."""
        return sum(hunk.state != "rejected" for review in self.reviews for hunk in review.hunks)


class Selection(NamedTuple):
    """A verdict on hunks of files. ``left`` are hunks of these files that it does not decide, with the reason."""

    verdict: Verdict
    picks: dict[str, tuple[FileReview, list[Hunk]]]
    left: list[DecisionProblem]
    mine: Mine | None = None

    @property
    def hunks(self) -> dict[str, list[str]]:
        """The ids of the hunks of each file."""
        return {path: [hunk.id for hunk in hunks] for path, (_, hunks) in self.picks.items()}


class SaveReport(NamedTuple):
    saved: list[SaveResult]
    problems: list[DecisionProblem]


class PendingHunk(View, frozen=True):
    """A hunk under review. ``kind`` is the kind of its change, as in ``BundleHunk``; ``patch`` is its effect alone,
    in git's format; ``mine``: the user has edited it; ``run`` is the agent's run that proposed it; ``warning`` is a reason to look
    twice, in a few words.
    """

    hunk_id: str
    kind: HunkKind
    state: HunkState
    conflict: bool
    oversized: bool
    mine: bool
    origin: Origin
    run: str
    patch: str
    warning: str = ""


class PendingFileHunks(View, frozen=True):
    """``kind``, ``change`` and ``about`` describe the file if all of it is kept, as in ``BundleFile``."""

    file_path: str
    rev: int
    kind: FileKind
    change: Change
    about: str
    hunks: tuple[PendingHunk, ...]


# -- looking ------------------------------------------------------------------------------------------


async def load_pending(project: ProjectReview) -> PendingReviews:
    """The files with hunks, updated from the disk. Raises ``LedgerError``."""
    refreshed = await project.saver.refresh_all(await anyio.to_thread.run_sync(_with_hunks, project.ledger))
    return PendingReviews(
        [review for review in refreshed.reviews if review.hunks],
        [DecisionProblem(path, reason) for path, reason in refreshed.problems.items()],
    )


def _with_hunks(ledger: Ledger) -> list[str]:
    return [path for path in ledger.paths() if ledger.hunk_states(path)]


def run_of(hunk: Hunk) -> str:
    """The run that proposed a hunk, the latest of several; empty for the user's own."""
    return next((layer.run for layer in reversed(hunk.layers) if layer.run), "")


def checkpoints_by_run(ledger: Ledger) -> dict[str, Checkpoint]:
    """The checkpoints of runs, by the run."""
    return {checkpoint.run: checkpoint for checkpoint in ledger.checkpoints()}


def patch_of(review: FileReview, hunks: Sequence[Hunk]) -> str:
    """The effect of these hunks alone on a file, as a git patch."""
    if len(hunks) == 1:
        return patch_of_hunk(review.path, review.base, hunks[0])
    return file_patch(review.path, review.base, render(review.base, hunks))


def _proposed(review: FileReview) -> Lines:
    """The file if everything that is not rejected were kept; where all is rejected, if that were."""
    return render(review.base, [hunk for hunk in review.hunks if hunk.is_shown] or review.hunks)


def pending_files(reviews: Sequence[FileReview]) -> list[PendingFileHunks]:
    """The JSON view of the files under review."""
    return [
        PendingFileHunks(
            file_path=review.path,
            rev=review.rev,
            **described(review.base, _proposed(review))._asdict(),
            hunks=tuple(
                PendingHunk(
                    hunk_id=hunk.id,
                    kind=hunk_kind(review.base, hunk),
                    state=hunk.state,
                    conflict=hunk.conflict,
                    oversized=hunk.oversized,
                    mine=hunk.has_user_layer,
                    origin="user" if hunk.by_user else "agent",
                    run=run_of(hunk),
                    patch=patch_of(review, [hunk]),
                    warning=hunk_warning(review, hunk),
                )
                for hunk in review.hunks
            ),
        )
        for review in reviews
    ]


def files_with_pending(ledger: Ledger, session: str, since: str) -> list[str]:
    """The files with pending hunks of runs that a session started at a time (see ``newel.agent.messages.now``) or later. Raises
    ``LedgerError``.
    """
    runs = [
        checkpoint
        for checkpoint in ledger.checkpoints()
        if checkpoint.session == session and checkpoint.created >= since
    ]
    ids = {checkpoint.run for checkpoint in runs}
    paths = {before.path for checkpoint in runs for before in checkpoint.files}

    def waits(hunk: Hunk) -> bool:
        return hunk.state == "pending" and any(layer.run in ids for layer in hunk.layers)

    return [path for path in sorted(paths) if any(waits(hunk) for hunk in ledger.get(path).hunks)]


# -- choosing -----------------------------------------------------------------------------------------


def select_hunks(
    pending: PendingReviews,
    arguments: Sequence[str],
    verdict: Verdict,
    *,
    every: bool = False,
    mine: Mine | None = None,
) -> Selection:
    """The hunks that arguments name: by an id or a prefix of it, by a file's path, or ``every`` hunk.

    A hunk that is named by id is selected in any state; a file means its undecided hunks. Raises ``UnknownHunk``
    for an argument that matches no hunk or several, and ``ChoiceNeeded`` if the user's own lines would be dropped
    and ``mine`` is None.
    """
    choice = Selection(verdict, {}, [], mine)
    paths = {item.path for item in (*pending.reviews, *pending.problems)}
    whole = paths if every else set[str]()
    named: dict[str, set[str]] = {}
    for word in arguments:
        if hunk := _by_id(pending.reviews, word, exact=True):
            named.setdefault(hunk[0], set()).add(hunk[1])
        elif (path := posixpath.normpath(word)) in paths:
            whole.add(path)
        elif hunk := _by_id(pending.reviews, word, exact=False):
            named.setdefault(hunk[0], set()).add(hunk[1])
        else:
            raise UnknownHunk(f"Nothing under review is named {word}: {_why(pending.reviews, word)}.")
    choice.left.extend(problem for problem in pending.problems if problem.path in whole)
    for review in pending.reviews:
        picked = list(_pick(choice, review, named.get(review.path, set()), is_whole=review.path in whole))
        if picked:
            choice.picks[review.path] = (review, picked)
    return choice


def _by_id(reviews: Sequence[FileReview], word: str, *, exact: bool) -> tuple[str, str] | None:
    matches = [
        (review.path, hunk.id)
        for review in reviews
        for hunk in review.hunks
        if hunk.id == word or (not exact and word and hunk.id.startswith(word))
    ]
    if parts := [name for _, name in matches if name.startswith(f"{word}-")]:
        raise UnknownHunk(f"Hunk {word} was split. Name its parts: {', '.join(parts[:NAMED])}.")
    if len(matches) > 1:
        names = ", ".join(name for _, name in matches[:NAMED])
        more = f" and {len(matches) - NAMED} more" if len(matches) > NAMED else ""
        raise UnknownHunk(f"{len(matches)} hunks begin with {word}: {names}{more}. Type more of its id.")
    return matches[0] if matches else None


def _why(reviews: Sequence[FileReview], word: str) -> str:
    for review in reviews:
        changed = [
            hunk
            for hunk in review.hunks
            if word.startswith("h_") and root_of(hunk.id).startswith(root_of(word))
        ]
        if changed:
            return f"that hunk of {review.path} has changed since it had this id; look at it again: `newel review`"
        if any(applied_hunk.id == word for applied_hunk in review.applied):
            return f"that hunk is in {review.path} already; `newel undo` undoes it"
    return "`newel review` lists hunks and files"


def _pick(choice: Selection, review: FileReview, named: Collection[str], *, is_whole: bool) -> Iterator[Hunk]:
    for hunk in review.hunks:
        if hunk.id in named:
            if choice.verdict == "keep" or hunk.state != "rejected":
                yield _require_choice(choice, review, hunk)
        elif not is_whole or hunk.state == "rejected":
            continue
        elif choice.verdict == "keep" and hunk.conflict:
            reason = f"hunk {hunk.id} is a conflict; to keep it anyway, name it"
            choice.left.append(DecisionProblem(review.path, reason))
        elif choice.verdict == "reject" and hunk.by_user:
            reason = f"hunk {hunk.id} is all your own; to drop it anyway, name it"
            choice.left.append(DecisionProblem(review.path, reason))
        else:
            yield _require_choice(choice, review, hunk)


def _require_choice(choice: Selection, review: FileReview, hunk: Hunk) -> Hunk:
    if choice.verdict == "reject" and hunk.has_user_layer and choice.mine is None:
        raise ChoiceNeeded(
            f"Hunk {hunk.id} of {review.path} has lines of your own. Use --mine peel to drop only those, or --mine base to "
            "drop all of it. Nothing was changed."
        )
    return hunk


# -- deciding -----------------------------------------------------------------------------------------


async def decide(project: ProjectReview, choice: Selection) -> list[FileReview]:
    """Apply a verdict to all files in one transaction. Raises ``StaleRevision`` if one has changed since it was loaded; then nothing
    is decided.
    """

    def put_down() -> list[FileReview]:
        reviews: list[FileReview] = []
        with project.ledger.batch():
            for review, hunks in choice.picks.values():
                ids = [hunk.id for hunk in hunks]
                try:
                    reviews.append(_decide_on(project, review, ids, choice.verdict, choice.mine))
                except StaleRevision as error:
                    raise StaleRevision(
                        f"{review.path} changed since it was shown. Nothing was decided; look at it again: `newel review`."
                    ) from error
        return reviews

    return await anyio.to_thread.run_sync(put_down)


async def decide_hunks(
    project: ProjectReview,
    review: FileReview,
    ids: Sequence[str],
    verdict: Verdict | Literal["later"],
    mine: Mine | None = None,
    *,
    reason: str = "",
) -> FileReview:
    """Decide on hunks of a file in one change; ``later`` makes them pending again. The model is told the ``reason`` of a rejection.
    Raises as ``reject``, and ``StaleRevision``.
    """
    decide_on = partial(_decide_on, project, review, ids, verdict, mine, reason=reason)
    return await anyio.to_thread.run_sync(decide_on)


def _decide_on(
    project: ProjectReview,
    review: FileReview,
    ids: Sequence[str],
    verdict: Verdict | Literal["later"],
    mine: Mine | None,
    *,
    reason: str = "",
) -> FileReview:
    kind = _KINDS[verdict]
    make = partial(decided, hunk_ids=ids, verdict=kind, mine=mine)
    recorded: Kind = "peel" if kind == "reject" and mine == "peel" else kind
    change = partial(project.ledger.change, rev=review.rev, hunks=tuple(ids), reason=reason)
    return change(review.path, recorded, make).review


_KINDS: Final[dict[str, Literal["accept", "reject", "reopen"]]] = {
    "keep": "accept",
    "reject": "reject",
    "later": "reopen",
}


async def split_hunk(project: ProjectReview, review: FileReview, hunk: Hunk) -> FileReview:
    """Replace a hunk by its parts. Raises ``CannotSplit`` and ``StaleRevision``."""
    make = partial(decided, hunk_ids=[hunk.id], verdict="split")
    change = partial(project.ledger.change, review.path, "split", make, rev=review.rev, hunks=(hunk.id,))
    return (await anyio.to_thread.run_sync(change)).review


async def edit_hunk(project: ProjectReview, path: str, hunk_id: str, text: str) -> FileReview:
    """Replace the new lines of a hunk by the user's ``text``, on the current version of its file. Raises as ``with_text``; then
    nothing has changed.
    """
    await project.saver.refresh(path)
    make = partial(with_text, hunk_id=hunk_id, text=text, new_id=new_hunk_id)
    change = partial(project.ledger.change, path, "user_edit", make, hunks=(hunk_id,))
    return (await anyio.to_thread.run_sync(change)).review


def accepted_hunks(reviews: Sequence[FileReview]) -> dict[str, list[str]]:
    """The accepted hunks of each file that are not written yet."""
    accepted = {
        review.path: [hunk.id for hunk in review.hunks if hunk.state == "accepted"] for review in reviews
    }
    return {path: ids for path, ids in accepted.items() if ids}


def overwritten_paths(reviews: Sequence[FileReview], hunks: Mapping[str, Sequence[str]]) -> list[str]:
    """The files in which these hunks replace lines that others changed on disk: the user has to confirm that by name."""
    return [review.path for review in reviews if overwrites(review, hunks.get(review.path, ()))]


async def write(
    project: ProjectReview,
    reviews: Sequence[FileReview],
    hunks: Mapping[str, Sequence[str]],
    *,
    overwrite: Collection[str] = (),
) -> SaveReport:
    """Write accepted hunks to the disk, each file atomically; ``overwrite`` as in ``DiskSync.save``. A file that differs from its review,
    or cannot be written, is a problem; it does not affect the others, unless they are in a folder that is created or replaced with it.
    Raises ``LedgerError``.
    """
    written = SaveReport([], [])
    for group in _group_writes([review for review in reviews if hunks.get(review.path)], hunks):
        revs = {review.path: review.rev for review in group}
        try:
            written.saved.extend(
                await project.saver.save({path: hunks[path] for path in revs}, revs=revs, overwrite=overwrite)
            )
        except LedgerError:
            raise
        except (ReviewError, WorkspaceError) as error:
            done = error.saved if isinstance(error, SaveFailed) else ()
            written.saved.extend(done)
            left = revs.keys() - {applied_file.path for applied_file in done}
            written.problems.extend(DecisionProblem(path, str(error)) for path in sorted(left))
    return written


def _group_writes(
    reviews: Sequence[FileReview], hunks: Mapping[str, Sequence[str]]
) -> Iterator[list[FileReview]]:
    """One group for each file, but a path that becomes a folder, or was one, together with the files in it."""
    turned = {review.path for review in reviews if _changes_kind(review, hunks[review.path])}
    groups: dict[str, list[FileReview]] = {}
    for review in reviews:
        top = next((path for path in reversed([review.path, *parents(review.path)]) if path in turned), None)
        groups.setdefault(top or review.path, []).append(review)
    yield from groups.values()


def _changes_kind(review: FileReview, ids: Sequence[str]) -> bool:
    rendered = render(review.base, [hunk for hunk in review.hunks if hunk.id in ids])
    return (kind_of(review.base) == "folder") != (kind_of(rendered) == "folder")
