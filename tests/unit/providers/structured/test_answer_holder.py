"""If these fail, a run that owes JSON never ends, ends too early, or leaves its objections to the next one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import UNSET

from newel.agent.agent import Agent, ProviderTransport
from newel.agent.errors import RequestRejected
from newel.agent.messages import AssistantMessage, TextContent, ToolCall, UserMessage
from newel.agent.ports import Limits, Model, RunConfig
from newel.agent.transform import Transformer
from newel.providers.structured.answer_holder import AnswerHolder, hold_answers
from newel.text.json_schema import compile_schema
from newel.tools import coding_tools
from newel.workspace.local import LocalWorkspace
from tests.scripted_provider import Answer, ScriptedProvider

pytestmark = pytest.mark.anyio

SHAPE: dict[str, Any] = {"type": "object", "required": ["a"]}
GOOD, BAD = '{"a": 1}', "no JSON"


def text(answer: str) -> AssistantMessage:
    return AssistantMessage([TextContent(answer)])


def agent_with(
    script: Sequence[Answer], *, tools: bool = True, limits: Limits | None = None
) -> tuple[Agent, AnswerHolder, ScriptedProvider]:
    provider = ScriptedProvider(script)
    config = RunConfig(
        model=Model("m"),
        transform=Transformer(),
        system_prompt="Be brief.",
        tools=coding_tools(LocalWorkspace("/")) if tools else (),
        limits=limits or Limits(),
    )
    agent = Agent(ProviderTransport(provider), config)
    return agent, hold_answers(agent, compile_schema(SHAPE, "shape.json"), agent.transport), provider


def held(provider: ScriptedProvider) -> list[bool]:
    """For each request, whether the server has to hold the answer to the schema."""
    return [request.response_schema is not None for request in provider.requests]


async def test_tools_come_first_and_corrections_are_held() -> None:
    call = AssistantMessage([ToolCall("c", "bash", {"command": "true"})])
    agent, holder, provider = agent_with([call, text(BAD), text("{}"), text(GOOD)])
    end = await agent.prompt("go")
    assert end.reason == "done"
    assert (holder.value, holder.text, holder.problem) == ({"a": 1}, GOOD, "")
    assert held(provider) == [False, False, True, True]
    assert [bool(request.tools) for request in provider.requests] == [True, True, False, False]
    assert all(request.system_prompt.startswith("Be brief.") for request in provider.requests)
    assert "'a' is a required property" in str(provider.requests[-1].messages[-1])


async def test_after_two_objections_the_run_is_over() -> None:
    agent, holder, provider = agent_with([text(BAD)] * 3)
    assert (await agent.prompt("go")).reason == "done"
    assert holder.value is UNSET
    assert "it is not JSON" in holder.problem
    assert len(provider.requests) == 3


async def test_each_run_has_its_own_objections() -> None:
    agent, holder, provider = agent_with([text(BAD)] * 3 + [text(BAD), text(BAD), text(GOOD)])
    await agent.prompt("go")
    await agent.prompt("again")
    assert (holder.value, holder.problem) == ({"a": 1}, "")
    assert held(provider) == [False, True, True] * 2


async def test_a_run_that_fails_leaves_no_objection_to_the_next() -> None:
    agent, holder, provider = agent_with(
        [text(BAD), RequestRejected("no"), RequestRejected("no"), text(GOOD)]
    )
    with pytest.raises(RequestRejected):
        await agent.prompt("go")
    await agent.prompt("again")
    assert holder.value == {"a": 1}
    assert held(provider) == [False, True, False, False]


async def test_a_server_that_refuses_the_schema_is_asked_without_it() -> None:
    """If this fails, --schema cannot be used where tools must stay, or with schemas that a vendor does not support."""
    agent, holder, provider = agent_with([text(BAD), RequestRejected("no"), text(GOOD)])
    await agent.prompt("go")
    assert holder.value == {"a": 1}
    assert held(provider) == [False, True, False]
    assert provider.requests[-1].tools


async def test_without_tools_the_server_holds_the_first_answer() -> None:
    agent, _, provider = agent_with([text(GOOD)], tools=False)
    await agent.prompt("go")
    assert held(provider) == [True]


async def test_a_limit_ends_the_corrections() -> None:
    agent, holder, provider = agent_with([text(BAD)] * 3, limits=Limits(max_turns=2))
    assert (await agent.prompt("go")).reason == "max_turns"
    assert len(provider.requests) == 2
    assert holder.value is UNSET


async def test_a_queued_message_comes_before_the_check() -> None:
    """The answer before it is not the last one, so its form does not matter."""
    agent, holder, provider = agent_with([text(BAD), text(GOOD)])
    await agent.queue_message(UserMessage("and then"), "follow_up")
    await agent.prompt("go")
    assert holder.value == {"a": 1}
    assert held(provider) == [False, False]
