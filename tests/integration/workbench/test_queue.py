"""If these fail, a queued message is lost, cannot be withdrawn, or is sent although its run was stopped."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio.lowlevel
import pytest

from newel.agent.events import AgentEnd
from newel.agent.messages import UserMessage
from newel.workbench.tab_reader import take_snapshot
from newel.workbench.tab_session import TabServiceError
from newel.workbench.workbench import Workbench
from tests.integration.workbench.conftest import Bench, texts, until, wait_for_end
from tests.support import bash

pytestmark = pytest.mark.anyio


def scripted() -> dict[str, Any]:
    work = [bash("until [ -e go ]; do sleep 0.02; done"), {"content": "Worked."}]
    return {
        "scenarios": [
            {"name": "work", "trigger": "work", "steps": [{"response": each} for each in work]},
            {"name": "second", "trigger": "second", "steps": [{"response": {"content": "Two."}}]},
            {"name": "third", "trigger": "third", "steps": [{"response": {"content": "Three."}}]},
        ]
    }


@asynccontextmanager
async def busy(bench: Bench, *words: str) -> AsyncGenerator[tuple[Workbench, str, str, list[str]]]:
    """A chat whose run waits for the file ``go``, and queued messages: tabs, tab, run, and their ids."""
    async with bench.open() as board:
        tab = ((await board.open_chat()).state).id
        run = await board.tab(tab).send(UserMessage(content="work"))
        await until(lambda: bench.newel.requests)
        messages = [UserMessage(content=each) for each in words]
        for message in messages:
            await board.tab(tab).send(message)
        yield board, tab, run, [message.id for message in messages]


async def waiting(board: Workbench, tab: str) -> list[tuple[str, bool]]:
    return [(each.message.text, each.held) for each in await board.tab(tab).queue.messages()]


@pytest.mark.parametrize("now", [False, True])
async def test_both_kinds_of_stop_hold_the_queue_also_over_a_restart(
    bench_with: Callable[..., Bench], now: bool
) -> None:
    bench = bench_with(scripted())
    async with busy(bench, "second") as (board, tab, run, _):
        assert await waiting(board, tab) == [("second", False)]
        await board.tab(tab).stop(now=now)
        (bench.folder / "go").touch()
        await wait_for_end(board, run)
        await until(lambda: board.tab(tab).state.status == "idle")
        assert await waiting(board, tab) == [("second", True)]
        assert "user: second" not in await texts(board, tab)
    async with bench.open() as board:
        assert board.tab(tab).state.status == "idle"
        snapshot = await take_snapshot(board.tab(tab))
        assert [(each.message.text, each.held) for each in snapshot.queue] == [("second", True)]
        (end,) = [each for each in snapshot.told if isinstance(each.event, AgentEnd)]
        assert end.after == snapshot.messages[-1].id
        assert isinstance(end.event, AgentEnd)
        assert end.event.reason == ("aborted" if now else "stopped")
        await wait_for_end(board, await board.tab(tab).retry())
        await until(lambda: board.tab(tab).state.status == "idle")
        assert await waiting(board, tab) == []
        said = await texts(board, tab)
        assert said.count("user: second") == 1
        assert said[-1] == "assistant: Two."
    assert len(bench.newel.requests) == 3


@pytest.mark.parametrize("is_held", [False, True])
async def test_a_message_sent_after_a_stop_is_answered(
    bench_with: Callable[..., Bench], *, is_held: bool
) -> None:
    bench = bench_with(scripted())
    async with busy(bench, *(["second"] if is_held else [])) as (board, tab, run, ids):
        await board.tab(tab).stop()
        if is_held:
            await board.tab(tab).send_now(ids[0])
        else:
            await board.tab(tab).send(UserMessage(content="second"))
        assert await waiting(board, tab) == [("second", False)]
        (bench.folder / "go").touch()
        await wait_for_end(board, run)
        await until(lambda: board.tab(tab).state.status == "idle")
        assert (await texts(board, tab))[-2:] == ["user: second", "assistant: Two."]


async def test_a_held_message_is_sent_on_request_and_the_others_stay(
    bench_with: Callable[..., Bench],
) -> None:
    bench = bench_with(scripted())
    async with busy(bench, "second", "third") as (board, tab, run, ids):
        await board.tab(tab).stop(now=True)
        await wait_for_end(board, run)
        await until(lambda: board.tab(tab).state.status == "idle")
        await board.tab(tab).send_now(ids[1])
        await until(lambda: len(bench.newel.requests) == 2)
        await until(lambda: board.tab(tab).state.status == "idle")
        assert (await texts(board, tab))[-2:] == ["user: third", "assistant: Three."]
        assert await waiting(board, tab) == [("second", True)]
        with pytest.raises(TabServiceError):
            await board.tab(tab).send_now(ids[1])


async def test_a_withdrawn_message_is_never_sent(bench_with: Callable[..., Bench]) -> None:
    bench = bench_with(scripted())
    async with busy(bench, "second", "third") as (board, tab, run, ids):
        await board.tab(tab).withdraw(ids[0])
        assert await waiting(board, tab) == [("third", False)]
        assert board.tab(tab).state.queued == 1
        (bench.folder / "go").touch()
        await wait_for_end(board, run)
        await until(lambda: board.tab(tab).state.status == "idle")
        assert (await texts(board, tab))[-2:] == ["user: third", "assistant: Three."]
        assert "user: second" not in await texts(board, tab)
        for gone in ids:
            with pytest.raises(TabServiceError, match="sent or withdrawn"):
                await board.tab(tab).withdraw(gone)
    async with bench.open() as board:
        assert await waiting(board, tab) == []


async def test_a_closed_tab_sends_nothing_of_its_queue(
    bench_with: Callable[..., Bench],
) -> None:
    bench = bench_with(scripted())
    async with busy(bench, *[f"second {n}" for n in range(120)]) as (board, tab, run, ids):
        await board.tab(tab).stop(now=True)
        await wait_for_end(board, run)
        await until(lambda: board.tab(tab).state.status == "idle")
        await board.tab(tab).send_now(ids[-1])
        await board.close(tab)
        assert await board.engine.find(queue=tab, states=["queued", "waiting"]) == []


@pytest.mark.parametrize("now", [False, True])
async def test_a_stop_counts_while_a_run_begins(bench_with: Callable[..., Bench], now: bool) -> None:
    """Otherwise the run goes on after the page has said that it ends."""
    bench = bench_with(scripted())
    async with bench.open() as board:
        tab = board.tab((await board.open_chat()).state.id)

        async def stop() -> None:
            await tab.stop(now=now)

        run = await tab.send(UserMessage(content="second"))
        while tab.chat.active_agent is None:
            await anyio.lowlevel.checkpoint()
        tab.chat.active_agent.before_prompt.append(stop)
        await wait_for_end(board, run)
        assert await texts(board, tab.state.id) == ["user: second"]
        assert bench.newel.requests == []
