"""Hunks that move lines within a file. Reverting only one half of a move would write its lines twice, or lose them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from newel.review.model.file_review import Lines


class LineChange(NamedTuple):
    """What a hunk has replaced, and by what."""

    removed: Lines
    added: Lines


def halves_of_moves(changes: Mapping[str, LineChange], stays: Collection[str]) -> dict[str, str]:
    """The hunks that would be reverted although the other half of a move stays, each with the hunk that is that half. ``changes`` are
    those of one run in a file, by hunk; those in ``stays`` are not reverted.
    """
    removed_in = _unique_lines((name, change.removed) for name, change in changes.items())
    added_in = _unique_lines((name, change.added) for name, change in changes.items())
    partners: dict[str, dict[str, None]] = {}
    for line in removed_in.keys() & added_in.keys():
        source, target = removed_in[line], added_in[line]
        partners.setdefault(source, {})[target] = None
        partners.setdefault(target, {})[source] = None
    halves: dict[str, str] = {}
    pending = [*stays]
    while pending:
        other = pending.pop()
        for name in partners.get(other, ()):
            if name not in stays and name not in halves:
                halves[name] = other
                pending.append(name)
    return halves


def _unique_lines(hunks: Iterable[tuple[str, Lines]]) -> dict[str, str]:
    """The lines that are in one hunk only, once, with that hunk: others may be there by chance, as brackets and blank lines are."""
    by_hunk = [(name, lines) for name, lines in hunks if lines]
    counts = Counter(chain.from_iterable(lines for _, lines in by_hunk))
    return {
        line: name
        for name, lines in by_hunk
        for line in lines
        if counts[line] == 1 and any(map(str.isalnum, line))
    }
