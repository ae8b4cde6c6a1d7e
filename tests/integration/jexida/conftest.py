"""The remote agent on a real terminal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.forked import start
from tests.integration.terminal.conftest import Terminal, environment

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


@pytest.fixture
def run_program(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the program with pipes, from its input's beginning to its end."""

    def run(given: str, **env: str) -> subprocess.CompletedProcess[str]:
        process = start(PROGRAM, cwd=tmp_path, env=environment(tmp_path, **env), stdin=subprocess.PIPE)
        with process:
            try:
                said = process.communicate(given, timeout=20)
            finally:
                process.kill()
            return subprocess.CompletedProcess(process.args, process.wait(), *said)

    return run
