"""Routines: named commands from the settings, and the parsing of their arguments."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import NamedTuple

from newel.agent.errors import UsageError
from newel.text.format import one_line
from newel.text.shell_template import ShellTemplate


class Routine(NamedTuple):
    """A command with a name, and with variables if its template has some."""

    name: str
    description: str
    template: ShellTemplate

    @property
    def usage(self) -> str:
        """``/run logs NAME [LINES=100]``, on one line and inert."""
        variables = [
            name.upper() if default is None else f"[{name.upper()}={shlex.quote(default)}]"
            for name, default in self.template.variables
        ]
        return one_line(" ".join(["/run", self.name, *variables]))

    def values(self, typed: str) -> dict[str, str]:
        """Parse values: ``name=value`` for a declared name, any other word for the first variable without a value. Words and
        quotes are as in a shell. Raises ``UsageError``.
        """
        try:
            typed_values = shlex.split(typed)
        except ValueError as error:
            raise UsageError(f"{error} in {one_line(typed, 60)}. Usage: {self.usage}") from error
        names = [variable.name for variable in self.template.variables]
        values: dict[str, str] = {}
        others: list[str] = []
        for word in typed_values:
            name, is_named, value = word.partition("=")
            if not is_named or name not in names:
                others.append(word)
            elif name in values:
                raise UsageError(f"Duplicate value for {name}. Usage: {self.usage}")
            else:
                values[name] = value
        unassigned = [name for name in names if name not in values]
        if len(others) > len(unassigned):
            raise UsageError(
                f"No variable is left for {one_line(others[len(unassigned)], 60)}. Usage: {self.usage}"
            )
        return values | dict(zip(unassigned, others, strict=False))

    def missing(self, values: Mapping[str, str]) -> list[str]:
        """The names that still need a value."""
        return [name for name, default in self.template.variables if default is None and name not in values]


Routines = Mapping[str, Routine]
"""By name; names may contain spaces."""


def split(typed: str, routines: Routines) -> tuple[Routine, str] | None:
    """Split into the routine with the longest matching name and its arguments; None if no name matches."""
    for name in sorted(routines, key=len, reverse=True):
        rest = typed.removeprefix(name)
        if typed.startswith(name) and not rest[:1].strip():
            return routines[name], rest
    return None
