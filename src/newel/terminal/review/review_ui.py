"""The user of the review commands, in a conversation or in a shell, and the texts that these commands share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from newel.terminal.commands import CommandFormatter

NO_CHANGES: Final = "No changes by agents are recorded in this folder."
NO_PENDING: Final = "No pending changes."
UNCHANGED: Final = "Nothing was changed."
NOT_RECORDING: Final = "Change recording is off ([review] record = false in config.toml): changes made by agents cannot be undone."


class ReviewUI(NamedTuple):
    """``show`` displays a text with its code, as ``Renderer.note``. ``ask`` puts a question below a text, and returns None if
    nobody can answer. ``format_command`` writes commands for the user; questions fit into ``columns``.
    """

    show: Callable[[str, str], None]
    ask: Callable[[str, str], Awaitable[str | None]]
    format_command: CommandFormatter
    columns: int = 80

    def say(self, *lines: str) -> None:
        """Show the lines that are not empty."""
        self.show("\n".join(line for line in lines if line), "note")

    async def confirm(self, about: str, question: str, *, yes: bool = False) -> bool:
        """Show text with diffs in it, and ask; ``yes`` skips the question."""
        self.show(about, "diff")
        return yes or is_yes(await self.ask(question, ""))


def is_yes(answer: str | None, *, default: bool = False) -> bool:
    """Whether an answer is a yes; ``default`` is the meaning of an empty one."""
    return (answer or "").strip().lower() in ({"y", "yes", ""} if default else {"y", "yes"})
