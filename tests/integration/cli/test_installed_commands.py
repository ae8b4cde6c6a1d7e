"""If these fail, a command does not tell its version, and nobody can say in a report which Newel they use."""

from __future__ import annotations

import subprocess
from importlib import import_module
from importlib.metadata import distribution, version

import pytest

import mock_llm_server
from newel.cli import MODULES
from tests.support import BIN

COMMANDS = sorted(each.name for each in distribution("newel").entry_points)


def said(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_installed_command_tells_its_version(command: str) -> None:
    expected = (
        f"mock-llm-server {mock_llm_server.__version__}"
        if command == "mock-llm-server"
        else f"newel {version('newel')}"
    )
    assert said(str(BIN / command), "--version") == f"{expected}\n"


def test_an_installation_hides_no_other_program() -> None:
    """Otherwise `go` in every shell, and in the agent's own commands, is Newel and not the compiler."""
    assert {name for name in COMMANDS if not name.startswith(("newel", "lsimons-agent"))} == {
        "coding-agent",
        "jexida",
        "mock-llm-server",
    }


@pytest.mark.parametrize("name", sorted(MODULES))
def test_every_subcommand_tells_the_version(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = getattr(import_module(f"newel.cli.{MODULES[name]}"), f"command_{name}")
    with pytest.raises(SystemExit) as ended:
        command(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"newel {version('newel')}\n")
