"""If these fail, the user stops a run that is about to begin, and the model is asked all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from newel.agent.messages import AssistantMessage, UserMessage
from newel.workspace.local import LocalWorkspace
from tests.integration.review.recorded_agent import recorded_agent
from tests.review_bench import says


@pytest.mark.anyio
@pytest.mark.parametrize("now", [False, True])
async def test_a_stop_counts_from_the_prompt_on(tmp_path: Path, now: bool) -> None:
    """What goes before a run, such as a look at a large project, takes seconds."""
    async with recorded_agent(LocalWorkspace(str(tmp_path)), tmp_path / "home", [says("Asked.")]) as agent:

        async def stop() -> UserMessage:
            (agent.abort if now else agent.stop)()
            return UserMessage(content="what has happened since")

        agent.before_prompt.append(stop)
        end = await agent.prompt("first")
        assert end.reason == "stopped"
        assert not any(isinstance(message, AssistantMessage) for message in agent.state.messages)
        agent.before_prompt.clear()
        assert (await agent.prompt("second")).reason == "done", "it was not meant for the next run"
