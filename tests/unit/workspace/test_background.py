"""If these fail, a command in the background is lost, cut off, or blocks its caller."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from newel.agent.errors import WorkspaceError
from newel.workspace import background
from newel.workspace.background import (
    BackgroundCommand,
    BackgroundCommands,
    DetachingWorkspace,
    UnreadOutput,
    open_background_commands,
)
from newel.workspace.local import LocalWorkspace
from newel.workspace.port import CommandResult, TimeLimit

pytestmark = pytest.mark.anyio

WAITS = "while [ ! -e go ]; do sleep 0.01; done"


async def ignore(_: str) -> None:
    pass


async def start(
    commands: BackgroundCommands, folder: Path, command: str, limit: float | None = None
) -> tuple[BackgroundCommand, CommandResult]:
    """Run a command that goes to the background once it has printed something."""
    time_limit = TimeLimit(limit)

    async def on_output(_: str) -> None:
        running.detach()

    running = BackgroundCommand(commands, command, time_limit, on_output)
    workspace = DetachingWorkspace(LocalWorkspace(str(folder)), commands)
    return running, await workspace.run(command, timeout=time_limit, detachable=running)


async def test_its_time_limit_is_lifted(tmp_path: Path) -> None:
    async with open_background_commands() as commands:
        command, done = await start(commands, tmp_path, f"echo begun; {WAITS}; echo late", limit=0.5)
        assert (done.background, done.stdout) == (command.id, "begun\n")
        await anyio.sleep(0.7)
        assert command.state == "running"
        (tmp_path / "go").touch()
        await command.wait(5)
        assert (command.outcome, command.output.take_unread()) == ("exit code 0", "late\n")


async def test_a_call_that_is_cancelled_ends_its_command(tmp_path: Path) -> None:
    async with open_background_commands() as commands:
        command = BackgroundCommand(commands, "", TimeLimit(None), ignore)
        workspace = DetachingWorkspace(LocalWorkspace(str(tmp_path)), commands)
        with anyio.move_on_after(0.3):
            await workspace.run("echo $$ > pid; sleep 600", detachable=command)
        assert command.state == "stopped"
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)
        assert list(commands.all) == []


async def test_the_caller_gets_the_error_of_a_command_that_does_not_start(tmp_path: Path) -> None:
    async with open_background_commands() as commands:
        command = BackgroundCommand(commands, "", TimeLimit(None), ignore)
        command.detach()
        inner = LocalWorkspace(str(tmp_path))
        shutil.rmtree(tmp_path)
        with pytest.raises(WorkspaceError, match="could not be started"):
            await DetachingWorkspace(inner, commands).run("true", detachable=command)


async def test_the_record_knows_what_runs(tmp_path: Path) -> None:
    async with open_background_commands() as commands:
        workspace = DetachingWorkspace(LocalWorkspace(str(tmp_path)), commands)
        command, _ = await start(commands, tmp_path, "echo begun; sleep 600")
        assert await workspace.background() == [f"echo begun; sleep 600 ({command.id})"]
        assert await workspace.at("/").background() == [f"echo begun; sleep 600 ({command.id})"]
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        assert await workspace.at(str(elsewhere)).background() == []
        await command.stop()
        assert await workspace.background() == []


async def test_what_it_has_changed_is_recorded_before_its_end_is_told(tmp_path: Path) -> None:
    told: list[str] = []

    async def record() -> None:
        told.append("recorded")

    async with open_background_commands() as commands:
        commands.before_report = record
        commands.on_change = lambda command: told.append(command.state)
        await start(commands, tmp_path, "echo begun; sleep 600")
    assert told == ["running", "recorded", "stopped"]


async def test_there_are_never_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MOST", 1)
    async with open_background_commands() as commands:
        await start(commands, tmp_path, "echo begun; sleep 600")
        other = BackgroundCommand(commands, "", TimeLimit(None), ignore)
        with pytest.raises(WorkspaceError, match="in the background already"):
            other.detach()


def test_a_long_output_keeps_its_end_and_says_what_is_missing() -> None:
    tail = UnreadOutput()
    tail.add("first\n")
    assert tail.take_unread() == "first\n"
    pieces = [f"{number}\n" * 2_000 for number in range(300)]
    for piece in pieces:
        tail.add(piece)
    unread: Any = re.fullmatch(
        r"\[… ([\d,]+) characters are not kept …\]\n(.*)", tail.take_unread(), re.DOTALL
    )
    written = sum(map(len, pieces))
    assert int(unread[1].replace(",", "")) + len(unread[2]) == written
    assert unread[2].endswith("299\n")
    assert tail.last_line() == "299"
    assert tail.take_unread() == ""
