"""If these fail, messages are stored in the wrong session after ``/resume`` or ``/new``."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from newel.agent.agent import ProviderTransport
from newel.agent.messages import AssistantMessage, TextContent, UserMessage
from newel.agent.ports import Model, ModelRequest, OnDelta, RunConfig
from newel.agent.transform import Transformer
from newel.session.coding_agent import CodingAgent
from newel.session.file_format import QueuedLine
from newel.session.manager import SessionManager
from newel.workspace.local import LocalWorkspace
from tests.scripted_models import ScriptedModels


@pytest.mark.anyio
async def test_a_session_that_could_not_be_opened_is_not_locked(tmp_path: Path) -> None:
    """Otherwise "is open in another Newel" names this very process until it ends, though it never used the session."""

    def open_session(session: str | None) -> SessionManager:
        return SessionManager(directory=tmp_path, cwd="/project", session=session)

    other = open_session(None)
    other.start_session({"model": "scripted", "provider": "openai", "thinking": "off"})
    other.append_message(UserMessage(content="said before"))
    other.close()

    class Busy:
        async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
            with pytest.raises(RuntimeError):
                agent.resume(other.get_id())
            return AssistantMessage(content=[TextContent("Done.")])

    agent = CodingAgent(
        transport=ProviderTransport(Busy()),
        config=RunConfig(model=Model("scripted"), transform=Transformer()),
        workspace=LocalWorkspace(str(tmp_path)),
        session=open_session(None),
        open_session=open_session,
        models=ScriptedModels("scripted"),
        templates={},
    )
    with anyio.fail_after(5):
        await agent.prompt("Hi")
    again = open_session(other.get_id())
    assert len(again.get_messages()) == 1
    again.close()
    agent.session.close()


@pytest.mark.anyio
async def test_what_waits_to_be_sent_moves_along_to_another_session(tmp_path: Path) -> None:
    """Otherwise it is offered again in the conversation that the user has left, although it was sent in the new one."""

    def open_session(session: str | None) -> SessionManager:
        return SessionManager(directory=tmp_path, cwd="/project", session=session)

    first = open_session(None)
    first.start_session({})
    first.append_message(UserMessage(content="said before"))
    first.queue(QueuedLine("1", "left by another process"))
    first_id = first.get_id()
    agent = CodingAgent(
        transport=ProviderTransport(Silent()),
        config=RunConfig(model=Model("scripted"), transform=Transformer()),
        workspace=LocalWorkspace(str(tmp_path)),
        session=first,
        open_session=open_session,
        models=ScriptedModels("scripted"),
        templates={},
    )
    agent.keep_queued(QueuedLine("2", "after /new"))
    agent.new_session()
    assert [line.text for line in agent.session.queued()] == ["after /new"]
    await agent.append_message(UserMessage("after /new", id="2"))
    assert agent.session.queued() == []
    agent.session.close()
    with open_session(first_id) as again:
        assert [line.text for line in again.queued()] == ["left by another process"]


class Silent:
    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        raise NotImplementedError
