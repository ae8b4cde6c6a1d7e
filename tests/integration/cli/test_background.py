"""If these fail, a server or a long build blocks the conversation, outlives Newel, or changes files behind the record's back."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.requirements import require_program
from tests.served import wait_until
from tests.sshd import Sshd
from tests.support import BIN, Newel, bash, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]

DONE = {"content": "Done."}
NOTED = {"content": "Noted."}

WAITS = "while [ ! -e node_modules/go ]; do sleep 0.02; done"
"""Until the test says go, in a folder that is never recorded."""


def stubborn() -> tuple[str, str]:
    """A command that TERM does not end, and the mark of its processes."""
    mark = f"600.{int.from_bytes(os.urandom(5), 'big')}"
    return f"trap '' TERM; echo begun; sleep {mark}; :", mark


def in_background(command: str) -> dict[str, Any]:
    arguments = {"command": command, "run_in_background": True}
    return {"tool_calls": [{"function": {"name": "bash", "arguments": arguments}}]}


def read(**arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": "bash_output", "arguments": arguments}}]}


def scenarios(*each: dict[str, Any]) -> dict[str, Any]:
    return {"scenarios": [one["scenarios"][0] for one in each]}


def conversation(newel: Newel, *arguments: str) -> Tmux:
    environ = newel.environ | {"TERM": "xterm-256color"}
    return Tmux([str(BIN / "newel"), *arguments], newel.project, environ, columns=100)


def begin(terminal: Tmux, prompt: str) -> None:
    terminal.wait_for("Enter sends")
    terminal.type(prompt, "Enter")


def results(newel: Newel) -> list[str]:
    """What the model got from its calls."""
    messages = newel.requests[-1]["messages"]
    return [str(message["content"]) for message in messages if message["role"] == "tool"]


def prompts(newel: Newel) -> list[str]:
    messages = newel.requests[-1]["messages"]
    return [str(message["content"]) for message in messages if message["role"] == "user"]


def runs(mark: str) -> list[int]:
    """The processes with this mark in their command lines."""
    words = ["ps", "-eo", "pid=,stat=,args="]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    lines = [line.split(maxsplit=2) for line in listed.splitlines() if mark in line]
    return [int(pid) for pid, state, _ in lines if not state.startswith("Z")]


def go(newel: Newel) -> None:
    (newel.project / "node_modules").mkdir()
    (newel.project / "node_modules/go").touch()


def test_ctrl_b_moves_the_command_that_runs_to_the_background(with_model: Make) -> None:
    command = f"echo begun; {WAITS}; echo late > late.txt; echo at last"
    newel = with_model(scenarios(scenario("build", bash(command), DONE), scenario("how is it", NOTED)))
    with conversation(newel) as terminal:
        begin(terminal, "build")
        terminal.wait_for("Ctrl+B to the background")
        terminal.wait_for("begun")
        terminal.type("", "C-b")
        terminal.wait_for("Done.")
        terminal.wait_for("1 in background")
        (result,) = results(newel)
        assert "begun" in result
        assert "The user has moved it to the background" in result
        go(newel)
        terminal.wait_for("has ended: exit code 0")
        assert "in background" not in terminal.view
        terminal.type("how is it", "Enter")
        terminal.wait_for("Noted.")
        notice, last = prompts(newel)[-2:]
        assert last == "how is it"
        assert re.match(r"The background command b[0-9a-f]{4} has ended \(exit code 0, ", notice)
        assert "at last" in notice


def test_what_it_writes_after_its_run_is_undone_by_itself(with_model: Make) -> None:
    command = f"{WAITS}; echo theirs > late.txt; echo theirs > both.txt"
    newel = with_model(scenario("run it", bash("echo first > both.txt"), in_background(command), DONE))
    with conversation(newel) as terminal:
        begin(terminal, "run it")
        terminal.wait_for("Still running:")  # the run has ended
        go(newel)
        terminal.wait_for("has ended: exit code 0")
        terminal.type("/undo", "Enter")
        terminal.wait_for("[y/N")
        assert "ran in the background" in terminal.text
        terminal.type("y", "Enter")
        wait_until(lambda: not (newel.project / "late.txt").exists(), "the undo")
        both = newel.project / "both.txt"
        wait_until(lambda: both.read_text() == "first\n", "the other file")
        terminal.wait_for("Undone")
        terminal.type("/undo", "Enter")
        terminal.wait_for("Undo: run it")
        terminal.wait_for("[y/N")
        terminal.type("y", "Enter")
        wait_until(lambda: not both.exists(), "the other undo")


def test_what_runs_still_is_looked_at_before_an_undo(with_model: Make) -> None:
    command = f"{WAITS}; echo theirs > late.txt; sleep 600"
    newel = with_model(scenario("run it", in_background(command), DONE))
    with conversation(newel) as terminal:
        begin(terminal, "run it")
        terminal.wait_for("Still running:")  # the run has ended
        go(newel)
        wait_until((newel.project / "late.txt").exists, "the write")
        terminal.type("/undo", "Enter")
        terminal.wait_for("[y/N")
        assert "ran in the background" in terminal.text
        terminal.type("y", "Enter")
        wait_until(lambda: not (newel.project / "late.txt").exists(), "the undo")


def test_the_model_reads_waits_and_ends(with_model: Make) -> None:
    steps = [
        in_background(f"echo begun; {WAITS}; echo then; sleep 600"),
        read(),
        bash("mkdir node_modules; touch node_modules/go; sleep 0.3"),
        read(wait=0.1),
        read(stop=True),
        read(id="b0"),
    ]
    newel = with_model(scenario("run it", *steps, DONE))
    done = newel("--tools", "bash,bash_output", "run it")
    assert done.returncode == 0, done.stderr
    started, first, _, second, ended, unknown = results(newel)
    assert re.search(r"It runs in the background as b[0-9a-f]{4}\.", started)
    assert "begun" in started + first
    assert first.startswith("running after")
    assert "then" in second
    assert "begun" not in second.partition("new output:")[2]
    assert ended.startswith("stopped after")
    assert "No command in the background has the id" in unknown


def test_a_command_that_fails_at_once_has_an_ordinary_result(with_model: Make) -> None:
    newel = with_model(scenario("run it", in_background("exit 3"), DONE))
    newel("--tools", "bash,bash_output", "run it")
    assert "exit code: 3" in results(newel)[0]


@pytest.mark.parametrize(
    ("how", "sandbox"),
    [
        ("/quit", "workspace"),
        ("SIGTERM", "off"),
        ("SIGKILL", "workspace"),
        # Each end and each sandbox occurs above; the other pairs take a second of a core each.
        pytest.param("/quit", "off", marks=pytest.mark.slow),
        pytest.param("SIGTERM", "workspace", marks=pytest.mark.slow),
        pytest.param("SIGKILL", "off", marks=pytest.mark.slow),
    ],
)
def test_it_ends_with_newel(with_model: Make, how: str, sandbox: str) -> None:
    if sandbox != "off":
        require_program("bwrap")
    command, mark = stubborn()
    newel = with_model(scenario("run it", in_background(command), DONE))
    with conversation(newel, "--sandbox", sandbox) as terminal:
        begin(terminal, "run it")
        terminal.wait_for("1 in background")
        assert runs(mark)
        if how == "/quit":
            terminal.type("/quit", "Enter")
        else:
            terminal.kill(how)
        terminal.wait_for_end()
        wait_until(lambda: not runs(mark), "the end of the command")


@pytest.mark.slow  # seconds of waiting
def test_a_one_shot_run_ends_it_and_does_not_wait(with_model: Make) -> None:
    command, mark = stubborn()
    newel = with_model(scenario("run it", in_background(command), DONE))
    done = newel("--tools", "bash,bash_output", "run it")
    assert done.stdout.rstrip().endswith("Done.")
    assert not runs(mark)


def test_after_a_kill_the_model_is_told_that_it_has_ended(with_model: Make) -> None:
    newel = with_model(
        scenarios(
            scenario("run it", in_background(f"{WAITS}; echo theirs > late.txt; sleep 600"), DONE),
            scenario("go on", NOTED),
            scenario("once more", NOTED),
        )
    )
    with conversation(newel) as terminal:
        begin(terminal, "run it")
        terminal.wait_for("Still running:")
        go(newel)
        wait_until((newel.project / "late.txt").exists, "the write")
        terminal.kill("SIGKILL")
        terminal.wait_for_end()
    done = newel("-c", "go on")
    assert re.search(r"The background command b[0-9a-f]{4} has ended, because Newel did", prompts(newel)[-2])
    assert "what it left running or by you, so it is not recorded: late.txt" in done.stderr
    newel("-c", "once more")
    assert sum("because Newel did" in prompt for prompt in prompts(newel)) == 1


def test_what_the_model_was_told_is_no_prompt_of_the_user(with_model: Make) -> None:
    """Otherwise a resumed conversation has words in the user's mouth, and /rewind offers to go back to them."""
    newel = with_model(
        scenarios(scenario("run it", in_background("sleep 0.4"), DONE), scenario("go on", NOTED))
    )
    with conversation(newel) as terminal:
        begin(terminal, "run it")
        terminal.wait_for("has ended: exit code 0")
        terminal.type("go on", "Enter")
        terminal.wait_for("Noted.")
    with conversation(newel, "-c") as terminal:
        terminal.wait_for("── Resumed")
        assert re.search(
            r"^Newel told the model: The background command b[0-9a-f]{4} has ended",
            terminal.view,
            re.MULTILINE,
        )
        terminal.type("/rewind", "Enter")
        terminal.wait_for("Esc cancels")
        listed = terminal.view.rpartition("── Resumed")[2]
        assert "go on" in listed
        assert "background command" not in listed


def test_the_list_shows_and_ends_them(with_model: Make) -> None:
    steps = [in_background("echo first one; sleep 601"), in_background("echo second one; sleep 602"), DONE]
    newel = with_model(scenario("run it", *steps))
    with conversation(newel) as terminal:
        begin(terminal, "run it")
        terminal.wait_for("2 in background")
        terminal.type("/bashes", "Enter")
        terminal.wait_for("Commands in the background")
        terminal.wait_for("Ctrl+X ends it")
        terminal.type("", "Down", "C-x")
        terminal.wait_for("stopped")
        terminal.type("", "Up", "Enter")
        wait_until(lambda: "q closes" in terminal.view or "first one" in terminal.view, "the output")
        assert "echo first one" in terminal.view
        terminal.type("q")
        terminal.wait_for("1 in background")


@pytest.mark.slow  # a second of a core
def test_a_flood_stays_bounded_and_too_many_are_refused(with_model: Make) -> None:
    many = [in_background(f"sleep {600 + number}") for number in range(8)]
    newel = with_model(scenario("run it", in_background("yes"), *many, read(id=""), DONE))
    done = newel("--tools", "bash,bash_output", "run it")
    assert done.returncode == 0
    assert "8 commands run in the background already" in results(newel)[-2]
    assert all(len(result) < 200_000 for result in results(newel))


@pytest.mark.parametrize("mode", ["review"])
def test_it_is_not_offered_where_it_cannot_be(with_model: Make, mode: str) -> None:
    newel = with_model(scenario("go", DONE))
    newel("--approve", mode, "--tools", "bash,bash_output", "go")
    (tool,) = newel.requests[-1]["tools"]
    assert "run_in_background" not in tool["function"]["parameters"]["properties"]


def test_scripts_are_not_offered_it_unasked(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    newel("go")
    offered = {tool["function"]["name"]: tool["function"] for tool in newel.requests[-1]["tools"]}
    assert "bash_output" not in offered
    assert "run_in_background" not in offered["bash"]["parameters"]["properties"]


@pytest.mark.slow  # a second of a core
def test_on_a_host_it_is_recorded_and_ends_as_well(with_model: Make, sshd: Sshd) -> None:
    project = sshd.project("background")
    command, mark = stubborn()
    late = f"{WAITS}; echo theirs > late.txt; {command}"
    newel = with_model(scenario("run it", in_background(late), DONE))
    newel.environ["NEWEL_SSH_CONFIG"] = str(sshd.config)
    with conversation(newel, "--host", f"host:{project}", "--approve", "auto") as terminal:
        begin(terminal, "run it")
        terminal.wait_for("Still running:")
        say_go = f"mkdir {project}/node_modules && touch {project}/node_modules/go"
        assert sshd.ssh("sh", "-c", say_go).returncode == 0
        wait_until((project / "late.txt").exists, "the write")
        wait_until(lambda: runs(mark), "the next part")
        terminal.type("/undo", "Enter")
        terminal.wait_for("[y/N")
        assert "ran in the background" in terminal.text
        terminal.type("y", "Enter")
        wait_until(lambda: not (project / "late.txt").exists(), "the undo")
        terminal.type("/quit", "Enter")
        terminal.wait_for_end()
    wait_until(lambda: not runs(mark), "the end of the command")


def test_what_the_user_starts_on_its_own_lives_on(with_model: Make) -> None:
    _, mark = stubborn()
    newel = with_model(scenario("run it", DONE))
    with conversation(newel, "--sandbox", "off") as terminal:
        begin(terminal, f"!nohup sleep {mark} > out.log 2>&1 &")
        terminal.wait_for("The model gets this")
        terminal.type("/quit", "Enter")
        terminal.wait_for_end()
    (pid,) = runs(mark)
    os.kill(pid, signal.SIGKILL)
