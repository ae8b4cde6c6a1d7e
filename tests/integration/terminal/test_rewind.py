"""If these fail, going back takes too much, too little, or what nobody agreed to."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from newel.agent.messages import Attachment, UserMessage
from newel.session.manager import SessionManager

Open = Callable[..., Any]

MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
DOWN, ESCAPE = "\x1b[B", "\x1b"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tmp_path / "project"


def begin(open_terminal: Open, *prompts: str, answers: int) -> Any:
    """A conversation after these prompts."""
    terminal = open_terminal("rich", *prompts, rows=40, columns=100)
    terminal.wait_for(lambda: terminal.screen.text.count("Done after") >= answers)
    terminal.wait_for(partial(is_idle, terminal))
    return terminal


def escape_twice(terminal: Any) -> None:
    terminal.send(ESCAPE)
    terminal.wait_for("Esc again goes back to an earlier prompt")
    terminal.send(ESCAPE)
    terminal.wait_for("Back to before which prompt?")


def is_idle(terminal: Any) -> bool:
    """Whether nothing runs and the input is empty."""
    last = terminal.screen.text.rstrip().splitlines()[-4:]
    return MARK in last and not any("Esc stops" in line for line in last)


def has_files(project: Path, names: set[str]) -> bool:
    return {path.name for path in project.iterdir()} == names


def list_after(terminal: Any, title: str) -> str:
    return str(terminal.screen.text).rpartition(title)[2]


def test_escape_twice_takes_the_conversation_and_the_files_back(open_terminal: Open, project: Path) -> None:
    prompts = ("run echo 1 > one.txt", "run echo 2 > two.txt; echo more >> one.txt", "run rm one.txt")
    terminal = begin(open_terminal, *prompts, answers=3)
    (project / "mine.txt").write_text("mine\n")
    escape_twice(terminal)
    rows = list_after(terminal, "Back to before which prompt?").strip().splitlines()
    assert re.fullmatch(rf"{MARK}  3  \d\d:\d\d  run rm one.txt  \(1 file changed since\)", rows[0])
    assert rows[1].endswith("  run echo 2 > two.txt; echo more >> one.txt  (2 files changed since)")
    terminal.send(DOWN + "\r")
    terminal.wait_for("Go back to before")
    terminal.send("\r")
    terminal.wait_for("Undo these changes? [y/N, v: diff]")
    shown = list_after(terminal, "2 runs to undo")
    assert "2 files would change:\n  one.txt\n  two.txt" in re.sub(r"(txt) .*", r"\1", shown)
    assert not (project / "one.txt").exists()
    terminal.send("y\r")
    terminal.wait_for("Undone in 2 files: one.txt, two.txt.")
    terminal.wait_for(f"{MARK} run echo 2 > two.txt; echo more >> one.txt\n")
    assert (project / "one.txt").read_text() == "1\n"
    assert {path.name for path in project.iterdir()} == {"one.txt", "mine.txt"}
    terminal.send("\x15hello\r")
    terminal.wait_for("You said: hello")
    for expected in ({"one.txt", "two.txt", "mine.txt"}, {"two.txt", "mine.txt"}):
        terminal.send("/redo\r")
        terminal.wait_for("Redo these changes?")
        terminal.send("y\r")
        terminal.wait_for(partial(has_files, project, expected))
        terminal.wait_for(partial(is_idle, terminal))


def test_prompts_of_the_same_text_are_told_apart(open_terminal: Open) -> None:
    """Otherwise the wrong one is chosen, and more goes back than was meant."""
    terminal = begin(open_terminal, "run true", "run true", answers=2)
    escape_twice(terminal)
    rows = list_after(terminal, "Back to before which prompt?").strip().splitlines()
    assert [row.strip(f"{MARK} ").split()[0] for row in rows[:2]] == ["2", "1"]


@pytest.mark.parametrize(
    ("command", "title", "said"),
    [
        ("/rewind", "Back to before which prompt?", "The conversation is back"),
        ("/branch", "Go back to which message?", "New branch."),
    ],
    ids=["rewind", "branch"],
)
def test_a_prompt_goes_back_into_the_input_with_its_images(
    open_terminal: Open, tmp_path: Path, command: str, title: str, said: str
) -> None:
    """Otherwise the model is sent the name of an image without the image, and nobody notices."""
    image = Attachment("image", "image 12ab.png", "image/png", 4, "iVBO")
    with SessionManager(directory=tmp_path / ".newel" / "sessions", cwd=str(tmp_path / "project")) as session:
        session.start_session({})
        session.append_message(UserMessage("what is [image 12ab]?", [image]))
    terminal = open_terminal("rich", PROGRAM_SESSION=session.get_id())
    terminal.wait_for("Resumed")
    terminal.send(f"{command}\r")
    terminal.wait_for(title)
    terminal.send("\r")
    terminal.wait_for(said)
    terminal.send(" Say it.\r")
    terminal.wait_for("You said: what is [image 12ab]? Say it.")
    path = session.get_file_path()
    assert path is not None
    assert path.read_text().count('"fileName":"image 12ab.png"') == 2


@pytest.mark.parametrize("command", ["/rewind", "/branch"])
def test_a_prompt_goes_back_into_the_input_as_it_was_typed(
    open_terminal: Open, project: Path, tmp_path: Path, command: str
) -> None:
    """Otherwise it is sent again without its files and the outputs of the user's own commands, or as the long text of a template."""
    (project / "a.txt").write_text("the file\n")
    prompts = project / ".newel" / "prompts"
    prompts.mkdir(parents=True)
    (prompts / "explain.md").write_text("Explain to a child: $ARGUMENTS")
    terminal = open_terminal("rich", rows=40, columns=100)
    terminal.wait_for(partial(is_idle, terminal))
    terminal.send("!printf %s the-output\r")
    terminal.wait_for("The model gets this with your next message")
    terminal.send("/explain it with @a.txt\r")
    terminal.wait_for("You said: Explain to a child: it with a.txt")
    terminal.wait_for(partial(is_idle, terminal))
    for opened in (terminal, None):  # at once, and after a start
        if opened is None:
            terminal.send("/quit\r")
            terminal.end()
            (session,) = (tmp_path / ".newel" / "sessions").rglob("*.jsonl")
            terminal = open_terminal("rich", rows=40, columns=100, PROGRAM_SESSION=str(session))
            terminal.wait_for("Resumed")
        terminal.send(f"{command}\r")
        terminal.wait_for("Back to before which prompt?" if command == "/rewind" else "Go back to which")
        assert "  /explain it with @a.txt\n" in list_after(
            terminal, "Back to" if command == "/rewind" else "Go back"
        )
        terminal.send("\r")
        terminal.wait_for(
            f"{MARK} /explain it with @a.txt\n  !printf %s the-output  (with your next message)\n"
        )
        terminal.send("\r")
        terminal.wait_for(partial(is_idle, terminal))
    (session,) = (tmp_path / ".newel" / "sessions").rglob("*.jsonl")
    sent = [line for line in session.read_text().splitlines() if '"role":"user"' in line]
    assert len(sent) == 3
    assert all("Explain to a child: it with a.txt" in line for line in sent)
    assert all("the-output" in line and '"fileName":"a.txt"' in line for line in sent)


def test_the_conversation_alone_goes_back_and_the_files_stay(open_terminal: Open, project: Path) -> None:
    terminal = begin(open_terminal, "run echo 1 > one.txt", answers=1)
    terminal.send("/rewind\r")
    terminal.wait_for("Back to before which prompt?")
    terminal.send("\r")
    terminal.wait_for("Go back to before")
    terminal.send("only: the files stay\r")
    terminal.wait_for("The conversation is back before this prompt.")
    terminal.wait_for(f"{MARK} run echo 1 > one.txt\n")
    assert (project / "one.txt").exists()
    terminal.send("\x15/session\r")
    terminal.wait_for("messages  0")


def test_the_files_alone_go_back_and_the_conversation_goes_on(open_terminal: Open, project: Path) -> None:
    terminal = begin(open_terminal, "run echo 1 > one.txt", answers=1)
    terminal.send("/rewind\r")
    terminal.wait_for("Back to before which prompt?")
    terminal.send("\r")
    terminal.wait_for("Go back to before")
    terminal.send(f"{DOWN}{DOWN}\r")
    terminal.wait_for("Undo these changes?")
    terminal.send("y\r")
    terminal.wait_for("Undone in 1 file: one.txt.")
    assert not (project / "one.txt").exists()
    terminal.send("/session\r")
    terminal.wait_for("messages  4")


def test_own_edits_stay_and_what_cannot_be_undone_is_named_before(open_terminal: Open, project: Path) -> None:
    prompts = ("run printf 'a\\nb\\nc\\nd\\ne\\n' > f.txt", "run sed -i 's/a/A/; s/e/E/' f.txt")
    terminal = begin(open_terminal, *prompts, answers=2)
    (project / "f.txt").write_text("mine\nb\nc\nd\nE\n")
    escape_twice(terminal)
    terminal.send("\r")
    terminal.wait_for("Go back to before")
    terminal.send("\r")
    terminal.wait_for("Undo these changes?")
    assert "Skipped (changed since):\n  f.txt:1: hunk " in terminal.screen.text
    terminal.send("y\r")
    terminal.wait_for("Undone in 1 file: f.txt.")
    assert (project / "f.txt").read_text() == "mine\nb\nc\nd\ne\n"


def test_no_changes_nothing(open_terminal: Open, project: Path) -> None:
    terminal = begin(open_terminal, "run echo 1 > one.txt", answers=1)
    escape_twice(terminal)
    terminal.send("\r")
    terminal.wait_for("Go back to before")
    terminal.send("\r")
    terminal.wait_for("Undo these changes?")
    terminal.send("n\r")
    terminal.wait_for("Nothing was changed.")
    assert (project / "one.txt").exists()
    terminal.send("/session\r")
    terminal.wait_for("messages  4")


@pytest.mark.slow  # seconds of waiting
def test_one_escape_or_a_draft_goes_nowhere(open_terminal: Open) -> None:
    terminal = begin(open_terminal, "run true", answers=1)
    terminal.send("a draft")
    terminal.wait_for("a draft")
    terminal.send(ESCAPE)
    terminal.wait_for("a draft")
    terminal.send("\x15")
    terminal.send(ESCAPE)
    terminal.wait_for("Esc again goes back")
    terminal.wait_for(lambda: "Esc again goes back" not in terminal.screen.text)
    assert "Back to before" not in terminal.screen.text


def test_a_prompt_after_escape_shows_that_escape_stops_it(open_terminal: Open) -> None:
    """If this fails, the line below a run offers a way back, while Esc stops the run."""
    terminal = begin(open_terminal, "run true", answers=1)
    terminal.send(ESCAPE)
    terminal.wait_for("Esc again goes back")
    terminal.send("run sleep 9\r")
    terminal.wait_for(lambda: "Esc stops" in terminal.screen.text)
    assert "Esc again goes back" not in terminal.screen.text


def test_a_line_based_terminal_rewinds_by_numbers(
    run_program: Callable[..., subprocess.CompletedProcess[str]], project: Path
) -> None:
    run_program("console", "run echo 1 > one.txt", given="/rewind\n1\n1\ny\n")
    assert not (project / "one.txt").exists()
