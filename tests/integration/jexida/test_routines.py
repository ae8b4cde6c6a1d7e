"""If these fail, a routine runs with other values than the user gave, or with a variable missing."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from newel.agent.errors import UsageError
from newel.terminal.jexida.agent import system_prompt
from newel.terminal.jexida.commands import complete_routine
from newel.terminal.jexida.routines import Routine, split
from newel.terminal.repl.completion import ReplCompleter
from newel.text.shell_template import ShellTemplate
from newel.workspace.local import LocalWorkspace
from tests.integration.jexida.program import Here
from tests.integration.jexida.test_repl import ESCAPE, MARK, READY, TAB, panels
from tests.properties import examples

Open = Callable[..., Any]

LOGS = Routine(
    "logs", "See what a container says", ShellTemplate("docker logs -n {lines} {name}", ["name", "lines=100"])
)
ROUTINES = {each.name: each for each in (LOGS, Routine("logs of all", "", ShellTemplate("journalctl")))}


@pytest.mark.parametrize(
    ("typed", "values"),
    [
        ("web", {"name": "web"}),
        ("web 20", {"name": "web", "lines": "20"}),
        ("name=web lines=20", {"name": "web", "lines": "20"}),
        ("lines=20 web", {"name": "web", "lines": "20"}),
        ("lines=20", {"lines": "20"}),
        ("a=b lines=c=d", {"name": "a=b", "lines": "c=d"}),
        ('"two words" lines=""', {"name": "two words", "lines": ""}),
        ("'it is' 'a\nb'", {"name": "it is", "lines": "a\nb"}),
        ("", {}),
    ],
)
def test_values_are_passed_by_name_or_position(typed: str, values: dict[str, str]) -> None:
    assert LOGS.values(typed) == values


@settings(max_examples=examples(50))
@given(st.text(), st.text())
def test_any_value_can_be_quoted(name: str, lines: str) -> None:
    values = {"name": name, "lines": lines}
    assert LOGS.values(shlex.join(f"{each}={value}" for each, value in values.items())) == values
    if not name.startswith(("name=", "lines=")):
        assert LOGS.values(shlex.join([name, f"lines={lines}"])) == values


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("web 20 more", "No variable is left for more."),
        ("name=a name=b", "Duplicate value for name."),
        ("'web", "No closing quotation in 'web."),
    ],
)
def test_invalid_values_are_reported_with_the_usage(typed: str, words: str) -> None:
    with pytest.raises(UsageError) as told:
        LOGS.values(typed)
    assert str(told.value) == f"{words} Usage: /run logs NAME [LINES=100]"


def test_a_routine_name_with_spaces_is_not_a_name_with_values() -> None:
    assert split("logs of all", ROUTINES) == (ROUTINES["logs of all"], "")
    assert split("logs of none", ROUTINES) == (LOGS, " of none")
    assert split("logsof", ROUTINES) is None


def test_names_and_variables_are_completed() -> None:
    completer = ReplCompleter(
        lambda: {"run": "run a routine"}, arguments={"run": partial(complete_routine, ROUTINES)}
    )

    def offers(typed: str) -> list[str]:
        return [each.text for each in completer.get_completions(Document(typed), CompleteEvent())]

    assert offers("/r") == ["/run"]
    assert offers("/run lo") == ["logs", "logs of all"]
    assert offers("/run logs ") == ["logs of all", "name=", "lines="]
    assert offers("/run logs web li") == ["lines="]
    assert offers("/run logs name=web ") == ["lines="]
    assert offers("/run logs name=web lines=20 ") == offers("/run journal x") == offers("what?") == []


def test_the_model_learns_how_routines_are_called() -> None:
    told = system_prompt(Here(LocalWorkspace("/")), "me", ROUTINES)
    assert (
        "- /run logs NAME [LINES=100]: See what a container says (`docker logs -n {lines} {name}`)\n" in told
    )


def test_a_routines_command_is_shown_exactly_and_quotes_each_value(
    open_terminal: Open, tmp_path: Path
) -> None:
    terminal = open_terminal()
    terminal.wait_for(READY)
    terminal.send("/routines\r")
    terminal.wait_for("/run logs NAME [LINES=100]")
    terminal.send("/run logs na" + TAB + "'$(touch it); x' 7\r")
    terminal.wait_for("last   exit code 0")
    command = "$ printf '<%s>' -'7' '$(touch it); x'"
    assert [command, "<-7><$(touch it); x>"] in [lines for _, lines, _ in panels(terminal.screen.text)]
    assert not (tmp_path / "project" / "it").exists()


def test_a_missing_value_is_asked_for_and_without_it_nothing_runs(open_terminal: Open) -> None:
    terminal = open_terminal()
    terminal.wait_for(READY)
    terminal.send("/run logs lines=1\r")
    terminal.wait_for("name of logs:")
    terminal.send("it's me\r")
    terminal.wait_for("<-1><it's me>")
    terminal.send("/run logs\r")
    terminal.wait_for("name of logs:")
    terminal.send(ESCAPE)
    terminal.wait_for("Stopped.")
    terminal.send("/run logs\r")
    terminal.wait_for("name of logs:")
    terminal.send("\r")
    terminal.wait_for('Nothing was run: name has no value. For an empty one, write name="".')
    terminal.wait_for(f"{MARK}\nme@here · phi3 · up")
    assert terminal.screen.text.count("REMOTE COMMAND") == 1


def test_with_pipes_a_missing_value_is_an_error_with_the_usage(run_program: Callable[..., Any]) -> None:
    said = run_program("/run logs\n/run logs web\n/run greet you\n").stdout
    assert "Error: Nothing was run: name has no value. Usage: /run logs NAME [LINES=100]" in said
    assert "[REMOTE COMMAND]\n$ printf '<%s>' -'100' 'web'\n<-100><web>" in said
    assert "Error: No variable is left for you. Usage: /run greet" in said
