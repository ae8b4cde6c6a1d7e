"""If this fails, a user who presses Escape at the end of a run does not hear of changes that no undo takes back."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from newel.agent.events import AgentEvent, ErrorEvent, TurnEnd
from newel.workspace.local import LocalWorkspace
from newel.workspace.snapshots.rule_history import CLOCK_LAG_NS
from tests.integration.review.recorded_agent import recorded_agent
from tests.review_bench import calls, says


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Older than the command by more than clocks may differ, or it is taken for the command's."""
    folder = tmp_path / "project"
    subprocess.run(["git", "init", "-q", folder], check=True)
    created_ns = (folder / ".git/description").stat().st_ctime_ns
    while time.time_ns() <= created_ns + CLOCK_LAG_NS:
        time.sleep(0.001)
    return folder


@pytest.mark.anyio
async def test_an_abort_during_the_last_scan_hides_no_change(tmp_path: Path, repository: Path) -> None:
    script = [calls("bash", command="echo x > .git/hooks/pre-commit"), says("Done.")]
    said: list[str] = []
    async with recorded_agent(LocalWorkspace(str(repository)), tmp_path / "home", script) as agent:

        def on_event(event: AgentEvent) -> None:
            match event:
                case TurnEnd(tool_result_ids=[]):  # the scan comes next
                    agent.abort()
                case ErrorEvent():
                    said.append(event.message)
                case _:
                    pass

        agent.subscribe(on_event)
        assert (await agent.prompt("go")).reason == "aborted"
    assert any("Changed, but not recorded: .git/hooks/pre-commit." in message for message in said), said
