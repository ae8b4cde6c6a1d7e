"""If these fail, a Python program that opens an agent through ``newel`` gets no tools, no session, or no answer."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

import newel
from newel.agent.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    MessageUpdate,
    StateUpdate,
    TextDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from newel.agent.messages import AssistantMessage, ToolResultMessage, UserMessage
from newel.concurrency import task_group
from newel.permissions.approval import Approval, ApprovalRequest
from tests.integration.mcp.rogues import ROGUE
from tests.processes import ends, read_pids
from tests.support import Newel, bash, scenario

pytestmark = pytest.mark.anyio
Make = Callable[..., Newel]


@pytest.fixture
def with_model(with_model: Make, monkeypatch: pytest.MonkeyPatch) -> Make:
    """As for commands, with the settings in this process's own environment."""

    def make(*arguments: object) -> Newel:
        rig = with_model(*arguments)
        for name in ("LLM_BASE_URL", "LLM_AUTH_TOKEN", "LLM_DEFAULT_MODEL"):
            monkeypatch.setitem(os.environ, name, rig.environ[name])
        monkeypatch.setitem(os.environ, "NEWEL_HOME", str(rig.home / ".newel"))
        return rig

    return make


async def test_a_prompt_from_a_program_writes_a_file_and_emits_events(with_model: Make) -> None:
    rig = with_model()
    events: list[AgentEvent] = []
    async with newel.open_coding_agent(working_directory=rig.project) as agent:
        unsubscribe = agent.subscribe(events.append)
        end = await agent.prompt("please write a hello world")
        unsubscribe()
        assert agent.get_messages() == agent.state.messages
    assert isinstance(end, AgentEnd)
    assert end.reason == "done"
    assert (rig.project / "hello.py").exists()
    assert isinstance(events[0], AgentStart)
    tools = [event.tool_name for event in events if isinstance(event, ToolExecutionStart)]
    assert tools == ["write", "bash"]
    said = "".join(
        event.assistant_message_event.delta
        for event in events
        if isinstance(event, MessageUpdate) and isinstance(event.assistant_message_event, TextDelta)
    )
    assert said.endswith("it prints `Hello, World!`.")
    assert len(rig.sessions) == 1


async def test_a_later_program_continues_the_session(with_model: Make) -> None:
    rig = with_model()
    async with newel.open_coding_agent(working_directory=rig.project) as agent:
        await agent.prompt("how are you")
    async with newel.open_coding_agent(working_directory=rig.project, continue_=True) as agent:
        assert len(agent.get_messages()) == 2
        agent.replace_messages([UserMessage("Something else was said.")])
        await agent.prompt("how are you")
    texts = [message["content"] for message in rig.requests[1]["messages"] if message["role"] == "user"]
    assert texts == ["Something else was said.", "how are you"]


async def test_a_program_can_abort_and_the_conversation_stays_usable(with_model: Make) -> None:
    after = scenario("and now", {"content": "Better."})
    before = scenario("wait", bash("echo begun; sleep 60"))
    rig = with_model({"scenarios": after["scenarios"] + before["scenarios"]})
    async with newel.open_coding_agent(working_directory=rig.project, ephemeral=True) as agent:
        pending: list[set[str]] = []

        def stop(event: AgentEvent) -> None:
            if isinstance(event, ToolExecutionStart):
                pending.append(set(agent.state.pending_tool_calls))
                agent.abort()
            elif isinstance(event, ToolExecutionEnd):
                pending.append(set(agent.state.pending_tool_calls))

        agent.subscribe(stop)
        with anyio.fail_after(10):
            assert (await agent.prompt("wait")).reason == "aborted"
        assert (len(pending[0]), pending[1]) == (1, set())
        assert (await agent.prompt("and now?")).reason == "done"
        last = agent.get_messages()[-1]
        assert isinstance(last, AssistantMessage)
        assert last.text == "Better."
    assert rig.sessions == []


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_leaving_the_agent_ends_a_prompt_of_another_task(with_model: Make, is_cancelled: bool) -> None:
    """Else its command runs on after the program has closed the agent, and the session lacks its result."""
    rig = with_model(scenario("wait", bash("echo $$ > pid; echo begun; sleep 60")))
    began = anyio.Event()

    def watch(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionUpdate):
            began.set()

    with anyio.CancelScope() as scope:
        async with task_group() as tasks:
            async with newel.open_coding_agent(working_directory=rig.project) as agent:
                agent.subscribe(watch)
                tasks.start_soon(agent.prompt, "wait")
                await began.wait()
                if is_cancelled:
                    scope.cancel()
                    await anyio.sleep_forever()
            assert not agent.state.is_streaming
    assert [ends(pid) for pid in read_pids(rig.project / "pid")] == [True]
    directory = rig.sessions[0].parent.parent
    with newel.SessionManager(directory=directory, cwd=str(rig.project), continue_=True) as session:
        result = session.get_messages()[-1]
    assert isinstance(result, ToolResultMessage)
    assert "begun" in result.output


async def test_a_program_approves_each_change(with_model: Make) -> None:
    asked: list[str] = []

    async def ask(request: ApprovalRequest) -> Approval:
        asked.append(request.preview)
        return Approval("no", "Only look.")

    rig = with_model()
    async with newel.open_coding_agent(working_directory=rig.project, approve="ask", ask=ask) as agent:
        await agent.prompt("please write a hello world")
    assert "+++ hello.py" in asked[0]
    assert not (rig.project / "hello.py").exists()


async def test_the_agents_tools_can_be_changed_between_prompts(with_model: Make) -> None:
    rig = with_model()
    async with newel.open_coding_agent(working_directory=rig.project, ephemeral=True) as agent:
        told: list[AgentEvent] = []
        agent.subscribe(told.append)
        agent.set_tools([tool for tool in agent.state.tools if tool.read_only])
        assert isinstance(told[0], StateUpdate)
        assert told[0].changed == ["tools"]
        await agent.prompt("how are you")
    assert [tool["function"]["name"] for tool in rig.requests[0]["tools"]] == ["read"]


async def test_a_plain_request_passes_tools_and_runs_none(with_model: Make) -> None:
    tool = {"type": "function", "function": {"name": "write", "parameters": {"type": "object"}}}
    rig = with_model()
    question = [{"role": "user", "content": "please write a hello world"}]
    answer = newel.chat(question, tools=[tool])
    assert rig.requests[0]["tools"] == [tool]
    assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "write"
    assert not (rig.project / "hello.py").exists()


async def test_a_rejection_shows_no_password_and_a_query_follows_the_path(
    with_model: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a logged error contains the password, and a gateway with a query does not work."""
    rig = with_model()
    inside = rig.environ["LLM_BASE_URL"].replace("http://", "http://me:hidden@")
    question = [{"role": "user", "content": "please write a hello world"}]
    monkeypatch.setitem(os.environ, "LLM_BASE_URL", f"{inside}?key=hidden")
    assert newel.chat(question)["choices"]
    monkeypatch.setitem(os.environ, "LLM_BASE_URL", f"{inside}/nothing?key=hidden")
    with pytest.raises(httpx2.HTTPStatusError, match="answered with 404") as refused:
        newel.chat(question)
    assert "hidden" not in str(refused.value)


async def test_a_missing_setting_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(newel.NewelError, match="must begin with http"):
        async with newel.open_coding_agent(working_directory=tmp_path, base_url="nonsense"):
            pass


@pytest.mark.slow  # it loads the SDK of tool servers
async def test_the_tools_that_a_program_sets_outlast_a_change_of_a_tool_server(with_model: Make) -> None:
    """Otherwise the model loses the program's own tools at a moment that the program does not choose."""
    call: dict[str, Any] = {"tool_calls": [{"function": {"name": "rogue__act", "arguments": {}}}]}
    rig = with_model(scenario("go", call, {"content": "Well."}))
    entry = {"command": sys.executable, "args": ["-IS", str(ROGUE), "turncoat"], "env": {"SAYS": "One."}}
    (rig.home / ".newel").mkdir(exist_ok=True)
    (rig.home / ".newel" / "mcp_config.json").write_text(json.dumps({"mcpServers": {"rogue": entry}}))
    changed = anyio.Event()

    def on_event(event: AgentEvent) -> None:
        if isinstance(event, StateUpdate) and "tools" in event.changed:
            changed.set()

    opened = newel.open_coding_agent(working_directory=rig.project, ephemeral=True)
    with anyio.fail_after(30):
        async with opened as agent:
            read, *_, act = agent.state.tools
            agent.set_tools([read, act])
            agent.subscribe(on_event)
            await agent.prompt("go")
            await changed.wait()
            assert [tool.spec.name for tool in agent.state.tools] == ["read"]
