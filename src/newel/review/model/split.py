"""Split a hunk into parts that are decided one by one.

    base        x  b  c  y               one hunk: x → X, y → Y, with b and c in between
    layer       X  b  c  Y
    parts      └┘      └┘                two hunks, in the same place, with the same lines

The parts replace the hunk in its review and are hunks like any other: keeping all of them gives the same file, rejecting all of
them the base.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from newel.diff.patience import LineSpan, diff
from newel.review.model.edits import tidied
from newel.review.model.file_lines import MODE, head_of, is_blob, kind_of
from newel.review.model.file_review import Hunk, Layer, Lines, ReviewError, part_id
from newel.review.model.proposal import DEFAULT_SIZE

_BLANK: Final = re.compile(r"^\s*$")

Part = tuple[tuple[int, int], ...]
"""The lines of one part: a range ``start:end`` of each version of the hunk. The first version is the base's."""


class CannotSplit(ReviewError):
    """The hunk is the smallest change that can be decided by itself."""


def split_hunk(base: Lines, hunk: Hunk) -> tuple[Hunk, ...]:
    """The parts of a hunk, at least two, in their order and in its state. It is split at the lines that it leaves unchanged; if there
    are none, behind blank lines; else in half. Raises ``CannotSplit``.
    """
    versions = (base[hunk.a : hunk.b], *(layer.lines for layer in hunk.layers))
    if reason := _why_whole(versions):
        raise CannotSplit(f"This hunk cannot be split: {reason}.")
    for find in _WAYS:
        parts = _changing(versions, find(versions))
        if len(parts) > 1:
            return tuple(_part(base, hunk, part, n) for n, part in enumerate(parts, 1))
    raise CannotSplit("This hunk cannot be split further.")


def _why_whole(versions: Sequence[Lines]) -> str:
    if any(is_blob(lines) for lines in versions):
        return "it is not text"
    if any(kind_of(lines) not in {"absent", "file"} for lines in versions):
        return "it changes what kind of file this is"
    if head_of(versions[0]) is not None and not versions[-1]:
        return "it deletes the file"
    if not versions[0] and head_of(versions[-1]) not in {None, MODE}:
        # Only one part could have the mode; if it was rejected, or kept after another, the file would lose it.
        return "it creates a file whose mode is not the usual one"
    return ""


# -- where to cut: each function returns parts, of which some may change nothing ---------------------------


def _between_kept_lines(versions: Sequence[Lines]) -> Iterator[Part]:
    """The parts between lines that all versions share, and between the mode of the file and its lines."""
    zeros, ends = tuple(0 for _ in versions), tuple(map(len, versions))
    cuts = [(kept, tuple(at + 1 for at in kept)) for kept in _kept_lines(versions)]
    if all(head_of(lines) is not None for lines in versions):
        ones = tuple(1 for _ in versions)
        cuts.append((ones, ones))
    start = zeros
    for before, behind in [*sorted(cuts), (ends, ends)]:
        if start != before:
            yield tuple(zip(start, before, strict=True))
        start = behind


def _kept_lines(versions: Sequence[Lines]) -> list[tuple[int, ...]]:
    """The positions of the lines that all versions share, one in each version."""
    old = versions[0]
    places = [dict(_matches(old, lines)) for lines in versions]
    return [
        tuple(place[n] for place in places) for n in range(len(old)) if all(n in place for place in places)
    ]


def _matches(old: Lines, new: Lines) -> Iterator[tuple[int, int]]:
    a = b = 0
    for span in (*diff(old, new), LineSpan(len(old), len(old), len(new), len(new))):
        yield from zip(range(a, span.a0), range(b, span.b0), strict=True)
        a, b = span.a1, span.b1


def _behind_blank_lines(versions: Sequence[Lines]) -> Iterable[Part]:
    return _pieces(
        versions,
        lambda lines: [
            n for n in range(1, len(lines)) if _BLANK.match(lines[n - 1]) and not _BLANK.match(lines[n])
        ],
    )


def _in_half(versions: Sequence[Lines]) -> Iterable[Part]:
    first = int(head_of(versions[-1]) is not None)
    return _pieces(versions, lambda lines: [(first + len(lines)) // 2])


def _pieces(versions: Sequence[Lines], find: Callable[[Lines], list[int]]) -> Iterator[Part]:
    """The parts between cuts of the new lines. All versions must have as many lines, so that it is known which replaces which, or
    none. A part that only deletes lines is not cut: two such parts could not be told apart once they are written.
    """
    size = len(versions[-1])
    if not size or any(len(lines) not in {0, size} for lines in versions):
        return
    # The head of a new file stays with its first line.
    first = 1 + int(head_of(versions[-1]) is not None)
    start = 0
    for cut in [*(cut for cut in find(versions[-1]) if first <= cut < size), size]:
        yield tuple((start, cut) if lines else (0, 0) for lines in versions)
        start = cut


_WAYS: Final = (_between_kept_lines, _behind_blank_lines, _in_half)


# -- the parts ---------------------------------------------------------------------------------------------


def _changing(versions: Sequence[Lines], parts: Iterable[Part]) -> list[Part]:
    """The parts, each together with those before it that are as in the base: a lower layer may have changed them."""
    changing: list[Part] = []
    same: Part | None = None
    for part in parts:
        whole = _joined(same, part) if same else part
        if _lines(versions[-1], part[-1]) == _lines(versions[0], part[0]):
            same = whole
        else:
            changing.append(whole)
            same = None
    if same and changing:
        changing[-1] = _joined(changing[-1], same)
    return changing


def _joined(first: Part, last: Part) -> Part:
    return tuple((start, end) for (start, _), (_, end) in zip(first, last, strict=True))


def _lines(lines: Lines, place: tuple[int, int]) -> Lines:
    return lines[place[0] : place[1]]


def _part(base: Lines, hunk: Hunk, part: Part, number: int) -> Hunk:
    (a, b), *places = part
    below = base[hunk.a + a : hunk.a + b]
    old, layers = below, list[Layer]()
    for layer, place in zip(hunk.layers, places, strict=True):
        lines = _lines(layer.lines, place)
        if lines != below:  # else this layer changes other parts
            layers.append(msgspec.structs.replace(layer, lines=lines))
        below = lines
    is_large = not (DEFAULT_SIZE.fits(old) and DEFAULT_SIZE.fits(below))
    whole = msgspec.structs.replace(
        hunk,
        id=part_id(hunk.id, number),
        a=hunk.a + a,
        b=hunk.a + b,
        layers=tuple(layers),
        oversized=hunk.oversized and is_large,
    )
    (tidy,) = tidied(base, whole)
    return tidy
