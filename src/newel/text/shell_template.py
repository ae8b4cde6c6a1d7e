"""A shell command with places for values. A value is data: whatever it holds, the shell takes it as a part of one word."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Variable(NamedTuple):
    """``default`` is None where a value has to be given."""

    name: str
    default: str | None = None


class ShellTemplate:
    r"""``declared`` are the variables, as ``"name"`` or ``"lines=100"`` with a default. ``{name}`` is a place for the value of
    a declared one; all other braces, also ``${name}``, ``{{name}}`` and ``\{name}``, are the command's own.

    Raises ``ValueError``, in words, where a declaration is wrong, or a place stands where no value can be quoted.
    """

    def __init__(self, text: str, declared: Sequence[str] = ()) -> None:
        self.text = text
        self.variables = tuple(map(_variable, declared))
        names = [variable.name for variable in self.variables]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the variable {name} is declared twice")
        self._place = re.compile(rf"(?<![\\${{])\{{({'|'.join(names)})\}}(?!\}})") if names else None
        self._check(names)

    def filled(self, values: Mapping[str, str]) -> str:
        """The command with each value as quoted text; ``values`` are by name, and defaults stand in for those left out.

        Raises ``ValueError`` for a value that no program can be given, ``KeyError`` where one is missing.
        """
        if self._place is None:
            return self.text
        given = {name: default for name, default in self.variables if default is not None} | dict(values)
        for name, value in given.items():
            if "\0" in value:
                raise ValueError(f"the value of {name} holds a zero character, which no program can be given")
        return self._place.sub(lambda found: _quoted(given[found[1]]), self.text)

    def _check(self, names: Sequence[str]) -> None:
        if self._place is None:
            return
        from newel.text.shell_quoting import reasons

        places = {found.start(): found[1] for found in self._place.finditer(self.text)}
        for name in names:
            if name not in places.values():
                raise ValueError(
                    f"the variable {name} does not occur: {{{name}}} in the command is its place"
                )
        for at, reason in reasons(self.text, sorted(places)).items():
            raise ValueError(f"{{{places[at]}}} stands {reason}, where a value cannot be quoted safely")


def _variable(declared: str) -> Variable:
    name, has_default, default = declared.partition("=")
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{declared!r} declares no variable: that is a name of letters, digits and _, or name=default"
        )
    if "\0" in default:
        raise ValueError(f"the default of {name} holds a zero character, which no program can be given")
    return Variable(name, default if has_default else None)


def _quoted(value: str) -> str:
    """Always in quotes: a bare 2 before ``>``, or a bare ``if`` where a command begins, would not be data."""
    return "'" + value.replace("'", "'\\''") + "'"
