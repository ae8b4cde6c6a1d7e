"""If these fail, a cloned project runs its hooks or MCP servers without a yes of the user, or the user never learns that it brings any."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.hook_scripts import group, hook, of_project
from tests.integration.mcp.rogues import rogue
from tests.support import BIN, Newel, bash, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]
Open = Callable[..., Tmux]

DONE = {"content": "Done."}
CHOICES = "[y/N/never]"
READY = "Enter sends"


@pytest.fixture
def newel(with_model: Make) -> Newel:
    newel = with_model(scenario("", DONE))
    (newel.home / ".newel").mkdir(exist_ok=True)
    return newel


@pytest.fixture
def open_newel(newel: Newel) -> Iterator[Open]:
    with ExitStack() as screens:

        def begin(*words: str) -> Tmux:
            screens.close()  # the screens of a folder share a socket
            environ = newel.environ | {"TERM": "xterm-256color"}
            command = [str(BIN / "newel"), *words]
            return screens.enter_context(Tmux(command, newel.project, environ, columns=200, rows=50))

        yield begin


def bring_hook(newel: Newel, command: str = "touch ~/was-started") -> None:
    of_project(newel, UserPromptSubmit=[group(hook(command))])


def bring_server(newel: Newel) -> None:
    server = rogue("plain")
    entry = {"command": server.command, "args": server.args, "env": {"COLOUR": "blue"}}
    (newel.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"tracker": entry}}))


def send(screen: Tmux, words: str) -> None:
    screen.wait_for(READY)
    screen.type(words, "Enter")
    screen.wait_for("Done.")


def test_one_question_shows_all_that_would_run_and_a_yes_starts_it(newel: Newel, open_newel: Open) -> None:
    bring_hook(newel, "touch ~/was-started\x1b[8m; true")
    bring_server(newel)
    screen = open_newel()
    screen.wait_for(CHOICES)
    assert "touch ~/was-started␛[8m; true" in screen.text
    assert "UserPromptSubmit" in screen.text
    assert "MCP server 'tracker'" in screen.text
    assert "COLOUR = blue" in screen.text
    screen.answer("y", "Enter")
    send(screen, "go")
    assert list(newel.home.glob("was-started*"))
    assert "untrusted" not in newel("hooks").stdout + newel("mcp").stdout


def test_the_question_says_that_skills_may_change(newel: Newel, open_newel: Open) -> None:
    """All else that it is about is trusted until it changes."""
    skill = newel.project / ".claude" / "skills" / "deploy" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: deploy\ndescription: Deploy.\n---\n")
    screen = open_newel()
    screen.wait_for(CHOICES)
    assert "stays when they change, and covers new ones" in screen.text


@pytest.mark.parametrize("answer", ["", "n"])
def test_enter_and_no_decide_nothing(newel: Newel, open_newel: Open, answer: str) -> None:
    bring_hook(newel)
    bring_server(newel)
    screen = open_newel()
    screen.wait_for(CHOICES)
    screen.answer(answer, "Enter")
    send(screen, "go")
    assert not (newel.home / "was-started").exists()
    assert "untrusted" in newel("hooks").stdout
    again = open_newel()
    again.wait_for(CHOICES)


def test_never_is_kept_until_the_content_changes(newel: Newel, open_newel: Open) -> None:
    bring_hook(newel)
    bring_server(newel)
    screen = open_newel()
    screen.wait_for(CHOICES)
    screen.answer("never", "Enter")
    send(screen, "go")
    assert "declined" in newel("hooks").stdout
    assert "declined" in newel("mcp").stdout
    assert newel("go").stderr.count("trust") == 0
    silent = open_newel()
    silent.wait_for(READY)
    assert CHOICES not in silent.text
    bring_hook(newel, "touch ~/something-else")
    asking = open_newel()
    asking.wait_for("touch ~/something-else")
    asking.wait_for(CHOICES)
    assert "tracker" not in asking.text


@pytest.mark.slow  # seconds of waiting
def test_what_was_typed_ahead_is_no_yes(newel: Newel, open_newel: Open) -> None:
    bring_hook(newel)
    screen = open_newel()
    screen.type("y", "Enter")
    screen.wait_for(CHOICES)
    screen.type("y", "Enter")
    screen.wait_for("Typed before the question, and not sent: y")
    screen.answer("", "Enter")
    screen.wait_for(READY)
    assert "untrusted" in newel("hooks").stdout


def test_a_hook_that_changes_during_the_question_is_not_trusted(newel: Newel, open_newel: Open) -> None:
    """The user says yes to what is on the screen, also about the script of a hook."""
    (newel.project / "format.sh").write_text("true\n")
    bring_hook(newel, 'sh "$CLAUDE_PROJECT_DIR/format.sh"')
    screen = open_newel()
    screen.wait_for(CHOICES)
    (newel.project / "format.sh").write_text("touch ~/was-started\n")
    screen.answer("y", "Enter")
    send(screen, "go")
    assert not (newel.home / "was-started").exists()
    assert "untrusted" in newel("hooks").stdout


@pytest.mark.parametrize(
    "padding", [["; true" * 2_000], [" " * 4_700], ["ls"] * 40], ids=["long", "wide", "many"]
)
def test_more_than_a_screen_can_show_is_not_asked_about(
    newel: Newel, open_newel: Open, padding: list[str]
) -> None:
    """A command that has scrolled away cannot be judged."""
    first, *more = padding
    commands = [f"touch ~/was-started {first}; true", *more]
    of_project(newel, UserPromptSubmit=[group(*(hook(command) for command in commands))])
    screen = open_newel()
    screen.wait_for("so nothing of them is used")
    send(screen, "go")
    assert not (newel.home / "was-started").exists()


def test_a_question_that_has_scrolled_says_so(newel: Newel, open_newel: Open) -> None:
    commands = ["touch ~/was-started", *["ls"] * 24]
    of_project(newel, UserPromptSubmit=[group(*(hook(command) for command in commands))])
    screen = open_newel()
    screen.wait_for("longer than your screen: scroll up")
    assert CHOICES in screen.text


def test_a_single_prompt_in_a_terminal_does_not_ask(newel: Newel, open_newel: Open) -> None:
    bring_hook(newel)
    screen = open_newel("-p", "go")
    screen.wait_for("Done.")
    screen.wait_for_end()
    assert CHOICES not in screen.text
    assert not (newel.home / "was-started").exists()


@pytest.mark.slow  # seconds of waiting
def test_an_agent_with_a_terminal_is_not_asked(with_model: Make) -> None:
    """Otherwise a command that types `y` trusts what the agent has written."""
    inner = f"{BIN}/newel"
    newel = with_model(
        scenario("go", bash(f"(sleep 3; echo y) | script -qec {inner} /dev/null | head -c 3000"), DONE)
    )
    bring_hook(newel)
    newel("go")
    assert not (newel.home / ".newel/hooks_trust.json").exists()


def test_a_server_can_be_declined_by_a_command(newel: Newel) -> None:
    bring_server(newel)
    assert "tracker" in newel("go").stderr
    assert newel("mcp", "trust", "tracker", "--decline").returncode == 0
    assert "tracker" not in newel("go").stderr
    assert newel("mcp", "trust", "tracker", "--revoke").returncode == 0
    assert "tracker" in newel("go").stderr
