"""If these fail, a chat loses messages, answers one twice, or differs between windows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from newel.agent.events import MessageEnd, MessageUpdate, TextDelta
from newel.agent.messages import AssistantMessage, UserMessage
from newel.runs.chat_turn import read_events
from newel.runs.models import LiveSnapshot, SequencedEvent, Snapshot
from newel.runs.run_events import Notice
from newel.session.reader import read_session
from newel.workbench.tab_reader import Frame, follow, take_snapshot
from newel.workbench.tab_session import TabServiceError
from tests.integration.workbench.conftest import Bench, send_and_wait, texts, until, wait_for_end
from tests.support import bash, scenario

pytestmark = pytest.mark.anyio


def two(*scenarios: dict[str, Any]) -> dict[str, Any]:
    return {"scenarios": [each for one in scenarios for each in one["scenarios"]]}


async def test_a_message_is_answered_in_a_session_that_the_terminal_can_resume(
    bench_with: Callable[..., Bench],
) -> None:
    bench = bench_with(
        two(scenario("ping", {"content": "pong"}), scenario("and now", {"content": "still here"}))
    )
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        await send_and_wait(workbench, tab.id, "ping")
        assert await texts(workbench, tab.id) == ["user: ping", "assistant: pong"]
        done = await anyio.to_thread.run_sync(
            lambda: bench.newel("--session", tab.session, "--renderer", "console", "and now")
        )
        assert done.returncode == 0, done.stderr
        assert await texts(workbench, tab.id) == [
            "user: ping",
            "assistant: pong",
            "user: and now",
            "assistant: still here",
        ]
        await send_and_wait(workbench, tab.id, "ping again")
    assert len(bench.newel.sessions) == 1


async def test_a_terminal_session_opens_as_a_chat_named_by_its_first_words(
    bench_with: Callable[..., Bench],
) -> None:
    bench = bench_with(scenario("ping", {"content": "pong"}))
    assert bench.newel("ping from the terminal").returncode == 0
    session = read_session(bench.newel.sessions[0]).metadata.id
    async with bench.open() as workbench:
        tab = (await workbench.open_chat(session=session)).state
        assert tab.title == "ping from the terminal"
        assert await texts(workbench, tab.id) == ["user: ping from the terminal", "assistant: pong"]
        assert (await workbench.open_chat(session=session)).state.id == tab.id
        with pytest.raises(TabServiceError, match="no session"):
            await workbench.open_chat(session="0" * 32)


async def test_tabs_names_and_models_survive_a_restart(
    bench_with: Callable[..., Bench],
) -> None:
    bench = bench_with(scenario("ping", {"content": "pong"}))
    async with bench.open() as workbench:
        first, second = (
            (await workbench.open_chat()).state,
            (await workbench.open_chat(model="other-model")).state,
        )
        gone, agent = (await workbench.open_chat()).state, (await workbench.open_agent()).state
        await workbench.tab(first.id).rename("Shop")
        await workbench.close(gone.id)
        await send_and_wait(workbench, second.id, "ping")
    async with bench.open() as workbench:
        assert [(tab.id, tab.title, tab.model, tab.status) for tab in workbench.tabs] == [
            (first.id, "Shop", None, "idle"),
            (second.id, "ping", "other-model", "idle"),
            (agent.id, "Agent-1", None, "ready"),
        ]
    assert bench.newel.requests[0]["model"] == "other-model"


async def test_a_message_sent_twice_counts_once(bench_with: Callable[..., Bench]) -> None:
    """A page that lost the reply asks again; the model must not be asked twice."""
    bench = bench_with(scenario("ping", {"content": "pong"}))
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        message = UserMessage(content="ping", id="m1")
        runs = [await workbench.tab(tab.id).send(message) for _ in range(3)]
        await wait_for_end(workbench, runs[0])
        runs.append(await workbench.tab(tab.id).send(message))
        assert len(set(runs)) == 1
        assert await texts(workbench, tab.id) == ["user: ping", "assistant: pong"]
    assert len(bench.newel.requests) == 1


async def test_a_message_during_a_run_reaches_the_model_after_the_running_tools(
    bench_with: Callable[..., Bench],
) -> None:
    bench = bench_with(
        two(
            scenario("use two", {"content": "I use two spaces."}),
            scenario("format it", bash("until [ -e go ]; do sleep 0.02; done"), {"content": "Never said."}),
        )
    )
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        first = await workbench.tab(tab.id).send(UserMessage(content="format it"))
        await until(lambda: bench.newel.requests)
        second = await workbench.tab(tab.id).send(UserMessage(content="use two spaces"))
        assert workbench.tab(tab.id).state.queued == 1
        (bench.folder / "go").touch()
        assert await wait_for_end(workbench, first) == "done"
        assert await wait_for_end(workbench, second) == "cancelled"
        said = await texts(workbench, tab.id)
        assert [line.partition(":")[0] for line in said] == [
            "user",
            "assistant",
            "result",
            "user",
            "assistant",
        ]
        assert said[-1] == "assistant: I use two spaces."
        assert (workbench.tab(tab.id).state.queued, workbench.tab(tab.id).state.status) == (0, "idle")
    assert len(bench.newel.requests) == 2


async def test_a_message_that_the_run_did_not_take_is_answered_after_it(
    bench_with: Callable[..., Bench],
) -> None:
    bench = bench_with(two(scenario("second", {"content": "two"}), scenario("first", {"content": "one"})))
    with bench.newel.relayed() as wire:
        async with bench.open() as workbench:
            tab = (await workbench.open_chat()).state
            with wire.holding(answers_only=True):
                await workbench.tab(tab.id).send(UserMessage(content="first"))
                await until(lambda: bench.newel.requests)
                message = UserMessage(content="second")
                second = await workbench.tab(tab.id).send(message)
                await workbench.tab(tab.id).send_now(message.id)
            await wait_for_end(workbench, second)
            assert (await texts(workbench, tab.id))[-2:] == ["user: second", "assistant: two"]


async def test_an_edited_message_replaces_itself_and_its_answer(
    bench_with: Callable[..., Bench],
) -> None:
    bench = bench_with(two(scenario("ping", {"content": "pong"}), scenario("hello", {"content": "hi"})))
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        await send_and_wait(workbench, tab.id, "hello")
        wrong = UserMessage(content="ping")
        await wait_for_end(workbench, await workbench.tab(tab.id).send(wrong))
        with anyio.fail_after(8):
            seen: list[Frame] = []
            async with anyio.create_task_group() as tasks:

                async def read() -> None:
                    async for frame in follow(workbench.tab(tab.id)):
                        seen.append(frame)  # noqa: PERF401 — looked at while it grows

                tasks.start_soon(read)
                await until(lambda: seen)
                await send_and_wait(workbench, tab.id, "hello again", before=wrong.id)
                await until(lambda: read_back(seen)[2:] == ["hello again", "hi"])  # the reader may be behind
                tasks.cancel_scope.cancel()
        expected = ["user: hello", "assistant: hi", "user: hello again", "assistant: hi"]
        assert len([frame for frame in seen if isinstance(frame, Snapshot)]) == 2
        assert await texts(workbench, tab.id) == expected
        assert read_back(seen) == [line.partition(": ")[2] for line in expected]


def read_back(frames: Sequence[Frame]) -> list[str]:
    """What a reader of these frames shows in the end."""
    shown: dict[str, str] = {}
    for frame in frames:
        match frame:
            case Snapshot():
                shown = {message.id: getattr(message, "text", "") for message in frame.messages}
            case SequencedEvent(event=MessageEnd(message=message)):
                assert message.id not in shown, "a message came twice"
                shown[message.id] = getattr(message, "text", "")
            case _:
                pass
    return list(shown.values())


@pytest.mark.slow  # seconds of waiting
async def test_a_reader_that_joins_midway_gets_the_text_so_far_and_then_the_rest(
    bench_with: Callable[..., Bench],
) -> None:
    words = " ".join(f"word{number}" for number in range(60))
    step = {"response": {"content": words}, "token_delay_ms": 10}
    bench = bench_with({"scenarios": [{"name": "slow", "trigger": "speak", "steps": [step]}]})
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        run = await workbench.tab(tab.id).send(UserMessage(content="speak"))
        early = Reader()
        await early.read(follow(workbench.tab(tab.id)), until=lambda: len(early.writing) > 20)
        late = Reader()
        await late.read(follow(workbench.tab(tab.id)), until=lambda: bool(late.complete))
        await wait_for_end(workbench, run)
    assert late.began_with
    assert words.startswith(late.began_with)
    assert late.complete == [words]
    assert late.writing == words


class Reader:
    """Shows an assistant's message while it streams, from frames."""

    def __init__(self) -> None:
        self.writing = self.began_with = ""
        self.complete: list[str] = []

    async def read(self, frames: AsyncGenerator[Frame], *, until: Callable[[], bool]) -> None:
        with anyio.fail_after(8):
            async with aclosing(frames):
                async for frame in frames:
                    self.show(frame)
                    if until():
                        return

    def show(self, frame: Frame) -> None:
        match frame:
            case SequencedEvent(event=LiveSnapshot(message=AssistantMessage() as message)):
                self.writing = self.began_with = message.text
            case SequencedEvent(event=MessageUpdate(assistant_message_event=TextDelta(piece))):
                self.writing += piece
            case SequencedEvent(event=MessageEnd(message=AssistantMessage() as message)):
                self.complete.append(message.text)
            case _:
                pass


async def test_a_reader_resumes_from_its_number(bench_with: Callable[..., Bench]) -> None:
    bench = bench_with(scenario("ping", bash("echo hi"), {"content": "pong"}))
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        run = await send_and_wait(workbench, tab.id, "ping")
        whole = [entry.seq for entry in await workbench.engine.read(run)]
        numbers: list[int] = []
        with anyio.fail_after(8):
            async for frame in follow(workbench.tab(tab.id), run, 3):
                assert isinstance(frame, SequencedEvent)
                numbers.append(frame.seq)
                if frame.seq == whole[-1]:
                    break
        assert numbers == whole[3:]


async def test_stop_lets_the_request_finish_and_makes_no_other(bench_with: Callable[..., Bench]) -> None:
    bench = bench_with(
        scenario(
            "work", bash("until [ -e go ]; do sleep 0.02; done; echo made > made"), {"content": "Never."}
        )
    )
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        run = await workbench.tab(tab.id).send(UserMessage(content="work"))
        await until(lambda: bench.newel.requests)
        await workbench.tab(tab.id).stop()
        (bench.folder / "go").touch()
        await wait_for_end(workbench, run)
        assert (bench.folder / "made").exists()
        assert "Never." not in " ".join(await texts(workbench, tab.id))
        assert len(bench.newel.requests) == 1
        await wait_for_end(workbench, await workbench.tab(tab.id).retry())
        assert (await texts(workbench, tab.id))[-1] == "assistant: Never."


async def test_stop_now_ends_a_command_at_once(bench_with: Callable[..., Bench]) -> None:
    bench = bench_with(scenario("work", bash("echo started > started; sleep 60")))
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        run = await workbench.tab(tab.id).send(UserMessage(content="work"))
        await until((bench.folder / "started").exists)
        await workbench.tab(tab.id).stop(now=True)
        await wait_for_end(workbench, run)
        assert workbench.tab(tab.id).state.status == "idle"
        assert "Interrupted" in (await texts(workbench, tab.id))[-1]


async def test_a_failed_answer_can_be_retried(bench_with: Callable[..., Bench]) -> None:
    bench = bench_with(
        {
            "scenarios": [
                {
                    "name": "fails once",
                    "trigger": "ping",
                    "steps": [
                        {
                            "response": {"content": "pong"},
                            "fault": {"kind": "status", "status": 400, "times": 1},
                        }
                    ],
                }
            ]
        }
    )
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        run = await workbench.tab(tab.id).send(UserMessage(content="ping"))
        assert await wait_for_end(workbench, run) == "failed"
        assert workbench.tab(tab.id).state.status == "idle"
        await wait_for_end(workbench, await workbench.tab(tab.id).retry())
        assert (await texts(workbench, tab.id))[-1] == "assistant: pong"
        with pytest.raises(TabServiceError, match="nothing left"):
            await workbench.tab(tab.id).retry()


async def test_a_command_waits_for_approval_and_a_refusal_is_told_to_the_model(
    bench_with: Callable[..., Bench],
) -> None:
    bench = bench_with(scenario("work", bash("touch made"), {"content": "As you wish."}))
    async with bench.open(approve="ask") as workbench:
        tab = (await workbench.open_chat()).state
        run = await workbench.tab(tab.id).send(UserMessage(content="work"))
        await until(lambda: workbench.tab(tab.id).chat.questions.pending)
        question = workbench.tab(tab.id).chat.questions.pending[0]
        assert (question.kind, question.preview) == ("approval", "touch made")
        assert workbench.tab(tab.id).state.status == "waiting"
        workbench.tab(tab.id).answer(question.id, {"decision": "no", "word": "not now"})
        await wait_for_end(workbench, run)
        assert "not now" in (await texts(workbench, tab.id))[2]
        assert not (bench.folder / "made").exists()


async def test_a_chat_whose_approval_mode_is_gone_goes_on_in_that_of_the_server_and_says_so(
    bench_with: Callable[..., Bench],
) -> None:
    bench = bench_with(
        two(scenario("ping", {"content": "pong"}), scenario("again", {"content": "once more"}))
    )
    async with bench.open(approve="ask") as workbench:
        tab = (await workbench.open_chat()).state
        await workbench.tab(tab.id).set_approve("auto")
        await send_and_wait(workbench, tab.id, "ping")
    async with bench.open(approve="review") as workbench:
        assert workbench.tab(tab.id).state.approve is None
        for text in ("again", "again, please"):
            await send_and_wait(workbench, tab.id, text)
        assert (await texts(workbench, tab.id))[-1] == "assistant: once more"
        said = [
            event.message
            for run in reversed(await workbench.engine.find(queue=tab.id))
            for event in await read_events(workbench.engine, run.id)
            if isinstance(event, Notice)
        ]
        assert said == [
            "The approval mode of this chat was auto. It is review now, as Newel was started with it."
        ]
    async with bench.open(approve="ask") as workbench:
        assert workbench.tab(tab.id).state.approve == "auto"
        await send_and_wait(workbench, tab.id, "ping")


async def test_an_always_approval_is_not_asked_again_in_this_chat(
    bench_with: Callable[..., Bench],
) -> None:
    bench = bench_with(scenario("work", bash("date >> made"), {"content": "Done."}))
    async with bench.open(approve="ask") as workbench:
        tab = (await workbench.open_chat()).state
        first = await workbench.tab(tab.id).send(UserMessage(content="work"))
        await until(lambda: workbench.tab(tab.id).chat.questions.pending)
        workbench.tab(tab.id).answer(
            workbench.tab(tab.id).chat.questions.pending[0].id, {"decision": "always"}
        )
        await wait_for_end(workbench, first)
        await send_and_wait(workbench, tab.id, "work again")
        assert len((bench.folder / "made").read_text().splitlines()) == 2


async def test_a_closed_tab_ends_its_run_and_keeps_its_session(bench_with: Callable[..., Bench]) -> None:
    bench = bench_with(scenario("work", bash("echo started > started; sleep 60")))
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        run = await workbench.tab(tab.id).send(UserMessage(content="work"))
        await until((bench.folder / "started").exists)
        await workbench.close(tab.id)
        assert await wait_for_end(workbench, run) == "cancelled"
        with pytest.raises(TabServiceError, match="closed"):
            await workbench.tab(tab.id).send(UserMessage(content="work"))
        assert [each.id for each in await workbench.list_sessions()] == [tab.session]


async def test_an_ephemeral_workbench_writes_nothing_but_keeps_state_while_it_runs(
    bench_with: Callable[..., Bench],
) -> None:
    bench = bench_with(scenario("ping", {"content": "pong"}))
    async with bench.open(ephemeral=True) as workbench:
        tab = (await workbench.open_chat()).state
        await send_and_wait(workbench, tab.id, "ping")
        await send_and_wait(workbench, tab.id, "ping twice")
        assert len(await texts(workbench, tab.id)) == 4
    assert not bench.newel.sessions
    assert not (bench.newel.home / ".newel" / "jobs").exists()
    assert [message["content"] for message in bench.newel.requests[1]["messages"][1:]] == [
        "ping",
        "pong",
        "ping twice",
    ]


async def test_a_window_that_joins_a_run_as_it_fails_to_start_has_its_message(
    bench_with: Callable[..., Bench],
) -> None:
    """Otherwise the message hangs as being sent, below the error about it."""
    bench = bench_with()
    nothing = dict.fromkeys(("LLM_BASE_URL", "LLM_AUTH_TOKEN", "LLM_DEFAULT_MODEL"), "")
    bench.newel.environ |= nothing
    async with bench.open() as workbench:
        for number in range(10):
            tab = await workbench.open_chat()
            run = await tab.send(UserMessage(content="ping", id=f"m{number}"))
            async with aclosing(workbench.hub.follow(run, 0)) as items:
                async for item in items:
                    snapshot = await take_snapshot(tab)
                    ids = [message.id for message in snapshot.messages]
                    assert snapshot.seq == 0 or ids == [f"m{number}"], item
            await wait_for_end(workbench, run)
