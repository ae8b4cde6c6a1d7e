"""If these fail, the first five minutes at a terminal end at a wrong key, a stopped server, or a help that leads nowhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from mock_llm_server import running
from tests.support import BIN, Newel, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]


def shell(newel: Newel, rows: int = 50) -> AbstractContextManager[Tmux]:
    return Tmux(["sh"], newel.project, newel.environ | {"PS1": "$ "}, rows=rows)


def conversation(newel: Newel) -> Tmux:
    screen = Tmux([str(BIN / "newel")], newel.project, newel.environ, columns=100)
    screen.wait_for("Enter sends")
    return screen


def test_the_demo_shows_a_real_run_and_names_the_next_step(with_model: Make) -> None:
    with shell(with_model()) as screen:
        screen.type("newel demo", "Enter")
        screen.wait_for("To use a model of yours: newel setup")
        assert "● write hello.py" in screen.text
        assert "● bash python3 hello.py" in screen.text
        assert (
            "newel: 1 file +1\n" in screen.text
        )  # no command is named that finds nothing: the demo keeps no record


def test_a_run_that_keeps_no_record_names_no_command_that_needs_one(with_model: Make) -> None:
    """A promise to undo what cannot be undone is worse than none."""
    write = {
        "tool_calls": [{"function": {"name": "write", "arguments": {"path": "a.txt", "content": "a\n"}}}]
    }
    newel = with_model(scenario("", write, {"content": "Written."}))
    with shell(newel) as screen:
        screen.type("newel -p --ephemeral go", "Enter")
        screen.wait_for("newel: 1 file +1")
        assert "newel undo" not in screen.text
        screen.type("rm a.txt; newel -p go", "Enter")
        screen.wait_for("newel undo")


def test_the_help_has_the_commands_first_and_hosts_among_them(with_model: Make) -> None:
    with shell(with_model(), rows=150) as screen:
        screen.type("newel help", "Enter")
        screen.wait_for("exit codes:")
        groups = ["the agent:", "changes:", "sessions:", "settings, servers and hosts:", "\noptions:"]
        places = [screen.text.find(group) for group in groups]
        assert -1 not in places
        assert places == sorted(places)
        assert "list, add, remove and test SSH hosts" in screen.text[places[3] : places[4]]


def test_a_wrong_key_is_named_and_the_conversation_goes_on(with_model: Make) -> None:
    fault = {"kind": "status", "status": 401, "times": 1}
    newel = with_model(scenario("", {"fault": [fault], "response": {"content": "With a key it answers."}}))
    with conversation(newel) as screen:
        screen.type("hi", "Enter")
        screen.wait_for("rejected the API key (401)")
        assert "Set LLM_AUTH_TOKEN or --api-key" in screen.text
        screen.type("again", "Enter")
        screen.wait_for("With a key it answers.")


def test_a_stopped_server_is_an_error_at_once_and_works_when_it_runs_again(with_model: Make) -> None:
    newel = with_model()
    with running(scenario("", {"content": "Back again."})) as server:
        port = server.port
    newel.environ["LLM_BASE_URL"] = f"http://127.0.0.1:{port}/v1"
    with conversation(newel) as screen:
        begun = time.monotonic()
        screen.type("hi", "Enter")
        screen.wait_for("nothing listens there. Start the")
        assert time.monotonic() - begun < 5, "a refused connection was tried again and again"
        with running(scenario("", {"content": "Back again."}), port=port):
            screen.type("hi", "Enter")
            screen.wait_for("Back again.")


def test_a_command_with_nothing_to_do_says_so(with_model: Make) -> None:
    """Otherwise the user takes an empty list for a mistake, or a new conversation for their old one."""
    with shell(with_model(scenario("", {"content": "Done."}))) as screen:
        for typed, shown in (
            ("newel hosts", "No hosts yet. Add one: newel hosts add"),
            ("newel mcp", "No servers yet. Add one: newel mcp add"),
            ("newel decide; echo code $?", "No pending changes.\ncode 1"),
            ("newel decide < /dev/null; echo now $?", "No pending changes.\nnow 1"),
            ("newel undo < /dev/null", "No changes by agents are recorded in this folder."),
            ("newel -c", "This folder has no earlier session. A new one begins."),
        ):
            screen.type(typed, "Enter")
            screen.wait_for(shown)


def test_a_deleted_folder_is_named_without_an_option_that_nobody_has_typed(with_model: Make) -> None:
    with shell(with_model()) as screen:
        screen.type("mkdir gone; cd gone; rmdir ../gone; newel", "Enter")
        screen.wait_for("change to another one.\nTry `newel --help`")
        assert "--cwd" not in screen.text


def test_a_conversation_that_goes_on_with_another_model_says_so(with_model: Make) -> None:
    """`/model` is for this process: who comes back should not pay another model without knowing."""
    newel = with_model(scenario("", {"content": "An answer."}))
    with conversation(newel) as screen:
        screen.type("/model mock-large", "Enter")
        screen.wait_for("The next prompt goes to mock-large.")
        screen.type("hi", "Enter")
        screen.wait_for("An answer.")
        screen.type("", "C-d")
        screen.wait_for_end()
    with Tmux([str(BIN / "newel"), "-c"], newel.project, newel.environ, columns=100) as screen:
        screen.wait_for("The last answer came from mock-large; the next prompt goes to mock-model (/model).")
        screen.type("again", "Enter")
        screen.wait_for("An answer.", times=2)
        screen.type("", "C-d")
        screen.wait_for_end()
    with Tmux([str(BIN / "newel"), "-c"], newel.project, newel.environ, columns=100) as screen:
        screen.wait_for("── Resumed")
        assert "The last answer came from" not in screen.text
