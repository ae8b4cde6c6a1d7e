"""The user's own program for the status line: it gets the facts of the conversation as JSON, and prints the line.

The names are those that Claude Code gives to such programs, so that existing ones work.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from typing import Any, Final

import anyio
import anyio.to_thread

from newel.session.coding_agent import CodingAgent
from newel.session.totals import SessionTotals
from newel.text.format import one_line
from newel.text.json import exact_json
from newel.version import VERSION
from newel.workspace.process.own_programs import own_environ

INTERVAL_S: Final = 0.5
"""Time between two looks at the facts: the program runs only where they have changed."""

TIMEOUT_S: Final = 5.0
_WIDEST: Final = 1_000


def facts_of(agent: CodingAgent, totals: SessionTotals) -> dict[str, Any]:
    """The facts for a status program. The folder may be on a host."""
    window, folder = agent.window(), agent.workspace.name
    path = agent.session.get_file_path()
    return {
        "session_id": agent.session.get_id(),
        "session_name": agent.session.get_name(),
        "transcript_path": str(path) if path else None,
        "cwd": folder,
        "model": {"id": agent.state.model.id, "display_name": agent.state.model.id},
        "workspace": {"current_dir": folder, "project_dir": folder},
        "version": VERSION,
        "cost": {"total_cost_usd": totals.cost},
        "context_window": {
            "context_window_size": window,
            "used_tokens": totals.context,
            "used_percentage": round(totals.context / window * 100, 1) if window else None,
        },
        "approval_mode": agent.approve,
        "agent_mode": agent.state.agent_mode,
        "thinking": agent.state.thinking_level,
    }


async def follow(
    program: Sequence[str],
    facts: Callable[[], dict[str, Any]],
    show: Callable[[str], None],
    complain: Callable[[str], None],
) -> None:
    """Run the program whenever the facts have changed, until cancelled, and ``show`` what it prints. ``complain`` says once that it
    fails.
    """
    told: dict[str, Any] = {}
    has_complained = False
    while True:
        if (now := facts()) != told:
            told = now
            try:
                show(await _run(program, now))
            except (OSError, subprocess.SubprocessError) as error:
                show("")
                if not has_complained:
                    has_complained = True
                    complain(f"[terminal] status_line in config.toml fails: {_describe(error)}")
        await anyio.sleep(INTERVAL_S)


async def _run(program: Sequence[str], facts: dict[str, Any]) -> str:
    """The first line of what the program prints."""

    def run() -> bytes:
        return subprocess.run(
            program,
            input=exact_json(facts),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=own_environ(),
            timeout=TIMEOUT_S,
            check=True,
        ).stdout

    printed = await anyio.to_thread.run_sync(run, abandon_on_cancel=True)
    return one_line(printed.decode(errors="replace").partition("\n")[0], _WIDEST)


def _describe(error: Exception) -> str:
    match error:
        case subprocess.CalledProcessError():
            return f"it ended with exit code {error.returncode}."
        case subprocess.TimeoutExpired():
            return f"it took longer than {TIMEOUT_S:g} s."
        case OSError():
            return f"it cannot be started: {error.strerror}."
        case _:
            return str(error)
