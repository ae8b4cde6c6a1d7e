"""Questions on a terminal, line by line: they work wherever there is one, before any screen is set up."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from newel.agent.errors import NewelError
from newel.text.format import wrap_words
from newel.text.fuzzy import fuzzy_matches
from newel.text.sanitize import escape_line, sanitize

SHOWN: Final = 20
"""Names of a long list that are printed."""

NAME_COLUMNS: Final = 44
NO_FACTS: Final[Mapping[str, str]] = MappingProxyType({})


class SetupCancelled(NewelError):
    """The input has ended."""


def say(text: str) -> None:
    sys.stderr.write(f"{_wrapped(text)}\n")
    sys.stderr.flush()


def ask_line(question: str) -> str:
    """One line. Raises ``SetupCancelled`` at the end of the input."""
    sys.stderr.write(f"{_wrapped(question)} ")
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        sys.stderr.write("\n")
        raise SetupCancelled("Nothing was saved.")
    return line.strip()


def ask_secret(question: str) -> str:
    """A line that is not shown. Raises ``SetupCancelled`` at the end of the input."""
    from getpass import getpass

    try:
        return getpass(f"{_wrapped(question)} ", stream=sys.stderr)
    except EOFError as error:
        sys.stderr.write("\n")
        raise SetupCancelled("Nothing was saved.") from error


def _wrapped(text: str) -> str:
    return wrap_words(sanitize(text), shutil.get_terminal_size().columns)


def confirm(question: str, *, default: bool) -> bool:
    while True:
        answer = ask_line(f"{question} {'[Y/n]' if default else '[y/N]'}").lower()
        if answer in {"y", "yes", "n", "no", ""}:
            return answer in {"y", "yes"} or (not answer and default)


def choose_or_type(title: str, rows: Sequence[str], is_typed: Callable[[str], bool]) -> int | str:
    """The position of the row whose number, or a part of whose name, the user enters; or what was entered, if ``is_typed``."""
    say(title)
    for number, row in enumerate(rows, 1):
        say(f"  {number}  {escape_line(row)}")
    while True:
        answer = ask_line(f"Number, 1 to {len(rows)}:")
        if answer.isdecimal() and 1 <= int(answer) <= len(rows):
            return int(answer) - 1
        if is_typed(answer):
            return answer
        named = [position for position, row in enumerate(rows) if answer and answer.lower() in row.lower()]
        if len(named) == 1:
            return named[0]
        say(f"Enter one of the numbers 1 to {len(rows)}, or a part of one name.")


def choose_name(
    title: str,
    names: Sequence[str],
    *,
    facts: Mapping[str, str] = NO_FACTS,
    otherwise: str = "another server",
) -> str | None:
    """One of the names, by its number, or by letters that narrow the list; ``facts`` are printed beside them. None if the user wants
    none.
    """
    shown = list(names)
    while True:
        say(title)
        rows = [escape_line(name) for name in shown[:SHOWN]]
        width = min(max(map(len, rows), default=0), NAME_COLUMNS)
        for number, (row, name) in enumerate(zip(rows, shown, strict=False), 1):
            say(f"  {number:>2}  {row:<{width}}  {facts.get(name, '')}".rstrip())
        more = len(shown) - SHOWN
        if more > 0:
            say(f"  and {more} more: type a part of the name")
        answer = ask_line(f"Number, or a part of the name (Enter: {otherwise}):")
        if not answer:
            return None
        if answer.isdecimal() and 1 <= int(answer) <= min(len(shown), SHOWN):
            return shown[int(answer) - 1]
        if answer in names:
            return answer
        found = [names[at] for at in fuzzy_matches(names, answer)]
        if len(found) == 1 and confirm(f"{escape_line(found[0])}?", default=True):
            return found[0]
        if (
            not found
            and answer.isprintable()
            and confirm(f"The server does not list {answer}. Use it anyway?", default=False)
        ):
            return answer
        shown = found or list(names)
