"""A run in whose midst the server dies again and again is given up in words, and its tab can be used again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mock_llm_server import running
from newel.jobs.worker import GIVEN_UP, MAX_ATTEMPTS
from tests.faults.test_workbench_kill import House, Page
from tests.support import Newel, scenario


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    silent = {"response": {"content": "…"}, "fault": {"kind": "stall", "after_chunks": 0}}
    with ExitStack() as stack:
        server = stack.enter_context(running(scenario("work", silent), strict=True))
        yield House(Newel(tmp_path, server), stack)


@pytest.mark.slow  # the server dies and comes back six times
@pytest.mark.timeout(60)
def test_a_run_that_is_given_up_leaves_its_tab_to_its_user(house: House) -> None:
    process, url = house.start()
    with house.page(url) as page:
        agent, chat = page.ask("openAgent")["tab"], page.ask("openChat")["tab"]
        page.ask("start", tab=agent, contract={"text": "work"})
        page.ask("send", tab=chat, messageId="m1", text="work")
    for number in range(MAX_ATTEMPTS):
        while len(house.newel.requests) < 2 * (number + 1):  # both runs are under way
            pass
        process.kill()
        process.wait()
        process, url = house.start()
    given_up = [("failed", GIVEN_UP), ("idle", "")]
    with house.page(url) as page:
        while _states(page) != given_up:
            page.welcome = page.next("tabs")
    process.kill()
    process.wait()
    _, url = house.start()
    with house.page(url) as page:
        assert _states(page) == given_up
        page.ask("start", tab=agent, contract={"text": "work"})
        page.ask("retry", tab=chat)


def _states(page: Page) -> list[tuple[str, str]]:
    return [(tab["status"], tab.get("reason", "")) for tab in page.welcome["tabs"]]
