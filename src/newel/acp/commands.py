"""Slash commands of a client: the prompt templates, and those commands of the terminal that need no terminal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from newel.acp import protocol as p
from newel.agent.messages import Attachment
from newel.config.themes import Theme
from newel.context.prompt_templates import reachable_names
from newel.session.coding_agent import CodingAgent
from newel.terminal.commands import CommandContext, SlashCommand
from newel.terminal.renderers.base import Renderer
from newel.terminal.renderers.transcript import Section
from newel.terminal.repl.slash_commands import COMMANDS

OFFERED: Final = (
    "compact",
    "cost",
    "tools",
    "hooks",
    "review",
    "keep",
    "reject",
    "undo",
    "redo",
    "rollback",
    "export",
    "permissions",
)

COLUMNS: Final = 100

YES_OR_NO: Final = "[y/N]"
"""Ends questions that a client can ask: with two buttons."""

Confirm = Callable[[str, str], Awaitable[bool]]
"""Puts a question to the user, below a text, and returns whether they agree."""


def available_commands(agent: CodingAgent) -> list[p.AvailableCommand]:
    """The commands that a client can offer, in the order of its list."""
    own = [
        p.AvailableCommand(
            name=command.name,
            description=command.help,
            input=p.CommandHint(hint=command.arguments) if command.arguments else None,
        )
        for command in COMMANDS
        if command.name in OFFERED
    ]
    templates = [
        p.AvailableCommand(
            name=name,
            description=template.description or "a prompt",
            input=p.CommandHint(hint=template.hint or "arguments"),
        )
        for name, template in reachable_names(agent.templates, OFFERED).items()
    ]
    return [*own, *templates]


def find_command(text: str) -> tuple[SlashCommand[CommandContext], str] | None:
    """The command that a prompt calls, and its arguments; None for a template, and for any other prompt."""
    found = COMMANDS.find(text)
    return found if found and found[0].name in OFFERED else None


async def run_command(
    command: SlashCommand[CommandContext],
    arguments: str,
    *,
    agent: CodingAgent,
    home: Path,
    say: Callable[[str], object],
    confirm: Confirm,
) -> None:
    """Run a command, and ``say`` what it shows. Raises ``NewelError``."""
    await command.run(CommandContext(agent, _NoteUI(say, confirm), home), arguments)


class _NoteRenderer(Renderer):
    def __init__(self, say: Callable[[str], object]) -> None:
        super().__init__()
        self._say = say
        self.last = ""

    def note(self, text: str, code: str = "note", /) -> None:
        del code
        self.last = text
        self._say(text)


class _NoteUI:
    """A ``CommandUI`` that shows notes and asks for consent. Other questions have no answer, and then nothing is changed."""

    reads_keys: bool = False

    def __init__(self, say: Callable[[str], object], confirm: Confirm) -> None:
        self.renderer = _NoteRenderer(say)
        self._confirm = confirm

    def columns(self) -> int:
        return COLUMNS

    def leave(self) -> None:
        """A client leaves by closing the session."""

    async def ask(
        self, question: str, about: str, initial: str = "", *, interrupting: bool = False, keys: str = ""
    ) -> str | None:
        del initial, interrupting, keys
        if not question.rstrip().endswith(YES_OR_NO):
            self.renderer.note(about)
            return None
        question = question.rstrip().removesuffix(YES_OR_NO).rstrip()
        return "y" if await self._confirm(question, about or self.renderer.last) else None

    view = None
    edit_file = None

    async def pick(
        self,
        title: str,
        rows: Sequence[str],
        selected: int = 0,
        *,
        on_end: Callable[[int], None] | None = None,
    ) -> int | None:
        """A client has no lists to choose from: it shows them, and the user names a row."""
        del selected, on_end
        self.renderer.note("\n".join([title, *rows]))
        return None

    async def page(self, title: str, sections: Sequence[Section], *, at_end: bool = False) -> None:
        del title, at_end
        for section in sections:
            self.renderer.note(section.plain())

    def use_theme(self, theme: Theme) -> None:
        """The client has its own."""

    async def pick_theme(
        self, rows: Sequence[str], theme_of: Callable[[int], Theme], selected: int
    ) -> int | None:
        del rows, theme_of, selected
        return None

    def restore_input(self, text: str, images: Sequence[Attachment] = ()) -> None:
        """The client owns its input."""
