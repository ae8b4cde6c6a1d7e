"""Edits of the buffer. An edit apart from all hunks becomes a new hunk, an edit within a hunk a new layer of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from newel.review.model.file_lines import head_of, is_blob, make_head
from newel.review.model.file_review import (
    BadRange,
    BadText,
    FileReview,
    Hunk,
    Layer,
    Lines,
    UserEditConflict,
    buffer,
    joined,
    placed,
    render,
)
from newel.review.model.line_ranges import touch

NewId = Callable[[], str]
"""Creates the id of a hunk."""


class EditRange(NamedTuple):
    """The hunks that an edit touches, and the lines that they cover together: ``start:end`` of the buffer, ``a:b``
    of the base. ``before`` are the ids of the hunks before them.
    """

    touched: list[Hunk]
    before: set[str]
    start: int
    end: int
    a: int
    b: int


def edit(review: FileReview, start: int, end: int, layer: Layer, new_id: NewId) -> FileReview:
    """Replace lines ``start:end`` of the buffer by ``layer.lines``.

    An edit that touches no hunk becomes a hunk. All hunks that it touches become one, with an additional layer
    unless the top layer has the same author. A result equal to the base is no hunk. A rejected hunk whose lines
    are replaced is dropped.

    Raises ``BadRange``, also if a file's head would no longer be its first line, ``BadText``, and ``UserEditConflict``
    if an agent's edit touches the user's lines.
    """
    text = buffer(review)
    lines = _allowed(review.path, text, start, end, layer.lines)
    expected = joined(text[:start], lines, text[end:])
    is_open = bool(lines) and 0 < start == len(text) and not text[-1].endswith("\n")
    if not is_open:
        after = _edited(review, (start, end), msgspec.structs.replace(layer, lines=lines), new_id)
        if start == 0 or buffer(after) == expected:
            return after
    # The line before lacks an end, or would without the text that followed it: it is part of the edit.
    layer = msgspec.structs.replace(layer, lines=expected[start - 1 : start] + lines)
    return _edited(review, (start - 1, end), layer, new_id)


def _allowed(path: str, text: Lines, start: int, end: int, lines: Lines) -> Lines:
    """The new lines, with a head if they create the file. Raises ``BadRange`` and ``BadText``."""
    if not 0 <= start <= end <= len(text):
        raise BadRange(f"{path} has no lines {start} to {end}; it has {len(text)}.")
    is_whole = start == 0 and end == len(text)
    begins = start == 0 and head_of(lines) is not None
    if (is_blob(text) and not is_whole) or any("\0" in line for line in lines[begins:]):
        raise BadText(f"{path}: only text can be edited, and new lines must be text, without NUL.")
    keeps_head = start > 0 or head_of(text) is None or (begins and end > 0) or (is_whole and not lines)
    if not keeps_head and (lines or end):
        raise BadRange(f"{path}: lines {start} to {end} would replace the file's head.")
    return (make_head(), *lines) if lines and not text and not begins else lines


def _edited(review: FileReview, place: tuple[int, int], layer: Layer, new_id: NewId) -> FileReview:
    text, (start, end) = buffer(review), place
    reach = _reach(review, start, end)
    if layer.origin == "agent" and any(hunk.has_user_layer for hunk in reach.touched):
        ids = ", ".join(hunk.id for hunk in reach.touched)
        raise UserEditConflict(
            f"{review.path}: the user has edited these lines (hunk {ids}); decide that hunk first."
        )
    lines = joined(text[reach.start : start], layer.lines, text[end : reach.end])
    # With a line end, unless it is the end of the file.
    lines = joined(lines, text[reach.end : reach.end + 1])[: len(lines)]
    layers = stacked(
        fused(review.base, reach.a, reach.b, reach.touched), msgspec.structs.replace(layer, lines=lines)
    )
    hunk = Hunk(
        id=reach.touched[0].id if reach.touched else new_id(),
        a=reach.a,
        b=reach.b,
        layers=layers,
        conflict=any(hunk.conflict for hunk in reach.touched),
    )
    left, right = _around(review, reach)
    return msgspec.structs.replace(
        review, hunks=(*left, *tidied(review.base, hunk), *right), rev=review.rev + 1
    )


def _reach(review: FileReview, start: int, end: int) -> EditRange:
    visible = [position for position in placed(review) if position.hunk.is_shown]
    touched = [position for position in visible if touch(position.start, position.end, start, end)]
    before = [position for position in visible if position.end <= start and position not in touched]
    shift = sum(position.end - position.start - (position.hunk.b - position.hunk.a) for position in before)
    a, b, first, last = start - shift, end - shift, start, end
    if touched:
        shift += sum(
            position.end - position.start - (position.hunk.b - position.hunk.a) for position in touched
        )
        first, last = min(start, touched[0].start), max(end, touched[-1].end)
        a = touched[0].hunk.a - (touched[0].start - first)
        b = touched[-1].hunk.b + (last - touched[-1].end)
    return EditRange(
        [position.hunk for position in touched], {position.hunk.id for position in before}, first, last, a, b
    )


def _around(review: FileReview, reach: EditRange) -> tuple[list[Hunk], list[Hunk]]:
    """The hunks on either side, without rejected ones whose base lines are replaced."""
    touched = {hunk.id for hunk in reach.touched}
    is_new = not review.base and not any(hunk.is_shown for hunk in review.hunks)
    left: list[Hunk] = []
    right: list[Hunk] = []
    for hunk in review.hunks:
        if hunk.id in touched:
            continue
        if hunk.is_shown:
            (left if hunk.id in reach.before else right).append(hunk)
        elif is_new:
            continue  # another version of the file replaces it
        elif hunk.b <= reach.a and not right:
            left.append(hunk)
        elif hunk.a >= reach.b:
            right.append(hunk)
    return left, right


def fused(base: Lines, a: int, b: int, hunks: Sequence[Hunk]) -> tuple[Layer, ...]:
    """The layers of hunks within ``base[a:b]`` as layers of one hunk: each layer contains those of all hunks at its
    height.
    """
    layers: list[Layer] = []
    for height in range(max((len(hunk.layers) for hunk in hunks), default=0)):
        stacked = [hunk.layers[height] for hunk in hunks if len(hunk.layers) > height]
        moved = [
            msgspec.structs.replace(hunk, a=hunk.a - a, b=hunk.b - a, layers=hunk.layers[: height + 1])
            for hunk in hunks
        ]
        layer = Layer(
            origin="user" if any(part.origin == "user" for part in stacked) else "agent",
            lines=render(base[a:b], moved),
            run=next((part.run for part in stacked if part.run), ""),
            edits=tuple(dict.fromkeys(name for part in stacked for name in part.edits)),
        )
        layers.append(layer)
    return tuple(layers)


def stacked(layers: tuple[Layer, ...], layer: Layer) -> tuple[Layer, ...]:
    """The layers with one more on top. The same author extends its own layer; a layer that restores the one below is
    dropped.
    """
    if layers and (layers[-1].origin, layers[-1].run) == (layer.origin, layer.run):
        edits = tuple(dict.fromkeys((*layers[-1].edits, *layer.edits)))
        layer, layers = msgspec.structs.replace(layer, edits=edits), layers[:-1]
    if layers and layers[-1].lines == layer.lines:
        return layers
    return (*layers, layer)


def tidied(base: Lines, hunk: Hunk) -> tuple[Hunk, ...]:
    """The hunk without leading and trailing lines that all its versions share; empty if it changes nothing."""
    old = base[hunk.a : hunk.b]
    if hunk.top.lines == old:
        return ()
    versions = [old, *(layer.lines for layer in hunk.layers)]
    size = min(len(lines) for lines in versions)
    head = 0
    while head < size and all(lines[head] == old[head] for lines in versions):
        head += 1
    tail = 0
    while tail < size - head and all(lines[-1 - tail] == old[-1 - tail] for lines in versions):
        tail += 1
    if not head and not tail:
        return (hunk,)
    layers = tuple(
        msgspec.structs.replace(layer, lines=layer.lines[head : len(layer.lines) - tail])
        for layer in hunk.layers
    )
    return (msgspec.structs.replace(hunk, a=hunk.a + head, b=hunk.b - tail, layers=layers),)
