"""If these fail, simultaneous actions of windows and programs interfere with each other."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio
import pytest

from newel.agent.messages import UserMessage
from newel.concurrency import map_concurrently
from newel.jobs.engine import Engine, Job
from newel.runs.models import Contract, SequencedEvent
from newel.session.manager import SessionManager
from newel.session.reader import read_session
from newel.workbench.tab_reader import follow
from newel.workbench.tab_session import TabServiceError, TabSession
from tests.integration.workbench.conftest import Bench, send_and_wait, texts, until, wait_for_end
from tests.integration.workbench.test_agents import contract_scenarios
from tests.support import scenario

pytestmark = pytest.mark.anyio


async def test_a_chat_whose_session_is_in_use_says_so_and_answers_later(
    bench_with: Callable[..., Bench],
) -> None:
    """Otherwise a message is acknowledged and then lost."""
    bench = bench_with(scenario("ping", {"content": "pong"}))
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        await send_and_wait(workbench, tab.id, "ping")
        home = bench.newel.home / ".newel" / "sessions"
        with SessionManager(directory=home, cwd=str(bench.folder), session=tab.session):
            run = await workbench.tab(tab.id).send(UserMessage(content="ping while it is held"))
            assert await wait_for_end(workbench, run) == "failed"
            events: list[str] = []
            with anyio.fail_after(8):
                async for frame in follow(workbench.tab(tab.id), run, 0):
                    assert isinstance(frame, SequencedEvent)
                    events.append(getattr(frame.event, "message", ""))
                    if frame.event.__struct_config__.tag == "agent_end":
                        break
            assert "is open" in events[-1]
            assert (await texts(workbench, tab.id))[-1] == "user: ping while it is held"
        await wait_for_end(workbench, await workbench.tab(tab.id).retry())
        assert (await texts(workbench, tab.id))[-2:] == ["user: ping while it is held", "assistant: pong"]


async def test_what_two_windows_open_at_once_is_opened_once(bench_with: Callable[..., Bench]) -> None:
    """Otherwise a session has two tabs, of which one cannot answer, and programs without tabs talk to two chats."""
    bench = bench_with(scenario("ping", {"content": "pong"}))
    assert bench.newel("ping").returncode == 0
    session = read_session(bench.newel.sessions[0]).metadata.id
    async with bench.open(work=False) as workbench:
        openers: list[Callable[[], Awaitable[TabSession]]] = [
            lambda: workbench.open_chat(session=session),
            workbench.default_chat,
            workbench.open_agent,
        ]
        for opener in openers:
            await map_concurrently(lambda _, opener=opener: opener(), [1, 2], 2)
        assert [tab.title for tab in workbench.tabs] == ["ping", "Chat", "Agent-1", "Agent-2"]


async def test_a_stop_right_after_sending_keeps_the_message_and_makes_no_request(
    bench_with: Callable[..., Bench],
) -> None:
    bench = bench_with(scenario("ping", {"content": "pong"}))
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        run = await workbench.tab(tab.id).send(UserMessage(content="ping"))
        await workbench.tab(tab.id).stop()
        await wait_for_end(workbench, run)
        assert bench.newel.requests == []
        assert await texts(workbench, tab.id) == ["user: ping"]
        await wait_for_end(workbench, await workbench.tab(tab.id).retry())
        assert (await texts(workbench, tab.id))[-1] == "assistant: pong"


async def test_an_agent_started_in_two_windows_at_once_runs_once(bench_with: Callable[..., Bench]) -> None:
    bench = bench_with(contract_scenarios("echo x >> made"))
    async with bench.open() as workbench:
        tab = (await workbench.open_agent()).state
        started: list[str] = []

        async def start() -> None:
            with contextlib.suppress(TabServiceError):
                started.append(await workbench.tab(tab.id).start(Contract(text="Make it")))

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(start)
        assert len(started) == 1
        await wait_for_end(workbench, started[0])
        assert workbench.tab(tab.id).state.status == "completed"
    assert (bench.folder / "made").read_text() == "x\n"


async def test_an_agent_stopped_as_it_starts_does_not_run(bench_with: Callable[..., Bench]) -> None:
    bench = bench_with(contract_scenarios("echo x >> made"))
    async with bench.open() as workbench:
        tab = (await workbench.open_agent()).state
        run = await workbench.tab(tab.id).start(Contract(text="Make it"))
        await workbench.tab(tab.id).stop()
        await wait_for_end(workbench, run)
        assert workbench.tab(tab.id).state.status == "stopped"
        assert bench.newel.requests == []


async def test_retry_pressed_in_two_windows_at_once_is_one_run(bench_with: Callable[..., Bench]) -> None:
    step = {"response": {"content": "pong"}, "fault": {"kind": "status", "status": 400, "times": 1}}
    bench = bench_with({"scenarios": [{"name": "fails once", "trigger": "ping", "steps": [step]}]})
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        await send_and_wait(workbench, tab.id, "ping")
        runs: list[str] = []

        async def retry() -> None:
            runs.append(await workbench.tab(tab.id).retry())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(retry)
            tasks.start_soon(retry)
        await wait_for_end(workbench, runs[0])
        assert len(set(runs)) == 1
        assert (await texts(workbench, tab.id))[-1] == "assistant: pong"
    assert len(bench.newel.requests) == 2


async def test_an_edit_of_a_message_that_another_window_withdrew_is_refused(
    bench_with: Callable[..., Bench],
) -> None:
    """Appending it instead would send text in the wrong place."""
    bench = bench_with(scenario("ping", {"content": "pong"}))
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        first = UserMessage(content="ping")
        await wait_for_end(workbench, await workbench.tab(tab.id).send(first))
        edit = UserMessage(content="ping, edited")
        await wait_for_end(workbench, await workbench.tab(tab.id).send(edit, before=first.id))
        assert await workbench.tab(tab.id).send(
            edit, before=first.id
        )  # the reply was lost: the same message again
        with pytest.raises(TabServiceError, match="no longer part"):
            await workbench.tab(tab.id).send(UserMessage(content="ping, other"), before=first.id)
        assert await texts(workbench, tab.id) == ["user: ping, edited", "assistant: pong"]


class LateFinds:
    """The engine, on a disk that is slow to list its jobs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def find(self, **which: Any) -> list[Job]:
        found = await self._engine.find(**which)
        await anyio.sleep(0.3)
        return found


async def test_a_message_that_arrives_as_a_run_ends_is_sent_once(bench_with: Callable[..., Bench]) -> None:
    """Its own run starts while the message is passed to the one before: otherwise both send it, and commands run twice."""
    bench = bench_with(scenario("ping", {"response": {"content": "pong"}, "delay_ms": 150}))
    async with bench.open() as workbench:
        tab = ((await workbench.open_chat()).state).id
        workbench.engine = cast("Engine", LateFinds(workbench.engine))
        await workbench.tab(tab).send(UserMessage(content="ping 1"))
        await until(lambda: bench.newel.requests)
        await wait_for_end(workbench, await workbench.tab(tab).send(UserMessage(content="ping 2")))
        await until(lambda: workbench.tab(tab).state.status == "idle")
        assert await texts(workbench, tab) == [
            "user: ping 1", "assistant: pong", "user: ping 2", "assistant: pong",
        ]  # fmt: skip
