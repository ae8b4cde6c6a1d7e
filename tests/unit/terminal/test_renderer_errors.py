"""If these fail, a defect of a screen silences Newel for the rest of the conversation, or loses what was done."""

from __future__ import annotations

import io
from pathlib import Path

import anyio
import pytest

from newel.agent.events import AgentEvent, ToolExecutionEnd
from newel.review.tracking.recording_workspace import RecordingWorkspace
from newel.session.typed_prompt import Prompt
from newel.terminal.print_mode import run_prompts
from newel.terminal.renderers.base import DisplayFailed
from newel.terminal.renderers.console import ConsoleRenderer
from newel.terminal.ui.approval import Approver
from tests.integration.terminal.program import build


class Defective(ConsoleRenderer):
    """Fails to show the end of a call."""

    def handle(self, event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionEnd):
            raise KeyError("no such colour")
        super().handle(event)


@pytest.mark.anyio
async def test_a_failing_renderer_ends_the_run_properly_with_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    agent = await build(tmp_path, tmp_path / "home", Approver())
    with (
        anyio.fail_after(10),
        pytest.raises(DisplayFailed, match=r"KeyError: .no such colour.*newel --continue"),
    ):
        await run_prompts(agent, [Prompt("run touch it")], Defective(io.StringIO()))
    assert (tmp_path / "it").exists()
    roles = [type(message).__name__ for message in agent.session.get_messages()]
    assert roles[:3] == ["UserMessage", "AssistantMessage", "ToolResultMessage"]
    assert isinstance(agent.workspace, RecordingWorkspace)
    (await agent.workspace.recorder()).close()
