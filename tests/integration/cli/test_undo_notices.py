"""If these fail, a model builds on lines that the user undid, kept or rejected, or gets the news twice."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.terminal.conftest import Terminal
from tests.support import BIN, Newel, scenario

Make = Callable[..., Newel]


def write(path: str, content: str) -> dict[str, Any]:
    arguments = {"file_path": path, "content": content}
    return {"tool_calls": [{"function": {"name": "write", "arguments": arguments}}]}


@pytest.fixture
def newel(with_model: Make) -> Newel:
    steps = [
        scenario("make both", write("a.txt", "a\n"), write("b.txt", "b\n"), {"content": "Done."}),
        scenario("thanks", {"content": "Oh."}),
        scenario("other", write("c.txt", "c\n"), {"content": "Done."}),
    ]
    return with_model({"scenarios": [each for one in steps for each in one["scenarios"]]})


def ran(newel: Newel, *words: str) -> str:
    done = newel(*words)
    assert done.returncode == 0, done.stderr + done.stdout
    return str(done.stdout)


def said(newel: Newel) -> list[str]:
    """The user messages of the last request."""
    return [str(each["content"]) for each in newel.requests[-1]["messages"] if each["role"] == "user"]


def hunks(newel: Newel) -> dict[str, str]:
    pending = json.loads(newel("review", "--json").stdout)["pending"]
    return {file["file_path"]: file["hunks"][0]["hunk_id"] for file in pending}


def test_an_undo_in_another_process_is_reported_once_with_the_next_message(newel: Newel) -> None:
    ran(newel, "make both")
    ran(newel, "undo", "--yes")
    ran(newel, "-c", "thanks")
    note, prompt = said(newel)[-2:]
    assert prompt == "thanks"
    assert "Undone: what the run “make both” changed, in:\n- a.txt\n- b.txt" in note
    ran(newel, "-c", "thanks")
    assert said(newel) == ["make both", note, "thanks", "thanks"]
    ran(newel, "redo", "--yes")
    ran(newel, "-c", "thanks")
    assert "Brought back: what the run “make both” changed, in:" in said(newel)[-2]


def test_a_hunk_undone_alone_is_reported(newel: Newel) -> None:
    ran(newel, "make both")
    (run,) = json.loads(newel("checkpoints", "--json").stdout)["checkpoints"]
    hunk = next(file["hunks"][0]["hunk_id"] for file in run["files"] if file["file_path"] == "b.txt")
    ran(newel, "rollback", run["checkpoint_id"], "--hunk", hunk, "--yes")
    ran(newel, "-c", "thanks")
    assert "changed, in:\n- b.txt" in said(newel)[-2]
    assert "a.txt" not in said(newel)[-2]


def test_decisions_on_proposals_are_reported(newel: Newel) -> None:
    ran(newel, "--approve", "review", "make both")
    found = hunks(newel)
    ran(newel, "keep", found["a.txt"], "--yes")
    ran(newel, "reject", found["b.txt"], "--yes")
    ran(newel, "-c", "thanks")
    note = said(newel)[-2]
    assert "Kept, and in the files now:\n- a.txt (1 hunk)" in note
    assert "Rejected, and not in the files:\n- b.txt (1 hunk)" in note
    ran(newel, "-c", "thanks")
    assert len(said(newel)) == 4


def test_only_the_session_of_the_run_is_told(newel: Newel) -> None:
    ran(newel, "make both")
    ran(newel, "other")
    ran(newel, "undo", "--yes")
    both, other = newel.sessions
    ran(newel, "--session", str(both), "thanks")
    assert said(newel) == ["make both", "thanks"]
    ran(newel, "--session", str(other), "thanks")
    assert "- c.txt" in said(newel)[-2]


@pytest.mark.parametrize("screen", ["rich", "console"])
def test_undos_before_a_kill_are_reported_afterwards(screen: str, newel: Newel) -> None:
    env = newel.environ | {"TERM": "xterm-256color"}
    terminal = Terminal([str(BIN / "newel"), "--renderer", screen], newel.project, 120, 40, env)
    try:
        terminal.wait_for("Enter sends" if screen == "rich" else "newel ")
        terminal.send("make both\r")
        terminal.wait_for("Done.")
        terminal.send("/undo\r")
        terminal.wait_for("Undo these changes?")
        terminal.send("y\r")
        terminal.wait_for("Undone in 2 files")
        os.kill(terminal.process.pid, signal.SIGKILL)
        terminal.process.wait()
    finally:
        terminal.close()
    ran(newel, "-c", "thanks")
    assert [words.startswith("I have reviewed") for words in said(newel)] == [False, True, False]


def test_the_notice_takes_one_line_of_the_screen_and_is_no_prompt_of_the_user(newel: Newel) -> None:
    """Otherwise a user reads words in their name that they have not said."""
    env = newel.environ | {"TERM": "xterm-256color"}
    terminal = Terminal([str(BIN / "newel")], newel.project, 120, 40, env)
    try:
        terminal.wait_for("Enter sends")
        terminal.send("make both\r")
        terminal.wait_for("Done.")
        terminal.send("/undo\r")
        terminal.wait_for("Undo these changes?")
        terminal.send("y\r")
        terminal.wait_for("Undone in 2 files")
        terminal.send("thanks\r")
        terminal.wait_for("Oh.")
        notice = "Newel told the model: I have reviewed your changes. Undone: what the run “make both” changed, in: - a.txt"
        assert f"\n{notice}" in terminal.screen.text
        terminal.send("\x0f")
        terminal.wait_for("\nNewel told the model: I have reviewed your changes.\nUndone: what")
        terminal.send("q")
        terminal.send("/branch\r")
        terminal.wait_for("Go back to which message?")
        assert "I have reviewed" not in terminal.screen.text.rpartition("Go back to which message?")[2]
    finally:
        terminal.close()


@pytest.mark.parametrize(("back", "told"), [("", False), ("files only", True)])
def test_a_model_hears_of_a_rewind_only_of_runs_that_it_still_knows(
    back: str, told: bool, newel: Newel
) -> None:
    env = newel.environ | {"TERM": "xterm-256color"}
    terminal = Terminal([str(BIN / "newel")], newel.project, 120, 40, env)
    try:
        terminal.wait_for("Enter sends")
        terminal.send("make both\r")
        terminal.wait_for("Done.")
        terminal.send("/rewind\r")
        terminal.wait_for("Back to before which prompt?")
        terminal.send("\r")
        terminal.wait_for("Go back to before")
        terminal.send(back)
        terminal.send("\r")
        terminal.wait_for("Undo these changes?")
        terminal.send("y\r")
        terminal.wait_for("Undone in 2 files")
        terminal.wait_for("redoes it")
        terminal.send("\x15thanks\r")
        terminal.wait_for("Oh.")
    finally:
        terminal.close()
    words = said(newel)
    assert words[-1].endswith("thanks")
    assert any("Undone: what the run" in each for each in words) == told
    assert ("make both" in words) == told


def test_a_model_that_changed_nothing_gets_no_notice(newel: Newel) -> None:
    ran(newel, "thanks")
    ran(newel, "other")
    ran(newel, "undo", "--yes")
    first = newel.sessions[0]
    ran(newel, "--session", str(first), "thanks")
    assert said(newel) == ["thanks", "thanks"]
