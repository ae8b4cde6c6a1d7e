"""Sanitizes text from models, tools, files and hosts for a terminal, documents and messages.

- ``sanitize`` and ``SanitizedStream`` are for reading. They remove escape sequences (colour, cursor movement, window title,
  link, clipboard) with their payload; text, line feeds and tabs remain.
- ``escape_invisible`` is for decisions. It removes nothing and writes out each character that could hide or disguise another,
  so that the user approves exactly what will run. ``escape_line`` and ``escape_diff`` do this for names and diffs. Screens must
  pass every question and diff through them, and not through ``sanitize`` before.
- ``plain_line`` and ``plain_text`` are for files, ``redact_url`` removes credentials from addresses.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

# The patterns are compiled on first use: most texts need none, and it would slow down every start.
# A control string (OSC, DCS, SOS, PM, APC, and screen's title) carries a payload up to its terminator, or else to the end of
# its line: no sequence can hide more than one line.
_UNSAFE = (
    r"(?P<string>\x1b[\]PX^_k]|[\x90\x98\x9d-\x9f])[^\x07\x18\x1a\x1b\x9c\n\r]*(?P<string_end>[\x07\x18\x1a\x9c])?"
    r"|(?P<csi>\x1b\[|\x9b)[0-?]*[ -/]*(?P<csi_end>[@-~])?"
    r"|(?P<escape>\x1b)[ -/]*(?P<escape_end>[0-~])?"
    r"|(?P<line>\r\n?|[\v\f\x85\u2028\u2029])"
    r"|(?P<bidi>[\u202a-\u202e\u2066-\u2069])"
    r"|(?P<surrogate>[\ud800-\udfff])"
    r"|[\x00-\x08\x0e-\x1f\x7f-\x9f]"
)

# Printable according to Unicode, but blank in most fonts: fillers, variation selectors, blank signs.
_BLANK = (
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u2d7f\u3164\ufe00-\ufe0f\uffa0\ufffc"
    r"\U0001107f\U00013441\U00013442\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)

SPACE: Final = "·"
TAB: Final = "→"
"""Visible white space: at the end of a changed line, and where a change is nothing but white space."""


def sanitize(text: str, *, keep_newlines: bool = True) -> str:
    r"""Remove everything that a terminal interprets, except ``\n`` and ``\t``.

    Other line ends become ``\n``, even a lone carriage return, so that nothing is overwritten. Bidirectional controls are
    written out as ``<U+202E>``. Without ``keep_newlines`` each line feed becomes ``↵``.
    """
    if not _clean(text):
        text = re.sub(_UNSAFE, _inert, text)
    return text if keep_newlines else text.replace("\n", "↵")


def escape_invisible(text: str) -> str:
    r"""Write out every invisible character: ``␛`` for escape, ``<U+200B>`` for a zero-width space, ``<U+00A0>`` for a
    no-break space. Only ``\n`` and ``\t`` stay. For everything that the user is asked to approve.
    """
    if text.isascii() and _clean(text):
        return text
    text = re.sub(_BLANK, lambda match: _written_out(match[0]), text)
    if _clean(text):
        return text
    return "".join(char if _clean(char) else _written_out(char) for char in text)


def without_invisible(text: str) -> str:
    """The text without the characters that ``escape_invisible`` writes out: what an input shows of it is all there is."""
    return "".join(char for char in text if escape_invisible(char) == char)


def escape_line(text: str, limit: int | None = None) -> str:
    """``escape_invisible`` on one line: a line feed is ``␊``, a tab ``␉``. Cut after ``limit`` characters; never cut a name that
    the user decides about.
    """
    line = escape_invisible(text if limit is None else text[: limit * 4].strip())
    line = line.replace("\n", "␊").replace("\t", "␉")
    return line if limit is None or len(line) <= limit else line[: limit - 1] + "…"


def escape_diff(diff: str) -> str:
    r"""Write out the invisible characters of a unified diff, and the white space that it changes.

    Spaces and tabs become ``·`` and ``→`` at the end of a changed line, and everywhere in a line that differs from its
    counterpart only in white space. The carriage returns of ``\r\n`` are removed if every line of the diff has one, and written
    out otherwise.
    """
    lines = diff.split("\n")
    starts = (
        [at for at, line in enumerate(lines) if line[:11] == "diff --git "] if "diff --git " in diff else []
    )
    shown: list[str] = []
    for start, end in pairwise([0, *starts, len(lines)]):
        shown += _shown_lines(lines[start:end])
    return escape_invisible("\n".join(shown))


def _shown_lines(lines: list[str]) -> list[str]:
    """The lines of one file's diff."""
    names = {
        at + more
        for at, line in enumerate(lines[:-2])
        if line[:4] == "--- " and lines[at + 1].startswith("+++ ") and lines[at + 2].startswith("@@")
        for more in (0, 1)
    }
    content = (line for at, line in enumerate(lines) if line[:1] in _CONTENT and at not in names)
    ends = (line.endswith("\r") for line in content)
    if next(ends, False) and all(ends):
        lines = [line.removesuffix("\r") for line in lines]
    shown: list[str] = []
    run: list[str] = []
    for at, line in enumerate([*lines, ""]):
        if line[:1] in _CHANGED and at not in names:
            run.append(line)
            continue
        if run:
            shown += _with_white_space(run)
            run = []
        shown.append(line)
    return shown[:-1]


_CHANGED: Final = frozenset("+-")
_CONTENT: Final = frozenset("+- ")


def _with_white_space(lines: list[str]) -> list[str]:
    """A run of removed and added lines, with the white space that distinguishes them."""
    removed = [line[1:] for line in lines if line[0] == "-"]
    added = [line[1:] for line in lines if line[0] == "+"]
    alike = (
        set(_without_space(removed)).intersection(_without_space(added)) if removed and added else set[str]()
    )
    if not alike:
        return [_with_white_end(line) if line[-1] in " \t" else line for line in lines]
    others = {"-": set(added), "+": set(removed)}
    pieces: list[str] = []
    for line, key in zip(lines, _without_space([line[1:] for line in lines]), strict=True):
        if key not in alike:
            pieces.append(_with_white_end(line))
        else:
            pieces.append(line if line[1:] in others[line[0]] else line[0] + _white(line[1:]))
    return pieces


def _without_space(lines: list[str]) -> list[str]:
    text = "\n".join(lines)
    if text.isascii() and _clean(text):  # then no other white space is in it
        return text.replace(" ", "").replace("\t", "").split("\n")
    return ["".join(line.split()) for line in lines]


def _with_white_end(line: str) -> str:
    stripped = line[0] + line[1:].rstrip(" \t")
    return stripped + _white(line[len(stripped) :])


def _white(text: str) -> str:
    return text.replace(" ", SPACE).replace("\t", TAB)


class SanitizedStream:
    """``sanitize`` for a text that arrives in pieces, cut anywhere.

    The results of ``feed`` and ``finish`` together equal ``sanitize`` of the whole text. An escape sequence that is open at the
    end of a piece is held back, without its payload.
    """

    def __init__(self) -> None:
        self._open = ""

    def feed(self, piece: str) -> str:
        """Return the text that can be shown by now and was not returned before."""
        text = self._open + piece
        self._open = ""
        if _clean(text):
            return text

        def inert(match: re.Match[str]) -> str:
            if match.end() == len(text) and _is_open(match):
                self._open = _beginning(match)
                return ""
            return _inert(match)

        return re.sub(_UNSAFE, inert, text)

    def finish(self) -> str:
        """Return the rest, and reset the stream."""
        rest, self._open = self._open, ""
        return sanitize(rest)


def _clean(text: str) -> bool:
    """Whether no pattern can match. Much faster than the patterns, and true of almost every text."""
    return text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable()


def _inert(sequence: re.Match[str]) -> str:
    match sequence.lastgroup:
        case "line":
            return "\n"
        case "bidi":
            return f"<U+{ord(sequence[0]):04X}>"
        case "surrogate":
            return "\N{REPLACEMENT CHARACTER}"
        case _:
            return ""


def _is_open(match: re.Match[str]) -> bool:
    """Whether more text could make this match a longer one."""
    return match[0] == "\r" or match.lastgroup in {"string", "csi", "escape"}


def _beginning(match: re.Match[str]) -> str:
    """The shortest text that leaves an open sequence in the state it is in: its introducer, and one of
    the intermediate characters after which it takes no more parameters.
    """
    kind = match.lastgroup
    if kind not in {"csi", "escape"}:
        return match[0] if kind == "line" else match["string"]
    last = match[0][-1]
    return match[kind] + (last if " " <= last <= "/" else "")


def _written_out(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"<U+{code:04X}>"


# -- documents -----------------------------------------------------------------------------------


def plain_line(text: str, limit: int = 200) -> str:
    """The text on one line of at most ``limit`` characters, without control, format and bidirectional characters."""
    start = text[: 4 * limit]
    line = " ".join("".join(char if char.isprintable() else " " for char in start).split())
    return line if len(line) <= limit and len(start) == len(text) else line[: limit - 1].rstrip() + "…"


def plain_text(text: str) -> str:
    """The text without escape sequences, with uniform line ends. Other control characters and lone surrogates become U+FFFD."""
    text = re.sub(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))", "", text)
    text = re.sub(r"\r\n?", "\n", text)
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)


_INVISIBLE: Final = "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
"""Characters that a reader does not see and a model does."""


def visible_text(text: str) -> str:
    """``plain_text``, without what could hide words from the user: invisible and bidirectional characters, and tags."""
    return re.sub(_INVISIBLE, "", plain_text(text))


# -- addresses -----------------------------------------------------------------------------------

HIDDEN: Final = "…"
"""Replaces what is redacted."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_QUERY = re.compile(r"[?#]")
_PATH = re.compile(r"[/?#]")


def redact_url(url: str) -> str:
    """The URL without credentials, query and fragment: ``https://…@host/v1?…``.

    An unencoded password may contain ``/``, ``?`` and ``#``, so everything before the last ``@`` counts as credentials. If that
    ``@`` could belong to a query, which may hold secrets, too, only the scheme is shown.
    """
    scheme, rest = _split(url)
    before, at, place = rest.rpartition("@")
    if _QUERY.search(before):
        return scheme + HIDDEN
    if end := _QUERY.search(place):
        place = place[: end.end()] + HIDDEN
    return f"{scheme}{HIDDEN if at else ''}{at}{place}"


def is_clear(url: str) -> bool:
    """Whether the URL's host is unambiguous: no ``@`` follows the end of a host's name."""
    _, rest = _split(url)
    end = _PATH.search(rest)
    return end is None or "@" not in rest[end.end() :]


def _split(url: str) -> tuple[str, str]:
    scheme = _SCHEME.match(url)
    end = scheme.end() if scheme else 0
    return url[:end], url[end:]
