"""If these fail, a command in the sandbox leaves it: Newel itself runs a program that the command has put into the project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from newel.workspace.git import run_git
from newel.workspace.process.own_programs import SYSTEM, own_path
from tests.driver import Driver
from tests.requirements import require_program
from tests.support import Newel, bash, scenario

require_program("bwrap", "bubblewrap")

WithModel = Callable[..., Newel]
Drive = Callable[..., Driver]

DONE = {"content": "Done."}

PROGRAMS: Final = (
    "git",
    "bash",
    "sh",
    "rg",
    "cat",
    "env",
    "uname",
    "ssh",
    "python3",
    "less",
    "bwrap",
    "mkdir",
)

PLANT: Final = (
    "mkdir -p .venv/bin node_modules/.bin; ln -s .venv/bin link; "
    f"for name in {' '.join(PROGRAMS)}; do for folder in . .venv/bin node_modules/.bin; do "
    "printf '#!/bin/sh\\necho \"$0 $*\" >> MARK\\n' > $folder/$name; chmod +x $folder/$name; done; done"
)
"""In the sandbox, nothing can write MARK."""


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


def with_programs(newel: Newel, entry: str) -> None:
    """With a PATH like that of a user who has activated an environment in the project."""
    subprocess.run(["git", "init", "-q"], cwd=newel.project, check=True)
    entry = entry.format(project=newel.project)
    newel.environ["PATH"] = f"{entry}{os.pathsep}{newel.environ['PATH']}"


@pytest.mark.parametrize(
    "entry", ["{project}/.venv/bin", ".venv/bin", "{project}/link", "", "{project}/node_modules/.bin"]
)
def test_newel_starts_no_program_of_the_project(with_model: WithModel, mark: Path, entry: str) -> None:
    newel = with_model(scenario("go", bash(PLANT.replace("MARK", str(mark))), bash("echo x > y"), DONE))
    with_programs(newel, entry)
    done = newel("--sandbox", "workspace", "go")
    assert done.returncode == 0, done.stderr
    newel.environ["EDITOR"] = "cat"
    commands = ("review", "config edit", "doctor", "hosts test nowhere", "undo --yes")
    for command in commands:
        newel(*command.split())
    assert not mark.exists(), mark.read_text()


def test_a_command_outside_means_the_systems_programs(
    with_model: WithModel, drive: Drive, mark: Path
) -> None:
    """The user says yes to `git`, not to what a command inside has called so."""
    outside: dict[str, Any] = {"command": "git version && only-here", "unsandboxed": True}
    own = "printf '#!/bin/sh\\necho ours\\n' > .venv/bin/only-here; chmod +x .venv/bin/only-here"
    newel = with_model(
        scenario(
            "go",
            bash(f"{PLANT.replace('MARK', str(mark))}; {own}"),
            {"tool_calls": [{"function": {"name": "bash", "arguments": outside}}]},
            DONE,
        )
    )
    with_programs(newel, "{project}/.venv/bin")
    driver = drive(newel, "--sandbox", "workspace")
    driver.send(type="message", content="go")
    driver.answer(driver.until("approval_request"), "once")
    driver.until("agent_end")
    result = [each["content"] for each in newel.requests[-1]["messages"] if each["role"] == "tool"][1]
    assert not mark.exists(), mark.read_text()
    assert "git version" in result
    assert "ours" in result  # what the system lacks is still found in the project


@pytest.mark.parametrize("preset", ["ask", "plan", "read-only"])
@pytest.mark.parametrize("entry", ["{project}/bin", "./bin", "{project}/link"])
def test_no_program_of_the_project_runs_where_only_reading_does(
    with_model: WithModel, mark: Path, preset: str, entry: str
) -> None:
    """A hostile repository has its own `ls`, and the user a PATH that finds it."""
    search = {"tool_calls": [{"function": {"name": "grep", "arguments": {"pattern": "text"}}}]}
    newel = with_model(scenario("go", bash("ls"), bash("git log"), bash("cat a.txt | head -1"), search, DONE))
    (newel.project / "bin").mkdir()
    (newel.project / "link").symlink_to("bin")
    (newel.project / "a.txt").write_text("text\n")
    for name in (*PROGRAMS, "ls", "head", "grep", "find"):
        program = newel.project / "bin" / name
        program.write_text(f"#!/bin/sh\necho $0 >> {mark}\n")
        program.chmod(0o755)
    with_programs(newel, entry)
    newel("--sandbox", "off", "--approve", preset, "--tools", "bash,grep", "go")
    found = [each["content"] for each in newel.requests[-1]["messages"] if each["role"] == "tool"][-1]
    assert not mark.exists(), mark.read_text()
    assert "a.txt" in found


def test_a_tool_server_of_the_user_runs_nothing_of_the_project(with_model: WithModel, mark: Path) -> None:
    """Python, npx and others take modules and settings from their working folder: a repository would choose what runs, with the
    server's keys.
    """
    newel = with_model(scenario("go", DONE))
    servers = {
        "module": {"command": sys.executable, "args": ["-m", "server"]},
        "program": {"command": "git", "args": ["version"]},
    }
    (newel.home / ".newel").mkdir(exist_ok=True)
    (newel.home / ".newel/mcp_config.json").write_text(json.dumps({"mcpServers": servers}))
    (newel.project / "server.py").write_text(f"open({str(mark)!r}, 'w')\n")
    (newel.project / "bin").mkdir()
    (newel.project / "bin/git").write_text(f"#!/bin/sh\necho $0 >> {mark}\n")
    (newel.project / "bin/git").chmod(0o755)
    with_programs(newel, "{project}/bin")
    newel("--sandbox", "workspace", "go")
    assert not mark.exists(), mark.read_text()


def test_nor_one_of_a_project_around_or_of_an_environment_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, elsewhere = tmp_path / "project/sub", tmp_path / "other/.venv"
    for place in (
        folder,
        elsewhere / "bin",
        tmp_path / "project/.git",
        tmp_path / "project/bin",
        tmp_path / "mine",
    ):
        place.mkdir(parents=True)
    monkeypatch.setenv("VIRTUAL_ENV", str(elsewhere))
    monkeypatch.setenv("PATH", f"{elsewhere}/bin:{tmp_path}/project/bin:{tmp_path}/mine:bin::/usr/bin")
    assert own_path(str(folder)) == f"{tmp_path}/mine:/usr/bin"
    assert own_path("/") == SYSTEM


def test_git_is_found_where_the_user_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system has one here; this shows that a PATH without it is no obstacle."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run_git(str(tmp_path), "rev-parse", "--show-toplevel") == os.fsencode(f"{tmp_path}\n")
