"""If these fail, what the smallest REPL prints is not what was said and done, or is obeyed by the terminal."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from newel.agent.events import AgentEvent, ErrorEvent, Retry
from newel.agent.messages import ToolCall
from newel.terminal.simple_repl import SimpleRenderer


def shown(events: Sequence[AgentEvent]) -> str:
    out = io.StringIO()
    renderer = SimpleRenderer(out)
    for event in events:
        renderer.handle(event)
    renderer.close()
    return out.getvalue()


def test_a_tools_name_cannot_control_the_terminal(scene: Callable[..., Any]) -> None:
    odd = ToolCall("1", "x\x1b]52;c;cm0gLXJmIH4=\x07\ny" * 30, {})
    line = shown(scene().say("", odd).result(odd, "There is no such tool.", is_error=True).end())
    assert line.startswith("\n[Tool: x↵yx↵y")
    assert line.count("\n") == 2
    assert len(line) < 100


def test_a_call_is_shown_while_it_runs(scene: Callable[..., Any]) -> None:
    """Otherwise a minute of silence hides the call that the model makes."""
    call = ToolCall("1", "bash", {"command": "make"})
    begun = scene().say("I build.", call).start(call)
    assert shown(begun.events) == '\nAgent: I build.\n\n[Tool: bash("make")'
    assert shown(begun.finish(call, "done").end()) == '\nAgent: I build.\n\n[Tool: bash("make")]\n'


def test_a_retry_is_described_in_whole_sentences(scene: Callable[..., Any]) -> None:
    run = scene().add(Retry(attempt=2, max_attempts=5, delay=7.588, reason="Too many requests (429)."))
    assert "[The request failed: Too many requests (429). Trying again;" in shown(run.events)


HOSTILE = st.text(alphabet=st.sampled_from("\x1b[]\x07\\;Hm02Kab\n\r\x9b\u202e\u2028é\ud800"))


def test_the_return_of_a_host_is_not_an_error(scene: Callable[..., Any]) -> None:
    written = shown(
        scene()
        .add(ErrorEvent(code="connection", message="The connection to shop is back.", level="info"))
        .end("done")
    )
    assert "The connection to shop is back." in written
    assert "Error" not in written


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # the fixture is a plain class
@given(text=HOSTILE, pieces=st.integers(1, 5))
def test_no_text_from_outside_controls_the_terminal(
    scene: Callable[..., Any], text: str, pieces: int
) -> None:
    call = ToolCall("1", "bash", {"command": text, "x": text})
    odd = ToolCall("2", text, {text: text})
    events = (
        scene(text)
        .say(text, call, odd, pieces=pieces)
        .start(call, text)
        .finish(call, text, exitCode=1, diff=text)
        .result(odd, text, is_error=True)
        .add(Retry(attempt=1, max_attempts=2, delay=1, reason=text), ErrorEvent(code="x", message=text))
        .end("stopped", text)
    )
    assert not [char for char in shown(events) if not char.isprintable() and char != "\n"]
