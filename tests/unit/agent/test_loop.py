"""If these fail, an agent loses messages, ignores a limit, or does not stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import msgspec
import pytest

from newel.agent.agent import Agent, ProviderTransport
from newel.agent.errors import ConnectionFailed, ContextOverflow, InvalidArguments, NoProgress, ToolError
from newel.agent.events import (
    AgentEnd,
    AgentEvent,
    ErrorEvent,
    Interrupted,
    MessageEnd,
    QueueUpdate,
    Retry,
    TextDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
)
from newel.agent.limits import MAX_REFUSED, UsageLimiter
from newel.agent.messages import (
    INTERRUPTED,
    AppMessage,
    AssistantMessage,
    CustomMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    new_id,
)
from newel.agent.ports import (
    AllowAll,
    Limits,
    Model,
    ModelRequest,
    OnDelta,
    OnOutput,
    Planned,
    Policy,
    RunConfig,
    Tool,
    ToolResult,
    ToolSpec,
    Verdict,
)
from newel.agent.transform import COMPACTION, Transformer
from tests.scripted_provider import ScriptedProvider

E = TypeVar("E")


class Say:
    """A tool that returns its text; ``work`` runs first."""

    label = "Say"

    def __init__(
        self,
        name: str = "say",
        *,
        key: str | None = None,
        read_only: bool = True,
        work: Callable[[str, OnOutput], Any] | None = None,
    ) -> None:
        self.spec = ToolSpec(
            name, "says", {"type": "object"}, aliases=("Say", "speak"), argument_aliases={"words": "text"}
        )
        self.read_only = read_only
        self.key = key
        self.work = work

    def parse(self, arguments: dict[str, Any], /) -> str:
        if not isinstance(arguments.get("text"), str):
            raise InvalidArguments("say: `text` is missing")
        return arguments["text"]

    async def serial_key(self, arguments: str, /) -> str | None:
        return self.key

    async def plan(self, arguments: str, /) -> Planned:
        async def describe() -> str:
            return arguments

        return Planned(describe, partial(self.execute, arguments))

    async def execute(self, arguments: str, on_output: OnOutput) -> ToolResult:
        if self.work is not None:
            await self.work(arguments, on_output)
        return ToolResult(f"said {arguments}")


def calls(*texts: str, name: str = "say") -> AssistantMessage:
    return AssistantMessage(
        content=[
            TextContent("Now."),
            *(ToolCall(f"c{index}-{text}", name, {"text": text}) for index, text in enumerate(texts)),
        ],
        stop_reason="toolUse",
        usage=Usage(input=10, output=5),
    )


def says(text: str) -> AssistantMessage:
    return AssistantMessage(content=[TextContent(text)], usage=Usage(input=10, output=5))


class Watched:
    """An agent with a scripted model, its requests and its events."""

    def __init__(
        self,
        script: Sequence[Any],
        tools: Sequence[Tool] = (),
        messages: Sequence[AppMessage] = (),
        **config: Any,
    ) -> None:
        self.provider = ScriptedProvider(list(script))
        self.events: list[AgentEvent] = []
        self.agent = Agent(
            ProviderTransport(self.provider),
            RunConfig(model=Model("scripted"), transform=Transformer(), tools=tuple(tools), **config),
            messages=messages,
        )
        self.agent.subscribe(self.events.append)

    @property
    def requests(self) -> list[ModelRequest]:
        return self.provider.requests

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def results(self) -> list[ToolResultMessage]:
        return [message for message in self.agent.state.messages if isinstance(message, ToolResultMessage)]


@pytest.mark.anyio
async def test_an_answer_without_calls_ends_the_run() -> None:
    watched = Watched([says("Hello.")])
    end = await watched.agent.prompt("Hi")
    assert end.reason == "done"
    assert [message.role for message in map(_Wire, watched.agent.state.messages)] == ["user", "assistant"]
    assert isinstance(watched.events[-1], AgentEnd)


class _Wire:
    def __init__(self, message: AppMessage) -> None:
        self.role = message.__struct_config__.tag


@pytest.mark.anyio
async def test_the_model_sees_the_result_of_its_call() -> None:
    watched = Watched([calls("a"), says("Done.")], [Say()])
    await watched.agent.prompt("Go")
    last = watched.requests[1].messages[-1]
    assert isinstance(last, ToolResultMessage)
    assert (last.output, last.is_error) == ("said a", False)


@pytest.mark.anyio
async def test_calls_overlap_but_results_keep_the_order_of_the_calls() -> None:
    second_ran = anyio.Event()

    async def work(text: str, _: OnOutput) -> None:
        if text == "first":
            await second_ran.wait()  # would wait forever if the calls did not overlap
        else:
            second_ran.set()

    watched = Watched([calls("first", "second"), says("Done.")], [Say(work=work)])
    with anyio.fail_after(5):
        await watched.agent.prompt("Go")
    assert [result.output for result in watched.results] == ["said first", "said second"]
    assert [end.result for end in watched.of(ToolExecutionEnd)] == ["said second", "said first"]


@pytest.mark.anyio
@pytest.mark.parametrize("key", ["same file", "*"])
async def test_calls_with_the_same_key_run_in_order(key: str) -> None:
    running: list[str] = []

    async def work(text: str, _: OnOutput) -> None:
        assert not running
        running.append(text)
        await anyio.sleep(0.01)
        running.remove(text)

    watched = Watched([calls("a", "b", "c"), says("Done.")], [Say(key=key, work=work)])
    await watched.agent.prompt("Go")
    assert [result.output for result in watched.results] == ["said a", "said b", "said c"]


@pytest.mark.anyio
async def test_an_exclusive_call_waits_for_earlier_ones_and_blocks_later_ones() -> None:
    order: list[str] = []

    async def work(text: str, _: OnOutput) -> None:
        order.append(f"+{text}")
        await anyio.sleep(0.01)
        order.append(f"-{text}")

    shared, alone = Say(work=work), Say("alone", key="*", work=work)
    message = AssistantMessage(
        content=[
            ToolCall("1", "say", {"text": "1"}),
            ToolCall("2", "alone", {"text": "2"}),
            ToolCall("3", "say", {"text": "3"}),
        ]
    )
    await Watched([message, says("Done.")], [shared, alone]).agent.prompt("Go")
    assert order == ["+1", "-1", "+2", "-2", "+3", "-3"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (ToolCall("1", "nope", {}), "no tool named 'nope'"),
        (ToolCall("1", "say", {}), "`text` is missing"),
        (ToolCall("1", "say", {"text": "x"}, problem="cut off by the output limit"), "cut off"),
    ],
)
async def test_a_call_that_cannot_run_is_explained_to_the_model(call: ToolCall, words: str) -> None:
    watched = Watched([AssistantMessage(content=[call]), says("Sorry.")], [Say()])
    end = await watched.agent.prompt("Go")
    assert end.reason == "done"
    assert watched.results[0].is_error
    assert words in watched.results[0].output
    assert watched.of(ToolExecutionStart) == []


@pytest.mark.anyio
@pytest.mark.parametrize("error", [ToolError("disk on fire"), ValueError("bad"), RuntimeError("worse")])
async def test_a_failing_tool_is_told_to_the_model_and_the_run_continues(error: Exception) -> None:
    async def work(_: str, __: OnOutput) -> None:
        raise error

    watched = Watched([calls("a"), says("I see.")], [Say(work=work)])
    end = await watched.agent.prompt("Go")
    assert end.reason == "done"
    assert watched.results[0].is_error
    assert str(error) in watched.results[0].output


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            ExceptionGroup("unhandled errors", [ExceptionGroup("inner", [ValueError("bad")])]),
            "ValueError: bad",
        ),
        (ExceptionGroup("unhandled errors", [ToolError("disk on fire")]), "disk on fire"),
        (TimeoutError(), "TimeoutError"),
    ],
)
async def test_the_model_is_told_what_failed_in_the_tasks_of_a_tool(error: Exception, told: str) -> None:
    """The model can repair only what it learns of, and "unhandled errors in a TaskGroup" names no error."""

    async def work(_: str, __: OnOutput) -> None:
        raise error

    watched = Watched([calls("a"), says("I see.")], [Say(work=work)])
    await watched.agent.prompt("Go")
    assert watched.results[0].output == told


async def await_cancelled_task(*_: object) -> Any:
    task = asyncio.create_task(asyncio.sleep(60))
    task.cancel()
    await task


@pytest.mark.anyio
@pytest.mark.parametrize("texts", [("a",), ("a", "b")])
async def test_a_cancelled_task_that_a_tool_awaits_is_told_to_the_model(texts: tuple[str, ...]) -> None:
    """Otherwise it ends the run, and the task of the program that has asked, as if the user had."""
    watched = Watched([calls(*texts), says("I see.")], [Say(work=await_cancelled_task)])
    end = await watched.agent.prompt("Go")
    assert end.reason == "done"
    told = [(result.is_error, result.output) for result in watched.results]
    assert told == [(True, "RuntimeError: a task that it awaited was cancelled")] * len(texts)


@pytest.mark.anyio
@pytest.mark.parametrize("part", ["the policy", "the provider"])
async def test_a_cancelled_task_that_another_part_awaits_is_an_error_of_the_run(part: str) -> None:
    """Otherwise the program that has asked ends without a word."""

    class Cancels(AllowAll):
        decide = await_cancelled_task

    script = [calls("a", "b")] if part == "the policy" else [await_cancelled_task]
    watched = Watched(script, [Say()], policy=Cancels())
    with pytest.raises(RuntimeError, match="a task that it awaited was cancelled"):
        await watched.agent.prompt("Go")
    assert [end.reason for end in watched.of(AgentEnd)] == ["error"]


@pytest.mark.anyio
@pytest.mark.parametrize("error", [ToolError("the host is gone"), RuntimeError("worse")])
async def test_an_error_in_serial_key_is_told_to_the_model_and_the_run_continues(
    error: Exception,
) -> None:
    """Otherwise a lost host ends the whole prompt at the first `read`, whereas `bash` only tells the model."""

    class Lost(Say):
        async def serial_key(self, arguments: str, /) -> str | None:
            raise error

    watched = Watched([calls("a", "b"), says("I see.")], [Lost()])
    end = await watched.agent.prompt("Go")
    assert end.reason == "done"
    assert watched.results[0].is_error
    assert str(error) in watched.results[0].output
    assert watched.of(ToolExecutionStart) == []


@pytest.mark.anyio
async def test_tool_aliases_are_understood_and_reported_under_our_names() -> None:
    call = ToolCall("1", "speak", {"words": "x"})
    watched = Watched([AssistantMessage(content=[call]), says("Done.")], [Say()])
    await watched.agent.prompt("Go")
    assert watched.results[0].output == "said x"
    start = watched.of(ToolExecutionStart)[0]
    assert (start.tool_name, start.args) == ("say", {"text": "x"})
    said = watched.agent.state.messages[1]
    assert isinstance(said, AssistantMessage)
    assert said.tool_calls[0].name == "say"


@pytest.mark.anyio
async def test_the_third_identical_call_with_the_same_result_gets_a_warning_and_does_not_run() -> None:
    ran: list[str] = []

    async def work(text: str, _: OnOutput) -> None:
        ran.append(text)

    script = [calls("a"), calls("a"), calls("a"), calls("a"), calls("b"), calls("a"), says("Done.")]
    watched = Watched(script, [Say(work=work)])
    await watched.agent.prompt("Go")
    assert ran == ["a", "a", "b", "a"]
    assert ["in a row" in result.output for result in watched.results] == [
        False,
        False,
        True,
        True,
        False,
        False,
    ]


def test_a_call_that_waits_may_be_repeated() -> None:
    """Otherwise a model that looks every minute whether a build is done is refused, and gives up, or reports what it does not know."""
    poll = ToolCall("1", "bash", {"command": "sleep 60; gh run view"})
    limiter = UsageLimiter(Limits())
    for _ in range(20):
        assert limiter.repetition(poll) is None
        limiter.record_result(poll, ToolResultMessage("1", "bash", "in progress", False, duration=60_400))
    quick = ToolResultMessage("1", "bash", "in progress", False, duration=400)
    for _ in range(2):
        limiter.record_result(poll, quick)
    assert limiter.repetition(poll) is not None


@pytest.mark.anyio
async def test_a_model_that_goes_on_with_a_refused_call_ends_the_run() -> None:
    """Otherwise a small model repeats it all night, and each request is paid for."""
    watched = Watched([calls("a") for _ in range(50)], [Say()])
    with pytest.raises(NoProgress, match="`say`"):
        await watched.agent.prompt("Go")
    assert len(watched.results) == 2 + MAX_REFUSED
    assert [(error.code, error.level) for error in watched.of(ErrorEvent)] == [("no_progress", "error")]
    assert watched.of(AgentEnd)[0].reason == "error"
    _assert_valid(watched.agent.state.messages)


@pytest.mark.anyio
async def test_a_message_of_the_user_to_a_stuck_model_is_answered() -> None:
    """It says what the model should do instead, as the end of the run would ask for."""
    stuck = [calls("a") for _ in range(2 + MAX_REFUSED)]
    watched = Watched([*stuck, calls("b"), says("Done.")], [Say()])

    def advise(event: AgentEvent) -> None:
        if isinstance(event, TurnEnd) and len(watched.results) == len(stuck):
            watched.agent.queue.add(UserMessage(content="Use b."), "steer")

    watched.agent.subscribe(advise)
    assert (await watched.agent.prompt("Go")).reason == "done"


@pytest.mark.anyio
async def test_what_newel_adds_to_the_conversation_is_no_reason_to_go_on() -> None:
    watched = Watched([calls("a") for _ in range(50)], [Say()])

    def tell(event: AgentEvent) -> None:
        if isinstance(event, TurnEnd):
            watched.agent.queue.add(UserMessage(content="noted", id=f"hook_{new_id()}"), "steer")

    watched.agent.subscribe(tell)
    with pytest.raises(NoProgress):
        await watched.agent.prompt("Go")


@pytest.mark.anyio
async def test_a_model_that_tries_something_else_after_refusals_goes_on() -> None:
    """Only refusals in a row show that it is stuck."""
    again = [calls("a") for _ in range(1 + MAX_REFUSED)]
    watched = Watched([*again, calls("b"), *again, says("Done.")], [Say()])
    assert (await watched.agent.prompt("Go")).reason == "done"


@pytest.mark.anyio
async def test_refused_calls_of_one_answer_leave_the_model_its_say() -> None:
    burst = AssistantMessage(content=[ToolCall(str(n), "say", {"text": "a"}) for n in range(20)])
    watched = Watched([calls("a"), calls("a"), burst, says("Done.")], [Say()])
    assert (await watched.agent.prompt("Go")).reason == "done"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("limits", "reason", "ran"),
    [
        (Limits(max_turns=2), "max_turns", 2),
        (Limits(max_tool_calls=2), "max_tool_calls", 2),
        (Limits(max_tokens=30), "max_tokens", 1),
        (Limits(max_cost=0.02), "max_cost", 1),
    ],
)
async def test_a_limit_ends_the_run_with_its_reason_and_a_valid_history(
    limits: Limits, reason: str, ran: int
) -> None:
    script = [
        AssistantMessage(
            content=[ToolCall(str(n), "say", {"text": str(n)})], usage=Usage(input=10, output=5), cost=0.01
        )
        for n in range(9)
    ]
    watched = Watched(script, [Say()], limits=limits)
    end = await watched.agent.prompt("Go")
    assert end.reason == reason
    assert "limit" in end.message
    assert len([result for result in watched.results if not result.is_error]) == ran
    _assert_valid(watched.agent.state.messages)


@pytest.mark.anyio
async def test_a_denied_call_does_not_run_and_the_model_learns_why() -> None:
    class Deny:
        async def decide(self, call: ToolCall, tool: Tool, arguments: Any, /) -> Verdict:
            return Verdict(allow=False, reason="The user declined this call: not on a Friday.")

    policy: Policy = Deny()
    watched = Watched([calls("a"), says("As you wish.")], [Say()], policy=policy)
    await watched.agent.prompt("Go")
    assert "not on a Friday" in watched.results[0].output
    assert watched.of(ToolExecutionStart) == []


@pytest.mark.anyio
async def test_steering_reaches_the_model_after_the_tools_and_a_follow_up_at_the_end() -> None:
    async def work(_: str, __: OnOutput) -> None:
        await watched.agent.queue_message(UserMessage(content="later"), "follow_up")
        await watched.agent.queue_message(UserMessage(content="now"), "steer")

    watched = Watched([calls("a"), says("Steered."), says("Followed.")], [Say(work=work)])
    await watched.agent.prompt("Go")
    seen = [
        [message.content for message in request.messages if isinstance(message, UserMessage)]
        for request in watched.requests
    ]
    assert seen == [["Go"], ["Go", "now"], ["Go", "now", "later"]]
    assert [(update.steer, update.follow_up) for update in watched.of(QueueUpdate)] == [
        (0, 1),
        (1, 1),
        (0, 1),
        (0, 0),
    ]


@pytest.mark.anyio
async def test_stop_lets_the_tools_finish_and_makes_no_further_request() -> None:
    async def work(_: str, __: OnOutput) -> None:
        watched.agent.stop()

    watched = Watched([calls("a"), says("never asked")], [Say(work=work)])
    end = await watched.agent.prompt("Go")
    assert (end.reason, len(watched.requests)) == ("stopped", 1)
    assert watched.results[0].output == "said a"
    assert "1 tool call" in end.message


@pytest.mark.anyio
async def test_an_abort_at_the_end_of_a_run_keeps_its_last_event() -> None:
    """Otherwise a screen shows the run as going on, and what it has used is lost."""

    def abort(event: AgentEvent) -> None:
        if isinstance(event, TurnEnd):
            watched.agent.abort()

    watched = Watched([calls("a"), says("never asked")], [Say()], limits=Limits(max_turns=1))
    watched.agent.subscribe(abort)
    watched.agent.on_finish(anyio.lowlevel.checkpoint)
    end = await watched.agent.prompt("Go")
    assert watched.of(AgentEnd) == [end]
    assert end.usage.total == 15


@pytest.mark.anyio
async def test_abort_in_a_tool_keeps_its_output_and_a_history_that_every_provider_accepts() -> None:
    async def work(text: str, on_output: OnOutput) -> None:
        if text == "b":
            await on_output("half of it")
            watched.agent.abort()
        await anyio.sleep(0 if text == "a" else 60)

    watched = Watched([calls("a", "b", "c"), says("never")], [Say(work=work, key="k")])
    with anyio.fail_after(5):
        end = await watched.agent.prompt("Go")
    assert end.reason == "aborted"
    outputs = [result.output for result in watched.results]
    assert outputs[0] == "said a"
    assert outputs[1].startswith(INTERRUPTED)
    assert "half of it" in outputs[1]
    assert "Not run" in outputs[2]
    assert len(watched.of(Interrupted)) == 1
    assert [update.delta for update in watched.of(ToolExecutionUpdate)] == ["half of it"]
    _assert_valid(watched.agent.state.messages)
    assert watched.agent.state.is_streaming is False


@pytest.mark.anyio
async def test_abort_during_an_answer_keeps_its_text() -> None:
    class Slow:
        async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
            await on_delta(TextDelta("Half a sen"))
            watched.agent.abort()
            await anyio.sleep(60)
            raise AssertionError

    watched = Watched([])
    watched.agent.transport = ProviderTransport(Slow())
    with anyio.fail_after(5):
        await watched.agent.prompt("Go")
    last = watched.agent.state.messages[-1]
    assert isinstance(last, AssistantMessage)
    assert (last.text, last.stop_reason) == ("Half a sen", "aborted")


@pytest.mark.anyio
@pytest.mark.parametrize("when", ["before it failed", "while it waits"])
async def test_stop_during_a_retry_pause_ends_the_run(when: str) -> None:
    """Otherwise a run on a server that is down keeps asking after Stop."""

    class Failing:
        async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
            if when == "before it failed":
                watched.agent.stop()
            await on_delta(Retry(attempt=1, max_attempts=4, delay=60.0, reason="down"))
            if when == "while it waits":
                watched.agent.stop()
            await anyio.sleep(60)
            raise AssertionError

    watched = Watched([])
    watched.agent.transport = ProviderTransport(Failing())
    with anyio.fail_after(5):
        end = await watched.agent.prompt("Go")
    assert end.reason == "aborted"
    assert (await watched.agent.prompt("Again")).reason == "aborted"
    _assert_valid(watched.agent.state.messages)


@pytest.mark.anyio
async def test_a_notice_during_a_retry_pause_does_not_prevent_a_stop() -> None:
    """Otherwise the notice of a lost connection, which arrives just then, makes Stop wait for one more request."""

    class Failing:
        async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
            await on_delta(Retry(attempt=1, max_attempts=4, delay=60.0, reason="down"))
            await watched.agent.emit(
                ErrorEvent(code="connection", message="The connection is lost.", level="info")
            )
            watched.agent.stop()
            await anyio.sleep(60)
            raise AssertionError

    watched = Watched([])
    watched.agent.transport = ProviderTransport(Failing())
    with anyio.fail_after(5):
        end = await watched.agent.prompt("Go")
    assert end.reason == "aborted"


@pytest.mark.anyio
async def test_cancellation_from_outside_passes_through() -> None:
    """The agent must not swallow a caller's own timeout."""

    async def work(_: str, __: OnOutput) -> None:
        await anyio.sleep(60)

    watched = Watched([calls("a")], [Say(work=work)])
    with anyio.move_on_after(0.05) as scope:
        await watched.agent.prompt("Go")
    assert scope.cancelled_caught
    _assert_valid(watched.agent.state.messages)


@pytest.mark.anyio
async def test_a_failing_server_ends_the_run_with_a_typed_error_and_the_next_prompt_works() -> None:
    watched = Watched([ConnectionFailed("no route"), says("Better.")])
    with pytest.raises(ConnectionFailed):
        await watched.agent.prompt("Go")
    assert watched.of(ErrorEvent)[0].code == "connection_failed"
    assert watched.of(AgentEnd)[0].reason == "error"
    assert watched.agent.state.error == "no route"
    end = await watched.agent.prompt("Again")
    assert end.reason == "done"
    assert [type(message) for message in watched.requests[1].messages] == [UserMessage, UserMessage]


@pytest.mark.anyio
async def test_an_open_call_after_a_crash_is_answered_unknown_and_never_run() -> None:
    history = [UserMessage(content="Go"), calls("a")]
    watched = Watched([says("I will look first.")], [Say(read_only=False)], messages=history)
    await watched.agent.prompt("Go on")
    assert watched.results[0].output == INTERRUPTED
    assert watched.of(ToolExecutionStart) == []
    _assert_valid(watched.agent.state.messages)


@pytest.mark.anyio
async def test_an_open_read_only_call_after_a_crash_runs_again() -> None:
    """Reading twice loses nothing, and the run continues without help."""
    history = [UserMessage(content="Go"), calls("a")]
    watched = Watched([says("I have read it.")], [Say()], messages=history)
    end = await watched.agent.answer([])
    assert end.reason == "done"
    assert [event.tool_call_id for event in watched.of(ToolExecutionStart)] == [
        watched.results[0].tool_call_id
    ]
    assert not watched.results[0].is_error
    _assert_valid(watched.agent.state.messages)


@pytest.mark.anyio
async def test_an_open_call_that_never_began_runs_after_a_crash() -> None:
    """A call that awaited approval is asked about again, and not reported as possibly done."""
    waiting = calls("a", "b")
    watched = Watched([says("Done.")], [Say(read_only=False)])
    watched.agent.replace_messages(
        [UserMessage(content="Go"), waiting], never_begun={call.id for call in waiting.tool_calls}
    )
    await watched.agent.answer([])
    assert [result.output for result in watched.results] == ["said a", "said b"]
    _assert_valid(watched.agent.state.messages)


@pytest.mark.anyio
async def test_a_call_behind_one_with_unknown_outcome_does_not_run() -> None:
    asked = calls("a", "b")
    watched = Watched([says("I will look first.")], [Say(read_only=False)])
    watched.agent.replace_messages([UserMessage(content="Go"), asked], never_begun={asked.tool_calls[1].id})
    await watched.agent.answer([])
    assert [result.output for result in watched.results] == [
        INTERRUPTED,
        "Not run: stopped before this call started.",
    ]
    assert watched.of(ToolExecutionStart) == []
    _assert_valid(watched.agent.state.messages)


@pytest.mark.anyio
async def test_an_overlong_conversation_is_compacted_once_and_sent_again() -> None:
    async def compact(
        messages: Sequence[AppMessage], usage: Usage, /, *, overflow: bool
    ) -> AppMessage | None:
        if not overflow:
            return None
        task = [message for message in messages if isinstance(message, UserMessage)][-1]
        return CustomMessage(COMPACTION, {"summary": "We greeted.", "firstKept": task.id})

    history = [UserMessage(content="Hi"), says("Hello.")]
    answer = msgspec.structs.replace(calls("a"), usage=Usage(input=10, output=5), cost=0.01)
    script = [ContextOverflow("too long"), answer, says("Shorter.")]
    # The overflow is neither a turn nor an answer without usage, so no limit ends the run.
    watched = Watched(
        script, [Say()], messages=history, compact=compact, limits=Limits(max_cost=1, max_turns=2)
    )
    end = await watched.agent.prompt("Go on")
    assert end.reason == "done"
    texts = [message.text for message in watched.requests[1].messages if isinstance(message, UserMessage)]
    assert texts[0].endswith("We greeted.")
    assert texts[1] == "Go on"


@pytest.mark.anyio
async def test_events_are_recorded_before_any_subscriber_gets_them() -> None:
    recorded: list[AgentEvent] = []

    async def record(event: AgentEvent) -> None:
        recorded.append(event)

    provider = ScriptedProvider([calls("a"), says("Done.")])
    config = RunConfig(model=Model("m"), transform=Transformer(), tools=(Say(),))
    agent = Agent(ProviderTransport(provider), config, record=record)
    agent.subscribe(lambda event: _assert(recorded[-1] is event))
    await agent.prompt("Go")
    kinds = [type(event) for event in recorded]
    assert kinds.index(MessageEnd) < kinds.index(ToolExecutionStart)


@pytest.mark.anyio
async def test_an_error_of_the_recorder_ends_the_run_before_the_next_side_effect() -> None:
    ran: list[str] = []

    async def work(text: str, _: OnOutput) -> None:
        ran.append(text)

    async def record(event: AgentEvent) -> None:
        if isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
            raise OSError("disk full")

    config = RunConfig(model=Model("m"), transform=Transformer(), tools=(Say(work=work),))
    agent = Agent(ProviderTransport(ScriptedProvider([calls("a")])), config, record=record)
    with pytest.raises(OSError, match="disk full"):
        await agent.prompt("Go")
    assert ran == []


def _assert(condition: object) -> None:
    assert condition


def _assert_valid(messages: Sequence[AppMessage]) -> None:
    """Check that each call has exactly one result, after it and before the next other message."""
    waiting: list[str] = []
    for message in messages:
        match message:
            case AssistantMessage():
                assert not waiting
                waiting = [call.id for call in message.tool_calls]
            case ToolResultMessage():
                assert message.tool_call_id == waiting.pop(0)
            case UserMessage():
                assert not waiting
            case CustomMessage():
                pass
    assert not waiting


@pytest.mark.anyio
@pytest.mark.parametrize("key", [None, "*"])
async def test_an_error_of_a_subscriber_in_a_batch_leaves_a_result_for_each_call(key: str | None) -> None:
    """Otherwise the next prompt takes finished work for work with an unknown outcome."""
    recorded: list[ToolResultMessage] = []

    async def record(event: AgentEvent) -> None:
        if isinstance(event, MessageEnd) and isinstance(event.message, ToolResultMessage):
            recorded.append(event.message)

    def broken(event: AgentEvent) -> None:
        if isinstance(event, MessageEnd) and isinstance(event.message, ToolResultMessage):
            raise ZeroDivisionError

    heard: list[AgentEvent] = []
    config = RunConfig(model=Model("m"), transform=Transformer(), tools=(Say(key=key),))
    agent = Agent(ProviderTransport(ScriptedProvider([calls(*"abcdef")])), config, record=record)
    agent.subscribe(broken)
    agent.subscribe(heard.append)
    with pytest.raises(ZeroDivisionError):
        await agent.prompt("Go")
    assert recorded[0].output == "said a"
    assert len(recorded) == 6
    assert isinstance(heard[-1], AgentEnd)
    _assert_valid(agent.state.messages)
