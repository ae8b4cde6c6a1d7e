"""Commands of a conversation: their table, what they work with, and how a command is written for the user.

The table is the same for every conversation in the terminal; ``newel`` and ``jexida`` fill in their own rows.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from newel.agent.errors import UsageError
from newel.config.keymap import Keymap
from newel.text.format import format_columns, one_line
from newel.text.slash_command import parse_command

if TYPE_CHECKING:
    from pathlib import Path

    from newel.agent.messages import Attachment, UserMessage
    from newel.session.coding_agent import CodingAgent
    from newel.terminal.ui.terminal_ui import CommandUI

Context = TypeVar("Context")


class SlashCommand(msgspec.Struct, Generic[Context], frozen=True):
    """``at_once`` commands also run while a prompt is answered; others wait for its end."""

    name: str
    arguments: str
    help: str
    run: Callable[[Context, str], Awaitable[None]]
    at_once: bool = False

    async def call(self, context: Context, arguments: str) -> None:
        """Run it. Raises ``UsageError`` for arguments that it does not take: they may have been meant as a message."""
        if arguments and not self.arguments:
            raise UsageError(f"/{self.name} takes no arguments, so it was not run. Type it alone.")
        await self.run(context, arguments)


class CommandTable(Generic[Context]):
    """The commands of a conversation, by their names. ``aliases`` are other names of them; ``words`` call them without a slash, where one
    is the whole input; ``hints`` say what to use instead of the commands of other tools, by their names.
    """

    def __init__(
        self,
        *commands: SlashCommand[Context],
        aliases: Mapping[str, str] | None = None,
        words: Mapping[str, str] | None = None,
        hints: Mapping[str, str] | None = None,
    ) -> None:
        self._commands = commands
        self._words = words or {}
        self._hints = hints or {}
        self._by_name = {command.name: command for command in commands}
        self._by_name |= {alias: self._by_name[name] for alias, name in (aliases or {}).items()}

    def __iter__(self) -> Iterator[SlashCommand[Context]]:
        return iter(self._commands)

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def find(self, text: str) -> tuple[SlashCommand[Context], str] | None:
        """The command that the text calls, and its arguments; None if it calls none of these."""
        word = self._words.get(text.strip().lower())
        parsed = (word, "") if word else parse_command(text)
        command = self._by_name.get(parsed[0]) if parsed else None
        return (command, parsed[1]) if command and parsed else None

    def completions(self) -> dict[str, str]:
        """The commands' help by their names, for ``ReplCompleter``. Arguments in brackets can be left out."""
        return {
            command.name + " " * (command.arguments[:1] not in {"", "["}): command.help
            for command in self._commands
        }

    def unknown(self, text: str, keymap: Keymap | None = None, others: Iterable[str] = ()) -> UsageError:
        """The error for text that begins with ``/`` and calls none of these, nor any of ``others``. Hints name the keys of ``keymap``."""
        name = text.split(maxsplit=1)[0].removeprefix("/")
        if hint := self._hints.get(name.lower()):
            return UsageError(f"There is no command /{name}. {(keymap or Keymap()).fill(hint)}")
        hint = did_you_mean("/", closest(name, [*self._by_name, *others]))
        return UsageError(f"There is no command /{one_line(name, 60)}.{hint} /help lists them.")

    def help(self, more: Sequence[tuple[str, str]], columns: int) -> str:
        """The commands, and ``more`` rows below them."""
        rows = [(f"/{command.name} {command.arguments}".strip(), command.help) for command in self._commands]
        return format_columns([*rows, *more], columns)


def closest(name: str, names: Iterable[str]) -> list[str]:
    """Similar names, the most similar first."""
    from difflib import get_close_matches

    return get_close_matches(name[:60], list(names))


def did_you_mean(prefix: str, names: Sequence[str]) -> str:
    """A question that follows an error; empty without ``names``."""
    return f" Did you mean {' or '.join(prefix + one_line(name) for name in names)}?" if names else ""


class CommandContext(msgspec.Struct, frozen=True):
    """What the commands of ``newel`` work with. ``home`` is Newel's own folder, ``keymap`` what the keys do, ``give_back`` takes what the
    user's own commands had added to a message that is not sent after all.
    """

    agent: CodingAgent
    ui: CommandUI
    home: Path
    keymap: Keymap = msgspec.field(default_factory=Keymap)
    give_back: Callable[[Sequence[Attachment]], None] = lambda _: None

    def say(self, text: str, code: str = "note") -> None:
        self.ui.renderer.note(text, code)

    def put_back(self, message: UserMessage) -> None:
        """Put a message into the input again as it was typed, with its images: those whose markers are in its text are sent along. So are
        the outputs of the user's own commands.
        """
        images = [attachment for attachment in message.attachments if attachment.type == "image"]
        self.ui.restore_input(self.agent.session.typed_as(message), images)
        self.give_back([attachment for attachment in message.attachments if attachment.only_text])

    async def pick(self, title: str, rows: Sequence[str], selected: int = 0) -> int | None:
        """The position of the row that the user chose; None for none."""
        return await self.ui.pick(title, rows, selected)


# -- how a command is written for the user --------------------------------------------------------------

CommandFormatter = Callable[[str], str]
"""From ``review cp_12`` to what the user types for it."""

_EVERYWHERE: Final = r"`newel ((?:review|decide|keep|reject|undo|redo|rollback|checkpoints|permissions)\b(?: (?!add |revoke |-)[^`\s]+)*)`"
"""A command of the shell that a conversation has, too, perhaps with an id."""


def slash_command(command: str) -> str:
    name, space, rest = command.partition(" ")
    return f"/{'rollback' if name == 'checkpoints' else name}{space}{rest}"


def rewrite_commands(text: str, format_command: CommandFormatter) -> str:
    """A message of a layer that knows no front end: its commands of the shell, as in "`newel undo`", as they are written for the user."""
    return re.sub(_EVERYWHERE, lambda match: f"`{format_command(match[1])}`", text)


def shell_command(command: str) -> str:
    return f"newel {command}"


def shell_command_for(place: str | None) -> CommandFormatter:
    """Formats commands for the current folder, or for a place on a host. The place is written as the user wrote it: ssh may
    know its key only by that alias.
    """
    if place is None:
        return shell_command
    import shlex

    return lambda command: f"newel {command} --host {shlex.quote(place)}"


def full_review_command(format_command: CommandFormatter, checkpoint: str = "") -> str:
    """The command that shows a whole diff, however long. A conversation has none, so there it is the shell's."""
    command = f"review {checkpoint}".rstrip()
    return shell_command(command) if format_command is slash_command else format_command(command)
