"""The acceptance command of a contract: Newel's own check, which no model can talk its way around."""

from __future__ import annotations

from newel.agent.errors import WorkspaceError
from newel.runs.run_events import AcceptanceEnd
from newel.workspace.port import Completed, Workspace

TIMEOUT = 600.0
"""Seconds that it may take."""

HEAD, TAIL = 4_000, 12_000
"""Characters of each of its outputs that are kept: what failed mostly stands at the end."""


async def accept(workspace: Workspace, command: str, *, timeout: float = TIMEOUT) -> AcceptanceEnd:  # noqa: ASYNC109 — what it printed until then is told
    """Run the command; it has passed if it ends with 0 within ``timeout`` seconds."""
    try:
        done = await workspace.run(command, timeout=timeout)
    except WorkspaceError as error:
        return AcceptanceEnd(command=command, passed=False, output=str(error), duration=0)
    return AcceptanceEnd(
        command=command,
        passed=done.exit_code == 0 and not done.timed_out,
        output=_output(done, timeout),
        duration=done.duration,
    )


def _output(done: Completed, seconds: float) -> str:
    parts = [shorten(text.strip("\n")) for text in (done.stdout, done.stderr) if text.strip()]
    parts.append(f"Stopped after {seconds:g} seconds." if done.timed_out else f"exit code: {done.exit_code}")
    return "\n".join(parts)


def shorten(text: str, head: int = HEAD, tail: int = TAIL) -> str:
    """A text without its middle, where it is longer than ``head`` and ``tail`` characters together."""
    left_out = len(text) - head - tail
    if left_out <= 0:
        return text
    return f"{text[:head]}\n[… {left_out:,} characters left out …]\n{text[-tail:]}"
