"""If these fail, a conversation with tools breaks when the model server sends errors or closes connections."""

from __future__ import annotations

from typing import Any

import pytest

from mock_llm_server import serve
from newel.agent.errors import RateLimited
from newel.agent.events import Retry, TextDelta, ToolCallDelta
from newel.agent.messages import Message, ToolResultMessage, UserMessage
from newel.providers.openai.chat import OpenAIChat
from newel.providers.retry import Retrying, RetryLimits
from tests.integration.providers.raw import ask

pytestmark = pytest.mark.anyio


def script(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"scenarios": [{"name": "it", "trigger": "", "steps": list(steps)}]}


CALLS = [
    {"function": {"name": "bash", "arguments": {"command": "ls"}}},
    {"function": {"name": "bash", "arguments": {"command": "pwd"}}},
]


async def test_calls_results_and_an_answer() -> None:
    """Otherwise the main job does not even work against a correct server."""
    steps = script(
        {"response": {"reasoning_content": "Look first.", "content": "I look.", "tool_calls": CALLS}},
        {"response": {"content": "Found {{ tool_result }}."}},
    )
    async with serve(steps, strict=True) as server:
        provider = OpenAIChat(base_url=server.url, api_key="k")
        history: list[Message] = [UserMessage("What is here?")]
        asked, seen = await ask(provider, messages=history)
        assert [call.arguments for call in asked.tool_calls] == [{"command": "ls"}, {"command": "pwd"}]
        assert asked.text == "I look."
        assert {delta.index for delta in seen if isinstance(delta, ToolCallDelta)} == {0, 1}
        results = [ToolResultMessage(call.id, call.name, "a.py", is_error=False) for call in asked.tool_calls]
        answer, _ = await ask(provider, messages=[*history, asked, *results])
        assert (answer.text, answer.stop_reason) == ("Found a.py.", "stop")
        assert answer.usage.input > 0
        await provider.aclose()


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 429, "headers": {"Retry-After": "0"}},
        {"kind": "status", "status": 503},
        {"kind": "reset", "after_chunks": 3},
        {"kind": "reset", "after_chunks": 0},
        {"kind": "end_early"},
        {"kind": "truncated_json"},
        {"kind": "stream_error"},
        {"kind": "stall"},
    ],
    ids=lambda fault: f"{fault['kind']} {fault.get('status', '')}",
)
async def test_temporary_faults_are_overcome(fault: dict[str, Any]) -> None:
    """Otherwise common temporary faults end the run."""
    step = {"response": {"content": "At last, an answer."}, "fault": fault | {"times": 2}}
    async with serve(script(step)) as server:
        provider = OpenAIChat(base_url=server.url, api_key="k", timeout=0.5)
        message, seen = await ask(Retrying(provider, base_delay=0.001))
        retries = [at for at, delta in enumerate(seen) if isinstance(delta, Retry)]
        text = [delta.delta for delta in seen[retries[-1] :] if isinstance(delta, TextDelta)]
        assert len(retries) == 2
        assert "".join(text) == message.text == "At last, an answer."
        await provider.aclose()


@pytest.mark.parametrize("kind", ["missing_done", "wrong_content_type"])
async def test_harmless_deviations_are_tolerated(kind: str) -> None:
    """Otherwise a good answer would be thrown away."""
    async with serve(script({"response": {"content": "Fine."}, "fault": {"kind": kind}})) as server:
        provider = OpenAIChat(base_url=server.url, api_key="k")
        message, _ = await ask(provider)
        assert message.text == "Fine."
        await provider.aclose()


async def test_malformed_arguments_are_sent_back_to_the_model() -> None:
    """Otherwise a half command would run."""
    step = {"response": {"tool_calls": CALLS[:1]}, "fault": {"kind": "malformed_arguments"}}
    async with serve(script(step)) as server:
        provider = OpenAIChat(base_url=server.url, api_key="k")
        message, _ = await ask(provider)
        assert "its arguments are not valid JSON" in (message.tool_calls[0].problem or "")
        await provider.aclose()


async def test_a_persistent_rate_limit_is_reported() -> None:
    """Otherwise the agent retries forever."""
    fault = {"kind": "status", "status": 429, "headers": {"Retry-After": "0"}}
    async with serve(script({"response": {"content": "x"}, "fault": fault})) as server:
        provider = OpenAIChat(base_url=server.url, api_key="k")
        with pytest.raises(RateLimited):
            await ask(Retrying(provider, RetryLimits(attempts=2)))
        assert len(server.requests) == 2
        await provider.aclose()
