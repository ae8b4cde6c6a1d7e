"""The user of the review commands, in a conversation or in a shell: how much of a diff they see, and questions to them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from newel.agent.formatting import pluralize
from newel.terminal.commands import CommandFormatter, rewrite_commands
from newel.text.sanitize import escape_diff

if TYPE_CHECKING:
    from newel.terminal.ui.terminal_ui import EditFile, ViewText

NO_CHANGES: Final = "No changes by agents are recorded in this folder."
NO_PENDING: Final = "No pending changes."
UNCHANGED: Final = "Nothing was changed."


class DiffLimit(NamedTuple):
    """How much of a diff is shown."""

    lines: int
    characters: int


SHOWN: Final = DiffLimit(2_500, 100_000)
"""Where the user decides on the diff."""

WHOLE: Final = DiffLimit(sys.maxsize, sys.maxsize)


def shortened(diff: str, rest: str, limit: DiffLimit = SHOWN) -> str:
    """A diff with hidden characters written out. A long one is cut at the end of a line, and a line says how much is missing
    and that the command ``rest`` shows it.
    """
    body = diff.removesuffix("\n")
    lines = body[: limit.characters + 1].split("\n", limit.lines)[: limit.lines]
    head = "\n".join(lines)
    if len(head) > limit.characters:  # the last line of it is not whole
        head = head[: head.rfind("\n", 0, limit.characters)] if "\n" in head else head[: limit.characters]
    if len(head) == len(body):
        return escape_diff(diff)
    rest_of_body = body[len(head) :].removeprefix("\n")
    missing = (
        pluralize(rest_of_body.count("\n") + 1, "more line")
        if body[len(head)] == "\n"
        else pluralize(len(rest_of_body), "more character")
    )
    return f"{escape_diff(head)}\n… {missing}: `{rest}` shows the whole diff\n"


class AskAbout(Protocol):
    async def __call__(self, question: str, about: str, /, *, keys: str = "") -> str | None:
        """Put a question below a text. Where keys are read one by one, one of ``keys`` answers at once. None if nobody can answer."""
        ...


class ReviewUI(NamedTuple):
    """``show`` displays a text with its code, as ``Renderer.note``. ``format_command`` writes commands for the user; questions fit into ``columns``. ``view`` shows a long text
    with diffs in it; None where only yes or no can be answered. ``edit_file`` opens the user's editor; None where none can be shown.
    """

    show: Callable[[str, str], None]
    ask: AskAbout
    format_command: CommandFormatter
    columns: int = 80
    view: ViewText | None = None
    edit_file: EditFile | None = None

    def say(self, *lines: str) -> None:
        """Show the lines that are not empty."""
        text = "\n".join(line for line in lines if line)
        self.show(rewrite_commands(text, self.format_command), "note")

    async def confirm(self, about: str, question: str, diff: str = "", *, yes: bool = False) -> bool:
        """Show text with diffs in it and ask the question, which ends with ``?``. ``yes`` skips it. A ``diff`` is shown before the text, or
        where there is a ``view`` and a question, if the user answers ``v``.
        """
        view = self.view if diff and not yes else None
        self.show(about if view or not diff else f"{diff}\n{about}", "whole" if view else "diff")
        if yes:
            return True
        keys = "[y/N, v: diff]" if view else "[y/N]"
        while (answer := await self.ask(f"{question} {keys} ", "")) is not None:
            if view is None or answer.strip().lower() != "v":
                break
            await view(diff)
        return is_yes(answer)


def is_yes(answer: str | None) -> bool:
    """Whether an answer is a yes."""
    return (answer or "").strip().lower() in {"y", "yes"}
