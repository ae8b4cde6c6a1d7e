"""If these fail, a command exists that nobody can find."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from newel.cli import HELP, MODULES
from newel.cli.main import EPILOG, agent_parser


def test_the_help_lists_exactly_the_commands() -> None:
    listed, _, _ = agent_parser("newel").format_help().partition("\noptions:")
    assert set(re.findall(r"\bnewel ([a-z][a-z-]*)", listed)) == set(MODULES)


def test_commands_come_before_options() -> None:
    text = agent_parser("newel").format_help()
    assert text.index("newel review") < text.index("--continue")


def test_the_help_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = agent_parser("newel").format_help()
    assert max(map(len, text.split("\n"))) <= 80
    assert [says for _, rows in HELP for _, says in rows if says not in text] == []  # no row is broken
    assert EPILOG in text


@pytest.mark.parametrize("name", sorted(MODULES))
def test_the_help_of_a_command_fits_a_terminal(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run = getattr(import_module(f"newel.cli.{MODULES[name]}"), f"command_{name.replace('-', '_')}")
    with pytest.raises(SystemExit):
        run(["--help"])
    text = capsys.readouterr().out
    assert [line for line in text.split("\n") if len(line) > 80] == []
    # A script's author looks for them at the start of a line; the action of a command is called the same in each.
    assert text.count("exit codes") == len(re.findall("^exit codes", text, re.MULTILINE))
    assert re.findall(r"\w+ \| \w+ \.\.\.", text) == []


def test_the_help_of_the_minimal_agent_lists_only_what_it_takes() -> None:
    """It refuses prompts and options about output: a user who reads of them there tries them in vain."""
    text = agent_parser("lsimons-agent").format_help()
    for refused in ("PROMPT", "--then", "--json", "--renderer", "--output", "--schema", "--quiet", "--print"):
        assert refused not in text, refused
    for taken in ("--continue", "--model", "--approve", "--tools"):
        assert taken in text, taken
    assert "newel --help" in text
