"""Commands with names, from the user's own settings, and what is typed to run one."""

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
        """The values by name that were typed behind the routine's: ``name=value`` for a declared one, any other word for the
        first variable that has none. Words and quotes are as in a shell. Raises ``UsageError``.
        """
        try:
            words = shlex.split(typed)
        except ValueError as error:
            raise UsageError(f"{error} in {one_line(typed, 60)}. Usage: {self.usage}") from error
        names = [variable.name for variable in self.template.variables]
        given: dict[str, str] = {}
        others: list[str] = []
        for word in words:
            name, is_named, value = word.partition("=")
            if not is_named or name not in names:
                others.append(word)
            elif name in given:
                raise UsageError(f"{name} is given twice. Usage: {self.usage}")
            else:
                given[name] = value
        free = [name for name in names if name not in given]
        if len(others) > len(free):
            raise UsageError(
                f"There is no variable for {one_line(others[len(free)], 60)}. Usage: {self.usage}"
            )
        return given | dict(zip(free, others, strict=False))

    def missing(self, values: Mapping[str, str]) -> list[str]:
        """The names for which a value has to be given yet."""
        return [name for name, default in self.template.variables if default is None and name not in values]


Routines = Mapping[str, Routine]
"""By their names, which may have spaces."""


def split(typed: str, routines: Routines) -> tuple[Routine, str] | None:
    """The routine whose name begins what was typed, the longest such name, and what stands behind it; None if there is none."""
    for name in sorted(routines, key=len, reverse=True):
        rest = typed.removeprefix(name)
        if typed.startswith(name) and not rest[:1].strip():
            return routines[name], rest
    return None
