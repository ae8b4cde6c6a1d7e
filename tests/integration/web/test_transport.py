"""If these fail, a client without keys cannot use models through this server."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from newel.agent.agent import Agent
from newel.agent.errors import ProviderError, RateLimited, RequestRejected
from newel.agent.events import Retry, TextDelta
from newel.agent.messages import AssistantMessage, ToolCall, ToolResultMessage, UserMessage
from newel.agent.ports import Model, ModelRequest, OnDelta, ProviderEvent, RunConfig
from newel.agent.transform import Transformer
from newel.providers.proxy import AppTransport, ModelProxy
from newel.tools import coding_tools
from newel.workspace.local import LocalWorkspace
from tests.integration.web.served_workbench import TOKEN, Echo, says, serve_workbench
from tests.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.anyio

REQUEST = ModelRequest(Model("scripted"), "Be brief.", [UserMessage("Hi")])


async def test_an_agent_works_locally_and_asks_the_remote_model(tmp_path: Path) -> None:
    call = ToolCall("1", "bash", {"command": "echo from here"})
    script = ScriptedProvider([says("Let me see.", call), says("Done.")])
    async with serve_workbench(tmp_path, Echo(), relay=script) as server:
        transport = AppTransport(server.url, TOKEN)
        tools = coding_tools(LocalWorkspace(str(tmp_path)))
        config = RunConfig(
            model=Model("scripted"), transform=Transformer(), system_prompt="Be brief.", tools=tools
        )
        agent = Agent(transport, config)
        end = await agent.prompt("Say where you are")
        await transport.aclose()
    assert end.reason == "done"
    results = [message for message in agent.state.messages if isinstance(message, ToolResultMessage)]
    assert "from here" in results[0].output
    assert script.requests[0].system_prompt == "Be brief."
    assert [tool.name for tool in script.requests[0].tools] == [tool.spec.name for tool in tools]
    assert script.requests[0].agent_mode is None, "the mode is the server's setting"


async def test_deltas_retries_and_the_answer_arrive_unchanged(tmp_path: Path) -> None:
    sent: list[ProviderEvent] = [
        TextDelta("H\u2028e"),
        Retry(attempt=1, max_attempts=5, delay=0.5, reason="busy"),
        TextDelta("Hi \ud83d\ude00\n\n"),
    ]
    answer = says("Hi \ud83d\ude00\n\n")

    class Retried:
        async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
            for delta in sent:
                await on_delta(delta)
            return answer

    heard: list[ProviderEvent] = []

    async def on_delta(delta: ProviderEvent) -> None:
        heard.append(delta)

    async with serve_workbench(tmp_path, Echo(), relay=Retried()) as server:
        relay = ModelProxy(server.url, TOKEN)
        message = await relay.complete(REQUEST, on_delta)
        await relay.aclose()
    assert heard == [TextDelta("H\u2028e"), sent[1], TextDelta(message.text)]
    assert message.id == answer.id


@pytest.mark.parametrize("error", [RateLimited("busy"), RequestRejected("no such model")])
async def test_errors_keep_their_class_over_the_relay(error: ProviderError, tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo(), relay=ScriptedProvider([error])) as server:
        relay = ModelProxy(server.url, TOKEN)
        with pytest.raises(type(error), match=str(error)):
            await relay.complete(REQUEST, nothing)
        await relay.aclose()


async def nothing(_: object) -> None:
    """Ignores the deltas."""


async def test_a_client_that_disconnects_cancels_the_request_to_the_model(tmp_path: Path) -> None:
    """Otherwise every client that gives up leaves a request behind that keeps costing money."""
    asked, given_up = anyio.Event(), anyio.Event()

    class Endless:
        async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
            asked.set()
            try:
                await anyio.sleep_forever()
            finally:
                given_up.set()
            raise AssertionError

    async with serve_workbench(tmp_path, Echo(), relay=Endless()) as server:
        relay = ModelProxy(server.url, TOKEN)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(relay.complete, REQUEST, nothing)
            await asked.wait()
            tasks.cancel_scope.cancel()
        await relay.aclose()
        with anyio.fail_after(5):
            await given_up.wait()


async def test_a_wrong_token_is_reported(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo(), relay=Echo()) as server:
        relay = ModelProxy(server.url, "wrong")
        with pytest.raises(RequestRejected):
            await relay.complete(REQUEST, nothing)
        await relay.aclose()


async def test_a_server_without_a_model_is_reported(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server:
        relay = ModelProxy(server.url, TOKEN)
        with pytest.raises(ProviderError, match="has no model"):
            await relay.complete(REQUEST, nothing)
        await relay.aclose()
