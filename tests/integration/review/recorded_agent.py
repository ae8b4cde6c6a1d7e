"""An agent whose changes are recorded, with a scripted model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from newel.agent.agent import ProviderTransport
from newel.agent.ports import AllowAll, Model, RunConfig
from newel.agent.transform import Transformer
from newel.review.tracking.change_recorder import ChangeRecorder
from newel.review.tracking.recording_workspace import RecorderRegistry, RecordingWorkspace
from newel.session.coding_agent import CodingAgent
from newel.session.manager import SessionManager
from newel.tools import coding_tools
from newel.workspace.tracked import TrackedWorkspace
from tests.scripted_models import ScriptedModels
from tests.scripted_provider import Answer, ScriptedProvider


@asynccontextmanager
async def recorded_agent(
    workspace: TrackedWorkspace, home: Path, script: Sequence[Answer]
) -> AsyncGenerator[CodingAgent]:
    """``home`` is Newel's folder. Every call of the script is allowed."""
    recorders = RecorderRegistry(home)
    recording = RecordingWorkspace(workspace, recorders)

    def open_session(session: str | None) -> SessionManager:
        return SessionManager(directory=home / "sessions", cwd=workspace.root, session=session)

    agent = CodingAgent(
        transport=ProviderTransport(ScriptedProvider(script)),
        config=RunConfig(
            model=Model("m", "script", 128_000),
            transform=Transformer(),
            tools=coding_tools(recording),
            policy=AllowAll(),
        ),
        workspace=recording,
        session=open_session(None),
        open_session=open_session,
        models=ScriptedModels("m"),
        templates={},
    )
    recording.attend(agent)
    try:
        yield agent
    finally:
        recorders.close()


async def recorder_of(agent: CodingAgent) -> ChangeRecorder:
    workspace = agent.workspace
    assert isinstance(workspace, RecordingWorkspace)
    return await workspace.recorder()
