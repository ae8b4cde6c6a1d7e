"""If these fail, a server that is killed during a question loses it, or asks it with wrong facts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from newel.session.reader import read_session
from tests.served import SECONDS, Page, served
from tests.support import Newel, bash, scenario


def test_a_call_awaiting_approval_waits_again_after_kill_9_and_runs_once(
    newel_with: Callable[..., Newel],
) -> None:
    newel = newel_with(scenario("work", bash("echo x >> ran"), {"content": "It ran."}))
    with served(newel, "go", "--approve", "ask") as server, server.page() as page:
        tab = page.ask("openChat")["tab"]
        page.ask("send", tab=tab, messageId="m1", text="work")
        page.ask("watch", tab=tab)
        first = _waiting(page)
        server.kill()
    with served(newel, "go", "--approve", "ask") as server, server.page() as page:
        page.ask("watch", tab=tab)
        again = _waiting(page)
        assert again["preview"] == first["preview"]
        page.ask("answer", tab=tab, question=again["id"], answer={"decision": "once", "word": ""})
        page.until_event("agent_end")
    assert (newel.project / "ran").read_text() == "x\n"
    messages = read_session(newel.sessions[0]).history.active()
    result, answer = messages[2:]
    assert "exit code: 0" in getattr(result, "output", "")
    assert getattr(answer, "text", "") == "It ran."


def _waiting(page: Page) -> dict[str, Any]:
    """The open question of the watched tab, which the first snapshot may contain already."""
    while True:
        message = json.loads(page.socket.recv(timeout=SECONDS))
        if questions := message.get("snapshot", message).get("questions"):
            return questions[0]
