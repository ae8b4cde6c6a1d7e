"""Files under review, as a person works on them: what is decided, written, undone and saved, each on a revision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Literal, NamedTuple, TypeVar

import anyio.to_thread

from newel.review.model.decisions import Verdict, decided, undecided
from newel.review.model.file_lines import text_hash
from newel.review.model.file_review import FileReview
from newel.review.model.history import Kind, earlier
from newel.review.paths import checked_path
from newel.review.save import DiskSync, Saved
from newel.review.serialize import ChangeView, change_log
from newel.review.store.ledger import Ledger
from newel.review_jobs.errors import BadRequest, TooLarge
from newel.review_jobs.limits import ReviewLimits
from newel.review_jobs.schemas import DecideAll, Decision, EditRequest, SavedFile
from newel.review_jobs.splices import spliced
from newel.review_jobs.validation import size_of
from newel.workspace.port import Workspace

T = TypeVar("T")
Action = Literal[
    "accept",
    "reject",
    "reopen",
    "peel",
    "accept_all_file",
    "reject_all_file",
    "edit",
    "undo",
    "redo",
    "save",
    "rollback",
]


class Reviewed(NamedTuple):
    """What became of a file, by what, and the hunks that it was about."""

    review: FileReview
    action: Action
    hunk_ids: tuple[str, ...] = ()


class Decided(NamedTuple):
    """A file of several that were decided at once; ``left`` hunks are undecided."""

    reviewed: Reviewed
    left: int


class ReviewFiles:
    """The files of one project. Methods raise ``ReviewError``, and then nothing has changed."""

    def __init__(self, ledger: Ledger, saver: DiskSync, workspace: Workspace, limits: ReviewLimits) -> None:
        self.ledger = ledger
        self.saver = saver
        self._workspace = workspace
        self._limits = limits

    async def name_of(self, path: str) -> str:
        """The name of a file in the ledger: see ``checked_path``. A link that waits for a decision has its own."""
        is_itself = await self.is_another_kind(path)
        return await (self.saver.name_of(path) if is_itself else checked_path(self._workspace, path))

    async def is_another_kind(self, name: str) -> bool:
        """Whether what waits for a decision there is about a link or a folder."""

        def look() -> bool:
            return bool(self.ledger.get(name).hunks) and self.saver.may_be_another_kind(name)

        return await _in_thread(look)

    async def read(self, path: str) -> FileReview:
        """A file's review, with the disk as it is now."""
        return await self.saver.refresh(await self.name_of(path))

    async def known(self, path: str) -> FileReview:
        """A file's review as the ledger has it."""
        return await _in_thread(self.ledger.get, await self.name_of(path))

    async def log(self, path: str) -> list[ChangeView]:
        """The changes of a file."""
        name = await self.name_of(path)

        def read() -> list[ChangeView]:
            return change_log(self.ledger.entries(path=name), self.ledger.get(name))

        return await _in_thread(read)

    async def decide(self, decision: Decision) -> Reviewed:
        """Decide on hunks, or on all of a file, in one change; what is so already changes nothing."""
        path = await self.name_of(decision.file_path)
        match decision.action:
            case "accept_all_file" | "reject_all_file":
                verdict: Verdict = "accept" if decision.action == "accept_all_file" else "reject"
                ids = undecided(await self.known(path), verdict, decision.mine)
            case verdict:
                ids = decision.hunk_ids or [decision.hunk_id]
        make = partial(decided, hunk_ids=ids, verdict=verdict, mine=decision.mine)
        kind: Kind = "peel" if verdict == "reject" and decision.mine == "peel" else verdict
        return await self._change(path, kind, make, decision.rev, action=decision.action, hunks=tuple(ids))

    async def decide_all(self, request: DecideAll) -> list[Decided]:
        """Decide on what is undecided in several files, of the hunks that were seen there, in one transaction: what is left
        was not seen, or needs a decision of its own. Nothing is refused because a file changed meanwhile.
        """
        names = {await self.name_of(each.file_path): set(each.hunk_ids) for each in request.files}
        for path in names:
            await self.saver.refresh(path)

        def write() -> list[Decided]:
            with self.ledger.batch():
                return [self._decide_seen(path, seen, request) for path, seen in names.items()]

        return await _in_thread(write)

    def _decide_seen(self, path: str, seen: AbstractSet[str], request: DecideAll) -> Decided:
        review = self.ledger.get(path)
        ids = [name for name in undecided(review, request.action, request.mine) if name in seen]
        make = partial(decided, hunk_ids=ids, verdict=request.action, mine=request.mine)
        made = self.ledger.change(path, request.action, make, hunks=tuple(ids))
        left = sum(hunk.state == "pending" for hunk in made.review.hunks)
        action: Action = "accept_all_file" if request.action == "accept" else "reject_all_file"
        return Decided(Reviewed(made.review, action, tuple(ids)), left)

    async def at(self, path: str, rev: int) -> FileReview:
        """A file's review as it was at an earlier revision. Raises ``StaleRevision`` for one that is not known."""
        name = await self.name_of(path)

        def read() -> FileReview:
            return earlier(self.ledger.get(name), self.ledger.entries(path=name), rev)

        return await _in_thread(read)

    async def edit(self, request: EditRequest) -> Reviewed:
        """Take over what the user typed."""
        path = await self.name_of(request.file_path)
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
        made = await _in_thread(partial(change, await self.name_of(path), rev=rev))
        hunks = made.entry.hunks if made.entry is not None else ()
        return Reviewed(made.review, "redo" if redo else "undo", hunks)

    async def decide_many(self, path: str, accepted: Sequence[str], rejected: Sequence[str]) -> FileReview:
        """Accept some hunks of a file and reject others, in one change that needs no choice."""

        def make(now: FileReview) -> FileReview:
            return decided(decided(now, accepted, "accept"), rejected, "reject")

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
