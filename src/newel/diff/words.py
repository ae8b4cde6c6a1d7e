"""The words that changed: which removed and added lines belong together, and where they differ.

``web/src/word-diff.js`` implements exactly the same: change both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from newel.diff.patience import diff

ALIKE: Final = 0.4
"""Part of two lines that has to be equal for the rest to be marked as changed words."""
MAX_WORDS: Final = 400
"""Words of a line that are compared with another."""
MAX_PAIRS: Final = 1_000
"""Pairs of lines that are compared to find those that replace each other."""

_WORD: Final = re.compile(
    r"(?:\w+|[ \t]+|.)(?:[\u0300-\u036f\ufe0f\U0001f3fb-\U0001f3ff]|\u200d.)*", re.DOTALL
)
"""A word, spaces, or a sign with all that is drawn together with it."""
_BLANK: Final = " \t"

Range = tuple[int, int]
"""The first character, and the one behind the last."""


class ChangedWords(NamedTuple):
    """Where an old line and its new version differ."""

    old: list[Range]
    new: list[Range]


def line_pairs(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The positions of removed lines and of the added ones that replace them: one by one if there are as many, else each removed
    line with the added one that has most words in common with it, in order.
    """
    if len(old) == len(new) or len(old) * len(new) > MAX_PAIRS:
        yield from zip(range(len(old)), range(len(new)), strict=False)
        return
    words = [frozenset(_WORD.findall(line)) for line in old]
    others = [frozenset(_WORD.findall(line)) for line in new]
    first = 0
    for removed, own in enumerate(words):
        alike = [(len(own & others[added]), -added) for added in range(first, len(new))]
        if alike and (best := max(alike))[0] >= ALIKE * len(own):
            yield removed, -best[1]
            first = 1 - best[1]


def changed_words(old: str, new: str) -> ChangedWords:
    """The words in which two lines differ; none where the lines have too little in common."""
    a, b = _WORD.findall(old), _WORD.findall(new)
    if len(a) > MAX_WORDS or len(b) > MAX_WORDS:
        return ChangedWords([], [])
    found = diff(a, b)
    size = len(old.strip(_BLANK))
    gone = sum(len("".join(a[span.a0 : span.a1]).strip(_BLANK)) for span in found)
    if size - gone < ALIKE * max(size, len(new.strip(_BLANK))):
        return ChangedWords([], [])
    return ChangedWords(
        _ranges(a, [(span.a0, span.a1) for span in found]), _ranges(b, [(span.b0, span.b1) for span in found])
    )


def _ranges(words: Sequence[str], found: Sequence[tuple[int, int]]) -> list[Range]:
    ends = [0]
    for word in words:
        ends.append(ends[-1] + len(word))
    return [(ends[start], ends[end]) for start, end in found if start < end]
