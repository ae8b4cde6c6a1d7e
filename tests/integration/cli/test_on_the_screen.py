"""If these fail, somebody at a terminal does not see what was done, or reads something that is not so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.terminal.conftest import Terminal
from tests.support import BIN, Newel, bash, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]

DONE = {"content": "Done."}
MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"


def conversation(newel: Newel, *words: str, columns: int = 80) -> Tmux:
    environ = newel.environ | {"TERM": "xterm-256color"}
    terminal = Tmux([str(BIN / "newel"), *words], newel.project, environ, columns=columns)
    terminal.wait_for("approve: ")
    return terminal


@pytest.mark.parametrize("columns", [50, 80, 120])
def test_a_deletion_behind_a_long_text_is_shown(with_model: Make, columns: int) -> None:
    """No question is asked about it, so the line of the call is all that the user sees."""
    lines = "\n".join(f"line {number} of the notes" for number in range(60))
    newel = with_model(
        scenario("go", bash(f"cat > notes.txt <<'EOF'\n{lines}\nEOF\nrm -rf some/secret"), DONE)
    )
    (newel.project / "some" / "secret").mkdir(parents=True)
    with conversation(newel, columns=columns) as terminal:
        terminal.type("go", "Enter")
        terminal.wait_for("Done.")
        assert "bash cat > notes.txt" in terminal.text
        assert "… 60 lines of text" in terminal.text
        assert "rm -rf some/secret" in terminal.text
    assert not (newel.project / "some" / "secret").exists()


def test_commands_that_only_read_bring_up_no_question(with_model: Make) -> None:
    """If this fails, a user who is asked about everything learns to say yes without reading."""
    newel = with_model(scenario("go", bash("ls && cat notes.txt"), bash("touch it"), DONE))
    (newel.project / "notes.txt").write_text("only these words\n")
    with conversation(newel, "--approve", "ask") as terminal:
        terminal.type("go", "Enter")
        terminal.wait_for("    touch it")
        terminal.wait_for("Run this?")
        before = terminal.text.partition("    touch it")[0]
        assert "bash ls && cat notes.txt" in before
        assert "only these words" in before
        assert "Allowed" not in before
        assert not (newel.project / "it").exists()


@pytest.mark.slow  # seconds of waiting
def test_a_busy_server_leaves_one_line_however_often_it_refuses(with_model: Make) -> None:
    busy = {"kind": "status", "status": 429, "headers": {"Retry-After": "0.4"}, "times": 5}
    newel = with_model(scenario("go", {"response": {"content": "At last."}, "fault": busy}))
    with conversation(newel) as terminal:
        terminal.type("go", "Enter")
        terminal.wait_for("s to try again (3 of ")
        assert "Esc stops" in terminal.view
        terminal.wait_for("At last.")
        assert terminal.text.count("Too many requests") == 1, terminal.text
        assert "to try again" not in terminal.text


def test_a_table_in_a_narrow_window_loses_no_text(with_model: Make) -> None:
    table = (
        "| function | what it does | where it is defined |\n|---|---|---|\n"
        "| `importer.parse` | reads a file of records | `src/importer/parse.py` |\n"
    )
    newel = with_model(scenario("go", {"content": table}))
    with conversation(newel, columns=50) as terminal:
        terminal.type("go", "Enter")
        terminal.wait_for(" out")
        shown = terminal.text.partition(f"{MARK} go")[2]
        rows = shown.rpartition("\n\n")[0].strip("\n").split("\n")
        starts = [rows[0].index(heading) for heading in ("function", "what", "where")]
        cells = [
            "".join("".join(row[start:end].split()) for row in rows)
            for start, end in zip(starts, [*starts[1:], None], strict=True)
        ]
        for cell, words in zip(
            cells, ("importer.parse", "readsafileofrecords", "src/importer/parse.py"), strict=True
        ):
            assert cell.endswith(words), shown


def test_going_back_without_sending_keeps_the_conversation_in_the_list(with_model: Make) -> None:
    """If this fails, the conversation is still there, but nobody would know."""
    newel = with_model(scenario("first words", {"content": "An answer."}))
    with conversation(newel) as terminal:
        terminal.type("first words", "Enter")
        terminal.wait_for("An answer.")
        terminal.type("/branch", "Enter")
        terminal.wait_for("Esc cancels")
        terminal.type("", "Enter")
        terminal.wait_for(f"{MARK} first words\nEnter sends")
        terminal.type("", "C-u", "C-d")
        terminal.wait_for_end()
    listed = newel("sessions").stdout
    assert "first words" in listed
    assert "2 messages" in listed
    with conversation(newel, "-c") as terminal:
        terminal.wait_for("── Resumed ")
        assert "An answer." in terminal.text


def test_a_review_says_nothing_of_more_where_there_is_no_more(with_model: Make) -> None:
    """A file of 45 lines made a diff of exactly as many lines as were once shown, and one character more."""
    content = "".join(f"line {number}\n" for number in range(1, 46))
    call = {"name": "write", "arguments": {"file_path": "a.txt", "content": content}}
    newel = with_model(scenario("go", {"tool_calls": [{"function": call}]}, DONE))
    with conversation(newel) as terminal:
        terminal.type("go", "Enter")
        terminal.wait_for("1 file +45")
        terminal.type("/review", "Enter")
        terminal.wait_for("q closes")
        terminal.type("G")
        terminal.wait_for("+line 45")
        assert " more" not in terminal.view


@pytest.mark.parametrize(
    ("typed", "said"), [("/mcp", "`newel mcp` in a shell"), ("/login", "`newel setup` in a shell")]
)
def test_a_command_of_the_shell_is_named_where_it_is_typed(with_model: Make, typed: str, said: str) -> None:
    with conversation(with_model()) as terminal:
        terminal.type(typed, "Enter")
        terminal.wait_for(said)


@pytest.mark.parametrize(("command", "said"), [("mcp", "No servers yet."), ("hosts", "No hosts yet.")])
def test_a_command_that_keeps_a_list_shows_it(with_model: Make, command: str, said: str) -> None:
    newel = with_model()
    assert newel(command).stdout.startswith(said)
    assert newel(command).stdout == newel(command, "list").stdout
    assert f"newel {command} " in newel("help").stdout


def test_an_unknown_setting_is_named_with_its_line_and_the_nearest_one(with_model: Make) -> None:
    newel = with_model()
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "config.toml").write_text('model = "x"\naprove = "ask"\n')
    done = newel("hello")
    assert done.returncode == 1
    assert "line 2: aprove: unknown setting (did you mean `approve`?)" in done.stderr
    assert newel.requests == []


def test_a_session_in_use_is_marked_and_stays_whole(with_model: Make) -> None:
    """If this fails, the list offers what cannot be resumed, and answers with the name of a file."""
    newel = with_model(scenario("first words", {"content": "An answer."}))
    environ = newel.environ | {"TERM": "xterm-256color"}
    with conversation(newel) as first:
        first.type("first words", "Enter")
        first.wait_for("An answer.")
        second = Terminal([str(BIN / "newel")], newel.project, 140, 30, environ)
        try:
            second.wait_for("approve: ")
            second.send("/resume\r")
            second.wait_for(f"open in another Newel, pid {first.pid})")
            second.send("\r")
            second.wait_for("Close it there, then /resume it.")
            assert ".jsonl" not in second.screen.text
        finally:
            second.close()
