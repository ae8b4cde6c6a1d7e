"""If these fail, a user on a host cannot run an editor, a pager or anything that asks by `!`, or the model does not get what they ran."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.processes import ends
from tests.sshd import Sshd
from tests.support import BIN, Newel, scenario
from tests.terminal_waits import PATIENCE
from tests.tmux import Tmux

Make = Callable[..., Newel]

DONE = "The model gets this"


@pytest.fixture
def project(sshd: Sshd, request: pytest.FixtureRequest) -> Path:
    return sshd.project(request.node.name)


@pytest.fixture
def terminal(with_model: Make, sshd: Sshd, project: Path, newel: Newel) -> Generator[Tmux]:
    newel.environ["NEWEL_SSH_CONFIG"] = str(sshd.config)
    words = [str(BIN / "newel"), "--host", f"host:{project}", "--sandbox", "off"]
    with Tmux(words, newel.project, {**os.environ, **newel.environ}, columns=100, rows=30) as opened:
        opened.wait_for("approve: ask")
        yield opened


@pytest.fixture
def newel(with_model: Make) -> Newel:
    return with_model(scenario("look", {"content": "I looked."}))


def test_a_command_on_a_host_reads_keys_and_the_model_gets_its_output(
    terminal: Tmux, newel: Newel, project: Path
) -> None:
    terminal.type("!pwd; stty size; read -p 'name: ' x; echo hel''lo $x; exit 3", "Enter")
    terminal.wait_for("\nname:")  # at the begin of a line: not in the command as it was typed
    terminal.type("Ada", "Enter")
    terminal.wait_for("hello Ada")
    terminal.wait_for("exit code 3")
    terminal.wait_for(DONE)
    assert f"\n{project}\n30 100\n" in terminal.text
    assert "closed" not in terminal.text  # of ssh's own words
    terminal.type("look", "Enter")
    terminal.wait_for("I looked.")
    content = str(newel.requests[-1]["messages"][-1]["content"])
    assert "hello Ada" in content
    assert "exit code: 3" in content


def test_ctrl_c_and_the_tilde_reach_the_command(terminal: Tmux) -> None:
    """A tilde after Enter begins an order to ssh itself."""
    terminal.type("!echo rea''dy; cat", "Enter")
    terminal.wait_for("ready")
    terminal.type("", "Enter")
    terminal.type("~.", "Enter")
    terminal.type("here", "Enter")
    terminal.wait_for("here", times=2)
    terminal.type("", "C-c")
    terminal.wait_for("exit code 130")


def test_closing_the_window_ends_the_command_on_the_host(terminal: Tmux, project: Path, sshd: Sshd) -> None:
    terminal.type(
        f"!echo $$ > {shlex.quote(str(project / 'pid'))}; echo st''arted; sleep 60; sleep 60", "Enter"
    )
    terminal.wait_for("started")
    pid = int((project / "pid").read_text())
    os.kill(terminal.pid, 1)
    terminal.wait_for_end()
    assert ends(pid, PATIENCE)
