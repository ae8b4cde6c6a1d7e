"""If these fail, somebody who comes from git or another agent types what they know and starts a run, or gets nowhere."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

import pytest

from newel.cli.completion import ACTIONS
from tests.requirements import require_program
from tests.support import BIN, Newel, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]


@pytest.mark.parametrize(
    ("words", "own"),
    [
        (["agent", "list"], ["agents"]),
        (["agents", "list", "--all"], ["agents", "--all"]),
        (["agent", "log"], ["agents", "log"]),
        (["agent", "tail", "5c0cf6f9"], ["agents", "tail", "5c0cf6f9"]),
        (["agents", "resume", "5c0cf6f9"], ["agent", "--resume", "5c0cf6f9"]),
        (["review", "list"], ["checkpoints"]),
        (["review", "keep", "--all"], ["keep", "--all"]),
        (["review", "undo", "--yes"], ["undo", "--yes"]),
        (["review", "rollback"], ["rollback"]),
        (["session"], ["sessions"]),
        (["session", "list"], ["sessions"]),
        (["session", "show", "5c0cf6f9"], ["export", "5c0cf6f9"]),
        (["sessions", "resume", "5c0cf6f9"], ["--session", "5c0cf6f9"]),
        (["resume", "5c0cf6f9"], ["--session", "5c0cf6f9"]),
        (["config", "list"], ["config"]),
        (["models", "list"], ["models"]),
        (["skills", "--json"], ["skills", "list", "--json"]),
        (["extensions", "--json"], ["extensions", "list", "--json"]),
        (["hooks", "--json"], ["hooks", "list", "--json"]),
        (["permissions", "--json"], ["permissions", "list", "--json"]),
    ],
)
def test_another_name_does_what_the_command_does(with_model: Make, words: list[str], own: list[str]) -> None:
    newel = with_model(scenario("", {"content": "Done."}))
    done, expected = newel(*words), newel(*own)
    assert (done.returncode, done.stdout, done.stderr) == (
        expected.returncode,
        expected.stdout,
        expected.stderr,
    )
    assert newel.requests == []


def test_resume_goes_on_with_the_latest_session(with_model: Make) -> None:
    newel = with_model(scenario("", {"content": "Done."}))
    assert newel("first").returncode == 0
    assert newel("resume", stdin="second").returncode == 0
    assert [
        message["content"] for message in newel.requests[-1]["messages"] if message["role"] == "user"
    ] == [
        "first",
        "second",
    ]


@pytest.mark.parametrize("words", [["list", "the", "TODOs"], ["resume", "the", "work"], ["log", "in"]])
def test_a_contract_that_begins_like_an_action_is_a_contract(with_model: Make, words: list[str]) -> None:
    newel = with_model(scenario("", {"content": "Done."}))
    newel("agent", *words, "--max-turns", "1")
    assert newel.requests[-1]["messages"][1]["content"] == " ".join(words)


def test_an_agents_command_cannot_decide_by_another_name(with_model: Make) -> None:
    """If this fails, an agent undoes or keeps its own changes."""
    call = {"function": {"name": "bash", "arguments": {"command": f"{BIN / 'newel'} review undo --yes"}}}
    newel = with_model(scenario("", {"tool_calls": [call]}, {"content": "Done."}))
    newel("-p", "go")
    assert "`newel undo` is a decision of the user" in str(newel.requests[-1]["messages"][-1]["content"])


def completed(shell: str, line: str, newel: Newel) -> set[str]:
    """What a shell offers at the end of a line."""
    script = f"newel completion fish | source; complete -C'{line}'"
    if shell == "bash":
        words = line.split(" ")
        given = " ".join(f"'{word}'" for word in words)
        script = (
            f'eval "$(newel completion bash)"; COMP_WORDS=({given}); COMP_CWORD={len(words) - 1}; _newel; '
        )
        script += 'printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(
        [require_program(shell), "-c", script],
        env=newel.environ,
        cwd=newel.project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == "", done.stderr
    return {found.split("\t")[0] for found in done.stdout.split("\n") if found}


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_shells_complete_commands_actions_options_and_values(with_model: Make, shell: str) -> None:
    newel = with_model()
    assert completed(shell, "newel revi", newel) == {"review"}
    assert {"add", "trust"} <= completed(shell, "newel mcp ", newel)
    assert completed(shell, "newel --appro", newel) == {"--approve"}
    assert completed(shell, "newel --approve re", newel) == {"review", "read-only"}


def test_zsh_completes_them_as_bash_does(with_model: Make) -> None:
    newel = with_model()
    environ = newel.environ | {"TERM": "xterm-256color", "PS1": "$ "}
    with Tmux([require_program("zsh"), "-f"], newel.project, environ) as terminal:
        terminal.type('eval "$(newel completion zsh)"; echo ready', "Enter")
        terminal.wait_for("\nready\n")
        terminal.type("newel revi", "Tab")
        terminal.wait_for("newel review")
        terminal.type("keep --al", "C-u")
        terminal.type("newel mcp tru", "Tab")
        terminal.wait_for("newel mcp trust")


def test_options_of_a_command_are_completed(with_model: Make) -> None:
    assert completed("bash", "newel undo --y", with_model()) == {"--yes"}


@pytest.mark.parametrize("command", sorted(set(ACTIONS) - {"completion", "import"}))
def test_each_completed_action_exists(with_model: Make, command: str) -> None:
    newel = with_model()
    for action in ACTIONS[command]:
        done = newel(command, action, "--help")
        assert done.returncode == 0
        assert re.search(rf"usage: newel {command} {action}\b", done.stdout), done.stdout
