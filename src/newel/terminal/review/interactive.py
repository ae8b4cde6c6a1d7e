"""Going through the hunks that wait, one by one, with a person at a terminal.

Each answer counts at once, in the ledger. The files come at the end, after one look at what would be written: whoever leaves
before has changed none.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal, NamedTuple

import anyio
import anyio.to_thread

from newel.agent.errors import UsageError, WorkspaceError
from newel.review.decide import (
    PendingReviews,
    Selection,
    Verdict,
    decide,
    decide_hunks,
    kept_hunks,
    look,
    run_names,
    write,
)
from newel.review.model.decisions import Mine
from newel.review.model.file_review import FileReview, Hunk, ReviewError, root_of
from newel.review.project import ProjectReview
from newel.review.store.ledger import Checkpoint, LedgerError
from newel.terminal.commands import CommandFormatter, full_review_command
from newel.terminal.review import hunk_format as words
from newel.text.format import listing, plural
from newel.text.sanitize import reveal_line

NOTHING_WAITS: Final = "Nothing waits for your decision."
STOPPED: Final = "Nothing was written. What you decided stays decided; {decide} goes on."

QUESTION: Final = "Keep this hunk? [k,r,f,d,s,b,q,?] "
HELP: Final = (
    ("k", "keep this hunk"),
    ("r", "reject it"),
    ("f", "keep all that is left of this file"),
    ("d", "reject all that is left of this file"),
    ("s", "later: leave it undecided"),
    ("b", "back to the hunk before"),
    ("q", "stop here, and write what was kept"),
)
OVERRIDE: Final = "Overwrite what stands there? [y/N] "
DROP: Final = "Drop your own lines? [y/N] "
WHICH: Final = "Drop only yours (m), or all (a)? [m,a] "
"""Questions fit into 40 columns; what they are about is said before them."""

Show = Callable[[str, str], None]
"""Shows a text; its second argument says what it is about, ``diff`` for one with a diff in it."""

Ask = Callable[[str, str], Awaitable[str | None]]
"""Puts a question (and what it is about, if anything is to be said); None if there is nobody to answer any more."""


class DecideArguments(NamedTuple):
    """What the words behind ``/keep`` and ``/reject`` ask for."""

    names: list[str]
    every: bool
    mine: Mine | None
    yes: bool


class ReviewOutcome(NamedTuple):
    """How many hunks of which files were written and rejected; ``is_done``: something was decided, and nothing that was asked
    for was left.
    """

    kept: Mapping[str, int]
    rejected: Mapping[str, int]
    is_done: bool


NONE: Final = ReviewOutcome({}, {}, is_done=False)


def is_yes(answer: str | None, *, default: bool = False) -> bool:
    """Whether an answer is a yes; ``default`` is what none means."""
    return (answer or "").strip().lower() in ({"y", "yes", ""} if default else {"y", "yes"})


def understood(verdict: Verdict, text: str) -> DecideArguments:
    """The words behind a command, names with spaces in quotes. Raises ``UsageError``."""
    usage = f"/{verdict} HUNK…, FILE… or --all{' [--mine peel|base]' if verdict == 'reject' else ''} [--yes]"
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"A quote is not closed. {usage}") from error
    given: DecideArguments = DecideArguments([], every=False, mine=None, yes=False)
    while words:
        match words.pop(0):
            case "--all":
                given = given._replace(every=True)
            case "--yes":
                given = given._replace(yes=True)
            case "--mine" if verdict == "reject" and words and words[0] in {"peel", "base"}:
                given = given._replace(mine="peel" if words.pop(0) == "peel" else "base")
            case option if option.startswith("-"):
                raise UsageError(f"{option} is not understood. {usage}")
            case name:
                given.names.append(name)
    if not given.names and not given.every:
        raise UsageError(f"Name a hunk or a file, or use --all: {usage}")
    return given


async def settle(
    project: ProjectReview,
    choice: Selection,
    show: Show,
    confirm: Callable[[str], Awaitable[bool]],
    format_command: CommandFormatter,
) -> ReviewOutcome:
    """Carry a verdict out, if it is confirmed; ``format_command`` writes commands for the user. Raises ``StaleRevision`` and ``LedgerError``."""
    about = words.describe_choice(choice, format_command)
    if not choice.picks:
        show(about or NOTHING_WAITS, "note")
        return NONE
    if not await confirm(about):
        show("Nothing was changed.", "note")
        return NONE
    reviews = await decide(project, choice)
    if choice.verdict == "reject":
        gone, peeled = _rejected(choice)
        parts = [words.describe_rejected(gone, format_command), words.describe_peeled(peeled)]
        show("\n".join(part for part in parts if part), "note")
        return ReviewOutcome({}, gone, is_done=not choice.left)
    written = await write(project, reviews, choice.hunks)
    show(words.describe_written(written, format_command), "note")
    kept = {one.path: one.applied for one in written.saved}
    return ReviewOutcome(kept, {}, is_done=not (choice.left or written.problems))


def _rejected(choice: Selection) -> tuple[Counter[str], Counter[str]]:
    """How many hunks of which files were rejected, and in how many only the user's own lines were dropped."""
    gone: Counter[str] = Counter()
    peeled: Counter[str] = Counter()
    for path, (_, hunks) in choice.picks.items():
        for hunk in hunks:
            (peeled if choice.mine == "peel" and hunk.has_user_layer else gone)[path] += 1
    return gone, peeled


class InteractiveReview:
    """The way through what waits in a project. Use ``run``."""

    def __init__(
        self,
        project: ProjectReview,
        show: Show,
        ask: Ask,
        format_command: CommandFormatter,
        *,
        columns: int = 80,
    ) -> None:
        self._project = project
        self._show = show
        self._ask = ask
        self._columns = columns
        self._format_command = format_command
        self._runs: Mapping[str, Checkpoint] = {}
        self._hunks: list[tuple[str, str]] = []
        """The hunks, here and below by the ids under which they came into being: an edit gives them others."""
        self._kept: Mapping[str, int] = {}
        self._wanted: set[tuple[str, str]] = set()
        self._rejected: set[tuple[str, str]] = set()
        self._has_decided = False
        self._is_done = False

    @property
    def outcome(self) -> ReviewOutcome:
        """What has come of it so far."""
        return ReviewOutcome(self._kept, Counter(path for path, _ in self._rejected), self._is_done)

    async def run(self) -> None:
        """Ask for each hunk, then write what was kept. Raises ``LedgerError``."""
        found = await look(self._project)
        self._runs = await anyio.to_thread.run_sync(run_names, self._project.ledger)
        self._hunks = [
            (review.path, root_of(hunk.id))
            for review in found.reviews
            for hunk in review.hunks
            if hunk.state == "pending"
        ]
        for line in words.describe_problems(found.problems):
            self._show(line, "note")
        if not found.waiting:
            self._show(NOTHING_WAITS, "note")
            return
        try:
            wanted = await self._decided()
        except anyio.get_cancelled_exc_class():
            self._show(STOPPED.format(decide=self._format_command("decide")), "note")
            raise
        if wanted is None:
            self._show(STOPPED.format(decide=self._format_command("decide")), "note")
        else:
            await self._write(wanted)

    async def _decided(self) -> PendingReviews | None:
        """What is to be written, once all was gone through; None if the person has left."""
        at: int | None = 0
        while at is not None and at < len(self._hunks):
            at = await self._one(at)
        if at is None:
            return None
        found = await look(self._project)
        for line in self._reopened(found):
            self._show(line, "note")
        kept = kept_hunks(found.reviews)
        if kept:
            answer = await self._ask("Write this? [Y/n] ", words.to_be_written(found.reviews, kept))
            if answer is None or not is_yes(answer, default=True):
                return None
        return found

    def _reopened(self, found: PendingReviews) -> list[str]:
        """What was kept here, and waits again, because its file was changed after that."""
        pending = (
            (review.path, root_of(hunk.id))
            for review in found.reviews
            for hunk in review.hunks
            if hunk.conflict
        )
        counts = Counter(path for path, name in pending if (path, name) in self._wanted)
        return [
            f"{reveal_line(path)} was changed meanwhile: {plural(number, 'hunk')} you kept must be decided again."
            for path, number in counts.items()
        ]

    async def _write(self, found: PendingReviews) -> None:
        written = await write(self._project, found.reviews, kept_hunks(found.reviews))
        self._kept = {one.path: one.applied for one in written.saved}
        self._is_done = not written.problems and (self._has_decided or bool(written.saved))
        left = sum(hunk.state == "pending" for review in found.reviews for hunk in review.hunks)
        parts = [
            words.describe_written(written, self._format_command),
            words.describe_rejected(self.outcome.rejected, self._format_command),
            f"{plural(left, 'hunk')} left to decide: {self._format_command('decide')}." if left else "",
        ]
        self._show("\n".join(part for part in parts if part) or "Nothing was decided.", "note")

    # -- one hunk -----------------------------------------------------------------------------------

    async def _one(self, at: int) -> int | None:
        """Ask for a hunk; returns the number of the next one, None to leave."""
        path, root = self._hunks[at]
        try:
            review = await self._project.saver.refresh(path)
        except LedgerError:
            raise
        except (ReviewError, WorkspaceError) as error:
            self._show(f"Left as it is: {reveal_line(path)}: {reveal_line(str(error), 400)}", "note")
            return at + 1
        hunk = review.successor(root)
        if hunk is None:
            return at + 1  # what stood there is no hunk any more
        self._show(
            self._head(at, path, hunk)
            + words.hunk_diff(review, hunk, full_review_command(self._format_command)),
            "diff",
        )
        answer = await self._ask(QUESTION, "")
        while answer is not None and answer.strip().lower() not in _KEYS:
            self._show(listing(HELP, self._columns), "note")
            answer = await self._ask(QUESTION, "")
        if answer is None:
            return None
        try:
            return await self._obey(_KEYS[answer.strip().lower()], at, review, hunk)
        except LedgerError:
            raise
        except ReviewError as error:
            self._show(reveal_line(str(error), 400), "note")
            return at

    def _head(self, at: int, path: str, hunk: Hunk) -> str:
        facts = words.hunk_facts(hunk, self._runs).removeprefix("waiting · ")
        return f"{at + 1} of {len(self._hunks)} · {reveal_line(path)} · {facts}\n"

    async def _obey(self, key: _Key, at: int, review: FileReview, hunk: Hunk) -> int:
        match key:
            case "keep" | "reject":
                return at + 1 if await self._verdict(key, review, hunk) else at
            case "keep rest" | "reject rest":
                return await self._rest("keep" if key == "keep rest" else "reject", at, review)
            case "later":
                await decide_hunks(self._project, review, [hunk.id], "later")
                self._rejected.discard((review.path, root_of(hunk.id)))
                return at + 1
            case "back":
                return max(at - 1, 0)
            case "stop":
                return len(self._hunks)

    async def _verdict(self, verdict: Verdict, review: FileReview, hunk: Hunk) -> bool:
        """Decide on one hunk, with the question that it may need; False if it is still to be decided."""
        mine: Mine | None = None
        if verdict == "keep" and hunk.conflict:
            self._show("The file changed here since this was proposed.", "note")
            if not is_yes(await self._ask(OVERRIDE, "")):
                return False
        if verdict == "reject" and hunk.has_user_layer:
            mine = await self._which(hunk)
            if mine is None:
                return False
        await self._put_down(verdict, review, [hunk.id], mine)
        return mine != "peel"  # what the agent proposed below the user's lines is still to be decided

    async def _which(self, hunk: Hunk) -> Mine | None:
        if hunk.by_user:
            return "base" if is_yes(await self._ask(DROP, "")) else None
        self._show("You have edited what was proposed here.", "note")
        match (await self._ask(WHICH, "") or "").strip().lower():
            case "m":
                return "peel"
            case "a":
                return "base"
            case _:
                return None

    async def _rest(self, verdict: Verdict, at: int, review: FileReview) -> int:
        """Decide on a hunk and all undecided ones behind it in its file; the next one is the first that was left out."""
        known = {root_of(hunk.id): hunk for hunk in review.hunks}
        rest: list[str] = []
        following = at
        is_apart = False
        for number, (path, name) in enumerate(self._hunks[at:], at):
            hunk = known.get(name)
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
            await self._put_down(verdict, review, rest, None)
        if is_apart and not rest:
            self._show("This one needs an answer of its own: k or r.", "note")
        return following

    async def _put_down(
        self, verdict: Verdict, review: FileReview, ids: list[str], mine: Mine | None
    ) -> None:
        await decide_hunks(self._project, review, ids, verdict, mine)
        self._has_decided = True
        names = {(review.path, root_of(name)) for name in ids}
        self._wanted = self._wanted | names if verdict == "keep" else self._wanted - names
        is_gone = verdict == "reject" and mine != "peel"
        self._rejected = self._rejected | names if is_gone else self._rejected - names


_Key = Literal["keep", "reject", "keep rest", "reject rest", "later", "back", "stop"]
_KEYS: Final[Mapping[str, _Key]] = {
    "k": "keep",
    "r": "reject",
    "f": "keep rest",
    "d": "reject rest",
    "s": "later",
    "b": "back",
    "q": "stop",
}
