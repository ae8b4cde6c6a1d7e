"""Reads the JSON of a step while it arrives: the thought, the tool's name, and the answer's text become deltas at once."""

from __future__ import annotations

from typing import Final

from newel.agent.events import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from newel.providers.structured.step_schema import ANSWER, TEXT

LOOP: Final = 1_200
"""Characters that repeat a shorter text before a step counts as endless: a small model may write one line until its window is full."""

PERIOD: Final = 150
"""The most characters of that text."""

_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class StringScanner:
    """Finds the strings in JSON that arrives in pieces. ``feed`` returns ``(path, piece)`` for each part of a string value, and an
    empty last piece at its end. A path consists of the names of the members around the value; elements of arrays have none.
    """

    def __init__(self) -> None:
        self._path: list[str] = []
        self._key = ""
        self._is_key = False
        self._in_string = False
        self._escape = ""
        self._high_surrogate = 0
        self._text: list[str] = []

    def feed(self, text: str) -> list[tuple[tuple[str, ...], str]]:
        found: list[tuple[tuple[str, ...], str]] = []
        for character in text:
            if not self._in_string:
                self._read_structure(character)
            elif self._escape:
                self._read_escape(character)
            elif character == "\\":
                self._escape = character
            elif character == '"':
                self._in_string = False
                self._flush(found)
                if self._is_key:
                    self._is_key = False
                else:
                    found.append(((*self._path[1:], self._key), ""))
            else:
                self._text.append(character)
        self._flush(found)
        return found

    def _read_structure(self, character: str) -> None:
        match character:
            case '"':
                self._in_string = True
                if self._is_key:
                    self._key = ""
            case "{":
                self._path.append(self._key)
                self._key, self._is_key = "", True
            case "[":
                self._path.append(self._key)
                self._key, self._is_key = "", False
            case "}" | "]" if self._path:
                self._key, self._is_key = self._path.pop(), False
            case ",":
                # Within an array the key is empty, and stays so.
                self._is_key = self._key != ""
            case _:
                pass

    def _read_escape(self, character: str) -> None:
        self._escape += character
        if self._escape[1] != "u":
            self._text.append(_ESCAPES.get(character, character))
            self._escape = ""
        elif len(self._escape) == len("\\u0000"):
            code, self._escape = _hexadecimal(self._escape[2:]), ""
            if 0xD800 <= code < 0xDC00:
                self._high_surrogate = code
            elif 0xDC00 <= code < 0xE000:
                high, self._high_surrogate = self._high_surrogate, 0
                self._text.append(chr(0x10000 + ((high - 0xD800) << 10) + code - 0xDC00) if high else "?")
            else:
                self._text.append(chr(code))

    def _flush(self, found: list[tuple[tuple[str, ...], str]]) -> None:
        text, self._text = "".join(self._text), []
        if not text:
            return
        if self._is_key:
            self._key += text
        else:
            found.append(((*self._path[1:], self._key), text))


def _hexadecimal(digits: str) -> int:
    try:
        return int(digits, 16)
    except ValueError:
        return ord("?")


class StepStream:
    """Turns the pieces of a step into deltas. ``thought`` and ``text`` are the sums of those for the thought and the answer."""

    def __init__(self) -> None:
        self.thought = ""
        self.text = ""
        self.tool = ""
        self._scanner = StringScanner()
        self._is_named = False
        self._tail = ""

    @property
    def is_endless(self) -> bool:
        """Whether the model writes the same again and again."""
        if len(self._tail) < LOOP:
            return False
        period = len(self._tail) - PERIOD - self._tail.rfind(self._tail[-PERIOD:], 0, -1)
        return 0 < period <= PERIOD and self._tail[period:] == self._tail[:-period]

    def feed(self, piece: str) -> list[Delta]:
        self._tail = (self._tail + piece)[-LOOP:]
        deltas: list[Delta] = []
        if self._is_named and self.tool != ANSWER:
            deltas.append(ToolCallDelta(0, delta=piece))
        for path, text in self._scanner.feed(piece):
            match path:
                case ("thought",) if text:
                    self.thought += text
                    deltas.append(ThinkingDelta(text))
                case ("action", "tool") if text and not self._is_named:
                    self.tool += text
                case ("action", "tool") if not self._is_named:
                    self._is_named = True
                    if self.tool != ANSWER:
                        deltas.append(ToolCallDelta(0, name=self.tool))
                case ("action", member) if text and member == TEXT and self.tool == ANSWER and self._is_named:
                    self.text += text
                    deltas.append(TextDelta(text))
                case _:
                    pass
        return deltas
