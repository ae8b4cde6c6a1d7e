"""Incremental JSON reply: extracts the text of an answer while its JSON is still being written."""

from __future__ import annotations

import json
import re
from typing import Literal

_THINKING = re.compile(r"<think(?:ing)?>")
_THOUGHT = re.compile(r"(?s)<think(?:ing)?>.*?</think(?:ing)?>")
_TAG = "<thinking>"
_OBJECT = re.compile(r"(?:```[ \t]{0,8}\w{0,20}\s{0,20})?\{\s{0,20}\"(?:type|text|command|reason)\"")
_BEGINNING = re.compile(r"(?:`{1,2}|```[ \t]{0,8}\w{0,20}\s{0,20})?(?:\{\s{0,20}(?:\"\w{0,7}\"?)?)?")
"""A prefix of an object of the protocol; never longer than ``_HEAD``."""
_HEAD = 96
_MARK = re.compile(r"[`{]")
_KIND = re.compile(r"\"type\"\s*:\s*\"(\w*)\"")
_TEXT = re.compile(r"\"text\"\s*:\s*\"")
_WHOLE = re.compile(
    r"(?:[^\"\\]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|\\[^u])*"
)
"""The complete characters of an unfinished JSON string."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_MAX_PREFIX = 4_000
"""Characters of an object before its text; of one with more, nothing is streamed."""

_Mode = Literal["start", "prose", "object", "text", "over"]


class AnswerStream:
    """Takes a reply in pieces and returns the text that can be shown; ``shown`` is all of it so far.

    Shows text around an object of the protocol, and the text of an answer. Commands are shown only when they are complete,
    thinking never. ``shown`` is a prefix of the final text, unless the model breaks the protocol within an answer.
    """

    def __init__(self) -> None:
        self.shown: str = ""
        self._held = ""
        self._space = ""
        self._mode: _Mode = "start"

    def feed(self, piece: str) -> str:
        """Return the new text that can be shown."""
        if self._mode == "over":
            return ""
        self._held += piece
        steps = {"start": self._start, "prose": self._prose, "object": self._object, "text": self._text}
        begin, before = len(self.shown), ""
        while self._mode not in {before, "over"}:
            before = self._mode
            self.shown += steps[before]()
        return self.shown[begin:]

    def _start(self) -> str:
        """Skip thinking at the beginning."""
        self._held = self._held.lstrip()
        while thought := _THOUGHT.match(self._held):
            self._held = self._held[thought.end() :].lstrip()
        if self._held and not _THINKING.match(self._held) and not _TAG.startswith(self._held):
            self._mode = "prose"
        return ""

    def _prose(self) -> str:
        for mark in _MARK.finditer(self._held):
            head = self._held[mark.start() : mark.start() + _HEAD]
            if _OBJECT.match(head):
                self._mode = "object"
                return self._release(mark.start())
            if mark.start() + len(head) == len(self._held) and _BEGINNING.fullmatch(head):
                return self._release(mark.start())
        return self._release(len(self._held))

    def _release(self, end: int) -> str:
        """Release the held text up to ``end``, except its trailing white space, which depends on what follows."""
        text, self._held = self._space + self._held[:end], self._held[end:]
        stripped = text.rstrip()
        self._space = text[len(stripped) :] if stripped or self.shown else ""
        return stripped

    def _object(self) -> str:
        kind = _KIND.search(self._held)
        if kind is None:
            self._mode = "over" if len(self._held) > _MAX_PREFIX else "object"
        elif kind[1] not in {"answer", "shell"}:
            self._mode = "prose"
            return self._release(kind.end())
        elif kind[1] == "shell" or len(self._held) > _MAX_PREFIX:
            self._mode = "over"
        elif match := _TEXT.search(self._held):
            self._held, self._mode = self._held[match.end() :], "text"
            return "\n\n" if self.shown else ""
        return ""

    def _text(self) -> str:
        whole = _WHOLE.match(self._held)
        written = whole[0] if whole else ""
        try:
            text = str(json.loads(f'"{written}"', strict=False))
        except ValueError:  # invalid JSON: only the complete reply can be interpreted
            self._mode = "over"
            return ""
        self._held = self._held[len(written) :]
        if self._held.startswith('"'):
            self._mode = "over"
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
