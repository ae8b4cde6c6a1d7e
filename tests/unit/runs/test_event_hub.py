"""If these fail, a slow or late reader of a run misses events, or gets them twice."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newel.agent.events import (
    AgentEnd,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    QueueUpdate,
    Retry,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from newel.agent.messages import AssistantMessage, TextContent, ThinkingContent
from newel.jobs.engine import Engine, EngineError, JobCancelled, JobOutcome, Lease
from newel.jobs.sqlite import open_engine
from newel.runs.event_hub import TAIL, EventHub, JournalWriter
from newel.runs.models import LiveSnapshot, SequencedEvent
from newel.runs.run_events import RunEvent, is_lasting
from tests.properties import examples

DONE = JobOutcome(state="done")


class View:
    """A screen's view of a run, folded from its input."""

    def __init__(self) -> None:
        self.lasting: list[tuple[int, RunEvent]] = []
        self.message: str | None = None
        self.parts: list[tuple[str, str]] = []
        self.outputs: dict[str, str] = {}

    def __call__(self, item: SequencedEvent) -> None:
        match item:
            case SequencedEvent(event=LiveSnapshot() as snapshot):
                self._replace(snapshot)
            case SequencedEvent(seq=seq, event=event):
                assert not isinstance(event, LiveSnapshot)
                if is_lasting(event):
                    self.lasting.append((seq, event))
                assert seq == self.seq
                self._fold(event)

    @property
    def seq(self) -> int:
        return self.lasting[-1][0] if self.lasting else 0

    @property
    def now(self) -> tuple[object, ...]:
        shown = {call: text for call, text in self.outputs.items() if text}
        return self.seq, self.message, list(self.parts), shown

    def _replace(self, so_far: LiveSnapshot) -> None:
        self.outputs = dict(so_far.outputs)
        self.message, self.parts = None, []
        if so_far.message is not None:
            self.message = so_far.message.id
            for part in so_far.message.content:
                match part:
                    case TextContent(text):
                        self._add("text", text)
                    case ThinkingContent(thinking):
                        self._add("thinking", thinking)
                    case _:
                        pytest.fail("a call that is not whole was shown")

    def _fold(self, event: RunEvent) -> None:
        match event:
            case MessageStart():
                self.message, self.parts = event.message.id, []
            case MessageUpdate(assistant_message_event=TextDelta(delta)):
                self._add("text", delta)
            case MessageUpdate(assistant_message_event=ThinkingDelta(delta)):
                self._add("thinking", delta)
            case MessageEnd() | AgentEnd():
                self.message, self.parts = None, []
            case Retry():
                self.parts = []
            case ToolExecutionUpdate():
                self.outputs[event.tool_call_id] = self.outputs.get(event.tool_call_id, "") + event.delta
            case ToolExecutionEnd():
                self.outputs.pop(event.tool_call_id, None)
            case _:
                pass

    def _add(self, kind: str, text: str) -> None:
        if self.parts and self.parts[-1][0] == kind:
            text = self.parts.pop()[1] + text
        self.parts.append((kind, text))


def message(number: int) -> AssistantMessage:
    return AssistantMessage(content=[], id=f"m{number}")


def update(number: int, delta: TextDelta | ThinkingDelta | ToolCallDelta) -> MessageUpdate:
    return MessageUpdate(message_id=f"m{number}", assistant_message_event=delta)


@asynccontextmanager
async def live(engine: Engine, *, room: int = 512) -> AsyncGenerator[tuple[EventHub, Lease, JournalWriter]]:
    """A run in this process."""
    async with EventHub(engine, capacity=room) as feed:
        await engine.submit("turn", b"{}", queue="q")
        (lease,) = await engine.claim(1, "w")
        yield feed, lease, JournalWriter(engine, lease, feed)


async def read_all(feed: EventHub, run: str, after: int = 0) -> list[SequencedEvent]:
    return [item async for item in feed.follow(run, after)]


# -- the invariant ------------------------------------------------------------------------------------


@st.composite
def stories(draw: st.DrawFn) -> list[RunEvent]:
    """The events of a run: messages in deltas, with retries, and the output of concurrent tools."""
    events: list[RunEvent] = [AgentStart()]
    pieces = st.text("ab\n", max_size=3)
    for number in range(draw(st.integers(1, 4))):
        events.append(MessageStart(message=message(number)))
        for kind in draw(st.lists(st.sampled_from("ttttttkkcr"), max_size=40)):
            match kind:
                case "t":
                    events.append(update(number, TextDelta(draw(pieces))))
                case "k":
                    events.append(update(number, ThinkingDelta(draw(pieces))))
                case "c":
                    events.append(update(number, ToolCallDelta(0, delta=draw(pieces))))
                case _:
                    events.append(Retry(attempt=1, max_attempts=3, delay=0, reason=""))
        events.append(MessageEnd(message=message(number)))
        calls = [f"c{number}.{call}" for call in range(draw(st.integers(0, 2)))]
        events += [ToolExecutionStart(tool_call_id=call, tool_name="bash", args={}) for call in calls]
        if calls:
            for call in draw(st.lists(st.sampled_from(calls), max_size=30)):
                events.append(ToolExecutionUpdate(tool_call_id=call, delta=draw(pieces)))
        events += [
            ToolExecutionEnd(tool_call_id=call, tool_name="bash", result="", is_error=False, duration=1)
            for call in calls
        ]
        events.append(QueueUpdate(steer=0, follow_up=0))
    return [*events, AgentEnd(reason="done")]


READERS = st.lists(
    # When it joins, after how many items it reconnects, how long it takes over each item.
    st.tuples(st.integers(0, 60), st.integers(1, 40), st.integers(0, 6)),
    min_size=1,
    max_size=5,
)


@settings(max_examples=examples(25), deadline=None)
@given(story=stories(), readers=READERS, room=st.integers(1, 12), pace=st.integers(0, 3))
def test_every_reader_gets_each_event_once_and_in_order(
    story: list[RunEvent], readers: list[tuple[int, int, int]], room: int, pace: int
) -> None:
    """Late, slow, or resuming: it always shows a state that was true at some moment."""
    truth = View()
    history = [truth.now]
    views = [View() for _ in readers]

    async def publish(engine: Engine, lease: Lease, record: JournalWriter) -> None:
        for event in story:
            seq = record.seq + is_lasting(event)
            truth(SequencedEvent("run", seq, event))
            history.append(truth.now)
            await record(event)
            for _ in range(pace):
                await anyio.lowlevel.checkpoint()
        await engine.finish(lease, DONE)

    async def read(feed: EventHub, run: str, view: View, habits: tuple[int, int, int]) -> None:
        join, stay, slow = habits
        for _ in range(join):
            await anyio.lowlevel.checkpoint()
        seen, ended = 0, False
        while not ended:
            left = stay
            async with aclosing(feed.follow(run, view.seq)) as items:
                async for item in items:
                    view(item)
                    if isinstance(item.event, LiveSnapshot) or not is_lasting(item.event):
                        seen = history.index(view.now, seen)
                    for _ in range(slow):
                        await anyio.lowlevel.checkpoint()
                    if (left := left - 1) <= 0:
                        break
                else:
                    ended = True

    async def main() -> None:
        async with open_engine(None) as engine, live(engine, room=room) as (feed, lease, record):
            async with anyio.create_task_group() as tasks:
                for view, habits in zip(views, readers, strict=True):
                    tasks.start_soon(read, feed, lease.job, view, habits)
                tasks.start_soon(publish, engine, lease, record)
            assert await forgotten(feed)

    anyio.run(main)
    for view in views:
        assert view.lasting == truth.lasting
        assert view.now == truth.now


async def forgotten(feed: EventHub) -> bool:
    """Whether the feed keeps nothing once its watchers have seen the end."""
    await anyio.wait_all_tasks_blocked()
    return not feed._runs  # pyright: ignore[reportPrivateUsage] — no reader can tell


# -- one by one ---------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_late_reader_gets_the_partial_message_and_the_following_events(
    engine: Engine,
) -> None:
    async with live(engine) as (feed, lease, record):
        await record(AgentStart())
        await record(MessageStart(message=message(1)))
        await record(update(1, TextDelta("Hel")))
        await record(ToolExecutionStart(tool_call_id="c", tool_name="bash", args={}))
        await record(ToolExecutionUpdate(tool_call_id="c", delta="x" * TAIL))
        await record(ToolExecutionUpdate(tool_call_id="c", delta="end"))
        async with aclosing(feed.follow(lease.job)) as items:
            assert [(await anext(items)).seq for _ in range(2)] == [1, 2]
            so_far = (await anext(items)).event
            assert isinstance(so_far, LiveSnapshot)
            assert so_far.message is not None
            assert so_far.message.text == "Hel"
            assert so_far.outputs == {"c": "x" * (TAIL - 3) + "end"}
            await record(update(1, TextDelta("lo")))
            following = await anext(items)
            assert isinstance(following.event, MessageUpdate)
            assert (following.seq, following.event.assistant_message_event) == (2, TextDelta("lo"))


@pytest.mark.anyio
async def test_a_slow_reader_gets_pending_deltas_merged(engine: Engine) -> None:
    async with live(engine) as (feed, lease, record), aclosing(feed.follow(lease.job)) as items:
        await record(MessageStart(message=message(1)))
        await anext(items)
        for event in (TextDelta("a"), TextDelta("b"), ThinkingDelta("c"), TextDelta("d")):
            await record(update(1, event))
        for delta in ("{", "}"):
            await record(update(1, ToolCallDelta(0, "read" if delta == "{" else None, delta)))
        await record(ToolExecutionUpdate(tool_call_id="c", delta="1"))
        await record(ToolExecutionUpdate(tool_call_id="c", delta="2"))
        await record(ToolExecutionUpdate(tool_call_id="d", delta="3"))
        got = [await anext(items) for _ in range(6)]
        deltas: list[object] = []
        for item in got:
            match item.event:
                case MessageUpdate(assistant_message_event=delta):
                    deltas.append(delta)
                case ToolExecutionUpdate(tool_call_id=call, delta=delta):
                    deltas.append((call, delta))
                case _:
                    pytest.fail("another event")
        assert deltas == [
            TextDelta("ab"),
            ThinkingDelta("c"),
            TextDelta("d"),
            ToolCallDelta(0, "read", "{}"),
            ("c", "12"),
            ("d", "3"),
        ]


@pytest.mark.anyio
async def test_a_run_of_an_earlier_process_is_read_from_the_journal_and_then_live(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine, live(engine) as (_, _, record):
        await record(AgentStart())
        await record(MessageEnd(message=message(1)))
    async with open_engine(tmp_path) as engine, EventHub(engine) as feed:
        view = View()

        async def read() -> None:
            async for item in feed.follow(record.run, 1):
                view(item)

        view.lasting.append((1, AgentStart()))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            (lease,) = await engine.claim(1, "w")
            again = JournalWriter(engine, lease, feed)
            assert again.seq == 2
            await again(MessageStart(message=message(2)))
            await again(update(2, TextDelta("on")))
            await again(MessageEnd(message=message(2)))
            await engine.finish(lease, DONE)
        assert [seq for seq, _ in view.lasting] == [1, 2, 3]


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["done", "cancelled", "unknown", "cancelled later"])
async def test_reading_ends_with_the_run_however_it_ends(engine: Engine, how: str) -> None:
    """Otherwise a page shows a purged run forever."""
    async with EventHub(engine) as feed:
        run = await engine.submit("turn", b"{}", queue="q")
        if how == "done":
            (lease,) = await engine.claim(1, "w")
            await JournalWriter(engine, lease, feed)(AgentStart())
            await engine.finish(lease, DONE)
        elif how == "cancelled":
            await engine.cancel(run, "")
        async with anyio.create_task_group() as tasks:
            if how == "cancelled later":
                tasks.start_soon(read_all, feed, run)
                await anyio.wait_all_tasks_blocked()
                await engine.cancel(run, "")
            else:
                items = await read_all(feed, "nobody" if how == "unknown" else run)
                assert len(items) == (how == "done")
        assert await forgotten(feed)


@pytest.mark.slow  # a thousand readers
@pytest.mark.anyio
async def test_a_thousand_stalled_readers_cost_little(engine: Engine) -> None:
    """A page left open on a train must not fill the server's memory."""
    async with live(engine) as (feed, lease, record):
        readers = [feed.follow(lease.job) for _ in range(1000)]
        await record(MessageStart(message=message(1)))
        for reader in readers:
            await anext(reader)
        tracemalloc.start()
        for number in range(3000):
            await record(update(1, TextDelta(f"{number:4}")))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 20 << 20
        assert isinstance((await anext(readers[0])).event, LiveSnapshot)
        for reader in readers:
            await reader.aclose()


@pytest.mark.anyio
async def test_an_unreadable_journal_is_reported_only_to_its_readers(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine, EventHub(engine) as feed:
        run = await engine.submit("turn", b"{}", queue="q")
        told: list[str] = []

        async def read() -> None:
            try:
                await read_all(feed, run)
            except EngineError as error:
                told.append(str(error))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            await engine.aclose()
        assert len(told) == 1
        assert "was closed" in told[0]


@pytest.mark.anyio
async def test_concurrent_events_are_recorded_in_order(engine: Engine) -> None:
    """Concurrent tools report at the same time."""
    async with live(engine) as (feed, lease, record):
        starts = [ToolExecutionStart(tool_call_id=f"{n}", tool_name="read", args={}) for n in range(50)]
        async with anyio.create_task_group() as tasks:
            for start in starts:
                tasks.start_soon(record, start)
        await engine.finish(lease, DONE)
        items = await read_all(feed, lease.job)
        assert [item.event for item in items if not isinstance(item.event, LiveSnapshot)] == starts
        assert record.seq == 50


@pytest.mark.anyio
async def test_a_run_aborted_during_an_event_continues_with_the_right_number(
    engine: Engine,
) -> None:
    """Otherwise the closing events of an aborted run are refused, and the conversation stays open."""
    async with live(engine) as (_, lease, record):
        for _ in range(20):
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(record, AgentStart())
                    await anyio.lowlevel.checkpoint()
                    scope.cancel()
            await record(AgentEnd(reason="aborted"))
        job = await engine.get(lease.job)
        assert job is not None
        assert job.seq == record.seq == len(await engine.read(lease.job))


@pytest.mark.anyio
async def test_a_cancelled_run_learns_of_it_with_its_next_event(engine: Engine) -> None:
    async with live(engine) as (_, lease, record):
        await engine.cancel(lease.job, "closed")
        with pytest.raises(JobCancelled, match="closed"):
            await record(AgentStart())


@pytest.mark.anyio
async def test_an_error_in_a_feed_is_raised_unchanged(engine: Engine) -> None:
    with pytest.raises(EngineError, match="mine"):
        async with EventHub(engine):
            raise EngineError("mine")
    with pytest.raises(RuntimeError, match="async with"):
        EventHub(engine).publish("run", 0, AgentStart())
