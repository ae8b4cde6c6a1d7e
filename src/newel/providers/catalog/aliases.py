"""Short names of model families, as users of other agents type them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from newel.text.json import regex

_CLAUDE: Final = r"claude-{}-(\d{{1,2}}(?:[.-]\d{{1,2}})?)(?:[-@]\d{{8}})?(?:-latest)?"
_GEMINI: Final = r"gemini-(\d+(?:\.\d+)?)-{}"

ALIASES: Final = {
    "opus": _CLAUDE.format("opus"),
    "sonnet": _CLAUDE.format("sonnet"),
    "haiku": _CLAUDE.format("haiku"),
    "flash": _GEMINI.format("flash"),
    "flash-lite": _GEMINI.format("flash-lite"),
}
"""Expressions for the names of a family's finished models, without vendors before a slash; the group is the version."""


def expand_alias(name: str, listed: Sequence[str]) -> str:
    """The newest model of the family that a name stands for, among those that a server lists; else the name.

    A model of the server with that very name has precedence.
    """
    pattern = ALIASES.get(name)
    if pattern is None or name in listed:
        return name
    family: list[tuple[list[int], int, str]] = []
    for model in listed:
        if found := regex(pattern).fullmatch(model.rpartition("/")[2].lower()):
            version = [int(number) for number in found[1].replace("-", ".").split(".")]
            # the shortest name has no date, and follows corrections
            family.append((version, -len(model), model))
    return max(family)[2] if family else name
