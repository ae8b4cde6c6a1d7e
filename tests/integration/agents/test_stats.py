"""If these fail, `newel stats` leaves out what an agent's judge has used."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.integration.agents.support import after
from tests.support import Newel, bash, scenario

WithAgent = Callable[..., Newel]


def test_an_agent_counts_with_its_judge(with_agent: WithAgent) -> None:
    newel = with_agent(after(1, True), scenario("Make a file", bash("touch a"), {"content": "Made."}))
    assert newel("agent", "Make a file").returncode == 0
    counted = json.loads(newel("stats", "--json", "--project", ".").stdout)
    assert [row["name"] for row in counted["rows"]] == ["mock-model"]
    asked = [body for body in newel.requests if "messages" in body]
    total = counted["total"]
    assert (total["requests"], total["unpriced"]) == (len(asked), len(asked))
    assert (total["runs"], total["calls"]) == (1, 1)
    assert total["timed"] == len(asked) - 1
    assert json.loads(newel("stats", "--json", "--project", "/elsewhere").stdout)["total"]["requests"] == 0
