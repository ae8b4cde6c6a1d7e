"""Where in a shell command a word in single quotes is just that, whatever it holds.

What the shell's parser is in the middle of decides. So a command is read as a nest of constructs, each with the marks
that matter inside it. Where shells differ, or a mark could mean more than is looked for here, everything behind it counts
as unsafe: a place that is refused can be written in another way, one that is wrongly allowed would run what is data.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple


class _Construct(NamedTuple):
    """``inside``: why a place in it is unsafe, empty if it is not. ``marks`` finds the next mark: one that ``ends`` the
    construct, or ``begins`` those named, each inside of the one before. An escaped character means nothing. A mark of which
    nothing is said leaves everything behind it unsafe.
    """

    inside: str
    ends: str
    marks: re.Pattern[str]
    begins: Mapping[str, Sequence[str]] = {}


def _marks(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.DOTALL | re.ASCII)


_ESCAPED: Final = r"\\."
_SPACE: Final = "\\ \t\n"
_COMMENT: Final = r"(?<![^\s;&|()<>])#"
_CASE: Final = r"(?<!\w)case(?!\w)"
"""The patterns of ``case`` end with a parenthesis that nothing has opened."""

_SUM: Final = ("arithmetic", "arithmetic")  # it ends with two parentheses
_ANYWHERE: Final = {"$((": _SUM, "$(": ("code",), "${": ("parameter",), "`": ("backquotes",)}
_IN_CODE: Final = {
    "((": _SUM,
    "(": ("code",),
    '"': ("quotes",),
    "'": ("plain",),
    "#": ("comment",),
    "<<<": (),
}

_CONSTRUCTS: Final[dict[str, _Construct]] = {
    "code": _Construct(
        "",
        ")",
        # After an escaped blank, a # is a part of the word.
        _marks(
            r"\\[\s;&|()<>]#",
            _ESCAPED,
            r"\$\(\(|\(\(|\$\(|\(|\)",
            r"\$[{\['\"]|['\"`]",
            "<<<?",
            _COMMENT,
            _CASE,
        ),
        {**_ANYWHERE, **_IN_CODE, '$"': ("quotes",)},
    ),
    "quotes": _Construct("inside quotes", '"', _marks(_ESCAPED, r"\$\(\(|\$[({\[]|[\"`]"), _ANYWHERE),
    "plain": _Construct("inside quotes", "'", _marks("'")),
    "comment": _Construct("in a comment", "\n", _marks("\n")),
    "backquotes": _Construct("inside backquotes, not $(…)", "`", _marks(_ESCAPED, r"[`'\"(#<]")),
    "parameter": _Construct("inside ${…}", "}", _marks(_ESCAPED, r"[}'\"`(<]|\$\{")),
    "arithmetic": _Construct(
        "inside arithmetic",
        ")",
        _marks(_ESCAPED, r"\$[({\[]|[()'\"`]", _COMMENT, _CASE),
        {"(": ("arithmetic",), "${": ("parameter",)},
    ),
}


def reasons(text: str, places: Sequence[int]) -> dict[int, str]:
    """Of those places at which no value can be quoted safely, why: in words that follow "stands"."""
    spans = list(_spans(text))
    starts = [start for start, _ in spans]
    found = {place: spans[bisect_right(starts, place) - 1][1] for place in places}
    return {place: reason for place, reason in found.items() if reason}


def _spans(text: str) -> Iterator[tuple[int, str]]:
    """Where something else begins, and why a place there is unsafe."""
    nest = ["code"]
    yield 0, ""
    at = 0
    while mark := _CONSTRUCTS[nest[-1]].marks.search(text, at):
        construct, word, at = _CONSTRUCTS[nest[-1]], mark[0], mark.end()
        if word == construct.ends:
            nest[1:] = nest[1:-1]  # a ) that nothing has opened is a pattern of case
        elif word in construct.begins:
            nest += construct.begins[word]
        elif not _means_nothing(word, nest):
            yield mark.start(), f"behind {word.lstrip(_SPACE)}"
            return
        yield at, _CONSTRUCTS[nest[-1]].inside


def _means_nothing(mark: str, nest: Sequence[str]) -> bool:
    """An escaped character; or ``case`` where it does no harm to take the end of a pattern for that of a group: all is code."""
    return (mark[0] == "\\" and len(mark) == 2) or (mark == "case" and "quotes" not in nest)
