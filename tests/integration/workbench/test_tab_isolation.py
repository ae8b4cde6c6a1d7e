"""If these fail, one tab waits for another, or receives its messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from newel.agent.messages import UserMessage
from newel.workbench.tab_reader import take_snapshot
from tests.integration.workbench.conftest import Bench, send_and_wait, texts, until, wait_for_end
from tests.served import served, wait_until
from tests.support import bash, scenario


@pytest.mark.anyio
async def test_chats_are_answered_at_once_each_in_its_own_conversation(
    bench_with: Callable[..., Bench],
) -> None:
    waits = scenario("first", bash("touch began; until [ -e go ]; do sleep 0.02; done"), {"content": "One."})
    quick = scenario("second", {"content": "Two."})
    bench = bench_with({"scenarios": waits["scenarios"] + quick["scenarios"]})
    async with bench.open() as workbench:
        one, two = (await workbench.open_chat()).state, (await workbench.open_chat()).state
        run = await workbench.tab(one.id).send(UserMessage(content="first"))
        await until((bench.folder / "began").exists)
        for _ in range(2):
            await send_and_wait(workbench, two.id, "second")
        assert (workbench.tab(one.id).state.status, workbench.tab(two.id).state.status) == ("running", "idle")
        (bench.folder / "go").touch()
        await wait_for_end(workbench, run)
        assert [line for line in await texts(workbench, one.id) if not line.startswith("result")] == [
            "user: first",
            "assistant: ",
            "assistant: One.",
        ]
        assert await texts(workbench, two.id) == ["user: second", "assistant: Two."] * 2
    heard = [
        {message["role"]: message.get("content") for message in r["messages"]} for r in bench.newel.requests
    ]
    assert sorted(str(each["user"]) for each in heard) == ["first", "first", "second", "second"]
    assert [len(r["messages"]) for r in bench.newel.requests] == [2, 2, 4, 4]


@pytest.mark.anyio
async def test_tabs_can_be_opened_read_and_closed_while_another_ones_tool_is_busy(
    bench_with: Callable[..., Bench],
) -> None:
    """Otherwise the page stands still as long as a command prints."""
    bench = bench_with(scenario("flood", bash("yes | head -c 300M; touch done"), {"content": "Over."}))
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        run = await workbench.tab(tab.id).send(UserMessage(content="flood"))
        rounds = 0
        with anyio.fail_after(20):
            while not (bench.folder / "done").exists():
                other = (await workbench.open_chat()).state
                await take_snapshot(workbench.tab(tab.id))
                await workbench.close(other.id)
                rounds += 1
        await wait_for_end(workbench, run)
    assert rounds > 3


def agents_at_work() -> dict[str, Any]:
    """An agent that takes three steps, and a judge that counts them."""
    verdicts = [
        scenario(
            f"After {calls} tool call",
            {
                "tool_calls": [
                    {
                        "function": {
                            "name": "verdict",
                            "arguments": {"satisfied": calls == 3, "why": "Counted.", "missing": ""},
                        }
                    }
                ]
            },
        )
        for calls in (1, 2, 3)
    ]
    work = scenario(
        "Count",
        bash("echo one >> {{ user | (\\S+)$ }}"),
        bash("echo two >> {{ user | (\\S+)$ }}; until [ -e go ]; do sleep 0.02; done"),
        bash("echo three >> {{ user | (\\S+)$ }}"),
    )
    return {"scenarios": [one for each in (*verdicts, work) for one in each["scenarios"]]}


def test_agents_resume_by_themselves_after_a_kill_and_repeat_nothing(
    bench_with: Callable[..., Bench],
) -> None:
    newel = bench_with(agents_at_work()).newel
    files = [newel.project / name for name in ("a", "b")]
    with served(newel) as server, server.page() as page:
        tabs = [page.ask("openAgent")["tab"] for _ in files]
        for tab, file in zip(tabs, files, strict=True):
            page.ask("start", tab=tab, contract={"text": f"Count into {file.name}"})
        wait_until(lambda: all(file.exists() and "two" in file.read_text() for file in files), "the agents")
        server.kill()
    (newel.project / "go").touch()
    with served(newel) as server, server.page() as page:
        page.until_tabs(lambda tabs: all(tab["status"] == "completed" for tab in tabs))
        logs = [server.tab(tab)["log"] for tab in tabs]
    assert [file.read_text() for file in files] == ["one\ntwo\nthree\n"] * 2
    assert len(set(logs)) == len(newel.sessions) == 2
