"""Files under review, as a person works on them: what is decided, written, undone and saved, each on a revision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple, TypeVar

import anyio.to_thread

from newel.jobs.review.errors import BadRequest, TooLarge
from newel.jobs.review.limits import ReviewLimits
from newel.jobs.review.payloads import Decision, EditRequest, SavedFile
from newel.jobs.review.requests import size_of
from newel.jobs.review.splicing import spliced
from newel.review.decisions import Mine, accept, peel, reject, reopen
from newel.review.history import Kind
from newel.review.ledger import FileReview
from newel.review.saving import Saved, Saver, checked_path
from newel.review.store import Ledger
from newel.review.text import text_hash
from newel.review.views import Change, change_log

T = TypeVar("T")
Action = Literal[
    "accept", "reject", "reopen", "peel", "accept_all_file", "edit", "undo", "redo", "save", "rollback"
]


class Reviewed(NamedTuple):
    """What became of a file, by what, and the hunks that it was about."""

    review: FileReview
    action: Action
    hunk_ids: tuple[str, ...] = ()


class ReviewFiles:
    """The files of one project. Methods raise ``ReviewError``, and then nothing has changed."""

    def __init__(self, ledger: Ledger, saver: Saver, root: str, limits: ReviewLimits) -> None:
        self.ledger = ledger
        self.saver = saver
        self.root = root
        self._limits = limits

    async def read(self, path: str) -> FileReview:
        """A file's review, with the disk as it is now."""
        return await self.saver.refresh(checked_path(self.root, path))

    async def known(self, path: str) -> FileReview:
        """A file's review as the ledger has it."""
        return await _in_thread(self.ledger.get, checked_path(self.root, path))

    async def log(self, path: str) -> list[Change]:
        """The changes of a file."""
        name = checked_path(self.root, path)

        def read() -> list[Change]:
            return change_log(self.ledger.entries(path=name), self.ledger.get(name))

        return await _in_thread(read)

    async def decide(self, decision: Decision) -> Reviewed:
        """Decide on a hunk, or on all of a file."""
        path = checked_path(self.root, decision.file_path)
        if decision.action == "accept_all_file":
            return await self._accept_all(path, decision.rev)
        make = partial(_DECISIONS[decision.action], hunk_id=decision.hunk_id, mine=decision.mine)
        kind: Kind = "peel" if decision.action == "reject" and decision.mine == "peel" else decision.action
        return await self._change(
            path, kind, make, decision.rev, action=decision.action, hunks=(decision.hunk_id,)
        )

    async def _accept_all(self, path: str, rev: int) -> Reviewed:
        review = await self.known(path)
        ids = tuple(hunk.id for hunk in review.hunks if hunk.state == "pending" and not hunk.conflict)

        def make(now: FileReview) -> FileReview:
            for name in ids:
                now = accept(now, name)
            return now

        return await self._change(path, "accept", make, rev, action="accept_all_file", hunks=ids)

    async def edit(self, request: EditRequest) -> Reviewed:
        """Take over what the user typed."""
        path = checked_path(self.root, request.file_path)
        if len(request.splices) > self._limits.max_splices:
            raise TooLarge(
                f"{len(request.splices)} splices; at most {self._limits.max_splices} go into one edit."
            )
        size = sum(size_of(each.new_text) for each in request.splices)
        if size > self._limits.max_edit_bytes:
            raise TooLarge(
                f"{size} bytes of new text; at most {self._limits.max_edit_bytes} go into one edit."
            )
        for each in request.splices:
            _check_text(each.new_text)
        if (await self.known(path)).rev == 0:  # a file that nobody has looked at yet
            await self.saver.refresh(path)
        return await self._change(
            path, "user_edit", partial(spliced, splices=request.splices), request.rev, action="edit"
        )

    async def undo(self, path: str, rev: int, *, redo: bool = False) -> Reviewed:
        """Take the latest change of a file back, or make it again."""
        change = self.ledger.redo if redo else self.ledger.undo
        made = await _in_thread(partial(change, checked_path(self.root, path), rev=rev))
        hunks = made.entry.hunks if made.entry is not None else ()
        return Reviewed(made.review, "redo" if redo else "undo", hunks)

    async def decide_many(self, path: str, accepted: Sequence[str], rejected: Sequence[str]) -> FileReview:
        """Accept some hunks of a file and reject others, in one change that needs no choice."""

        def make(now: FileReview) -> FileReview:
            for name in accepted:
                now = now if now.hunk(name).state == "accepted" else accept(now, name)
            for name in rejected:
                now = now if now.hunk(name).state == "rejected" else reject(now, name)
            return now

        made = await _in_thread(
            partial(self.ledger.change, path, "accept", make, hunks=(*accepted, *rejected))
        )
        return made.review

    async def _change(
        self,
        path: str,
        kind: Kind,
        make: Callable[[FileReview], FileReview],
        rev: int,
        *,
        action: Action,
        hunks: tuple[str, ...] = (),
    ) -> Reviewed:
        made = await _in_thread(partial(self.ledger.change, path, kind, make, rev=rev, hunks=hunks))
        return Reviewed(made.review, action, hunks)


def saved_file(saved: Saved) -> SavedFile:
    return SavedFile(
        file_path=saved.path,
        saved_hunks=saved.applied,
        left_hunks=saved.left,
        rev=saved.review.rev,
        base_file_hash=text_hash(saved.review.base),
    )


def _accept(review: FileReview, *, hunk_id: str, mine: Mine | None) -> FileReview:
    del mine
    return accept(review, hunk_id)


def _reject(review: FileReview, *, hunk_id: str, mine: Mine | None) -> FileReview:
    return reject(review, hunk_id, mine)


def _reopen(review: FileReview, *, hunk_id: str, mine: Mine | None) -> FileReview:
    del mine
    return reopen(review, hunk_id)


def _peel(review: FileReview, *, hunk_id: str, mine: Mine | None) -> FileReview:
    del mine
    return peel(review, hunk_id)


_DECISIONS: Final = {"accept": _accept, "reject": _reject, "reopen": _reopen, "peel": _peel}


def _check_text(text: str) -> None:
    if "\0" in text:
        raise BadRequest("The text holds a NUL character, which no text file can.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadRequest("The text holds half of a surrogate pair, which UTF-8 cannot.") from error


async def _in_thread(call: Callable[..., T], *arguments: object) -> T:
    # Not abandoned: whoever asks must learn whether the change came to pass.
    return await anyio.to_thread.run_sync(partial(call, *arguments), abandon_on_cancel=False)
