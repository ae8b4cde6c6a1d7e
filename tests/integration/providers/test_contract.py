"""If these fail, a provider breaks what all providers promise: the agent behaves differently with it, or not at all.

``scripts/provider_matrix.py`` makes ``docs/providers.md`` of the results: one row for each test or fault, with the first line of
the test's docstring.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, permutations
from typing import Any

import anyio
import pytest

from newel.agent.errors import (
    BadResponse,
    ContextOverflow,
    ProviderError,
    RateLimited,
    RequestRejected,
    ServerFailed,
)
from newel.agent.events import Retry, TextDelta, ThinkingDelta, ToolCallDelta
from newel.agent.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolResultMessage,
    UserMessage,
)
from newel.agent.ports import ModelRequest, Provider, ProviderEvent
from newel.providers.errors import KeyRejected
from newel.providers.http import client as http_client
from newel.providers.retry import Retrying, RetryLimits
from tests.integration.providers.contract import (
    MODEL,
    NAME,
    OTHER_MODEL,
    PROVIDERS,
    ContractProvider,
    connected,
)
from tests.integration.providers.raw import ask

pytestmark = pytest.mark.anyio

CALLS = [
    {"function": {"name": "bash", "arguments": {"command": "ls"}}},
    {"function": {"name": "bash", "arguments": {"command": "pwd"}}},
]
PICTURE = ImageContent("aGVsbG8=", "image/png")
ANSWER = "At last, an answer of several words."
STEPS = 50


@pytest.fixture(params=PROVIDERS, ids=lambda provider: provider.name)
def provider(request: pytest.FixtureRequest) -> ContractProvider:
    return request.param


async def converse(provider: Provider, history: list[Message], **options: Any) -> AssistantMessage:
    """Ask, and append the answer and the results of its calls to the history."""
    message, _ = await ask(provider, model=MODEL, messages=history, **options)
    history.append(message)
    history.extend(results(message))
    return message


def results(message: AssistantMessage) -> Iterator[ToolResultMessage]:
    for call in message.tool_calls:
        yield ToolResultMessage(
            call.id, call.name, f"result of {call.arguments.get('command')}", is_error=False
        )


def text_of(seen: list[ProviderEvent]) -> str:
    """The text as a screen shows it: all deltas since the last retry."""
    retries = [at for at, delta in enumerate(seen) if isinstance(delta, Retry)]
    start = retries[-1] if retries else 0
    return "".join(delta.delta for delta in seen[start:] if isinstance(delta, TextDelta))


# -- answers ------------------------------------------------------------------------------------------


async def test_streaming(provider: ContractProvider) -> None:
    """The text arrives in several deltas, and the message is their sum."""
    async with connected(provider, {"response": {"content": ANSWER}}) as it:
        message, seen = await ask(it.client, model=MODEL)
    assert len([delta for delta in seen if isinstance(delta, TextDelta)]) > 3
    assert text_of(seen) == message.text == ANSWER
    assert (message.model, message.provider, message.stop_reason) == (MODEL.id, it.client.name, "stop")


async def test_tools(provider: ContractProvider) -> None:
    """A call arrives with its arguments, and its result reaches the model."""
    steps = (
        {"response": {"content": "I look.", "tool_calls": CALLS[:1]}},
        {"response": {"content": "{{ tool_result }}"}},
    )
    async with connected(provider, *steps) as it:
        history: list[Message] = [UserMessage("Hi")]
        asked = await converse(it.client, history)
        answer = await converse(it.client, history)
    assert (asked.text, asked.stop_reason) == ("I look.", "toolUse")
    assert [(call.name, call.arguments, call.problem) for call in asked.tool_calls] == [
        ("bash", {"command": "ls"}, None)
    ]
    assert (answer.text, answer.stop_reason) == ("result of ls", "stop")


async def test_parallel_calls(provider: ContractProvider) -> None:
    """Several calls of one message stay apart, and the model gets all results."""
    steps = ({"response": {"tool_calls": CALLS}}, {"response": {"content": "{{ tool_result }}"}})
    async with connected(provider, *steps) as it:
        asked, seen = await ask(it.client, model=MODEL)
        history = [UserMessage("Hi"), asked, *results(asked)]
        answer, _ = await ask(it.client, model=MODEL, messages=history)
    assert [call.arguments for call in asked.tool_calls] == [{"command": "ls"}, {"command": "pwd"}]
    assert len({call.id for call in asked.tool_calls}) == 2
    assert {delta.index for delta in seen if isinstance(delta, ToolCallDelta)} == {0, 1}
    assert answer.text == "result of pwd"
    assert b"result of ls" in it.bodies[-1]


async def test_cut_off_call(provider: ContractProvider) -> None:
    """A call that the output limit may have cut off does not run."""
    response = {"tool_calls": CALLS[:1], "finish_reason": "length"}
    async with connected(provider, {"response": response}) as it:
        message, _ = await ask(it.client, model=MODEL)
    assert message.stop_reason == "length"
    assert "cut off by the output limit" in (message.tool_calls[0].problem or "")


async def test_thinking(provider: ContractProvider) -> None:
    """Reasoning arrives in deltas of its own and is not part of the answer."""
    step = {"response": {"reasoning": "First I think about it.", "content": ANSWER}}
    async with connected(provider, step) as it:
        message, seen = await ask(it.client, model=MODEL, thinking="high")
    thoughts = [delta.delta for delta in seen if isinstance(delta, ThinkingDelta)]
    assert len(thoughts) > 1
    assert "".join(thoughts) == "First I think about it."
    thought, said, *signatures = message.content
    assert isinstance(thought, ThinkingContent)
    assert thought.thinking == "First I think about it."
    assert said == TextContent(ANSWER)
    assert all(isinstance(part, ThinkingContent) and not part.thinking for part in signatures)


async def test_thoughts_go_back(provider: ContractProvider) -> None:
    """The model gets its own earlier reasoning back, unchanged, over several calls."""
    thoughts = ["The first thought.", "The second thought.", "The third thought."]
    steps = [{"response": {"reasoning": thought, "tool_calls": CALLS[:1]}} for thought in thoughts]
    async with connected(provider, *steps, {"response": {"content": ANSWER}}) as it:
        history: list[Message] = [UserMessage("Hi")]
        for _ in thoughts:
            await converse(it.client, history, thinking="high")
        answer = await converse(it.client, history, thinking="high")
        assert answer.text == ANSWER
        returned = [thought.encode() in it.bodies[-1] for thought in thoughts]
    assert returned == [provider.has("thoughts go back")] * 3


async def test_images(provider: ContractProvider) -> None:
    """The model sees an image of the user."""
    async with connected(provider, {"response": {"content": ANSWER}}) as it:
        question = UserMessage([TextContent("What is this?"), PICTURE])
        message, seen = await ask(it.client, model=MODEL, messages=[question])
        assert PICTURE.data.encode() in it.bodies[-1]
    assert message.text == ANSWER
    assert not any(isinstance(delta, Retry) for delta in seen)


async def test_images_in_results(provider: ContractProvider) -> None:
    """The model sees an image that a tool returns, also if another result follows it."""
    async with connected(
        provider, {"response": {"content": "I look.", "tool_calls": CALLS}}, loop=True
    ) as it:
        asked, _ = await ask(it.client, model=MODEL)
        first, second = asked.tool_calls
        history = [
            UserMessage("Hi"),
            asked,
            ToolResultMessage(first.id, first.name, "a picture", is_error=False, images=[PICTURE]),
            ToolResultMessage(second.id, second.name, "no picture", is_error=False),
        ]
        message, _ = await ask(it.client, model=MODEL, messages=history)
        assert it.bodies[-1].count(PICTURE.data.encode()) == 1
    assert message.text == "I look."


async def test_usage(provider: ContractProvider) -> None:
    """The tokens of the whole prompt and of the answer are counted."""
    usage = {"prompt_tokens": 100, "completion_tokens": 20}
    async with connected(provider, {"response": {"content": ANSWER, "usage": usage}}) as it:
        message, _ = await ask(it.client, model=MODEL)
    assert (message.usage.input, message.usage.output) == (100, 20)


async def test_cached_tokens(provider: ContractProvider) -> None:
    """The cached part of the prompt is reported, and is part of the whole prompt."""
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 64},
    }
    async with connected(provider, {"response": {"content": ANSWER, "usage": usage}}) as it:
        message, _ = await ask(it.client, model=MODEL)
    assert (message.usage.input, message.usage.cache_read) == (
        100,
        64 if provider.has("cached tokens") else 0,
    )


async def test_stable_prefix(provider: ContractProvider) -> None:
    """Each request begins with the bytes of the one before, so that the server's cache of prompts is used."""
    step = {"response": {"reasoning": "I go on.", "content": "Next.", "tool_calls": CALLS[:1]}}
    async with connected(provider, step, loop=True) as it:
        history: list[Message] = [UserMessage([TextContent("Hi"), PICTURE])]
        for _ in range(STEPS):
            await converse(it.client, history, thinking="high")
        bodies = it.bodies
    assert len(bodies) == STEPS
    for earlier, later in pairwise(bodies):
        assert later.startswith(earlier.rstrip(b"]}"))


async def test_cancel(provider: ContractProvider) -> None:
    """Cancelling closes the connection at once, and the next request works."""
    fault = {"kind": "stall", "after_chunks": 6, "times": 1}
    async with connected(provider, {"response": {"content": ANSWER}, "fault": fault}) as it:
        began = anyio.Event()

        async def on_delta(_: ProviderEvent) -> None:
            began.set()

        async with anyio.create_task_group() as group:
            request = ModelRequest(MODEL, "", [UserMessage("Hi")])
            group.start_soon(it.client.complete, request, on_delta)
            await began.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(5):
            while not it.server.abandoned:  # noqa: ASYNC110 — the server only counts
                await anyio.sleep(0.01)
        message, _ = await ask(it.client, model=MODEL)
    assert message.text == ANSWER


# -- faults -------------------------------------------------------------------------------------------


def fault_name(fault: dict[str, Any]) -> str:
    details = [fault.get("status"), fault.get("after_chunks"), fault.get("of")]
    return " ".join([fault["kind"], *(str(detail) for detail in details if detail is not None)])


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 408},
        {"kind": "status", "status": 500},
        {"kind": "status", "status": 503},
        {"kind": "status", "status": 529},
        {"kind": "reset", "after_chunks": 0},
        {"kind": "reset", "after_chunks": 3},
        {"kind": "stall", "after_chunks": 0},
        {"kind": "stall", "after_chunks": 3},
        {"kind": "truncated_json", "after_chunks": 3},
        {"kind": "end_early", "after_chunks": 3},
        {"kind": "stream_error", "after_chunks": 3},
    ],
    ids=fault_name,
)
async def test_retried(provider: ContractProvider, fault: dict[str, Any]) -> None:
    """A temporary fault is retried, and nothing of the failed answer remains in the text."""
    step = {"response": {"content": ANSWER}, "fault": fault | {"times": 2}}
    async with connected(provider, step, patience=0.4) as it:
        message, seen = await ask(Retrying(it.client, base_delay=0.001), model=MODEL)
        assert len(it.bodies) == 3
    assert text_of(seen) == message.text == ANSWER
    attempts = [delta.attempt for delta in seen if isinstance(delta, Retry)]
    # What fails on a connection that was kept is sent again at once: Ollama was asked for its models before.
    assert attempts in ([2, 3], [2]) if fault == {"kind": "reset", "after_chunks": 0} else attempts == [2, 3]


async def test_rate_limit(provider: ContractProvider) -> None:
    """A rate limit is waited for as long as the server asks; one that stays is reported."""
    fault = {"kind": "status", "status": 429, "headers": {"Retry-After": "0.02"}}
    async with connected(provider, {"response": {"content": ANSWER}, "fault": fault | {"times": 1}}) as it:
        message, seen = await ask(Retrying(it.client), model=MODEL)
    assert [delta.delay for delta in seen if isinstance(delta, Retry)] == [0.02]
    assert message.text == ANSWER
    async with connected(provider, {"response": {"content": ANSWER}, "fault": fault}) as it:
        with pytest.raises(RateLimited):
            await ask(Retrying(it.client, RetryLimits(attempts=2)), model=MODEL)
        assert len(it.bodies) == 2


async def refusal(provider: ContractProvider, fault: dict[str, Any]) -> ProviderError:
    """The error for a fault that is not worth a retry."""
    async with connected(provider, {"response": {"content": ANSWER}, "fault": fault}) as it:
        with pytest.raises(ProviderError) as failed:
            await ask(Retrying(it.client, base_delay=0.001), model=MODEL)
        assert len(it.bodies) == 1
    return failed.value


async def test_rejected_key(provider: ContractProvider) -> None:
    """A key that the server rejects is reported as such."""
    error = await refusal(provider, {"kind": "status", "status": 401, "message": "invalid key"})
    assert type(error) is KeyRejected
    assert "API key (401): invalid key." in str(error)


async def test_unknown_model(provider: ContractProvider) -> None:
    """A model that the server does not have is named."""
    error = await refusal(provider, {"kind": "status", "status": 404, "message": provider.unknown_model})
    assert isinstance(error, RequestRejected)
    assert "the model 'mock-model'" in str(error)


async def test_overflow(provider: ContractProvider) -> None:
    """A conversation that is too long is recognized, so that it can be compacted."""
    fault = {"kind": "status", "status": 400, "message": provider.overflow}
    assert type(await refusal(provider, fault)) is ContextOverflow


@pytest.mark.parametrize(
    "fault",
    [{"kind": "endless_body", "of": of} for of in ("junk", "content", "comments")],
    ids=fault_name,
)
async def test_bounded(
    provider: ContractProvider, fault: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endless answer is refused in bounded memory."""
    if fault["of"] != "junk":  # its line has a limit of its own
        monkeypatch.setattr(http_client, "MAX_RESPONSE_BYTES", 2**20)  # the usual 64 MiB take half a minute
    error = await refusal(provider, fault)
    assert type(error) is BadResponse
    if fault["of"] == "comments":  # the others may reach another bound before
        assert "more than 1 MiB" in str(error)


@pytest.mark.parametrize("fault", [{"kind": "missing_done"}, {"kind": "wrong_content_type"}], ids=fault_name)
async def test_tolerated(provider: ContractProvider, fault: dict[str, Any]) -> None:
    """A good answer counts in spite of a harmless deviation."""
    async with connected(provider, {"response": {"content": ANSWER}, "fault": fault}) as it:
        message, seen = await ask(it.client, model=MODEL)
    assert text_of(seen) == message.text == ANSWER
    assert not any(isinstance(delta, Retry) for delta in seen)


async def test_malformed_arguments(provider: ContractProvider) -> None:
    """A call whose arguments are not JSON does not run, and the model learns why."""
    fault = {"kind": "malformed_arguments"}
    async with connected(provider, {"response": {"tool_calls": CALLS[:1]}, "fault": fault}) as it:
        if not provider.has("malformed arguments"):  # the API reports them instead
            with pytest.raises(ServerFailed):
                await ask(it.client, model=MODEL)
            return
        message, _ = await ask(it.client, model=MODEL)
    assert [call.name for call in message.tool_calls] == ["bash"]
    assert "its arguments are not valid JSON" in (message.tool_calls[0].problem or "")


# -- several models and providers ---------------------------------------------------------------------


async def test_change_of_model(provider: ContractProvider) -> None:
    """A conversation goes on with another model or server, which gets the calls and results, and no reasoning of the first."""
    steps = (
        {"response": {"reasoning": "A private thought.", "tool_calls": CALLS}},
        {"response": {"content": "{{ model }}: {{ tool_result }}"}},
    )
    async with connected(provider, *steps) as it:
        elsewhere = provider.connect(it.server.url, 10.0, "elsewhere")
        history: list[Message] = [UserMessage("Hi")]
        await converse(it.client, history, thinking="high")
        for client, model in ((it.client, OTHER_MODEL), (elsewhere, MODEL)):
            message, _ = await ask(client, model=model, messages=history, thinking="high")
            assert message.text == f"{model.id}: result of pwd"
            assert b"A private thought." not in it.bodies[-1]
        await elsewhere.aclose()


@pytest.mark.parametrize(
    ("first", "second"),
    list(permutations(PROVIDERS, 2)),
    ids=lambda provider: provider.name,
)
async def test_change_of_provider(first: ContractProvider, second: ContractProvider) -> None:
    """A conversation goes on with another provider, between calls and results too; reasoning stays with its model."""
    steps = (
        {"response": {"reasoning": "A thought of the first.", "content": "I look.", "tool_calls": CALLS}},
        {"response": {"reasoning": "A thought of the second.", "content": "Once more.", "tool_calls": CALLS}},
        {"response": {"reasoning": "A last thought.", "content": "Found {{ tool_result }}."}},
    )
    async with connected(first, *steps) as it:
        history: list[Message] = [UserMessage("Hi")]
        other = second.connect(it.server.url, 10.0, NAME)
        for each in (it.client, other, it.client):
            message = await converse(each, history, thinking="high")
        assert message.text == "Found result of pwd."
        assert b"A thought of the first." not in it.bodies[1]
        assert b"A thought of the second." not in it.bodies[2]
        for body in it.bodies[1:]:
            assert body.count(b"result of ls") >= 1
        history.append(UserMessage("And now?"))
        message = await converse(other, history, thinking="high")
        assert message.text == "I look."
        assert b"A thought of the first." not in it.bodies[3]
        assert it.bodies[3].count(b"result of ls") == 2
        await other.aclose()
