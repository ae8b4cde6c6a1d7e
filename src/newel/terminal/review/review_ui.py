"""The user of the review commands, in a conversation or in a shell: how much of a diff they see, and questions to them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from newel.agent.formatting import pluralize
from newel.terminal.commands import CommandFormatter, rewrite_commands
from newel.terminal.ui.line_reader import ENTER
from newel.text.sanitize import escape_diff

if TYPE_CHECKING:
    from newel.terminal.ui.terminal_ui import EditFile, ViewText

NO_CHANGES: Final = "No changes by agents are recorded in this folder."
NO_PENDING: Final = "No pending changes."
UNCHANGED: Final = "Nothing was changed."


YES_OR_NO: Final = {"y": "y", "yes": "y", "n": "n", "no": "n", "": "n"}
YES_NO_OR_VIEW: Final = YES_OR_NO | {"v": "v"}


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
    """``show`` displays a text with its code, as ``Renderer.note``. ``format_command`` writes commands for the user; questions fit into
    ``columns``. ``view`` shows a long text with diffs in it; None where only yes or no can be answered. ``edit_file`` opens the user's
    editor; None where none can be shown. ``show_progress`` shows how far something is, empty at its end; None where only lines can be
    printed. ``takes_signals``: nobody else handles Ctrl+C. ``session`` is that of the conversation, empty in a shell.
    """

    show: Callable[[str, str], None]
    ask: AskAbout
    format_command: CommandFormatter
    columns: int = 80
    view: ViewText | None = None
    edit_file: EditFile | None = None
    show_progress: Callable[[str], None] | None = None
    takes_signals: bool = False
    session: str = ""

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
        if view is None:
            return await self.choose(f"{question} [y/N] ", YES_OR_NO) == "y"
        answers = YES_NO_OR_VIEW
        while (answer := await self.choose(f"{question} [y/N, v: diff] ", answers)) == "v":
            await view(diff)
            answers = {key: meant for key, meant in answers.items() if key}  # an Enter belongs to the v
        return answer == "y"

    async def choose(self, question: str, answers: Mapping[str, str], *, at_once: bool = True) -> str:
        """What the answer stands for in ``answers``; any other is none, and the question is repeated. Empty if nobody can answer.
        ``at_once``: where keys are read one by one, a letter answers without Enter.
        """
        letters = "".join(answer for answer in answers if len(answer) == 1)
        keys = letters + letters.upper() + ENTER * ("" in answers) if at_once else ""
        while (answer := await self.ask(question, "", keys=keys)) is not None:
            if (meant := answers.get(answer.strip().lower())) is not None:
                return meant
            from newel.terminal.ui.approval import again

            self.say(again(answer))
        return ""
