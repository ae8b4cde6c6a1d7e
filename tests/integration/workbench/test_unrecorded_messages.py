"""If these fail, an acknowledged message is lost when its run cannot start or record it."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from newel.agent.messages import UserMessage
from tests.integration.workbench.conftest import Bench, send_and_wait, texts, until, wait_for_end
from tests.support import scenario

pytestmark = pytest.mark.anyio

BenchWith = Callable[..., Bench]


async def test_messages_that_could_not_be_saved_precede_the_next_one(bench_with: BenchWith) -> None:
    bench = bench_with(scenario("ping", {"content": "pong"}))
    sessions = bench.newel.home / ".newel" / "sessions"
    lines = ["user: ping one", "user: ping two"]
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        sessions.write_text("in the way")
        for line in lines:
            await send_and_wait(workbench, tab.id, line.removeprefix("user: "))
        assert await texts(workbench, tab.id) == lines
    async with bench.open() as workbench:
        assert await texts(workbench, tab.id) == lines
        sessions.unlink()
        await send_and_wait(workbench, tab.id, "ping three")
        assert await texts(workbench, tab.id) == [*lines, "user: ping three", "assistant: pong"]
    async with bench.open() as workbench:
        assert await texts(workbench, tab.id) == [*lines, "user: ping three", "assistant: pong"]


async def test_a_retry_answers_a_message_that_could_not_be_saved(bench_with: BenchWith) -> None:
    bench = bench_with(scenario("ping", {"content": "pong"}))
    sessions = bench.newel.home / ".newel" / "sessions"
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        sessions.write_text("in the way")
        await send_and_wait(workbench, tab.id, "ping one")
        await wait_for_end(workbench, await workbench.tab(tab.id).retry())
        sessions.unlink()
        await wait_for_end(workbench, await workbench.tab(tab.id).retry())
        assert await texts(workbench, tab.id) == ["user: ping one", "assistant: pong"]


async def test_queued_messages_stay_out_of_the_next_conversation(bench_with: BenchWith) -> None:
    work = {"tool_calls": [{"function": {"name": "bash", "arguments": {"command": "touch on; sleep 60"}}}]}
    two = [scenario("work", work), scenario("ping", {"content": "pong"})]
    bench = bench_with({"scenarios": [each for one in two for each in one["scenarios"]]})
    async with bench.open() as workbench:
        tab = (await workbench.default_chat()).state
        await workbench.tab(tab.id).send(UserMessage(content="work"))
        await until((bench.folder / "on").exists)
        await workbench.tab(tab.id).send(UserMessage(content="ping one"))
        await (await workbench.default_chat()).clear()
        await send_and_wait(workbench, tab.id, "ping two")
        assert await texts(workbench, tab.id) == ["user: ping two", "assistant: pong"]


async def test_a_message_whose_run_has_not_started_ends_with_its_conversation(bench_with: BenchWith) -> None:
    bench = bench_with(scenario("ping", {"content": "pong"}))
    async with bench.open(work=False) as workbench:
        chat = await workbench.default_chat()
        await chat.send(UserMessage(content="ping one"))
        await chat.clear()
    async with bench.open() as workbench:
        tab = (await workbench.default_chat()).state
        await send_and_wait(workbench, tab.id, "ping two")
        assert await texts(workbench, tab.id) == ["user: ping two", "assistant: pong"]


async def test_failed_messages_stay_out_of_the_next_conversation(bench_with: BenchWith) -> None:
    bench = bench_with(scenario("ping", {"content": "pong"}))
    sessions = bench.newel.home / ".newel" / "sessions"
    async with bench.open() as workbench:
        tab = (await workbench.default_chat()).state
        sessions.write_text("in the way")
        await send_and_wait(workbench, tab.id, "ping one")
        sessions.unlink()
        await (await workbench.default_chat()).clear()
        await send_and_wait(workbench, tab.id, "ping two")
        assert await texts(workbench, tab.id) == ["user: ping two", "assistant: pong"]


async def test_a_message_is_in_its_chat_however_soon_it_is_stopped(bench_with: BenchWith) -> None:
    bench = bench_with(scenario("ping", {"content": "pong"}))
    async with bench.open() as workbench:
        for number in range(30):
            tab = (await workbench.open_chat()).state
            run = await workbench.tab(tab.id).send(UserMessage(content="ping"))
            for _ in range(number):
                await anyio.lowlevel.checkpoint()
            await workbench.tab(tab.id).stop(now=True)
            await wait_for_end(workbench, run)
            assert (await texts(workbench, tab.id))[0] == "user: ping", number
