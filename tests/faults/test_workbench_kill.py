"""If these fail, killing the workbench's server loses acknowledged work, or runs something twice."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from newel.session.reader import read_session
from tests.served import Page, served, wait_until
from tests.support import Newel, bash, scenario

WORK = bash("echo x >> ran; exec sleep 600")


def until_idle(page: Page) -> None:
    page.until_tabs(lambda tabs: tabs[0]["status"] != "running")


def test_a_run_killed_in_a_command_continues_with_an_unknown_outcome(
    newel_with: Callable[..., Newel],
) -> None:
    newel = newel_with(scenario("work", WORK, {"content": "I look first."}))
    with served(newel) as server, server.page() as page:
        page.ask("send", tab=page.ask("openChat")["tab"], messageId="m1", text="work")
        wait_until((newel.project / "ran").exists, "the command")
        server.kill()
    with served(newel) as server, server.page() as page:
        until_idle(page)
    assert (newel.project / "ran").read_text() == "x\n"
    messages = read_session(newel.sessions[0]).history.active()
    assert [message.__struct_config__.tag for message in messages] == [
        "user",
        "assistant",
        "toolResult",
        "assistant",
    ]
    assert "unknown" in getattr(messages[2], "output", "")
    assert getattr(messages[3], "text", "") == "I look first."


@pytest.mark.parametrize("now", [False, True])
def test_a_stopped_run_stays_stopped_and_sends_no_queued_message(
    newel_with: Callable[..., Newel], now: bool
) -> None:
    """Otherwise an agent continues, and acts on further messages, after the user was told that it was stopped."""
    newel = newel_with(scenario("work", WORK, {"content": "Went on."}))
    with served(newel) as server, server.page() as page:
        tab = page.ask("openChat")["tab"]
        page.ask("send", tab=tab, messageId="m1", text="work")
        wait_until((newel.project / "ran").exists, "the command")
        page.ask("send", tab=tab, messageId="m2", text="work on")
        page.ask("stop", tab=tab, now=now)
        server.kill()
    for _ in range(2):
        with served(newel) as server, server.page() as page:
            until_idle(page)
            page.ask("watch", tab=tab)
            snapshot = page.next("snapshot")["snapshot"]
            waiting = [(each["message"]["id"], each["held"]) for each in snapshot["queue"]]
            assert waiting == [("m2", True)]
            server.kill()
    assert len(newel.requests) == 1
    assert (newel.project / "ran").read_text() == "x\n"
    with served(newel) as server, server.page() as page:
        page.ask("retry", tab=tab)
        wait_until(lambda: len(newel.requests) > 1, "the request")


def test_a_stopped_contract_stays_stopped(newel_with: Callable[..., Newel]) -> None:
    newel = newel_with(scenario("work", WORK, {"content": "Went on."}))
    with served(newel) as server, server.page() as page:
        tab = page.ask("openAgent")["tab"]
        page.ask("start", tab=tab, contract={"text": "work"})
        wait_until((newel.project / "ran").exists, "the command")
        page.ask("stop", tab=tab, now=True)
        server.kill()
    with served(newel) as server, server.page() as page:
        page.until_tabs(lambda tabs: tabs[0]["status"] == "stopped")
    assert len(newel.requests) == 1


@pytest.mark.slow  # the server dies and restarts eight times
@pytest.mark.timeout(60)
def test_every_acknowledged_message_is_answered_once_however_often_the_server_dies(
    newel_with: Callable[..., Newel],
) -> None:
    newel = newel_with(scenario("note", bash("echo {{ user }} >> notes"), {"content": "Noted."}))
    dice = random.Random(7)  # noqa: S311 — the same dice each time
    acknowledged: list[str] = []
    tab = ""
    for number in range(8):
        with served(newel) as server, server.page() as page:
            tab = tab or page.ask("openChat")["tab"]
            for _ in range(2):
                message = f"m{len(acknowledged)}"
                page.ask("send", tab=tab, messageId=message, text=f"note {number} {message}")
                acknowledged.append(message)
            time.sleep(dice.uniform(0, 0.2))
            server.kill()
    with served(newel) as server, server.page() as page:
        until_idle(page)
    stored = read_session(newel.sessions[0])
    assert not stored.damage
    said = [message.id for message in stored.history.active() if message.__struct_config__.tag == "user"]
    assert said == acknowledged
    notes = (newel.project / "notes").read_text().split("\n")[:-1]
    assert len(notes) == len(set(notes)), "a command ran twice"


def test_events_are_numbered_without_gaps_across_a_crash(newel_with: Callable[..., Newel]) -> None:
    newel = newel_with(scenario("work", WORK, {"content": "Done."}))
    with served(newel) as server, server.page() as page:
        tab = page.ask("openChat")["tab"]
        page.ask("watch", tab=tab)
        page.next("snapshot")
        run = page.ask("send", tab=tab, messageId="m1", text="work")["run"]
        last = page.until_event("tool_execution_start")["seq"]
        wait_until((newel.project / "ran").exists, "the command")
        server.kill()
    with served(newel) as server, server.page() as page:
        page.ask("watch", tab=tab, run=run, after=last)
        end = page.until_event("agent_end")
        numbers = [
            message["seq"] for message in [*page.seen, end] if message["type"] == "event" and lasting(message)
        ]
    assert numbers == list(range(last + 1, end["seq"] + 1))


def lasting(message: dict[str, Any]) -> bool:
    return message["event"]["type"] not in {
        "message_start",
        "message_update",
        "tool_execution_update",
        "queue_update",
    }
