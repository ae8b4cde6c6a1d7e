"""``!command``: the user's own command in the workspace. The model does not see it."""

from __future__ import annotations

from collections.abc import Callable

from newel.text.format import format_duration, join_names
from newel.text.sanitize import SanitizedStream
from newel.workspace.port import Completed, Workspace


async def run_command(workspace: Workspace, command: str, show: Callable[[str], None]) -> Completed:
    """Run it without a time limit and ``show`` its output as it comes, made inert, in whole pieces.

    Cancellation stops the command with all that it started. Raises ``WorkspaceError``.
    """
    stream = SanitizedStream()

    async def on_output(piece: str) -> None:
        show(stream.feed(piece))

    completed = await workspace.run(command, on_output=on_output)
    show(stream.finish())
    return completed


def exit_summary(completed: Completed) -> str:
    """``exit code 2 · 1.9 s``: how a command ended, and the processes it left running."""
    running = (
        f" · still running: {join_names(completed.left_running, shown=3)}" if completed.left_running else ""
    )
    return f"exit code {completed.exit_code} · {format_duration(completed.duration)}{running}"


class LineBuffer:
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
