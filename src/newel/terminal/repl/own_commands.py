"""The user's own commands in a conversation: ``!COMMAND``, whose output the model gets with the next message, and ``!!COMMAND``, which it
does not.

What is shared is attached to that message, so it is stored, shown, exported and summarized with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from newel.agent.formatting import pluralize
from newel.agent.messages import Attachment
from newel.context.shortening import MOST, shorten
from newel.terminal.repl.repl import exit_summary, run_command
from newel.text.format import one_line
from newel.text.sanitize import sanitize
from newel.workspace.port import SCHEME

if TYPE_CHECKING:
    from newel.session.coding_agent import CodingAgent
    from newel.terminal.ui.terminal_ui import TerminalUI
    from newel.workspace.port import CommandResult, CommandTerminal

SHARED: Final = "The model gets this with your next message (!! takes it back)."
PRIVATE: Final = "Private: the model does not get this."

_BY_SIGNAL: Final = 128
"""From here on, exit codes tell of a signal, such as that of Ctrl+C: not of a sandbox."""

STARTS_HERE: Final = (
    "Each command starts in the project's folder, so `cd` alone does nothing. `!cd DIR && COMMAND` runs one elsewhere; "
    "`newel --cwd DIR` in a shell works there."
)


class OwnCommands:
    """Runs them, in the terminal itself where there is one, and keeps what the next message takes along."""

    def __init__(self, agent: CodingAgent, ui: TerminalUI) -> None:
        self._agent = agent
        self._ui = ui
        self._shared: list[Attachment] = []

    async def run(self, typed: str) -> None:
        """Run ``!COMMAND`` or ``!!COMMAND``; ``!!`` alone discards the outputs that were not sent yet. Raises ``WorkspaceError``."""
        is_private = typed.startswith("!!")
        command = typed.lstrip("!").strip()
        if not command:
            self._take_back(is_private)
            return
        if _is_change_of_folder(command):
            self._ui.renderer.note(STARTS_HERE)
            return
        done = await self._run(command)
        text = sanitize(done.stdout) + sanitize(done.stderr)
        if done.exit_code:
            is_refused = self._agent.info.sandbox != "off" and done.exit_code < _BY_SIGNAL
            hint = " · in the sandbox: your own shell has more rights" if is_refused else ""
            self._ui.renderer.note(exit_summary(done) + hint)
        if not is_private:
            self._shared.append(await self._attach(command, text, done))
        self._ui.renderer.note(PRIVATE if is_private else SHARED, "aside")

    def take(self) -> list[Attachment]:
        """What the next message takes along; afterwards there is nothing."""
        shared, self._shared = self._shared, []
        return shared

    def give_back(self, taken: Sequence[Attachment]) -> None:
        """The message that took these was not sent."""
        self._shared[:0] = taken

    def hint(self, typed: str) -> str:
        """What becomes of a command that is being typed."""
        fate = (
            "Private: the model does not get it"
            if typed.startswith("!!")
            else "!! keeps it private · the model gets it with your next message"
        )
        return fate if self._has_terminal else f"It gets no keys in a sandbox on a host · {fate}"

    def lines(self) -> list[str]:
        """Lines for beside the input."""
        return [f"  {one_line(shared.file_name, 40)}  (with your next message)" for shared in self._shared]

    def farewell(self) -> str:
        """That the conversation ends before a message has taken these along; empty if there are none."""
        names = ", ".join(f"`{one_line(shared.file_name, 60)}`" for shared in self._shared)
        return f"Not sent to the model, and not kept: {names}." if names else ""

    @property
    def _has_terminal(self) -> bool:
        """A sandbox on a host has none."""
        return not self._agent.workspace.name.startswith(SCHEME) or self._agent.info.sandbox == "off"

    def _take_back(self, is_private: bool) -> None:
        if not is_private:
            self._ui.renderer.note(
                "!COMMAND runs a command and shows it to the model, !!COMMAND only runs it."
            )
        elif self._shared:
            count = pluralize(len(self.take()), "command")
            self._ui.renderer.note(f"Kept from the model: {count}.")
        else:
            self._ui.renderer.note("Nothing is waiting to go to the model.")

    async def _run(self, command: str) -> CommandResult:
        workspace = self._agent.workspace
        handed: AbstractAsyncContextManager[CommandTerminal | None] = (
            self._ui.hand_over() if self._has_terminal else nullcontext()
        )
        async with handed as terminal:
            done = None if terminal is None else await workspace.run(command, terminal=terminal)
        if done is None:
            lines = _LineBuffer(lambda text: self._ui.renderer.note(text, "whole"))
            done = await run_command(workspace, command, lines.add)
            lines.finish()
        elif done.stderr:  # what Newel adds: the command itself has written to the terminal
            self._ui.renderer.note(done.stderr, "whole")
        return done

    async def _attach(self, command: str, output: str, done: CommandResult) -> Attachment:
        if len(output) > MOST:
            output = shorten(output, MOST, done.whole or await self._save(output))
        return Attachment(
            type="document",
            file_name=f"!{command}",
            mime_type="text/plain",
            size=len(output.encode(errors="replace")),
            content="",
            extracted_text=(
                f"I ran this command myself, in {self._agent.workspace.root}:\n$ {command}\n"
                f"{output.removesuffix(chr(10))}\nexit code: {done.exit_code}"
            ),
        )

    async def _save(self, output: str) -> str:
        """Where the model finds all of a long output."""
        from newel.workspace.process.output import save_spill

        if self._agent.workspace.name != self._agent.workspace.root:
            return "it was not saved: run the command again for more"
        try:
            return f"the whole output is in {await anyio.to_thread.run_sync(save_spill, output)}"
        except OSError as error:
            return f"it could not be saved: {error}"


def _is_change_of_folder(command: str) -> bool:
    """Whether it only changes the folder of the shell that it runs in."""
    return re.fullmatch(r"(?:cd|pushd|popd)(?:\s+[^;&|<>\n]*)?", command) is not None


class _LineBuffer:
    """Passes on the whole lines of a text that arrives in pieces, several at a time."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._rest = ""

    def add(self, piece: str) -> None:
        whole, end, rest = piece.rpartition("\n")
        if end:
            self._show(self._rest + whole)
            self._rest = rest
        else:
            self._rest += piece

    def finish(self) -> None:
        if self._rest:
            self._show(self._rest)
