"""Interactive review of pending hunks, one by one.

Each decision is stored in the ledger at once. Files are written at the end, after a summary and a confirmation: leaving
before that changes none.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

import anyio
import anyio.to_thread

from newel.agent.errors import UsageError, WorkspaceError
from newel.agent.formatting import pluralize
from newel.config.keymap import Keymap, actions
from newel.review.decide import (
    PendingReviews,
    Selection,
    Verdict,
    accepted_hunks,
    checkpoints_by_run,
    decide,
    decide_hunks,
    load_pending,
    overwritten_paths,
    select_hunks,
    split_hunk,
    write,
)
from newel.review.model.decisions import Mine
from newel.review.model.file_review import FileReview, Hunk, ReviewError, lineage, root_of
from newel.review.project import ProjectReview
from newel.review.store.ledger import Checkpoint
from newel.review.store.schema import LedgerError
from newel.terminal.commands import full_review_command
from newel.terminal.review import hunk_format
from newel.terminal.review.hunk_editor import edit_in_editor, unapplied_edits
from newel.terminal.review.review_ui import NO_PENDING, UNCHANGED, YES_OR_NO, ReviewUI
from newel.text.format import format_columns
from newel.text.sanitize import escape_line

STOPPED: Final = "Nothing was written. Your decisions are saved; `{decide}` resumes."
QUESTIONS: Final[dict[Verdict, str]] = {
    "keep": "Keep and write these?",
    "reject": "Reject these?",
}

BECAUSE: Final = "reject_because"
WRITE: Final = "Write this? [w,n] "
WRITES: Final = {"w": True, "write": True, "n": False, "no": False, "q": False}
"""Answers to it. ``y`` is none: a finger that keeps hunk after hunk must not write them unread."""
WRITE_KEYS: Final = "w writes the kept hunks, n leaves them for later."
OVERRIDE: Final = "Overwrite the current lines? [y/N] "
DROP: Final = "Drop your own lines? [y/N] "
WHICH: Final = "Drop only yours (m), or all (a)? [m,a] "
"""Questions fit into 40 columns; the context is shown before them."""


class DecideArguments(NamedTuple):
    """The arguments of ``keep`` and ``reject``."""

    names: list[str]
    every: bool
    mine: Mine | None
    yes: bool


def parse_arguments(verdict: Verdict, text: str) -> DecideArguments:
    """Parse the text after a command, quoted as in a shell. Raises ``UsageError``."""
    usage = f"/{verdict} HUNK…, FILE… or --all{' [--mine peel|base]' if verdict == 'reject' else ''} [--yes]"
    try:
        arguments = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"Unclosed quote. Usage: {usage}") from error
    parsed: DecideArguments = DecideArguments([], every=False, mine=None, yes=False)
    while arguments:
        match arguments.pop(0):
            case "--all":
                parsed = parsed._replace(every=True)
            case "--yes":
                parsed = parsed._replace(yes=True)
            case "--mine" if verdict == "reject" and arguments and arguments[0] in {"peel", "base"}:
                parsed = parsed._replace(mine="peel" if arguments.pop(0) == "peel" else "base")
            case option if option.startswith("-"):
                raise UsageError(f"Unknown option {option}. Usage: {usage}")
            case name:
                parsed.names.append(name)
    if not parsed.names and not parsed.every:
        raise UsageError(f"Name a hunk or a file, or use --all. Usage: {usage}")
    return parsed


async def decide_named(
    project: ProjectReview, verdict: Verdict, arguments: DecideArguments, ui: ReviewUI
) -> bool:
    """Keep or reject the hunks that ``arguments`` name, if the user agrees; whether all of them are decided. Raises ``StaleRevision`` and
    ``LedgerError``.
    """
    choice = select_hunks(
        await load_pending(project), arguments.names, verdict, every=arguments.every, mine=arguments.mine
    )
    about = hunk_format.describe_choice(choice, ui.format_command)
    if not choice.picks:
        ui.say(about or NO_PENDING)
        return False
    if not await ui.confirm(about, QUESTIONS[verdict], yes=arguments.yes):
        ui.say(UNCHANGED)
        return False
    reviews = await decide(project, choice)
    if verdict == "reject":
        rejected, peeled = _count_rejected(choice)
        ui.say(
            hunk_format.describe_rejected(rejected, ui.format_command), hunk_format.describe_peeled(peeled)
        )
        return not choice.left
    # The user has named each conflict, and the question has named its file.
    overwrite = overwritten_paths(reviews, choice.hunks)
    written = await write(project, reviews, choice.hunks, overwrite=overwrite)
    ui.say(hunk_format.describe_written(written, ui.format_command))
    return not (choice.left or written.problems)


def _count_rejected(choice: Selection) -> tuple[Counter[str], Counter[str]]:
    """Numbers of hunks by file: rejected, and with only the user's own lines dropped."""
    rejected: Counter[str] = Counter()
    peeled: Counter[str] = Counter()
    for path, (_, hunks) in choice.picks.items():
        for hunk in hunks:
            (peeled if choice.mine == "peel" and hunk.has_user_layer else rejected)[path] += 1
    return rejected, peeled


class InteractiveReview:
    """Goes through the pending hunks of a project. Use ``run``. ``keymap`` (None: the default one) has the keys, by default those of
    ``git add -p``, and ``r`` and ``u``.
    """

    def __init__(self, project: ProjectReview, ui: ReviewUI, keymap: Keymap | None = None) -> None:
        self._project = project
        self._ui = ui
        keymap = keymap or Keymap()
        self._actions = {
            name: action for action in actions("decide") for name in keymap.names("decide", action)
        }
        """What the keys do. Words may follow the one that rejects with a reason, so it does not answer without Enter."""
        self._question = f"Keep this? [{','.join(self._actions)},?] "
        self._at_once = "".join(name for name, action in self._actions.items() if action != BECAUSE) + "?"
        self._runs: Mapping[str, Checkpoint] = {}
        self._hunks: list[tuple[str, str]] = []
        """Paths and root IDs of the hunks, here and below: an edit changes a hunk's ID, but not its root's."""
        self._kept: set[tuple[str, str]] = set()
        self._rejected: set[tuple[str, str]] = set()
        self._has_decided = False

    async def run(self) -> bool:
        """Ask about each hunk, then write the kept ones; whether something was decided and nothing left out. Raises
        ``LedgerError``.
        """
        pending = await load_pending(self._project)
        self._runs = await anyio.to_thread.run_sync(checkpoints_by_run, self._project.ledger)
        self._hunks = [
            (review.path, root_of(hunk.id))
            for review in pending.reviews
            for hunk in review.hunks
            if hunk.state == "pending"
        ]
        for line in hunk_format.describe_problems(pending.problems):
            self._ui.say(line)
        for path in await anyio.to_thread.run_sync(unapplied_edits, self._project):
            self._ui.say(f"This edit was not applied. Delete the file when it is no longer needed:\n  {path}")
        if not pending.waiting:
            self._ui.say(NO_PENDING)
            return False
        try:
            wants_to_apply = await self._ask_all()
        except anyio.get_cancelled_exc_class():
            self._ui.say(STOPPED.format(decide=self._ui.format_command("decide")))
            raise
        if wants_to_apply is None:
            self._ui.say(STOPPED.format(decide=self._ui.format_command("decide")))
            return False
        return await self._write(wants_to_apply)

    async def _ask_all(self) -> PendingReviews | None:
        """Ask about all hunks; return what is to be written, None if the user has left."""
        at: int | None = 0
        while at is not None and at < len(self._hunks):
            at = await self._ask_about(at)
        if at is None:
            return None
        pending = await load_pending(self._project)
        for line in self._describe_reopened(pending):
            self._ui.say(line)
        accepted = accepted_hunks(pending.reviews)
        if accepted:
            about = hunk_format.to_be_written(pending.reviews, accepted)
            while (answer := await self._ui.ask(WRITE, about, keys="wn")) is not None:
                if (is_written := WRITES.get(answer.strip().lower())) is not None:
                    return pending if is_written else None
                about = WRITE_KEYS if answer.strip() else ""
            return None
        return pending

    def _describe_reopened(self, now: PendingReviews) -> list[str]:
        """Lines about hunks that were kept here and are pending again, because their file changed."""
        pending = (
            (review.path, root_of(hunk.id))
            for review in now.reviews
            for hunk in review.hunks
            if hunk.conflict
        )
        counts = Counter(path for path, name in pending if (path, name) in self._kept)
        return [
            f"{escape_line(path)} was changed meanwhile: {pluralize(number, 'hunk')} you kept must be decided again."
            for path, number in counts.items()
        ]

    async def _write(self, pending: PendingReviews) -> bool:
        accepted = accepted_hunks(pending.reviews)
        overwrite = overwritten_paths(pending.reviews, accepted)  # the list has named them
        written = await write(self._project, pending.reviews, accepted, overwrite=overwrite)
        undecided = sum(hunk.state == "pending" for review in pending.reviews for hunk in review.hunks)
        parts = [
            hunk_format.describe_written(written, self._ui.format_command),
            hunk_format.describe_rejected(
                Counter(path for path, _ in self._rejected), self._ui.format_command
            ),
            f"{pluralize(undecided, 'hunk')} left to decide: {self._ui.format_command('decide')}."
            if undecided
            else "",
        ]
        self._ui.say("\n".join(part for part in parts if part) or "Nothing was decided.")
        return not written.problems and (self._has_decided or bool(written.saved))

    # -- one hunk -----------------------------------------------------------------------------------

    async def _ask_about(self, at: int) -> int | None:
        """Ask about a hunk; return the index of the next one, None to leave."""
        path, root = self._hunks[at]
        try:
            review = await self._project.saver.refresh(path)
        except LedgerError:
            raise
        except (ReviewError, WorkspaceError) as error:
            self._ui.say(f"Skipped {escape_line(path)}: {escape_line(str(error), 400)}")
            return at + 1
        hunk = review.successor(root)
        if hunk is None:
            return at + 1  # the hunk is gone
        self._ui.show(
            self._head(at, review, hunk)
            + hunk_format.hunk_diff(review, hunk, full_review_command(self._ui.format_command)),
            "diff",
        )
        while (answer := await self._ui.ask(self._question, "", keys=self._at_once)) is not None:
            key, _, reason = answer.strip().partition(" ")
            action = self._actions.get(key.lower(), "")
            if action and (action == BECAUSE or not reason):
                break
            does = actions("decide")
            rows = [(name, does[each]) for name, each in self._actions.items()]
            self._ui.say(format_columns(rows, self._ui.columns))
        else:
            return None
        try:
            return await self._apply(action, at, review, hunk, reason.strip())
        except LedgerError:
            raise
        except (ReviewError, UsageError) as error:
            self._ui.say(escape_line(str(error), 400))
            return at

    def _head(self, at: int, review: FileReview, hunk: Hunk) -> str:
        facts = hunk_format.hunk_facts(review, hunk, self._runs).removeprefix("pending · ")
        return f"{at + 1} of {len(self._hunks)} · {escape_line(review.path)} · {facts}\n"

    async def _apply(self, action: str, at: int, review: FileReview, hunk: Hunk, reason: str) -> int:
        """Do an action of the keymap; return the index of the next hunk."""
        verdict: Verdict = "keep" if action in {"keep", "keep_rest"} else "reject"
        match action:
            case "keep" | "reject" | "reject_because":
                return at + 1 if await self._verdict(verdict, review, hunk, reason) else at
            case "keep_rest" | "reject_rest":
                return await self._rest(verdict, at, review)
            case "split":
                await self._split(at, review, hunk)
                return at
            case "edit":
                return await self._edit(at, review, hunk)
            case "next":
                return at + 1
            case "previous":
                if at == 0:
                    self._ui.say("This is the first hunk. y keeps it.")
                return max(at - 1, 0)
            case "undo":
                await decide_hunks(self._project, review, [hunk.id], "later")
                self._record(review, [hunk.id], None)
                return at + 1
            case _:
                return len(self._hunks)

    async def _split(self, at: int, review: FileReview, hunk: Hunk) -> None:
        """Put the parts of a hunk in its place."""
        after = await split_hunk(self._project, review, hunk)
        parts = [part.id for part in after.hunks if root_of(hunk.id) in lineage(part.id)]
        whole = (review.path, root_of(hunk.id))
        self._hunks[at : at + 1] = [(review.path, root_of(part)) for part in parts]
        verdict: Verdict | None = (
            "keep" if whole in self._kept else "reject" if whole in self._rejected else None
        )
        self._record(review, [hunk.id], None)
        self._record(review, parts, verdict)
        self._ui.say(f"Split into {len(parts)} hunks.")

    async def _edit(self, at: int, review: FileReview, hunk: Hunk) -> int:
        """Let the user edit a hunk, and keep the result."""
        after = await edit_in_editor(self._project, review, hunk, self._ui)
        if after is None:
            return at
        edited = after.successor(root_of(hunk.id))
        if edited is None:  # it is part of a hunk beside it now
            return at + 1
        return at + 1 if await self._verdict("keep", after, edited, "") else at

    async def _verdict(self, verdict: Verdict, review: FileReview, hunk: Hunk, reason: str) -> bool:
        """Decide on one hunk, after another question where needed; False if it stays pending."""
        mine: Mine | None = None
        if verdict == "keep" and hunk.conflict:
            self._ui.say(f"{escape_line(review.path)} changed here since this was proposed.")
            if await self._ui.choose(OVERRIDE, YES_OR_NO) != "y":
                return False
        if verdict == "reject" and hunk.has_user_layer:
            mine = await self._ask_which(hunk)
            if mine is None:
                return False
        await self._decide(verdict, review, [hunk.id], mine, reason)
        return mine != "peel"  # the agent's proposal below the user's lines is pending

    async def _ask_which(self, hunk: Hunk) -> Mine | None:
        if hunk.by_user:
            return "base" if await self._ui.choose(DROP, YES_OR_NO) == "y" else None
        self._ui.say("You have edited this proposal.")
        match await self._ui.choose(WHICH, {"m": "peel", "a": "base", "": ""}):
            case "peel":
                return "peel"
            case "base":
                return "base"
            case _:
                return None

    async def _rest(self, verdict: Verdict, at: int, review: FileReview) -> int:
        """Decide on a hunk and all pending ones after it in its file; return the index of the first that was left out."""
        hunks_by_root = {root_of(hunk.id): hunk for hunk in review.hunks}
        rest: list[str] = []
        following = at
        is_apart = False
        for number, (path, name) in enumerate(self._hunks[at:], at):
            hunk = hunks_by_root.get(name)
            if path != review.path:
                break
            if hunk is None or (number > at and hunk.state != "pending"):
                pass
            elif hunk.conflict if verdict == "keep" else hunk.has_user_layer:
                is_apart = True
            else:
                rest.append(hunk.id)
            following += not is_apart
        if rest:
            await self._decide(verdict, review, rest, None)
        if is_apart and not rest:
            self._ui.say("This hunk needs its own decision: y or n.")
        return following

    async def _decide(
        self, verdict: Verdict, review: FileReview, ids: list[str], mine: Mine | None, reason: str = ""
    ) -> None:
        await decide_hunks(self._project, review, ids, verdict, mine, reason=reason)
        self._has_decided = True
        # the agent's proposal is pending again
        self._record(review, ids, verdict if mine != "peel" else None)

    def _record(self, review: FileReview, ids: list[str], verdict: Verdict | None) -> None:
        """Note the last decision on hunks; None if they are pending again."""
        names = {(review.path, root_of(name)) for name in ids}
        self._kept = self._kept | names if verdict == "keep" else self._kept - names
        self._rejected = self._rejected | names if verdict == "reject" else self._rejected - names
