"""If these fail, a user who went back in a conversation cannot return to what was said, or finds it changed after a restart."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

import anyio
import pytest

from newel.agent.errors import SessionError
from newel.runs.models import Snapshot
from newel.workbench.tab_reader import follow, take_snapshot
from newel.workbench.tab_session import TabServiceError
from newel.workbench.workbench import Workbench
from tests.integration.workbench.conftest import Bench, send_and_wait, texts, until
from tests.support import scenario

pytestmark = pytest.mark.anyio

TALK = {
    "scenarios": [
        *scenario("ping", {"content": "pong"})["scenarios"],
        *scenario("and now", {"content": "later"})["scenarios"],
        *scenario("instead", {"content": "other"})["scenarios"],
    ]
}
FIRST = ["user: ping", "assistant: pong"]
SECOND = ["user: and now", "assistant: later"]


async def said(workbench: Workbench, tab: str) -> list[str]:
    """The ids of the user's messages in the active branch."""
    messages = (await take_snapshot(workbench.tab(tab))).messages
    return [message.id for message in messages if message.__struct_config__.tag == "user"]


@pytest.mark.parametrize("ephemeral", [False, True])
async def test_a_chat_goes_back_before_a_message_and_brings_it_back(
    bench_with: Callable[..., Bench], ephemeral: bool
) -> None:
    bench = bench_with(TALK)
    async with bench.open(ephemeral=ephemeral) as workbench:
        tab = await workbench.open_chat()
        for text in ("ping", "and now"):
            await send_and_wait(workbench, tab.state.id, text)
        _, second = await said(workbench, tab.state.id)
        await tab.switch_branch(second, before=True)
        assert await texts(workbench, tab.state.id) == FIRST
        assert (await take_snapshot(tab)).switches == tab.state.switches == 1
        [point] = (await take_snapshot(tab)).branches
        assert point.messages == [second]
        await tab.switch_branch(second)
        assert await texts(workbench, tab.state.id) == [*FIRST, *SECOND]
        assert (await take_snapshot(tab)).branches == []
        first, _ = await said(workbench, tab.state.id)
        await tab.switch_branch(first, before=True)
        assert await texts(workbench, tab.state.id) == []
        await send_and_wait(workbench, tab.state.id, "instead")
        assert await texts(workbench, tab.state.id) == ["user: instead", "assistant: other"]
        [point] = (await take_snapshot(tab)).branches
        assert (point.after, len(point.messages)) == ("", 2)


async def test_where_a_chat_went_back_to_survives_a_restart(
    bench_with: Callable[..., Bench],
) -> None:
    bench = bench_with(TALK)
    async with bench.open() as workbench:
        tab = await workbench.open_chat()
        for text in ("ping", "and now"):
            await send_and_wait(workbench, tab.state.id, text)
        _, second = await said(workbench, tab.state.id)
        await tab.switch_branch(second, before=True)
    async with bench.open() as workbench:
        [tab] = [workbench.tab(each.id) for each in workbench.tabs]
        assert tab.state.switches == (await take_snapshot(tab)).switches == 1
        assert await texts(workbench, tab.state.id) == FIRST
        await send_and_wait(workbench, tab.state.id, "instead")
        assert await texts(workbench, tab.state.id) == [*FIRST, "user: instead", "assistant: other"]


async def test_all_readers_see_where_a_chat_went(bench_with: Callable[..., Bench]) -> None:
    bench = bench_with(TALK)
    async with bench.open() as workbench:
        tab = await workbench.open_chat()
        await send_and_wait(workbench, tab.state.id, "ping")
        [first] = await said(workbench, tab.state.id)
        seen: list[int] = []

        async def read() -> None:
            async with aclosing(follow(tab)) as frames:
                async for frame in frames:
                    seen.extend([len(frame.messages)] if isinstance(frame, Snapshot) else [])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(read)
            await until(lambda: seen == [2, 2])
            await tab.switch_branch(first, before=True)
            await until(lambda: seen == [2, 2, 0, 0])
            tasks.cancel_scope.cancel()


async def test_an_unknown_message_and_an_agent_change_nothing(
    bench_with: Callable[..., Bench],
) -> None:
    bench = bench_with(TALK)
    async with bench.open() as workbench:
        tab = await workbench.open_chat()
        with pytest.raises(SessionError, match="no messages yet"):
            await tab.switch_branch("nobody")
        await send_and_wait(workbench, tab.state.id, "ping")
        with pytest.raises(SessionError, match="no message 'nobody'"):
            await tab.switch_branch("nobody")
        assert await texts(workbench, tab.state.id) == FIRST
        with pytest.raises(TabServiceError, match="contract"):
            await (await workbench.open_agent()).switch_branch("nobody")
