"""One file under review: what it was, and what is proposed for it, hunk by hunk.

    base     a  b  c  d  e  f            the text on the disk, line by line
    hunks          └──┘  └┘              ranges of base lines, in order, apart from each other
    layers         C     E E'            what shall stand there: the agent's lines, above them the user's…
    buffer   a  b  C     E' f            base, with the top layer of each hunk that is not rejected

A hunk's range is counted in lines of the base, and those never move while hunks come, go and change: so to take one back
touches no other. Everything here is a value; the functions of ``newel.review.model.edits`` and its neighbours make the next one.

A file that exists begins with a line of its own, its *head* (``newel.review.model.file_lines``), so that to create it, to delete it and
to make it executable are hunks like any other. Line 1 of the file is therefore ``base[1]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from newel.agent.errors import NewelError
from newel.agent.messages import Wire, new_id

Origin = Literal["agent", "user"]
HunkState = Literal["pending", "accepted", "rejected"]
Lines = tuple[str, ...]


class ReviewError(NewelError):
    """A change of the review that cannot be: nothing was changed."""


class StaleRevision(ReviewError):
    """The change was made for an earlier state of the file. Read the file again and retry."""


class UnknownHunk(ReviewError):
    """There is no such hunk now: a later edit swallowed it, it was saved, or it never was."""


class BadRange(ReviewError):
    """The lines do not exist."""


class BadText(ReviewError):
    """What is to be written is no text."""


class Contested(ReviewError):
    """An agent's edit touches what the user wrote; it is not applied by itself."""


class NeedsChoice(ReviewError):
    """The user's own lines would be dropped: say whether to peel them off, or to go back to the base."""


class Conflict(ReviewError):
    """Something newer stands where this would change something."""


class Layer(Wire, frozen=True, kw_only=True):
    """A version of a hunk's lines. ``run`` is the agent's run that wrote it, ``edits`` the ids of its proposed edits."""

    origin: Origin
    lines: Lines
    run: str = ""
    edits: tuple[str, ...] = ()


class Hunk(Wire, frozen=True, kw_only=True):
    """Base lines ``a:b`` give way to the last of ``layers``. ``conflict``: the base changed under it, and whoever accepts
    it overrides that; ``oversized``: it could not be cut into pieces of a size that is easily read.
    """

    id: str
    a: int
    b: int
    layers: tuple[Layer, ...]
    state: HunkState = "pending"
    conflict: bool = False
    oversized: bool = False

    @property
    def top(self) -> Layer:
        return self.layers[-1]

    @property
    def is_shown(self) -> bool:
        """Whether the buffer has its lines, and not those of the base."""
        return self.state != "rejected"

    @property
    def has_user_layer(self) -> bool:
        return any(layer.origin == "user" for layer in self.layers)

    @property
    def by_user(self) -> bool:
        """Whether nobody but the user has written in it."""
        return all(layer.origin == "user" for layer in self.layers)


class AppliedHunk(Wire, frozen=True, kw_only=True):
    """A hunk that has become part of the base, where its lines are ``a:b`` now; ``before`` is what stood there.
    ``intact`` is False once something later has changed these lines, or if the user's own were saved with the agent's.
    """

    id: str
    a: int
    b: int
    before: Lines
    run: str = ""
    intact: bool = True


class FileReview(Wire, frozen=True, kw_only=True):
    """A file under review. ``rev`` grows with every change."""

    path: str
    base: Lines = ()
    hunks: tuple[Hunk, ...] = ()
    applied: tuple[AppliedHunk, ...] = ()
    rev: int = 0

    def hunk(self, hunk_id: str) -> Hunk:
        """Raises ``UnknownHunk``, and ``StaleRevision`` for one that has changed since it had this id."""
        for hunk in self.hunks:
            if hunk.id == hunk_id:
                return hunk
        if now := self.successor(hunk_id):
            raise StaleRevision(
                f"{self.path}: hunk {hunk_id} has changed since it had that id; now it is {now.id} now. Read the review again."
            )
        raise UnknownHunk(f"{self.path} has no hunk {hunk_id} now. Read the review again.")

    def successor(self, hunk_id: str) -> Hunk | None:
        """The hunk that came into being as the one of this id did, whatever has become of it; None if it is gone."""
        root = root_of(hunk_id)
        return next((hunk for hunk in self.hunks if root_of(hunk.id) == root), None)


class HunkPosition(NamedTuple):
    """A hunk, and the lines ``start:end`` of the buffer that it has."""

    hunk: Hunk
    start: int
    end: int


def placed(review: FileReview) -> Iterator[HunkPosition]:
    """Where the hunks are in the buffer. A rejected one has its base lines there."""
    shift = 0
    for hunk in review.hunks:
        start = hunk.a + shift
        size = len(hunk.top.lines) if hunk.is_shown else hunk.b - hunk.a
        shift += size - (hunk.b - hunk.a)
        yield HunkPosition(hunk, start, start + size)


def new_hunk_id() -> str:
    """A name for a hunk that comes into being."""
    return f"h_{new_id()[:16]}"


# -- what an id stands for ----------------------------------------------------------------------------
#
# An id stands for what a hunk changes, so that whoever names it, or the beginning of it, decides on what they saw:
#
#     h_4c8dc09514ecaf52                  as it came into being
#     h_9f31ab02.h_4c8dc09514ecaf52       once it reads otherwise; the first part is made anew each time
#
# The parts are random: no content can be made to fit an id that somebody has seen.


def root_of(hunk_id: str) -> str:
    """The id under which a hunk came into being."""
    return hunk_id.rpartition(".")[2]


def identified(before: FileReview, after: FileReview) -> FileReview:
    """``after`` with other ids for the hunks that do not read as they did in ``before``: their own lines, those below
    them, those of the base that they replace, or whether that base is another than they were made for.
    """
    known = {hunk.id: hunk for hunk in before.hunks}
    hunks = tuple(
        msgspec.structs.replace(hunk, id=f"h_{new_id()[:8]}.{root_of(hunk.id)}")
        if (was := known.get(hunk.id)) is not None
        and was is not hunk
        and _reads(before, was) != _reads(after, hunk)
        else hunk
        for hunk in after.hunks
    )
    return after if hunks == after.hunks else msgspec.structs.replace(after, hunks=hunks)


def _reads(review: FileReview, hunk: Hunk) -> tuple[object, ...]:
    layers = tuple((layer.origin, layer.lines) for layer in hunk.layers)
    return review.base[hunk.a : hunk.b], layers, hunk.conflict


def is_head(line: str) -> bool:
    """Whether a line is a file's head, or names the bytes of one that is no text."""
    return line.startswith("\0")


def joined(*pieces: Lines) -> Lines:
    """The pieces of a text, one after the other. Only its last line may lack an end; another one is given it."""
    lines: list[str] = []
    for piece in pieces:
        if piece and lines and not lines[-1].endswith("\n"):
            lines[-1] += "\r\n" if piece[0].endswith("\r\n") else "\n"
        lines += piece
    return tuple(lines)


def render(base: Lines, hunks: Sequence[Hunk]) -> Lines:
    """``base`` with the top layers of ``hunks`` in it."""
    pieces: list[Lines] = []
    at = 0
    for hunk in hunks:
        pieces += [base[at : hunk.a], hunk.top.lines]
        at = hunk.b
    return joined(*pieces, base[at:])


def buffer(review: FileReview) -> Lines:
    """The file as it would be if all that is not rejected were kept."""
    return render(review.base, [hunk for hunk in review.hunks if hunk.is_shown])


def accepted(review: FileReview) -> Lines:
    """The file as it would be if only what is accepted were kept."""
    return render(review.base, [hunk for hunk in review.hunks if hunk.state == "accepted"])
