"""Fixtures: ``jexida`` on a real terminal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.forked import start
from tests.integration.jexida.served_host import Begin, command, environ
from tests.integration.terminal.conftest import Terminal, environment
from tests.sshd import Sshd
from tests.standins.ollama_program import SOURCE

PROGRAM = [sys.executable, "-m", "tests.integration.jexida.program"]


@pytest.fixture
def open_terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Starts the program in an empty folder."""
    opened: list[Terminal] = []
    project = tmp_path / "project"
    project.mkdir()

    def begin(*, columns: int = 80, rows: int = 40, **env: str) -> Terminal:
        opened.append(Terminal(PROGRAM, project, columns, rows, environment(tmp_path, **env)))
        return opened[-1]

    yield begin
    for terminal in opened:
        terminal.close()


@pytest.fixture(autouse=True)
def no_model_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    """The host is shared with tests that expect no Ollama there."""
    yield
    if "sshd" in request.fixturenames:
        (request.getfixturevalue("sshd").bin / SOURCE.name).unlink(missing_ok=True)


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Starts ``jexida`` on a host, with ``tmp_path`` as its user's home."""
    opened: list[Terminal] = []
    (tmp_path / "project").mkdir()

    def start(host: Sshd, *more: str, **env: str) -> Terminal:
        whole = command(host, *more)
        opened.append(Terminal(whole, tmp_path / "project", 100, 50, environ(tmp_path, **env)))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


@pytest.fixture
def run_program(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the program with pipes, from the start of its input to its end."""

    def run(given: str, **env: str) -> subprocess.CompletedProcess[str]:
        process = start(PROGRAM, cwd=tmp_path, env=environment(tmp_path, **env), stdin=subprocess.PIPE)
        with process:
            try:
                said = process.communicate(given, timeout=20)
            finally:
                process.kill()
            return subprocess.CompletedProcess(process.args, process.wait(), *said)

    return run
