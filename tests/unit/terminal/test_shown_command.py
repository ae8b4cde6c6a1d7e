"""If these fail, a command runs without a trace in the transcript."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from newel.agent.messages import ToolCall
from newel.terminal.renderers.call_outcome import CallOutcome
from newel.terminal.renderers.console import ConsoleRenderer, call_text
from newel.terminal.renderers.palette import wrap
from newel.terminal.renderers.styles import call_lines, running_lines
from newel.terminal.shown_command import MAX_CHARACTERS, shown_command

BODY = "\n".join(f"line {number} of the notes" for number in range(60))
HIDDEN = f"cat > notes.txt <<'EOF'\n{BODY}\nEOF\nrm -rf some/secret"
CHAIN = (
    "git mv src/app.py src/main.py || mv src/app.py src/main.py; mkdir -p build/out && cp -r assets/images build/out/; "
    "sed -i 's/app/main/' setup.cfg pyproject.toml; rm -f README.md"
)


def rich(command: str, width: int) -> list[str]:
    outcome = CallOutcome("1", "bash", {"command": command}, False, "60 notes.txt", [], 138, "")
    return [line.plain for line in call_lines(outcome, width)]


@pytest.mark.parametrize("width", [20, 50, 80, 100, 120])
@pytest.mark.parametrize(("command", "end"), [(HIDDEN, "some/secret"), (CHAIN, "README.md")])
def test_the_last_command_is_always_visible(command: str, end: str, width: int) -> None:
    lines = rich(command, width)
    assert end in "".join(lines).replace(" ", "")
    assert "rm -" in " ".join(" ".join(lines).split())
    assert max(map(cell_len, lines)) <= width
    assert len(lines) <= 24
    running = "".join(line.plain for line in running_lines("bash", {"command": command}, width))
    assert end in running.replace(" ", "")


def test_a_text_written_to_a_file_is_omitted_and_counted() -> None:
    assert rich(HIDDEN, 80) == [
        "● bash cat > notes.txt <<'EOF'",
        "       … 60 lines of text",
        "       EOF",
        "       rm -rf some/secret                                   60 notes.txt  138 ms",
    ]


@pytest.mark.parametrize(
    "command",
    [
        f"cat <<EOF > x\n{BODY}\n$(rm -rf some/secret)\nEOF\nls",
        f"cat <<'EOF' > x\n{BODY}\nEOF\nrm -rf some/secret\ncat <<'EOF' > y\n{BODY}\nEOF\nls",
        f"sh <<'EOF'\n{BODY}\nrm -rf some/secret\nEOF",
        "rm -rf some/secret" + "\n# a remark" * 40,
        f"cat <<'EOF' | sh\n{BODY}\nrm -rf some/secret\nEOF",
        f"echo begin; {'echo ' + 'x' * 300 + ';'} rm -rf some/secret",
        f"cat > x <<'EOF'\n{'y' * 20_000}\nEOF\nrm -rf some/secret",
    ],
)
def test_no_text_hides_a_command(command: str) -> None:
    assert "rm -rf some/secret" in "\n".join(rich(command, 100))


def test_an_escape_sequence_hides_no_part_of_a_command() -> None:
    command = "ls \x1b]0; rm -rf some/secret \x07"
    assert "ls ␛]0; rm -rf some/secret ␇" in rich(command, 100)[0]
    assert "ls ␛]0; rm -rf some/secret ␇" in call_text("bash", {"command": command})


def test_the_console_shows_the_end_of_a_command_too(scene: Callable[..., Any]) -> None:
    call = ToolCall("1", "bash", {"command": HIDDEN})
    out = io.StringIO()
    renderer = ConsoleRenderer(out)
    for event in scene().say("", call).run(call, "stdout:\n60 notes.txt\nexit code: 0", exitCode=0).end():
        renderer.handle(event)
    assert out.getvalue().startswith(
        "bash cat > notes.txt <<'EOF'\n"
        "     … 60 lines of text\n"
        "     EOF\n"
        "     rm -rf some/secret ✓ 60 notes.txt · 4 ms\n"
    )


def test_a_short_command_takes_one_line() -> None:
    assert rich("pytest -q", 50) == ["● bash pytest -q              60 notes.txt  138 ms"]
    assert call_text("bash", {"command": "pytest -q"}) == "bash pytest -q"
    assert call_text("bash", {"command": "git push", "unsandboxed": True}) == "bash (unsandboxed) git push"


@given(st.text(alphabet="ab \n#<'EOF;", max_size=400), st.integers(16, 100))
def test_the_last_command_is_visible_in_any_notation(command: str, width: int) -> None:
    rows = shown_command(f"{command}\nthe last one", lambda line: wrap(line, width))
    assert rows[-1] == "the last one"
    assert len(rows) <= 11


def test_a_huge_command_is_shortened_quickly_and_keeps_its_ends() -> None:
    rows = shown_command("first " + "x y " * 500_000 + "last", lambda line: wrap(line, 80))
    assert rows[0].startswith("first ")
    assert rows[-1].endswith("last")
    assert len("".join(rows)) < MAX_CHARACTERS
