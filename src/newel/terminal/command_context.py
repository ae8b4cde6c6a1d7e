"""What the commands of a conversation work with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from newel.session.coding_agent import CodingAgent
from newel.terminal.ui.terminal_ui import TerminalUI
from newel.text.format import one_line


class CommandContext(NamedTuple):
    """What commands work with. ``home`` is Newel's own folder."""

    agent: CodingAgent
    desk: TerminalUI
    home: Path

    def say(self, text: str, code: str = "note") -> None:
        self.desk.renderer.note(text, code)

    async def pick(self, title: str, rows: Sequence[str]) -> int | None:
        """The number of the row, from 0, that the person chose; None for none."""
        numbered = "\n".join(f"{number:>3}  {row}" for number, row in enumerate(rows, 1))
        answer = (await self.desk.ask("Number (Enter: none): ", f"{title}\n{numbered}") or "").strip()
        if answer.isdecimal() and 1 <= int(answer) <= len(rows):
            return int(answer) - 1
        if answer:
            self.say(f"{one_line(answer, 40)} is not in the list. Nothing was changed.")
        return None
