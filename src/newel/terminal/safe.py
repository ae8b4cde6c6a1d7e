"""Text from models, tools, files and hosts, made inert for a terminal.

Two ways, for two purposes:

- ``safe`` and ``SafeStream`` are for reading. An escape sequence (colour, cursor movement, window title,
  link, clipboard) vanishes with all that it carries; what is left is text, line feeds and tabs.
- ``reveal`` is for deciding. Nothing vanishes: each character that could hide or disguise another is
  written out, so that what a person approves is what will run.
"""

from __future__ import annotations

import re

# The patterns are compiled when a text needs them: most never do, and a start would pay for both.
# A control string (OSC, DCS, SOS, PM, APC, and screen's title) carries a payload up to its terminator.
# One that is never terminated ends with its line: no sequence can hide more than the line it stands on.
_UNSAFE = (
    r"(?P<string>\x1b[\]PX^_k]|[\x90\x98\x9d-\x9f])[^\x07\x18\x1a\x1b\x9c\n\r]*(?P<string_end>[\x07\x18\x1a\x9c])?"
    r"|(?P<csi>\x1b\[|\x9b)[0-?]*[ -/]*(?P<csi_end>[@-~])?"
    r"|(?P<escape>\x1b)[ -/]*(?P<escape_end>[0-~])?"
    r"|(?P<line>\r\n?|[\v\f\x85\u2028\u2029])"
    r"|(?P<bidi>[\u202a-\u202e\u2066-\u2069])"
    r"|(?P<surrogate>[\ud800-\udfff])"
    r"|[\x00-\x08\x0e-\x1f\x7f-\x9f]"
)

# Printable by Unicode's tables, and yet most fonts show nothing: fillers, selectors of variants, blank signs.
_BLANK = (
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc"
    r"\U00013441\U00013442\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)


def safe(text: str, *, keep_newlines: bool = True) -> str:
    r"""The text without anything that a terminal obeys, except ``\n`` and ``\t``.

    Other line ends become ``\n``, a lone carriage return included, so that it overwrites nothing. Marks
    that turn the direction of writing are written out as ``<U+202E>``. Without ``keep_newlines`` each
    line feed becomes ``↵``: one line stays one line.
    """
    if not _clean(text):
        text = re.sub(_UNSAFE, _inert, text)
    return text if keep_newlines else text.replace("\n", "↵")


def reveal(text: str) -> str:
    r"""The text with every hidden character written out: ``␛`` for escape, ``<U+200B>`` for a space
    without width, ``<U+00A0>`` for one that is no plain space. Only ``\n`` and ``\t`` stay as they are.
    For what a person is asked to approve.
    """
    if text.isascii() and _clean(text):
        return text
    text = re.sub(_BLANK, lambda found: _written_out(found[0]), text)
    if _clean(text):
        return text
    return "".join(char if _clean(char) else _written_out(char) for char in text)


class SafeStream:
    """``safe`` for a text that arrives in pieces, cut anywhere.

    All that ``feed`` returned, and at the end ``finish``, is together what ``safe`` makes of the whole.
    A sequence still open at the end of a piece waits for the next one; of its payload nothing is kept.
    """

    def __init__(self) -> None:
        self._open = ""

    def feed(self, piece: str) -> str:
        """What can be shown of the text so far and was not returned before."""
        text = self._open + piece
        self._open = ""
        if _clean(text):
            return text

        def inert(found: re.Match[str]) -> str:
            if found.end() == len(text) and _is_open(found):
                self._open = _beginning(found)
                return ""
            return _inert(found)

        return re.sub(_UNSAFE, inert, text)

    def finish(self) -> str:
        """The text is over: what is left of it. The stream is as new."""
        rest, self._open = self._open, ""
        return safe(rest)


def _clean(text: str) -> bool:
    """Whether nothing needs a second look. Far faster than the patterns, and true of almost all text."""
    return text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable()


def _inert(found: re.Match[str]) -> str:
    match found.lastgroup:
        case "line":
            return "\n"
        case "bidi":
            return f"<U+{ord(found[0]):04X}>"
        case "surrogate":
            return "\N{REPLACEMENT CHARACTER}"
        case _:
            return ""


def _is_open(found: re.Match[str]) -> bool:
    """Whether more text could make this match a longer one."""
    return found[0] == "\r" or found.lastgroup in {"string", "csi", "escape"}


def _beginning(found: re.Match[str]) -> str:
    """The shortest text that leaves an open sequence in the state it is in: its introducer, and one of
    the intermediate characters after which it takes no more parameters.
    """
    kind = found.lastgroup
    if kind not in {"csi", "escape"}:
        return found[0] if kind == "line" else found["string"]
    last = found[0][-1]
    return found[kind] + (last if " " <= last <= "/" else "")


def _written_out(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"<U+{code:04X}>"
