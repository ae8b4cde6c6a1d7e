"""If these fail, Newel gives a conversation, and the machine, to any program that listens on a port."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.forked import ROOT, Process, start
from tests.processes import COMMAND_SECONDS
from tests.requirements import require_program
from tests.support import BIN
from tests.tmux import Tmux

ADDRESS = "http://127.0.0.1:1234"
STRANGER = 54_321


def may_unshare() -> bool:
    try:
        return subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not may_unshare(), reason="nobody may have a network of their own here")


class Machine:
    """A machine with a model server that nobody configured."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.project.mkdir()
        self._requests = folder / "requests"
        self.environ = {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
        }

    def command(self, *words: str, owner: int = 0) -> list[str]:
        here = [sys.executable, "-m", "tests.standins.machine"]
        return [*here, "1234", str(owner), str(self._requests), *words]

    def run(self, *words: str, owner: int = 0, **environ: str) -> Any:
        with self.start(*words, owner=owner, environ=environ) as process:
            said = process.communicate(timeout=COMMAND_SECONDS)
            return subprocess.CompletedProcess(process.args, process.wait(), *said)

    def start(
        self,
        *words: str,
        owner: int = 0,
        stdin: int = subprocess.DEVNULL,
        environ: dict[str, str] | None = None,
    ) -> Process:
        command = self.command(*words, owner=owner)
        return start(command, cwd=self.project, env=self.environ | (environ or {}), stdin=stdin)

    def on_screen(self, command: Sequence[str], folder: Path | None = None) -> Tmux:
        return Tmux(command, folder or self.project, self.environ | {"PYTHONPATH": str(ROOT)}, columns=120)

    @property
    def asked(self) -> list[str]:
        """The paths of the requests to the server."""
        return [each["path"] for each in json.loads(self._requests.read_text())]

    @property
    def was_prompted(self) -> bool:
        return any("completions" in path for path in self.asked)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_discovered_server_is_used_once_trusted_and_always_named(machine: Machine) -> None:
    done = machine.run("newel", "hello world")
    assert done.returncode == 1
    assert f"answers at {ADDRESS} (mock-model" in done.stderr
    assert f"\n  newel trust {ADDRESS}\n" in done.stderr
    assert not machine.was_prompted
    assert machine.run("newel", "trust", ADDRESS).returncode == 0
    done = machine.run("newel", "--ephemeral", "how are you")
    assert done.returncode == 0, done.stderr
    assert machine.was_prompted
    assert "The model is mock-model of the server at 127.0.0.1:1234, LM Studio's port." in done.stderr
    assert machine.run("newel", "trust", "--remove", ADDRESS).returncode == 0
    assert machine.run("newel", "how are you").returncode == 1


def test_a_server_of_another_user_is_not_even_asked_for_its_models(machine: Machine) -> None:
    """Not even after its port was trusted: that was about another program."""
    machine.run("newel", "trust", ADDRESS)
    done = machine.run("newel", "how are you", owner=STRANGER)
    assert done.returncode == 1
    assert f"Port 1234 of this machine belongs to another user ({STRANGER})" in done.stderr
    assert machine.asked == []


def test_a_server_of_another_user_can_be_configured_deliberately(machine: Machine) -> None:
    done = machine.run(
        "newel",
        "how are you",
        owner=STRANGER,
        LLM_BASE_URL=f"{ADDRESS}/v1",
        LLM_DEFAULT_MODEL="mock-model",
    )
    assert done.returncode == 0, done.stderr


def test_the_workbench_starts_without_using_a_discovered_server(machine: Machine) -> None:
    opened = machine.start(
        "sh", "-c", "newel web --port 0 & read -r _; kill $!; wait $!", stdin=subprocess.PIPE
    )
    with opened:
        assert opened.stdout is not None
        assert opened.stdout.readline().startswith("http://127.0.0.1:")
        _, errors = opened.communicate("\n", timeout=COMMAND_SECONDS)
    assert f"newel trust {ADDRESS}" in errors
    assert not machine.was_prompted


@pytest.mark.parametrize("words", [["agent", "hello"], ["--json", "hello"], ["doctor"]])
def test_without_a_user_a_discovered_server_is_not_used(machine: Machine, words: list[str]) -> None:
    done = machine.run("newel", *words)
    assert done.returncode == 1
    assert f"newel trust {ADDRESS}" in done.stdout + done.stderr
    assert not machine.was_prompted


def test_a_projects_dotenv_has_no_more_rights_than_a_discovered_port(machine: Machine) -> None:
    machine.run("newel", "trust", ADDRESS)
    (machine.project / ".env").write_text("LLM_BASE_URL=http://127.0.0.1:1234/evil\n")
    done = machine.run("newel", "how are you")
    assert done.returncode == 0
    assert "/evil; it is ignored" in done.stderr
    assert not any("evil" in path for path in machine.asked)


def test_a_discovered_server_is_used_only_after_a_question(machine: Machine) -> None:
    with machine.on_screen(machine.command("newel", "-p", "--ephemeral", "how are you")) as screen:
        screen.wait_for("Use it from now on? [Y/n]")
        assert f"answers at {ADDRESS} (mock-model" in screen.text
        screen.answer("", "Enter")
        screen.wait_for("The model is mock-model of the server at 127.0.0.1:1234, LM Studio's port.")
        screen.wait_for_end()
    assert machine.was_prompted
    assert machine.run("newel", "--ephemeral", "how are you").returncode == 0


@pytest.mark.slow  # seconds of waiting
def test_a_refusal_is_remembered(machine: Machine) -> None:
    with machine.on_screen(machine.command("newel")) as screen:
        screen.wait_for("Use it from now on? [Y/n]")
        screen.answer("n", "Enter")
        screen.wait_for("You declined to use it.")
        screen.wait_for_end()
    assert not machine.was_prompted
    (machine.folder / "other").mkdir()
    with machine.on_screen(machine.command("newel"), machine.folder / "other") as screen:
        screen.wait_for("You declined to use it.")
        screen.wait_for_end()
        assert "Use it from now on?" not in screen.text


def test_if_the_listener_is_unknown_enter_means_no(machine: Machine) -> None:
    """As on macOS. Otherwise a stranger's program is used because the user pressed Enter."""
    inside = shlex.join(machine.command("newel"))
    command = [require_program("unshare"), "--mount", "sh", "-c", f"umount -l /proc; exec {inside}"]
    with machine.on_screen(command) as screen:
        screen.wait_for("Use it from now on? [y/N]")
        assert "This system does not say which user runs it." in screen.text
        screen.answer("", "Enter")
        screen.wait_for("You declined to use it.")
        screen.wait_for_end()
    assert not machine.was_prompted
