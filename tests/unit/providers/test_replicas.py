"""If these fail, one model server that is full or gone stops work that another could do, or each request finds a cold cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

import mock_llm_server
from newel.agent.errors import ConnectionFailed, RequestRejected, ServerFailed
from newel.agent.messages import AssistantMessage, TextContent, UserMessage
from newel.agent.ports import Model, ModelRequest, ProviderEvent
from newel.providers.model_server import connect
from newel.providers.replicas import ReplicatedServer

pytestmark = pytest.mark.anyio

TEXT = "An answer that comes in several pieces, one after the other."


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def script(*, fault: dict[str, Any] | None = None) -> dict[str, Any]:
    """Answers to each message of a conversation, after the same fault."""
    step = {"response": {"content": TEXT}} | ({"fault": fault} if fault else {})
    return {
        "scenarios": [{"name": name, "trigger": f"Conversation {name}", "steps": [step]} for name in "ABCDEF"]
    }


@asynccontextmanager
async def replicas(
    *faults: dict[str, Any] | None, rest: float = 60.0
) -> AsyncGenerator[tuple[ReplicatedServer, list[Any]]]:
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(mock_llm_server.serve(script(fault=fault))) for fault in faults
        ]
        provider = ReplicatedServer([connect(f"{server.url}/v1", None) for server in servers], rest=rest)
        stack.push_async_callback(provider.aclose)
        yield provider, servers


async def ask(provider: ReplicatedServer, name: str, turns: int = 1) -> AssistantMessage:
    async def on_delta(_: ProviderEvent) -> None:
        pass

    messages: list[Any] = [UserMessage(f"Conversation {name}")]
    for _ in range(turns - 1):
        messages += [AssistantMessage([TextContent(TEXT)]), UserMessage(f"Conversation {name}, continued")]
    return await provider.complete(ModelRequest(Model("mock-model"), "", messages), on_delta)


def loads(servers: list[Any]) -> list[int]:
    return [len(server.requests) for server in servers]


async def test_conversations_are_spread_and_each_stays_where_it_began() -> None:
    async with replicas(None, None, None) as (provider, servers):
        for turn in range(1, 5):
            for name in "ABCDEF":
                assert (await ask(provider, name, turn)).text == TEXT
        assert loads(servers) == [8, 8, 8]
        for server in servers:
            begun = Counter(str(request["body"]["messages"][0]["content"]) for request in server.requests)
            assert sorted(begun.values()) == [4, 4]


async def test_a_full_server_is_passed_over_until_it_has_rested() -> None:
    full = {"kind": "status", "status": 429, "times": 100}
    async with replicas(full, None) as (provider, servers):
        for turn in range(1, 4):
            for name in "ABCD":
                assert (await ask(provider, name, turn)).text == TEXT
        assert loads(servers) == [1, 12]


async def test_a_server_that_has_rested_is_asked_again() -> None:
    async with replicas({"kind": "status", "status": 503, "times": 1}, None, rest=0.0) as (provider, servers):
        for name in "ABCD":
            await ask(provider, name)
        assert loads(servers)[0] >= 2


async def test_a_server_that_is_gone_is_passed_over() -> None:
    async with replicas(None) as (alone, servers):
        provider = ReplicatedServer(
            [connect("http://127.0.0.1:9/v1", None), connect(f"{servers[0].url}/v1", None)]
        )
        assert (await ask(provider, "A")).text == TEXT
        assert (await ask(provider, "B")).text == TEXT
        await provider.aclose()
        del alone


async def test_if_all_are_gone_the_error_says_so() -> None:
    provider = ReplicatedServer([connect(f"http://127.0.0.1:{port}/v1", None) for port in (9, 10)])
    with pytest.raises(ConnectionFailed, match="nothing listens there"):
        await ask(provider, "A")
    await provider.aclose()


async def test_a_refused_request_is_not_tried_elsewhere() -> None:
    """The key or the request is wrong: each server would refuse it, and say so later."""
    async with replicas({"kind": "status", "status": 401, "times": 100}, None) as (provider, servers):
        with pytest.raises(RequestRejected):
            await ask(provider, "A")
        assert loads(servers) == [1, 0]


async def test_what_an_answer_has_begun_to_say_is_not_said_twice() -> None:
    """The retry after it reports that the text is void; a silent change of the server would add the answer to it."""
    async with replicas({"kind": "reset", "after_chunks": 3, "times": 100}, None) as (provider, servers):
        with pytest.raises((ConnectionFailed, ServerFailed)):
            await ask(provider, "A")
        assert loads(servers) == [1, 0]
        assert (await ask(provider, "A")).text == TEXT
        assert loads(servers) == [1, 1]
