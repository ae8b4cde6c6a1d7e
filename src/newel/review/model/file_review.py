"""One file under review: its base, and the hunks that are proposed for it.

    base     a  b  c  d  e  f            the text on disk, line by line
    hunks          └──┘  └┘              ranges of base lines, in order, apart from each other
    layers         C     E E'            their new lines: the agent's, above them the user's…
    buffer   a  b  C     E' f            base, with the top layer of each hunk that is not rejected

A hunk's range is counted in lines of the base, which do not move when hunks are added, dropped or changed:
undoing one hunk never touches another. All structs here are immutable; the functions of
``newel.review.model.edits`` and the modules beside it return new ones.

An existing file begins with an additional line, its *head* (``newel.review.model.file_lines``), so that creating
it, deleting it and making it executable are hunks like any other. Line 1 of the file is therefore ``base[1]``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from newel.agent.errors import NewelError
from newel.agent.messages import Wire, new_id

# There may be 100,000 of the structs without `gc`. None can be part of a cycle, so the garbage collector need not look at them.

Origin = Literal["agent", "user"]
HunkState = Literal["pending", "accepted", "rejected"]
Lines = tuple[str, ...]


class ReviewError(NewelError):
    """An invalid change of the review; nothing was changed."""


class StaleRevision(ReviewError):
    """The change was made for an earlier state of the file. Read the file again and retry."""


class UnknownHunk(ReviewError):
    """The hunk does not exist: a later edit replaced it, it was saved, or its id is wrong."""


class BadRange(ReviewError):
    """The lines do not exist."""


class BadText(ReviewError):
    """The new content is not text."""


class UserEditConflict(ReviewError, code="contested"):
    """An agent's edit touches lines that the user wrote; it is not applied."""


class ChoiceNeeded(ReviewError, code="needs_choice"):
    """The user's own lines would be dropped: choose whether to peel them off or to restore the base."""


class Conflict(ReviewError):
    """The lines have changed since."""


class Layer(Wire, frozen=True, kw_only=True, gc=False):
    """A version of a hunk's lines. ``run`` is the agent's run that wrote it, ``edits`` are the ids of its proposed
    edits.
    """

    origin: Origin
    lines: Lines
    run: str = ""
    edits: tuple[str, ...] = ()


class Hunk(Wire, frozen=True, kw_only=True, gc=False):
    """Replaces base lines ``a:b`` by the last of ``layers``. ``conflict``: the base has changed in this range, and
    accepting the hunk overrides that. ``oversized``: it could not be split into readable pieces.
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
        """Whether the buffer shows its lines rather than those of the base."""
        return self.state != "rejected"

    @property
    def has_user_layer(self) -> bool:
        return any(layer.origin == "user" for layer in self.layers)

    @property
    def by_user(self) -> bool:
        """Whether only the user wrote in it."""
        return all(layer.origin == "user" for layer in self.layers)


class AppliedHunk(Wire, frozen=True, kw_only=True, gc=False):
    """A saved hunk. Its lines are ``a:b`` of the base now; ``before`` are the lines that they replaced. ``intact``
    is False once these lines have changed again, or if the user's own were saved with the agent's.
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
        """The hunk with this id. Raises ``UnknownHunk``, and ``StaleRevision`` if it has changed since it had this
        id.
        """
        for hunk in self.hunks:
            if hunk.id == hunk_id:
                return hunk
        if now := self.successor(hunk_id):
            raise StaleRevision(
                f"{self.path}: hunk {hunk_id} has changed since it had that id; it is {now.id} now. Read the review again."
            )
        if parts := [hunk.id for hunk in self.hunks if root_of(hunk_id) in lineage(hunk.id)]:
            raise StaleRevision(
                f"{self.path}: hunk {hunk_id} was split; its parts are {', '.join(parts)}. Read the review again."
            )
        raise UnknownHunk(f"{self.path} has no hunk {hunk_id} now. Read the review again.")

    def successor(self, hunk_id: str) -> Hunk | None:
        """The current version of the hunk that was created under this id; None if there is none."""
        root = root_of(hunk_id)
        return next((hunk for hunk in self.hunks if root_of(hunk.id) == root), None)


class HunkPosition(NamedTuple):
    """A hunk, and its lines ``start:end`` in the buffer."""

    hunk: Hunk
    start: int
    end: int


def placed(review: FileReview) -> Iterator[HunkPosition]:
    """The positions of the hunks in the buffer. A rejected hunk has its base lines there."""
    shift = 0
    for hunk in review.hunks:
        start = hunk.a + shift
        size = len(hunk.top.lines) if hunk.is_shown else hunk.b - hunk.a
        shift += size - (hunk.b - hunk.a)
        yield HunkPosition(hunk, start, start + size)


def new_hunk_id() -> str:
    """An id for a new hunk."""
    return f"h_{new_id()[:16]}"


# -- what an id stands for ----------------------------------------------------------------------------
#
# An id is bound to the content of a hunk, so that a decision by id applies only to lines that were seen:
#
#     h_4c8dc09514ecaf52                  when it was created
#     h_9f31ab02.h_4c8dc09514ecaf52       after its content changed; the first part is new each time
#     h_9f31ab02.h_4c8dc09514ecaf52-1     the first part of that hunk, if it was split
#
# All but the numbers is random, so no content can be made to match an id that was seen.


def root_of(hunk_id: str) -> str:
    """The id under which a hunk, or a part of one, was created."""
    return hunk_id.rpartition(".")[2]


def part_id(hunk_id: str, number: int) -> str:
    """The id of a part of a hunk; its content follows from that of the hunk."""
    return f"{hunk_id}-{number}"


def lineage(hunk_id: str) -> frozenset[str]:
    """The root of a hunk, and the roots of those that were split to make it."""
    whole, *numbers = root_of(hunk_id).split("-")
    return frozenset("-".join([whole, *numbers[:depth]]) for depth in range(len(numbers) + 1))


def stems_from(hunk_id: str, roots: Collection[str]) -> bool:
    """Whether a hunk was created under one of these ids, or is a part of one that was."""
    return bool(roots) and not lineage(hunk_id).isdisjoint(roots)


def identified(before: FileReview, after: FileReview) -> FileReview:
    """``after``, with new ids for the hunks that differ from ``before``: in their own lines, the layers below, the
    base lines that they replace, or in whether the base has changed under them.
    """
    hunks_before = {hunk.id: hunk for hunk in before.hunks}
    hunks = tuple(
        msgspec.structs.replace(hunk, id=f"h_{new_id()[:8]}.{root_of(hunk.id)}")
        if (was := hunks_before.get(hunk.id)) is not None
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
    """Whether a line is a file's head, or names the bytes of a file without text."""
    return line.startswith("\0")


def joined(*pieces: Lines) -> Lines:
    """The concatenated pieces of a text. Only its last line may lack an end; others get one."""
    lines: list[str] = []
    for piece in pieces:
        if piece and lines and not lines[-1].endswith("\n"):
            lines[-1] += "\r\n" if piece[0].endswith("\r\n") else "\n"
        lines += piece
    return tuple(lines)


def render(base: Lines, hunks: Sequence[Hunk]) -> Lines:
    """``base`` with the top layers of ``hunks``."""
    pieces: list[Lines] = []
    at = 0
    for hunk in hunks:
        pieces += [base[at : hunk.a], hunk.top.lines]
        at = hunk.b
    return joined(*pieces, base[at:])


def buffer(review: FileReview) -> Lines:
    """The file if everything that is not rejected were kept."""
    return render(review.base, [hunk for hunk in review.hunks if hunk.is_shown])


def accepted(review: FileReview) -> Lines:
    """The file if only accepted hunks were kept."""
    return render(review.base, [hunk for hunk in review.hunks if hunk.state == "accepted"])
