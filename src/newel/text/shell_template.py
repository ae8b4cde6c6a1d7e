"""Shell commands with placeholders. Each value is quoted, so that the shell treats it as data within one word."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Variable(NamedTuple):
    """``default`` is None if a value is required."""

    name: str
    default: str | None = None


class ShellTemplate:
    r"""``declared`` are the variables: ``"name"``, or ``"lines=100"`` with a default. ``{name}`` is the placeholder of a declared
    one; all other braces, including ``${name}``, ``{{name}}`` and ``\{name}``, belong to the command.

    Raises ``ValueError`` for an invalid declaration, and for a placeholder where no value can be quoted.
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

    def fill(self, values: Mapping[str, str]) -> str:
        """Fill in the quoted ``values``, by name, and the defaults of the others.

        Raises ``ValueError`` for a value with a NUL character, ``KeyError`` for a missing value.
        """
        if self._place is None:
            return self.text
        filled = {name: default for name, default in self.variables if default is not None} | dict(values)
        for name, value in filled.items():
            if "\0" in value:
                raise ValueError(
                    f"the value of {name} contains a NUL character, which no program argument can hold"
                )
        return self._place.sub(lambda match: _quote(filled[match[1]]), self.text)

    def _check(self, names: Sequence[str]) -> None:
        if self._place is None:
            return
        from newel.text.shell_quoting import reasons

        places = {match.start(): match[1] for match in self._place.finditer(self.text)}
        for name in names:
            if name not in places.values():
                raise ValueError(f"the variable {name} is not used: put {{{name}}} into the command")
        for at, reason in reasons(self.text, sorted(places)).items():
            raise ValueError(f"{{{places[at]}}} is {reason}, where a value cannot be quoted safely")


def _variable(declared: str) -> Variable:
    name, has_default, default = declared.partition("=")
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{declared!r} is not a variable: use a name of letters, digits and _, or name=default"
        )
    if "\0" in default:
        raise ValueError(
            f"the default of {name} contains a NUL character, which no program argument can hold"
        )
    return Variable(name, default if has_default else None)


def _quote(value: str) -> str:
    """Quote even simple values: a bare 2 before ``>``, or a bare ``if`` at the start of a command, would not be data."""
    return "'" + value.replace("'", "'\\''") + "'"
