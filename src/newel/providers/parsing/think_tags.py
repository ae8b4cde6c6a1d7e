"""Reasoning that a model wrote into its text, between ``<think>`` or ``<thinking>`` tags.

A tag counts as one unless it is quoted: behind a backtick or a quotation mark, or in a fenced block. A
block that is never closed lasts to the end of the message.
"""

from __future__ import annotations

from newel.text.json import regex

OPENERS = ("<think>", "<thinking>")
CLOSERS = {"<think>": "</think>", "<thinking>": "</thinking>"}
QUOTES = "`\"'"
FENCE = 3
"""Backticks that open or close a fenced block."""

_TICKS = r"`+"


def held_back(text: str, marks: tuple[str, ...]) -> int:
    """How many characters at the end of ``text`` may be the beginning of one of ``marks``."""
    at = text.rfind("<")
    return len(text) - at if at >= 0 and any(mark.startswith(text[at:]) for mark in marks) else 0


class ThinkSplitter:
    """Feed it the text as it comes, take ``(is_thinking, piece)`` pairs; no piece is empty.

    White space around a block that opens the message belongs to neither.
    """

    def __init__(self) -> None:
        self._pending = ""
        self._closer = ""
        self._last = ""
        self._ticks = 0
        self._in_fence = False
        self._said = False

    def feed(self, text: str) -> list[tuple[bool, str]]:
        if not self._pending and not self._closer and self._said and "<" not in text:
            self._note(text)  # the usual case, once the answer has begun
            return [(False, text)]
        self._pending += text
        pieces: list[tuple[bool, str]] = []
        while self._step(pieces):
            pass
        return pieces

    def close(self) -> list[tuple[bool, str]]:
        """What was held back because it might have become a tag."""
        pieces: list[tuple[bool, str]] = []
        self._give(pieces, self._pending, thinking=bool(self._closer))
        self._pending = ""
        return pieces

    def _step(self, pieces: list[tuple[bool, str]]) -> bool:
        """Take the text up to the next tag; False when there is none in what has come."""
        marks = (self._closer,) if self._closer else OPENERS
        found = [(at, mark) for mark in marks if (at := self._pending.find(mark)) >= 0]
        if not found:
            keep = len(self._pending) - held_back(self._pending, marks)
            self._give(pieces, self._pending[:keep], thinking=bool(self._closer))
            self._pending = self._pending[keep:]
            return False
        at, mark = min(found)
        self._give(pieces, self._pending[:at], thinking=bool(self._closer))
        self._pending = self._pending[at + len(mark) :]
        if self._closer:
            self._closer = ""
        elif self._in_fence or (self._last and self._last in QUOTES):
            self._give(pieces, mark, thinking=False)
        else:
            self._closer = CLOSERS[mark]
        return True

    def _give(self, pieces: list[tuple[bool, str]], text: str, *, thinking: bool) -> None:
        if not thinking and not self._said:
            text = text.lstrip()
        if not text:
            return
        if not thinking:
            self._said = True
            self._note(text)
        pieces.append((thinking, text))

    def _note(self, text: str) -> None:
        """Remember what the next tag would stand behind."""
        for run in regex(_TICKS).finditer(text):
            before = self._ticks if run.start() == 0 else 0
            length = before + len(run[0])
            self._in_fence ^= before < FENCE <= length
            self._ticks = length
        if not text.endswith("`"):
            self._ticks = 0
        self._last = text[-1]
