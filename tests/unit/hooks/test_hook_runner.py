"""If these fail, a call runs that a hook of the user should have judged."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from newel.agent.errors import WorkspaceError
from newel.hooks.hook import Hook
from newel.hooks.hook_runner import HookPlace, HookRunner

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("event", "decision"), [("PreToolUse", "deny"), ("PostToolUse", "")])
async def test_a_call_whose_hooks_have_no_place_to_run_does_not_run(
    tmp_path: Path, event: str, decision: str
) -> None:
    """Under review they run in a copy of the project, which a full disk does not hold."""
    told: list[str] = []

    @asynccontextmanager
    async def recording() -> AsyncGenerator[Sequence[str]]:
        raise WorkspaceError("No space is left.")
        yield []

    async def report(text: str) -> None:
        told.append(text)

    hook = Hook(event=event, command="exit 2", file=tmp_path / "hooks.json", line=3, level="user")
    runner = HookRunner([hook], project=str(tmp_path), is_unchanged=lambda _, __: True, report=report)
    place = HookPlace(str(tmp_path), str(tmp_path), str(tmp_path), recording=recording)
    verdict = await runner.run(event, {"tool_name": "Bash", "tool_input": {}}, place=place, tool="bash")
    assert verdict.decision == decision
    assert told == [f"The {event} hooks did not run. No space is left."]
