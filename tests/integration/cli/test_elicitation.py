"""If these fail, a tool server's question goes unanswered, gets an unapproved answer, or poses as Newel's."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.terminal.conftest import Terminal
from tests.relayed_command import relay_command
from tests.support import BIN, Newel, scenario

SERVER = [sys.executable, "-m", "tests.integration.mcp.servers.asking"]

Open = Callable[..., tuple[Terminal, Newel]]
Ready = Callable[..., Newel]


def call(*tools: str) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": f"asking__{tool}", "arguments": {}}} for tool in tools]}


@pytest.fixture
def ready(tmp_path: Path, with_model: Ready) -> Iterator[Ready]:
    """Makes a Newel with a server that asks, and a model that calls these tools when told to go."""
    with relay_command(tmp_path, SERVER) as (command, *words):

        def make(*tools: str) -> Newel:
            newel = with_model(scenario("go", call(*tools), {"content": "The end."}))
            (newel.home / ".newel").mkdir()
            asking = {"mcpServers": {"asking": {"command": command, "args": words}}}
            (newel.home / ".newel" / "mcp_config.json").write_text(json.dumps(asking))
            return newel

        yield make


def results(newel: Newel) -> list[str]:
    """The results of the tools, as the model got them."""
    return [message["content"] for message in newel.requests[-1]["messages"] if message["role"] == "tool"]


@pytest.fixture
def opened(ready: Ready) -> Iterator[Open]:
    """Starts a command on a terminal."""
    terminals: list[Terminal] = []

    def start(*words: str, tools: tuple[str, ...], **environ: str) -> tuple[Terminal, Newel]:
        newel = ready(*tools)
        command = [str(BIN / words[0]), *words[1:]]
        env = newel.environ | {"TERM": "xterm-256color"} | environ
        terminals.append(Terminal(command, newel.project, 100, 40, env))
        return terminals[-1], newel

    yield start
    for terminal in terminals:
        terminal.close()


def say_go(terminal: Terminal, begun: str, enter: str) -> None:
    """Say it once the server's tools are there: a conversation does not wait for them."""
    asked = 0.0

    def listed() -> bool:
        nonlocal asked
        if time.monotonic() - asked > 0.3:
            asked = time.monotonic()
            terminal.send(f"/tools{enter}")
        return "asking__book" in terminal.screen.text

    terminal.wait_for(begun)
    terminal.wait_for(listed)
    terminal.send(f"go{enter}")


FRONT_ENDS = {
    "rich": ("newel", "-p", "go"),
    "console": ("newel", "go", "--renderer", "console"),
    "conversation": ("newel",),
    "plain conversation": ("newel", "--renderer", "console"),
    "simple": ("lsimons-agent",),
}


@pytest.mark.parametrize(
    "front",
    [
        pytest.param("rich", marks=pytest.mark.slow),  # it asks like the console
        "console",
        "conversation",
        "plain conversation",
        "simple",
    ],
)
def test_a_form_is_filled_in_shown_and_sent(opened: Open, front: str) -> None:
    terminal, newel = opened(*FRONT_ENDS[front], tools=("book",))
    enter = "\r" if front == "conversation" else "\n"

    def answer(question: str, typed: str, *, interrupting: bool = False) -> None:
        terminal.wait_for(question)
        (terminal.answer if interrupting else terminal.send)(typed + enter)

    match front:
        case "conversation":
            say_go(terminal, "Enter sends", enter)
        case "plain conversation":
            say_go(terminal, "\n>", enter)
        case "simple":
            answer("You:", "go")
        case _:
            pass
    answer("Name (text, at least 2 characters):", "A", interrupting=True)
    answer("A is not valid. Expected: text, at least 2 characters.\nName", "Ada")
    answer("Guests (a whole number, 1 to 10) [2]:", "11")
    answer("11 is not valid. Expected: a whole number, 1 to 10.\nGuests", "3")
    answer("Terrace (y or n) [no]:", "y")
    answer("    1  lunch\n    2  dinner\nMeal (one of these) [dinner]:", "1")
    answer("[flowers]:", "music, 3")
    answer("Words (text; optional):", "")
    terminal.wait_for("y sends it")
    review = terminal.screen.text.rpartition("This goes to asking:")[2]
    assert [line.split() for line in review.splitlines()[1:6]] == [
        ["Name", "Ada"],
        ["Guests", "3"],
        ["Terrace", "yes"],
        ["Meal", "lunch"],
        ["Extras", "music,", "candles"],
    ]
    answer("n declines (Enter)", "y", interrupting=True)
    terminal.wait_for("The end.")
    assert json.loads(results(newel)[0]) == {
        "name": "Ada",
        "guests": 3,
        "terrace": True,
        "meal": "lunch",
        "extras": ["music", "candles"],
        "words": None,
    }


def test_a_question_names_its_server_and_its_text_is_inert(opened: Open) -> None:
    terminal, _ = opened("newel", "-p", "go", tools=("book",))
    terminal.wait_for("Name (")
    text = terminal.screen.text
    assert "The tool server asking asks you:\n  │ ␛[2J␛[31mWhich table?" in text
    assert "  │ Who ␛]0;pwned␇comes<U+202E>" in text
    assert "\x1b[2J" not in terminal.raw
    assert "\x1b]0;pwned" not in terminal.raw


@pytest.mark.slow  # seconds of waiting
def test_answers_to_a_form_can_be_changed_before_sending(opened: Open) -> None:
    terminal, newel = opened("newel", "-p", "go", tools=("book",))
    terminal.wait_for("Name (")
    terminal.answer("Adam\n")
    for question in ("[2]:", "[no]:", "[dinner]:", "[flowers]:", "Words ("):
        terminal.wait_for(question)
        terminal.send("\n")
    terminal.wait_for("y sends it")
    terminal.answer("c\n")
    terminal.wait_for("[Adam]:")
    terminal.send("Ada\n")
    for question in ("Guests", "Terrace", "Meal", "Extras", "Words"):
        terminal.wait_for(lambda: terminal.screen.text.rpartition("\n")[2].startswith(question))  # noqa: B023 — called at once
        terminal.send("\n")
    terminal.wait_for(lambda: terminal.screen.text.count("y sends it") == 2)
    terminal.answer("yes\n")
    terminal.wait_for("The end.")
    assert json.loads(results(newel)[0])["name"] == "Ada"


@pytest.mark.parametrize(
    ("typed", "told"),
    [("/decline", "declin"), ("/cancel", "cancel")],
)
def test_a_form_can_be_cancelled_at_any_question(opened: Open, typed: str, told: str) -> None:
    terminal, newel = opened("newel", "-p", "go", tools=("book",))
    terminal.wait_for("Name (")
    terminal.answer("Ada\n")
    terminal.wait_for("[2]:")
    terminal.send(f"{typed}\n")
    terminal.wait_for("The end.")
    assert told in results(newel)[0].lower()


@pytest.mark.parametrize(("typed", "told"), [("y", "wiped"), ("", "declin"), ("what", "declin")])
def test_only_a_yes_accepts_a_servers_question(opened: Open, typed: str, told: str) -> None:
    terminal, newel = opened("newel", "-p", "go", tools=("wipe",))
    terminal.wait_for("Delete everything?")
    terminal.wait_for("n declines (Enter)")
    terminal.answer(f"{typed}\n")
    if typed == "what":
        terminal.wait_for("what is not one of these.")
        terminal.answer("\n")
    terminal.wait_for("The end.")
    assert told in results(newel)[0].lower()


@pytest.mark.parametrize(("typed", "action"), [("y", "accept"), ("", "decline"), ("/cancel", "cancel")])
def test_a_url_is_shown_with_its_real_host_and_never_opened(
    opened: Open, tmp_path: Path, typed: str, action: str
) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\ntouch {tmp_path}/opened\n")
    browser.chmod(0o755)
    terminal, newel = opened("newel", "-p", "go", tools=("pay",), BROWSER=str(browser))
    terminal.wait_for("    https://shop.invalid@pay.invalid/<U+200B>?bill=7\n")
    terminal.wait_for("This page is on pay.invalid. Newel does not open it.")
    terminal.answer(f"{typed}\n")
    terminal.wait_for("The end.")
    assert json.loads(results(newel)[0])["action"] == action
    assert not (tmp_path / "opened").exists()


@pytest.mark.slow  # seconds of waiting
def test_a_form_that_cannot_be_filled_in_is_declined_with_the_reason(opened: Open) -> None:
    terminal, newel = opened("newel", "-p", "go", tools=("puzzle",))
    terminal.wait_for("Newel cannot answer it.")
    terminal.answer("y\n")
    terminal.wait_for("y is not one of these.")
    terminal.answer("\n")
    terminal.wait_for("The end.")
    assert json.loads(results(newel)[0])["action"] == "decline"


@pytest.mark.slow  # seconds of waiting
def test_two_tools_that_ask_at_once_are_served_one_after_the_other(opened: Open) -> None:
    terminal, newel = opened("newel", "-p", "go", tools=("peek", "peek"))
    for number in (1, 2):
        terminal.wait_for(lambda: terminal.screen.text.count("May I look?") == number)  # noqa: B023 — called at once
        terminal.wait_for(lambda: terminal.screen.text.count("n declines (Enter)") == number)  # noqa: B023 — as above
        terminal.answer("y\n")
    terminal.wait_for("The end.")
    assert results(newel) == ["looked", "looked"]


def test_ctrl_c_at_a_question_ends_the_run(opened: Open) -> None:
    terminal, _ = opened("newel", "-p", "go", tools=("wipe",))
    terminal.wait_for("n declines (Enter)")
    os.kill(terminal.process.pid, signal.SIGINT)
    assert terminal.end() == 130
    assert "Stopped." in terminal.screen.text


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (("newel", "go", "--renderer", "console"), ""),
        (("newel", "go", "--json"), ""),
        (("newel", "--json"), '{"type":"message","content":"go"}\n'),
        (("lsimons-agent",), "go\ny\n"),
    ],
    ids=["prompt", "prompt in JSON", "JSON mode", "simple"],
)
def test_without_a_user_a_question_is_declined_and_the_run_continues(
    ready: Ready, words: tuple[str, ...], stdin: str
) -> None:
    newel = ready("wipe")
    done = newel(*words[1:], command=words[0], stdin=stdin)
    assert done.returncode == 0, done.stderr
    assert "declin" in results(newel)[0].lower()
    assert "Delete everything" not in done.stdout
