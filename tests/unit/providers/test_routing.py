"""If these fail, a run stays with a model that cannot do it, leaves the local one without need, or loses what was done."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest

from newel.agent.errors import BadResponse, ConnectionFailed, ContextOverflow, ProviderError
from newel.agent.events import ModelRouted, Retry, TextDelta
from newel.agent.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from newel.agent.ports import AgentMode, Model, ModelRequest, OnDelta, ProviderEvent
from newel.providers.routing import (
    DEFAULT_ROUTING,
    LocalRoute,
    Route,
    RoutingLimits,
    RoutingProvider,
    UnknownAgentMode,
    read_agent_mode,
)

pytestmark = pytest.mark.anyio

LOCAL = Model("small", "here", context_window=1_000)
REMOTE = Model("large", "there")


class Named:
    """Answers with its model's name, or fails."""

    def __init__(self, text: str | None = None, error: ProviderError | None = None, pause: float = 0) -> None:
        self.requests: list[ModelRequest] = []
        self._text, self._error, self._pause = text, error, pause

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        self.requests.append(request)
        text = request.model.id if self._text is None else self._text
        if text:
            await on_delta(TextDelta(text))
        await anyio.sleep(self._pause)
        if self._error:
            raise self._error
        return AssistantMessage([TextContent(text)] if text else [], request.model.id, request.model.provider)


def call(name: str = "read") -> ToolCall:
    return ToolCall("c", name, {})


def step(
    model: Model = LOCAL, name: str = "read", *, is_error: bool = False, is_invalid: bool = False
) -> list[Message]:
    """A step that ``model`` has made in the run: a call and its result."""
    return [
        AssistantMessage([call(name)], model.id, model.provider),
        ToolResultMessage("c", name, "text", is_error=is_error or is_invalid, is_invalid=is_invalid),
    ]


async def route(
    messages: Sequence[Message],
    limits: RoutingLimits = DEFAULT_ROUTING,
    local: Named | None = None,
    remote: Named | None = None,
) -> tuple[str, list[ProviderEvent]]:
    """The text of the answer, and all that was reported."""
    events: list[ProviderEvent] = []

    async def on_delta(event: ProviderEvent) -> None:
        events.append(event)

    async def find_route(_: AgentMode) -> Route:
        return Route(remote or Named(), LocalRoute(local or Named(), LOCAL))

    provider = RoutingProvider(find_route, "hybrid_auto", limits)
    request = ModelRequest(REMOTE, "", [UserMessage("Do it."), *messages])
    answer = await provider.complete(request, on_delta)
    return answer.text, events


def decisions(events: Sequence[ProviderEvent]) -> list[tuple[str, str]]:
    return [(event.place, event.reason) for event in events if isinstance(event, ModelRouted)]


async def test_a_run_begins_locally_and_says_so_once() -> None:
    text, events = await route([])
    assert (text, decisions(events)) == ("small", [("local", "the run begins locally")])
    text, events = await route(step())
    assert (text, decisions(events)) == ("small", [])


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        (2 * step(is_invalid=True), "2 steps in a row had calls that cannot be executed"),
        (25 * step(), "25 tool calls brought no edit"),
        (25 * step(name="edit", is_error=True), "25 tool calls brought no edit"),
    ],
)
async def test_without_progress_the_remote_model_goes_on_from_the_same_history(
    history: list[Message], reason: str
) -> None:
    remote = Named()
    text, events = await route(history, remote=remote)
    assert (text, decisions(events)) == ("large", [("remote", reason)])
    assert remote.requests[0].messages[1:] == history


@pytest.mark.parametrize(
    "history",
    [
        [*step(is_invalid=True), *step(), *step(is_invalid=True)],
        [*(24 * step()), *step(name="edit"), *(24 * step())],
        2 * step(is_error=True),  # a command that fails is no invalid call
    ],
)
async def test_with_progress_the_local_model_goes_on(history: list[Message]) -> None:
    text, events = await route(history)
    assert (text, decisions(events)) == ("small", [])


async def test_the_remote_model_finishes_the_run_that_it_has_taken_over() -> None:
    text, events = await route([*(2 * step(is_invalid=True)), *step(REMOTE)])
    assert (text, decisions(events)) == ("large", [])


async def test_a_message_in_the_middle_does_not_give_the_run_back() -> None:
    text, events = await route([*step(REMOTE), UserMessage("In English, please.")])
    assert (text, decisions(events)) == ("large", [])


async def test_the_next_prompt_begins_locally_again() -> None:
    ended = AssistantMessage([TextContent("Done.")], REMOTE.id, REMOTE.provider)
    text, events = await route([*step(REMOTE), ended, UserMessage("And this.")])
    assert (text, decisions(events)) == ("small", [("local", "the run begins locally")])


@pytest.mark.parametrize(
    "error", [ConnectionFailed("No connection."), BadResponse("Junk."), ContextOverflow("Too long.")]
)
async def test_a_failed_local_model_is_replaced_and_its_text_is_void(error: ProviderError) -> None:
    text, events = await route([], local=Named("half an ans", error))
    assert text == "large"
    shown = [type(event) for event in events]
    assert shown == [ModelRouted, TextDelta, Retry, ModelRouted, TextDelta]
    assert decisions(events)[1] == ("remote", f"the local model failed: {str(error).rstrip('.')}")


async def test_an_empty_answer_is_asked_of_the_remote_model() -> None:
    text, events = await route([], local=Named(""))
    assert (text, decisions(events)[1]) == ("large", ("remote", "the local model gave an empty answer"))


async def test_a_slow_step_is_asked_of_the_remote_model() -> None:
    text, events = await route([], RoutingLimits(remote_on_timeout_ms=20), local=Named(pause=5))
    assert text == "large"
    assert decisions(events)[1][1] == "the local model failed: no complete answer within 0.02 s"


async def test_a_conversation_beyond_the_local_window_is_not_even_tried_locally() -> None:
    local = Named()
    text, events = await route([UserMessage("word " * 1_000)], local=local)
    assert (text, local.requests) == ("large", [])
    assert decisions(events) == [
        ("remote", "the conversation is too long for the local model's 1,000 tokens")
    ]


@pytest.mark.parametrize(
    ("limits", "history"),
    [
        (RoutingLimits(remote_on_schema_fail=False), 5 * step(is_invalid=True)),
        (RoutingLimits(max_local_attempts=6), 5 * step(is_invalid=True)),
        (RoutingLimits(max_tool_calls=None), 30 * step()),
        (RoutingLimits(remote_on_context_overflow=False), [UserMessage("word " * 1_000)]),
    ],
)
async def test_each_trigger_can_be_switched_off(limits: RoutingLimits, history: list[Message]) -> None:
    text, _ = await route(history, limits)
    assert text == "small"


async def test_overflow_is_reported_if_it_may_not_be_handed_over() -> None:
    limits = RoutingLimits(remote_on_context_overflow=False)
    with pytest.raises(ContextOverflow):
        await route([], limits, local=Named(error=ContextOverflow("Too long.")))


async def test_the_error_of_the_remote_model_is_the_users() -> None:
    with pytest.raises(BadResponse, match="there"):
        await route([], local=Named(error=BadResponse("here")), remote=Named(error=BadResponse("there")))


async def test_a_local_step_that_failed_does_not_make_the_run_remote() -> None:
    """The loop stores it under the name of the model that it asked for, which is the remote one."""
    aborted = AssistantMessage([TextContent("half")], REMOTE.id, REMOTE.provider, stop_reason="aborted")
    text, events = await route([*step(), aborted])
    assert (text, decisions(events)) == ("small", [])


async def ask_in(
    mode: AgentMode | None, messages: Sequence[Message] = (), *, configured: AgentMode = "remote"
) -> tuple[list[AgentMode], list[tuple[str, str]]]:
    """The modes in which routes were looked for, and the decisions, of a request in ``mode``."""
    modes: list[AgentMode] = []
    events: list[ProviderEvent] = []

    async def find_route(mode: AgentMode) -> Route:
        modes.append(mode)
        return Route(Named())

    async def on_delta(event: ProviderEvent) -> None:
        events.append(event)

    request = ModelRequest(LOCAL, "", [UserMessage("Do it."), *messages], agent_mode=mode)
    await RoutingProvider(find_route, configured).complete(request, on_delta)
    return modes, decisions(events)


async def test_each_request_goes_the_way_of_its_mode() -> None:
    assert await ask_in("remote", configured="local") == (["remote"], [])
    assert await ask_in(None, configured="hybrid_auto") == (["hybrid_auto"], [])


async def test_a_conversation_that_turns_local_says_so_once() -> None:
    """The trace would not show from where on nothing left the machine."""
    reported = [("local", "agent_mode is local")]
    assert await ask_in("local") == (["local"], reported)
    assert await ask_in("local", step(REMOTE)) == (["local"], reported)
    assert await ask_in("local", step()) == (["local"], [])


def test_an_unknown_mode_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UnknownAgentMode, match=r"'cloud'\. It is one of local, remote, hybrid_auto"):
        read_agent_mode("cloud")
