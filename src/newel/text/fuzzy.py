"""Fuzzy search: texts that have the letters of a query in their order, the best first."""

from __future__ import annotations

from collections.abc import Sequence


def fuzzy_matches(texts: Sequence[str], query: str) -> list[int]:
    """The positions of the texts that match all words of ``query``, the best first, and equal ones in their order. Case does not matter."""
    words = query.lower().split()
    ranked: list[tuple[tuple[int, ...], int]] = []
    for position, text in enumerate(texts):
        ranks = [_rank(text.lower(), word) for word in words]
        if None not in ranks:
            ranked.append((tuple(map(sum, zip(*filter(None, ranks), strict=True))), position))
    return [position for _, position in sorted(ranked)]


def _rank(text: str, word: str) -> tuple[int, ...] | None:
    """Less is better: letters together, at the beginning of a name, close to each other, in a short text. None is no match."""
    at = text.find(word)
    while at > 0 and text[at - 1].isalnum():
        further = text.find(word, at + 1)
        if further < 0:
            break
        at = further
    if at >= 0:
        begins = at == 0 or not text[at - 1].isalnum()
        return (0, 0 if begins else 1, len(word), len(text))
    span = _shortest_span(text, word)
    return None if span is None else (1, 1, span, len(text))


def _shortest_span(text: str, word: str) -> int | None:
    """How many letters of the text the letters of the word are spread over, at least."""
    best: int | None = None
    start = text.find(word[0])
    while start >= 0:
        at = start
        for letter in word[1:]:
            at = text.find(letter, at + 1)
            if at < 0:
                return best
        best = min(best or len(text), at - start + 1)
        start = text.find(word[0], start + 1)
    return best
