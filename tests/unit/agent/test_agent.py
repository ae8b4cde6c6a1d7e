"""If these fail, programs built on ``Agent`` see wrong states, or lose prompts."""

from __future__ import annotations

import gc
import itertools
from collections.abc import AsyncGenerator

import anyio
import anyio.lowlevel
import pytest

from newel.agent.agent import Agent, ProviderTransport
from newel.agent.errors import ConfigError, UsageError
from newel.agent.events import AgentEnd, AgentEvent, MessageUpdate, StateUpdate, TextDelta
from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    Attachment,
    CustomMessage,
    TextContent,
    ToolCall,
    Usage,
    UserMessage,
)
from newel.agent.ports import Limits, Model, ModelRequest, OnDelta, RunConfig
from newel.agent.transform import Transformer
from tests.scripted_provider import ScriptedProvider


def says(text: str) -> AssistantMessage:
    return AssistantMessage(content=[TextContent(text)])


def agent_on(
    *script: AssistantMessage, messages: list[AppMessage] | None = None
) -> tuple[Agent, ScriptedProvider]:
    provider = ScriptedProvider(list(script))
    config = RunConfig(model=Model("first"), transform=Transformer())
    return Agent(ProviderTransport(provider), config, messages=messages or []), provider


@pytest.mark.anyio
async def test_setters_take_effect_and_emit_events() -> None:
    agent, provider = agent_on(says("Yes."))
    events: list[AgentEvent] = []
    agent.subscribe(events.append)
    agent.set_system_prompt("Be brief.")
    agent.set_model(Model("second"))
    agent.set_thinking_level("high")
    await agent.prompt("Hi")
    request = provider.requests[0]
    assert (request.system_prompt, request.model.id, request.thinking) == ("Be brief.", "second", "high")
    told = [event.changed for event in events if isinstance(event, StateUpdate)]
    assert told == [["systemPrompt"], ["model"], ["thinkingLevel"]]


@pytest.mark.anyio
async def test_another_model_works_from_the_next_request_of_the_run_on() -> None:
    """A user who switches to a local model in the middle of a run has a reason not to wait for its end."""

    def switch(_: ModelRequest) -> AssistantMessage:
        agent.set_model(Model("second"))
        agent.set_thinking_level("low")
        return AssistantMessage([ToolCall("1", "unknown", {})])

    provider = ScriptedProvider([switch, says("Done.")])
    agent = Agent(ProviderTransport(provider), RunConfig(model=Model("first"), transform=Transformer()))
    await agent.prompt("Hi")
    asked = [(request.model.id, request.thinking) for request in provider.requests]
    assert asked == [("first", "off"), ("second", "low")]


@pytest.mark.anyio
async def test_another_model_in_a_run_with_a_cost_limit_must_have_a_price() -> None:
    """The limit would count nothing."""

    def switch(_: ModelRequest) -> AssistantMessage:
        agent.set_model(Model("second"))
        return AssistantMessage([ToolCall("1", "unknown", {})], cost=0.1, usage=Usage(input=1))

    async def check_cost(model: Model) -> None:
        if model.id == "second":
            raise ConfigError("The price is unknown.")

    provider = ScriptedProvider([switch, says("Done.")])
    config = RunConfig(
        model=Model("first"), transform=Transformer(), limits=Limits(max_cost=1), check_cost=check_cost
    )
    agent = Agent(ProviderTransport(provider), config)
    with pytest.raises(ConfigError):
        await agent.prompt("Hi")
    assert len(provider.requests) == 1


@pytest.mark.anyio
async def test_an_attachment_reaches_the_model() -> None:
    agent, provider = agent_on(says("I see."))
    paper = Attachment("document", "a.txt", "text/plain", 3, "dHh0", extracted_text="the paper")
    await agent.prompt("Read this", [paper])
    seen = provider.requests[0].messages[0]
    assert isinstance(seen, UserMessage)
    assert seen.content == [TextContent("Read this"), TextContent("the paper")]
    kept = agent.state.messages[0]
    assert isinstance(kept, UserMessage)
    assert kept.attachments == [paper]


@pytest.mark.anyio
async def test_after_unsubscribing_no_event_arrives() -> None:
    agent, _ = agent_on(says("One."), says("Two."))
    events: list[AgentEvent] = []
    unsubscribe = agent.subscribe(events.append)
    await agent.prompt("Hi")
    heard = len(events)
    unsubscribe()
    unsubscribe()
    await agent.prompt("Hi again")
    assert len(events) == heard > 0


@pytest.mark.anyio
async def test_the_partial_message_can_be_read_while_it_streams() -> None:
    agent, _ = agent_on(says("A sentence in several pieces."))
    seen: list[str] = []

    def watch(event: AgentEvent) -> None:
        if isinstance(event, MessageUpdate) and agent.state.stream_message:
            seen.append(agent.state.stream_message.text)

    agent.subscribe(watch)
    await agent.prompt("Hi")
    assert len(seen) > 1
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(seen))
    assert seen[-1] == "A sentence in several pieces."
    assert agent.state.stream_message is None


@pytest.mark.anyio
async def test_one_prompt_at_a_time() -> None:
    class Slow:
        async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
            with pytest.raises(RuntimeError, match="queue_message"):
                await agent.prompt("Me too")
            with pytest.raises(RuntimeError, match="queue_message"):
                agent.clear_messages()
            assert agent.state.is_streaming
            return says("Done.")

    agent, _ = agent_on()
    agent.transport = ProviderTransport(Slow())
    with anyio.fail_after(5):
        end = await agent.prompt("Hi")
    assert end.reason == "done"
    assert not agent.state.is_streaming


@pytest.mark.anyio
async def test_messages_can_be_appended_replaced_and_cleared() -> None:
    agent, provider = agent_on(says("Yes."))
    await agent.append_message(CustomMessage("artifact", {"name": "a"}))
    await agent.append_message(UserMessage(content="Before"))
    await agent.prompt("Hi")
    assert [
        message.text for message in provider.requests[0].messages if isinstance(message, UserMessage)
    ] == [
        "Before",
        "Hi",
    ]
    agent.replace_messages([UserMessage(content="Only this")])
    assert len(agent.state.messages) == 1
    agent.clear_messages()
    assert agent.state.messages == []


@pytest.mark.anyio
async def test_abort_without_a_run_does_nothing() -> None:
    agent, _ = agent_on(says("Still here."))
    agent.abort()
    agent.stop()
    end = await agent.prompt("Hi")
    assert end.reason == "done"


@pytest.mark.anyio
async def test_a_message_queued_before_a_run_is_part_of_it() -> None:
    agent, provider = agent_on(says("One."), says("Two."))
    await agent.queue_message(UserMessage(content="by the way"), "follow_up")
    await agent.prompt("Hi")
    assert len(provider.requests) == 2
    last = provider.requests[1].messages[-1]
    assert isinstance(last, UserMessage)
    assert last.text == "by the way"


@pytest.mark.anyio
async def test_an_error_of_a_subscriber_ends_the_run_and_is_raised() -> None:
    agent, _ = agent_on(says("One."), says("Two."))

    def broken(event: AgentEvent) -> None:
        if isinstance(event, MessageUpdate):
            raise ZeroDivisionError

    unsubscribe = agent.subscribe(broken)
    with pytest.raises(ZeroDivisionError):
        await agent.prompt("Hi")
    unsubscribe()
    end = await agent.prompt("Again")
    assert isinstance(end, AgentEnd)
    assert end.reason == "done"


def test_a_subscriber_that_nobody_would_await_is_refused() -> None:
    """Python would warn once, and no event would arrive."""

    class Handler:
        async def __call__(self, event: AgentEvent) -> None: ...

    agent, _ = agent_on()
    for subscriber in (Handler(), Handler().__call__):
        with pytest.raises(UsageError, match=r"`async` function. Give a plain one, or iterate over `stream`"):
            agent.subscribe(subscriber)  # pyright: ignore[reportArgumentType]


@pytest.mark.anyio
async def test_the_events_of_a_run_can_be_iterated_over() -> None:
    agent, _ = agent_on(says("Yes."), says("Again."))
    async with agent.stream("Hi") as stream:
        kinds = [type(event).__name__ async for event in stream]
    assert (kinds[0], kinds[-1]) == ("AgentStart", "AgentEnd")
    assert "MessageUpdate" in kinds
    assert (await agent.prompt("And?")).reason == "done"


@pytest.mark.anyio
@pytest.mark.parametrize("read", [0, 1], ids=["at once", "after an event"])
async def test_leaving_a_stream_early_aborts_the_run(read: int) -> None:
    """Otherwise a client that has gone keeps paying for its answer."""
    asked = anyio.Event()

    class Slow:
        async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
            asked.set()
            await anyio.sleep_forever()
            raise AssertionError

    agent = Agent(ProviderTransport(Slow()), RunConfig(model=Model("m"), transform=Transformer()))
    with anyio.fail_after(5):
        async with agent.stream("Hi") as stream:
            if read:
                await asked.wait()
                assert type(await anext(stream)).__name__ == "AgentStart"
    assert not agent.state.is_streaming
    agent.transport = ProviderTransport(ScriptedProvider([says("Yes.")]))
    assert (await agent.prompt("Hi")).reason == "done"


@pytest.mark.anyio
async def test_a_generator_around_a_stream_that_is_not_read_to_its_end_aborts_the_run() -> None:
    """As a server answers. Python closes the generator in another task; that must not cancel the one that has read it."""
    ended = anyio.Event()

    class Slow:
        async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
            try:
                await on_delta(TextDelta("Well"))
                await anyio.sleep_forever()
            finally:
                ended.set()
            raise AssertionError

    agent = Agent(ProviderTransport(Slow()), RunConfig(model=Model("m"), transform=Transformer()))

    async def answer() -> AsyncGenerator[AgentEvent]:
        async with agent.stream("Hi") as stream:
            async for event in stream:
                yield event

    with anyio.fail_after(5):
        async for event in answer():
            if isinstance(event, MessageUpdate):
                break
        gc.collect()
        await ended.wait()
        while agent.state.is_streaming:
            await anyio.lowlevel.checkpoint()


@pytest.mark.anyio
async def test_a_stream_raises_the_error_after_the_events_that_lead_to_it() -> None:
    provider = ScriptedProvider([ConfigError("There is no key.")])
    agent = Agent(ProviderTransport(provider), RunConfig(model=Model("m"), transform=Transformer()))
    seen: list[AgentEvent] = []
    with pytest.raises(ConfigError, match="no key"):
        async with agent.stream("Hi") as stream:
            seen = [event async for event in stream]
    assert isinstance(seen[-1], AgentEnd)
    assert seen[-1].reason == "error"


@pytest.mark.anyio
async def test_another_prompt_is_refused_during_a_stream_and_works_after_it() -> None:
    agent, _ = agent_on(says("Yes."), says("Again."))
    async with agent.stream("Hi") as stream:
        async for event in stream:
            if isinstance(event, AgentEnd):
                break
        assert (await agent.prompt("And?")).reason == "done"


@pytest.mark.anyio
async def test_a_second_stream_is_refused_while_a_prompt_runs() -> None:
    class Asking:
        async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
            with pytest.raises(RuntimeError, match="a prompt is running"):
                async with agent.stream("Hi again"):
                    pass
            return says("Yes.")

    agent = Agent(ProviderTransport(Asking()), RunConfig(model=Model("m"), transform=Transformer()))
    assert (await agent.prompt("Hi")).reason == "done"
