"""If these fail, a run that crashes the server every time is retried forever, or its tab becomes unusable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from newel.jobs.worker import GIVEN_UP, MAX_ATTEMPTS
from tests.served import served, wait_until
from tests.support import Newel, scenario


@pytest.mark.slow  # the server dies and restarts a dozen times
@pytest.mark.timeout(60)
def test_a_run_that_is_given_up_leaves_its_tab_usable(newel_with: Callable[..., Newel]) -> None:
    silent = {"response": {"content": "…"}, "fault": {"kind": "stall", "after_chunks": 0}}
    newel = newel_with(scenario("work", silent))

    def both_ask(times: int) -> None:
        wait_until(lambda: len(newel.requests) == 2 * times, "both runs")

    with served(newel) as server, server.page() as page:
        agent, chat = page.ask("openAgent")["tab"], page.ask("openChat")["tab"]
        page.ask("start", tab=agent, contract={"text": "work"})
        page.ask("send", tab=chat, messageId="m1", text="work")
        both_ask(1)
        server.kill()
    for attempt in range(2, MAX_ATTEMPTS + 1):
        with served(newel) as server:
            both_ask(attempt)
            server.kill()
    for _ in range(2):  # it stays so
        with served(newel) as server, server.page() as page:
            page.until_tabs(lambda tabs: _states(tabs) == [("failed", GIVEN_UP), ("idle", "")])
            server.kill()
    with served(newel) as server, server.page() as page:
        page.ask("start", tab=agent, contract={"text": "work"})
        page.ask("retry", tab=chat)


def _states(tabs: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(tab["status"], tab.get("reason", "")) for tab in tabs]
