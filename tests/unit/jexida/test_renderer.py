"""If these fail, a user of jexida mistakes a discarded answer for the real one."""

from __future__ import annotations

import io

from newel.agent.events import MessageStart, MessageUpdate, Retry, TextDelta
from newel.agent.messages import AssistantMessage
from newel.terminal.jexida.renderer import PanelRenderer, PanelStyle
from newel.terminal.renderers.screen import Printer


def test_a_retry_voids_the_partial_answer() -> None:
    out = io.StringIO()
    renderer = PanelRenderer(Printer(out), PanelStyle(), host=lambda: "me@here", animated=False)
    answer = AssistantMessage(content=[], model="phi3")
    retry = Retry(attempt=1, max_attempts=3, delay=1, reason="The connection broke.")
    renderer.handle(retry)
    assert "void" not in out.getvalue()
    renderer.handle(MessageStart(message=answer))
    renderer.handle(MessageUpdate(message_id=answer.id, assistant_message_event=TextDelta("Half of it")))
    renderer.handle(retry)
    assert "Half of it\n\nThe request failed: The connection broke. Ignore the text above." in (
        out.getvalue()
    )
