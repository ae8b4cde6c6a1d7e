"""``!command``: a person's own command in the workspace. The model never hears of it."""

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


def ending(completed: Completed) -> str:
    """``exit code 2 · 1.9 s``: how a command ended, and what it has left running."""
    running = (
        f" · still running: {join_names(completed.left_running, shown=3)}" if completed.left_running else ""
    )
    return f"exit code {completed.exit_code} · {format_duration(completed.duration)}{running}"
