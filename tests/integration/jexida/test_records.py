"""If these fail, users cannot see or undo what a model's command changed on a host."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from newel.terminal.jexida.protocol import AnswerReply, ShellReply, render
from tests.integration.jexida.served_host import Begin, command, output_of_pipe
from tests.sshd import Sshd, served
from tests.standins.ollama_program import OllamaProgram
from tests.support import BIN

CHANGE = render(
    ShellReply("printf 'two\\n' > a.txt; rm gone.txt; printf 'new\\n' > b.txt", "You asked for it.")
)
LINGER = render(ShellReply("echo two > a.txt; echo begun; sleep 60", "You asked for it."))
DONE = render(AnswerReply("It is done."))
SCRIPT = [
    {"trigger": "Linger", "answer": LINGER, "constrained": LINGER},
    {"trigger": "Change it", "answer": CHANGE, "constrained": CHANGE},
    {"trigger": "Exit code: 0", "answer": DONE, "constrained": DONE},
]


@pytest.fixture
def folder(sshd: Sshd, request: pytest.FixtureRequest) -> Path:
    return filled(sshd, request.node.name)


def filled(host: Sshd, name: str) -> Path:
    """A folder of the host's user with two files; its model changes it on request."""
    OllamaProgram(host.bin, models={"phi3:latest": {}}, script=SCRIPT, default=DONE)
    folder = host.project(name)
    for each in ("a.txt", "gone.txt"):
        (folder / each).write_text("one\n")
        host.give(folder / each)
    return folder


def newel(host: Sshd, home: Path, folder: Path, *words: str) -> str:
    """The output of a `newel` command about the folder."""
    command = [str(BIN / "newel"), *words, "--host", f"host:{folder}"]
    return output_of_pipe(command, home, "", NEWEL_SSH_CONFIG=str(host.config))


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


@pytest.mark.slow  # a second of a core
def test_changes_of_a_models_command_are_recorded_and_undone(
    sshd: Sshd, folder: Path, tmp_path: Path, begin: Begin
) -> None:
    before = contents(folder)
    terminal = begin(sshd, "--through", "run", "--directory", str(folder))
    terminal.wait_for("phi3 · up")
    terminal.send("/cmd echo mine > own.txt\r")
    terminal.wait_for("last   exit code 0")
    terminal.send("Change it\r")
    terminal.wait_for("Run it? y yes")
    terminal.answer("y\r")
    terminal.wait_for("It is done.")
    own = {"own.txt": "mine\n"}
    assert contents(folder) == {"a.txt": "two\n", "b.txt": "new\n", **own}
    shown = newel(sshd, tmp_path, folder, "review")
    assert "Change it" in shown
    assert "-one\n+two" in shown
    assert "own.txt" not in shown
    assert "Change it" in newel(sshd, tmp_path, folder, "sessions")
    terminal.send("/undo\r")
    terminal.wait_for("Undo these changes?")
    terminal.send("y\r")
    terminal.wait_for("Undone in 3 files")
    assert contents(folder) == before | own
    terminal.wait_for("phi3 · up")
    newel(sshd, tmp_path, folder, "redo", "--yes")
    assert contents(folder) == {"a.txt": "two\n", "b.txt": "new\n", **own}


@pytest.mark.slow  # seconds of waiting
def test_a_conversation_is_found_by_its_folder_however_it_was_written(
    sshd: Sshd, folder: Path, tmp_path: Path
) -> None:
    link = sshd.home / f"{folder.name}-link"
    link.symlink_to(folder)

    def said_in(directory: str, words: str, *more: str) -> str:
        return output_of_pipe(
            command(sshd, "--through", "run", "--directory", directory, *more), tmp_path, words, **host
        )

    host = {"NEWEL_SSH_CONFIG": str(sshd.config)}
    said_in(folder.name, "By its name\n")
    assert "Resumed a conversation of 2 messages." in said_in(f"~/{folder.name}", "Again\n", "--continue")
    assert "Resumed a conversation of 4 messages." in said_in(str(link), "Again\n", "--continue")
    assert "6 messages  By its name" in newel(sshd, tmp_path, folder, "sessions")


def test_a_conversation_started_without_its_host_is_found_by_its_folder(tmp_path: Path, begin: Begin) -> None:
    with served() as host:
        folder = filled(host, "project")
        host.stop()
        terminal = begin(host, "--through", "run", "--directory", "project")
        terminal.wait_for("phi3 · not connected")
        host.start()
        terminal.send("Now\r")
        terminal.wait_for("It is done.")
        assert "2 messages  Now" in newel(host, tmp_path, folder, "sessions")


@pytest.fixture
def is_looked_at(tmp_path: Path) -> Iterator[tuple[Sshd, Path, Path]]:
    """A host on which a scan of a folder lasts until a third entry, a file, exists."""
    with served() as host:
        folder, go = filled(host, "project"), host.home / "go"
        find = host.bin / "find"
        find.write_text(
            f"#!/bin/sh\nn=0; until [ -e {go} ] || [ $((n += 1)) -gt 500 ]; do sleep 0.02; done\n"
            f'exec {shutil.which("find")} "$@"\n'
        )
        find.chmod(0o755)
        yield host, folder, go


@pytest.mark.slow  # seconds of waiting
def test_a_scan_before_a_command_is_shown_as_activity(
    is_looked_at: tuple[Sshd, Path, Path], begin: Begin
) -> None:
    host, folder, go = is_looked_at
    terminal = begin(host, "--through", "run", "--directory", str(folder))
    terminal.wait_for("phi3 · up")
    terminal.send("Change it\r")
    terminal.wait_for("Run it? y yes")
    terminal.answer("y\r")
    terminal.wait_for(f"│ Scanning the files in {folder}")
    assert contents(folder) == {"a.txt": "one\n", "gone.txt": "one\n"}
    go.touch()
    terminal.wait_for("It is done.")


@pytest.mark.slow  # seconds of waiting
def test_stopping_a_scan_before_a_command_runs_nothing(
    is_looked_at: tuple[Sshd, Path, Path], tmp_path: Path, begin: Begin
) -> None:
    host, folder, go = is_looked_at
    terminal = begin(host, "--through", "run", "--directory", str(folder))
    terminal.wait_for("phi3 · up")
    for _ in range(2):
        terminal.send("Change it\r")
        terminal.wait_for("Run it? y yes")
        terminal.answer("y\r")
        terminal.wait_for("running on")
        terminal.send("\x1b")
        terminal.wait_for("did not finish")
        terminal.send("/clear\r")
        terminal.wait_for("phi3 · up")
    assert contents(folder) == {"a.txt": "one\n", "gone.txt": "one\n"}
    go.touch()
    terminal.send("Change it\r")
    terminal.wait_for("Run it? y yes")
    terminal.answer("y\r")
    terminal.wait_for("It is done.")
    assert "-one\n+two" in newel(host, tmp_path, folder, "review")


@pytest.mark.slow  # seconds of waiting
def test_a_change_is_recorded_with_a_lazily_opened_connection(tmp_path: Path, begin: Begin) -> None:
    with served() as host:
        folder = filled(host, "project")
        host.stop()
        terminal = begin(host, "--through", "run", "--directory", str(folder))
        terminal.wait_for("phi3 · not connected")
        host.start()
        terminal.send("Change it\r")
        terminal.wait_for("Run it? y yes")
        terminal.answer("y\r")
        terminal.wait_for("It is done.")
        assert "+two" in newel(host, tmp_path, folder, "review")


@pytest.mark.slow  # seconds of waiting
def test_changes_of_a_command_with_an_unknown_outcome_are_recorded(tmp_path: Path, begin: Begin) -> None:
    with served() as host:
        folder = filled(host, "project")
        terminal = begin(host, "--through", "run", "--directory", str(folder))
        terminal.wait_for("phi3 · up")
        terminal.send("Linger\r")
        terminal.wait_for("Run it? y yes")
        terminal.answer("y\r")
        terminal.wait_for("│ begun ")
        host.drop()
        terminal.wait_for("outcome is unknown")
        assert "-one\n+two" in newel(host, tmp_path, folder, "review")


def test_an_unrecordable_command_is_reported_and_runs(
    sshd: Sshd, folder: Path, tmp_path: Path, begin: Begin
) -> None:
    (tmp_path / ".newel").mkdir()
    (tmp_path / ".newel" / "review").touch()
    terminal = begin(sshd, "--through", "run", "--directory", str(folder))
    terminal.wait_for("phi3 · up")
    terminal.send("Change it\r")
    terminal.wait_for("Run it? y yes")
    terminal.answer("y\r")
    terminal.wait_for("It is done.")
    assert "│ Error: Further changes of this run are not recorded" in terminal.screen.text
    assert contents(folder) == {"a.txt": "two\n", "b.txt": "new\n"}


def test_without_a_folder_nothing_is_recorded_and_undo_says_so(
    sshd: Sshd, tmp_path: Path, begin: Begin
) -> None:
    terminal = begin(sshd, "--through", "run")
    terminal.wait_for("phi3 · up")
    terminal.send("/undo\r")
    terminal.wait_for("Changes made by commands are not recorded here")
    assert not (tmp_path / ".newel" / "review").exists()
