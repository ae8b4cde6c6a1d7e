"""How things stand: where commands run, who answers, what came of the last one."""

from __future__ import annotations

from typing import Final, NamedTuple

from newel.terminal.jexida.panel_style import Tone
from newel.terminal.jexida.ports import CommandHost, ModelBackend
from newel.text.format import format_duration, one_line

TONES: Final[dict[str, Tone]] = {"up": "good", "connecting": "warn"}
"""How the states of a connection are told; others are trouble."""


class StatusLine(NamedTuple):
    """``exit_code`` is that of the last command, None if none has run."""

    host: CommandHost
    model: str
    path: ModelBackend
    exit_code: int | None

    def lines(self) -> list[tuple[str, Tone]]:
        host, path = self.host, self.path
        latency = "" if host.latency is None else f" · {format_duration(host.latency)}"
        where = f":{one_line(host.directory)}" if host.directory else ""
        lines: list[tuple[str, Tone]] = [
            (f"host   {one_line(host.name)}{where}", "plain"),
            (f"link   {one_line(host.state)}{latency}", TONES.get(host.state, "bad")),
            (f"model  {one_line(self.model)} · {one_line(path.words)}", "plain"),
        ]
        if self.exit_code is not None:
            lines.append((f"last   exit code {self.exit_code}", "bad" if self.exit_code else "good"))
        return lines

    def one_line(self) -> str:
        """The same in short, for beside the input."""
        return " · ".join(
            [one_line(self.host.name, 60), one_line(self.model, 40), one_line(self.host.state, 60)]
        )
