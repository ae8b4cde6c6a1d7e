"""If these fail, a log or a pipe no longer tells what the agent said and did."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from newel.agent.events import AgentEvent, ErrorEvent, MessageEnd, Retry
from newel.agent.messages import ToolCall, UserMessage
from newel.terminal.renderers.console import ConsoleRenderer

READ = ToolCall("1", "read", {"file_path": "a.py"})
EDIT = ToolCall("2", "edit", {"file_path": "a.py", "old_string": "x", "new_string": "y"})
BASH = ToolCall("3", "bash", {"command": "pytest -q"})


def shown(events: Sequence[AgentEvent], **options: Any) -> str:
    out = io.StringIO()
    renderer = ConsoleRenderer(out, **options)
    for event in events:
        renderer.handle(event)
    renderer.close()
    return out.getvalue()


def test_a_whole_run_reads_like_a_report(scene: Callable[..., Any]) -> None:
    events = (
        scene()
        .say("I look first.", READ)
        .run(READ, "…", linesRead=212)
        .say("", EDIT, BASH)
        .run(EDIT, "Replaced", diff="--- a\n+++ b\n@@ -1 +1,2 @@\n-x\n+y\n+z\n", took=6)
        .run(BASH, "stdout:\n12 passed in 1.8s\nstderr:\n\nexit code: 0", exitCode=0, took=1900)
        .say("Done.\n")
        .end()
    )
    assert shown(events, window=lambda: 32_000) == (
        "I look first.\n"
        "read a.py ✓ 212 lines · 4 ms\n"
        "edit a.py ✓ +2 \N{MINUS SIGN}1 · 6 ms\n"
        "bash pytest -q ✓ 12 passed in 1.8s · 1.9 s\n"
        "Done.\n"
        "\n"
        "3.1k in · 420 out · $0.004 · 11 % of 32k · 6.2 s\n"
    )


def test_words_of_newel_to_the_model_are_not_those_of_the_user() -> None:
    notice = MessageEnd(message=UserMessage("I have reviewed your changes.", id="decided_1_a"))
    assert shown([notice], echo=True) == "Newel told the model: I have reviewed your changes.\n"


def test_a_failed_command_shows_its_exit_code_and_last_lines(scene: Callable[..., Any]) -> None:
    output = "stdout:\n" + "\n".join(f"line {n}" for n in range(20)) + "\nstderr:\nboom\nexit code: 2"
    text = shown(scene().say("", BASH).run(BASH, output, exitCode=2).end())
    assert "bash pytest -q ✗ exit code 2 · 4 ms\n    line 13\n" in text
    assert text.count("    line") == 7
    assert "    boom\n" in text


def test_a_call_that_never_ran_is_shown_with_the_reason(scene: Callable[..., Any]) -> None:
    text = shown(scene().say("", BASH).result(BASH, "Not run: declined.", is_error=True).end())
    assert "bash pytest -q ✗ not run\n    Not run: declined.\n" in text


def test_concurrent_calls_each_get_their_own_result(scene: Callable[..., Any]) -> None:
    other = ToolCall("9", "read", {"file_path": "b.py"})
    events = scene().say("", READ, other).start(READ).start(other)
    events = events.finish(other, "", linesRead=2).finish(READ, "", linesRead=1).end()
    lines = shown(events).splitlines()
    assert "read b.py ✓ 2 lines · 4 ms" in lines
    assert "read a.py ✓ 1 line · 4 ms" in lines


def test_text_voided_by_a_retry_is_marked_void(scene: Callable[..., Any]) -> None:
    run = scene().say("Half an ans")
    run.events.pop()
    run.add(Retry(attempt=1, max_attempts=5, delay=2.0, reason="connection lost"))
    text = shown(run.say("A whole answer.").end())
    assert "Half an ans\nThe request failed: connection lost. Ignore the text above." in text
    assert "A whole answer.\n" in text


def test_a_retry_is_described_in_whole_sentences(scene: Callable[..., Any]) -> None:
    run = scene().add(Retry(attempt=2, max_attempts=5, delay=7.588, reason="Too many requests (429)."))
    assert "The request failed: Too many requests (429). Trying again in 7.6 s (2 of 5).\n" in shown(
        run.events
    )


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        ("aborted", "", "Stopped."),
        ("max_turns", "Stopped at the limit of 3 turns.", "Stopped at the limit of 3 turns."),
    ],
)
def test_the_end_of_a_run_has_its_reason(
    scene: Callable[..., Any], reason: str, message: str, expected: str
) -> None:
    assert f"\n{expected}\n" in shown(scene().say("Hm.").end(reason, message))


def test_an_error_is_shown_once(scene: Callable[..., Any]) -> None:
    events = (
        scene()
        .add(ErrorEvent(code="rate_limited", message="Too many requests."))
        .end("error", "Too many requests.")
    )
    assert shown(events).count("Too many requests.") == 1


def test_the_return_of_a_host_is_not_an_error(scene: Callable[..., Any]) -> None:
    written = shown(
        scene()
        .add(ErrorEvent(code="connection", message="The connection to shop is back.", level="info"))
        .end("done")
    )
    assert "The connection to shop is back." in written
    assert "Error" not in written


HOSTILE = st.text(alphabet=st.sampled_from("\x1b[]\x07\\;Hm02Kab\n\r\x9b\u202e\u2028é\ud800"))


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
        .start(odd, text)
        .result(odd, text, is_error=True)
        .add(Retry(attempt=1, max_attempts=2, delay=1, reason=text), ErrorEvent(code="x", message=text))
        .end("stopped", text)
    )
    written = shown(events, echo=True)
    assert not [char for char in written if not char.isprintable() and char not in "\n\t"]
