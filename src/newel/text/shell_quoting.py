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
    construct, or ``begins`` another in it. What else is found leaves everything behind it unsafe, but for what
    ``_means_nothing``.
    """

    inside: str
    ends: str
    marks: re.Pattern[str]
    begins: Mapping[str, str] = {}


def _marks(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.DOTALL | re.ASCII)


_ESCAPED: Final = r"\\."
_COMMENT: Final = r"(?<![^\s;&|()<>])#"
_PERHAPS: Final = r"(?P<unclear>(?<=\\[\s;&|()<>])#|(?<=\))#)"
"""Behind an escaped blank and ``$(…)`` it is no comment, behind ``(…)`` it is one."""

_CASE: Final = r"(?<!\w)case(?!\w)"
"""The patterns of ``case`` end with a parenthesis that nothing has opened."""

_IN_QUOTES: Final = {"$((": "arithmetic", "$(": "code", "${": "parameter", "`": "backquotes"}
_IN_CODE: Final = {
    "((": "arithmetic",
    "(": "code",
    '"': "quotes",
    '$"': "quotes",
    "'": "plain",
    "#": "comment",
}
_IN_ARITHMETIC: Final = {"(": "parentheses", "${": "parameter"}
_ARITHMETIC: Final = (_ESCAPED, r"\$[({\[]|['\"`(]", _COMMENT)

_CONSTRUCTS: Final[dict[str, _Construct]] = {
    "code": _Construct(
        "",
        ")",
        _marks(_ESCAPED, r"=\(|\$?\(\(|\$?\(|\)", r"\$[{\['\"]|['\"`]|<<", _PERHAPS, _COMMENT, _CASE),
        _IN_QUOTES | _IN_CODE,
    ),
    "quotes": _Construct("inside quotes", '"', _marks(_ESCAPED, r"\$\(\(|\$[({\[]|[\"`]"), _IN_QUOTES),
    "plain": _Construct("inside quotes", "'", _marks("'")),
    "comment": _Construct("in a comment", "\n", _marks("\n")),
    "backquotes": _Construct("inside backquotes, not $(…)", "`", _marks(_ESCAPED, r"[`'\"(#<]")),
    "parameter": _Construct("inside ${…}", "}", _marks(_ESCAPED, r"[}'\"`(<]|\$\{")),
    # With one parenthesis at its end it may have been a group inside of $(…), or not: shells differ.
    "arithmetic": _Construct("inside arithmetic", "))", _marks(r"\)\)?", *_ARITHMETIC), _IN_ARITHMETIC),
    "parentheses": _Construct("inside arithmetic", ")", _marks(r"\)", *_ARITHMETIC), _IN_ARITHMETIC),
}


def reasons(text: str, places: Sequence[int]) -> dict[int, str]:
    """Of those places at which no value can be quoted safely, why: in words that follow "stands"."""
    spans = list(_spans(text))
    starts = [start for start, _ in spans]
    reason_at = {place: spans[bisect_right(starts, place) - 1][1] for place in places}
    return {place: reason for place, reason in reason_at.items() if reason}


def _spans(text: str) -> Iterator[tuple[int, str]]:
    """Where something else begins, and why a place there is unsafe."""
    nest = ["code"]
    yield 0, ""
    at = 0
    while mark := _CONSTRUCTS[nest[-1]].marks.search(text, at):
        construct, word, at = _CONSTRUCTS[nest[-1]], mark[0], mark.end()
        is_clear = mark.lastgroup is None
        if is_clear and word == construct.ends:
            nest[1:] = nest[1:-1]  # a ) that nothing has opened is a pattern of case
        elif is_clear and word in construct.begins:
            nest.append(construct.begins[word])
        elif not _means_nothing(word, nest):
            yield mark.start(), f"behind {word}"
            return
        yield at, _CONSTRUCTS[nest[-1]].inside


def _means_nothing(mark: str, nest: Sequence[str]) -> bool:
    """An escaped character, and ``case`` where it does no harm to take the end of a pattern for that of a group."""
    is_escape = mark[0] == "\\" and len(mark) == 2
    return is_escape or (mark == "case" and set(nest) == {"code"})
