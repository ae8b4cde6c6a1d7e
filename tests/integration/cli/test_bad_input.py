"""If these fail, bad input causes confusing messages, lost data or changes to foreign files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.support import BIN, Newel, scenario

Make = Callable[..., Newel]


@pytest.mark.parametrize(
    "content", ["", "notes of mine", "root:x:0:0\nbin:x:1:1\n", '{"a": 1}\n', "\x00\x01\n"]
)
def test_a_foreign_file_is_refused_as_a_session_and_not_changed(with_model: Make, content: str) -> None:
    newel = with_model()
    file = newel.project / "notes.txt"
    file.write_text(content)
    done = newel("--session", str(file), "how are you")
    assert done.returncode == 1
    assert "is not a session" in done.stderr
    assert file.read_text() == content
    assert [path.name for path in newel.project.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("command", "words"),
    [("newel", ["how are you"]), ("newel", ["--json", "how are you"]), ("lsimons-agent", [])],
)
def test_every_front_end_reports_damage(with_model: Make, command: str, words: list[str]) -> None:
    newel = with_model()
    newel("how are you")
    with newel.sessions[0].open("ab") as stream:
        stream.write(b"\x00\x00garbage\n")
    done = newel("--continue", *words, command=command, stdin="how are you\n" if not words else "")
    assert "line 4" in done.stdout + done.stderr


@pytest.mark.parametrize("words", [["--ephemeral", "--continue"], ["--ephemeral", "--session", "x"], [""]])
def test_invalid_arguments_are_usage_errors(with_model: Make, words: list[str]) -> None:
    done = with_model()(*words, stdin="")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [["a prompt"], ["--json"], ["--renderer", "rich"]])
def test_the_simple_repl_names_what_it_does_not_support(with_model: Make, words: list[str]) -> None:
    done = with_model()(*words, command="lsimons-agent")
    assert done.returncode == 2


@pytest.mark.slow  # a campaign: each command with each stream closed
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    "command", ["newel 'how are you'", "lsimons-agent", "newel sessions", "newel --json"]
)
def test_closed_standard_streams_cause_no_traceback(with_model: Make, command: str, closed: str) -> None:
    newel = with_model()
    done = subprocess.run(
        ["sh", "-c", f"exec {BIN}/{command} {closed}"],
        cwd=newel.project,
        env=newel.environ,
        capture_output=True,
        text=True,
        timeout=20,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode in {0, 1, 2}


@pytest.mark.parametrize("words", [["docs", "subagents"], ["--help"], ["stats"]], ids=" ".join)
def test_where_the_encoding_lacks_a_character_the_rest_is_printed(with_model: Make, words: list[str]) -> None:
    newel = with_model()
    newel("how are you")
    done = newel(*words, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "?" in done.stdout


@pytest.mark.parametrize("words", [["sessions"], ["hello"], ["--json", "hello"]], ids=" ".join)
def test_a_full_disk_behind_the_output_is_one_message(with_model: Make, words: list[str]) -> None:
    newel = with_model()
    with open("/dev/full", "w") as full:  # noqa: PTH123 — a device, no file
        done = subprocess.run(
            [BIN / "newel", *words],
            env=newel.environ,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "No space left" in done.stderr


def test_a_list_whose_reader_has_gone_ends_as_other_programs_do(with_model: Make) -> None:
    """With 1, a script takes `newel agents log ID | head` for a command that failed."""
    newel = with_model()
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [BIN / "newel", "sessions"], env=newel.environ, stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_an_invalid_number_is_explained(with_model: Make) -> None:
    done = with_model()("--max-turns", "many", "x")
    assert done.returncode == 2
    assert "whole number" in done.stderr


def test_an_export_overwrites_nothing(with_model: Make) -> None:
    newel = with_model()
    newel("how are you")
    (newel.project / "talk.md").write_text("mine")
    done = newel("export", newel.sessions[0].stem.partition("_")[2], "-o", "talk.md")
    assert done.returncode == 1
    assert "exists already" in done.stderr
    assert (newel.project / "talk.md").read_text() == "mine"


@pytest.mark.parametrize("words", [["doctor"], ["--json", "x"]])
def test_an_unreachable_server_is_reported_at_once(with_model: Make, words: list[str]) -> None:
    """Otherwise a user who forgot to start a local server watches useless retries."""
    newel = with_model()
    done = newel(*words, LLM_BASE_URL="http://localhost:9/v1")
    assert "No connection to http://localhost:9/v1" in done.stdout
    assert "Trying again" not in done.stdout
    assert '"retry"' not in done.stdout
    assert done.returncode == 1


def test_a_server_that_stays_busy_is_given_up(with_model: Make) -> None:
    down = {"kind": "status", "status": 503, "headers": {"Retry-After": "0"}}
    newel = with_model(scenario("x", {"fault": down, "response": {"content": "Never."}}))
    done = newel("x")
    assert done.returncode == 1
    assert "503" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert len(newel.requests) == 10


def test_invalid_json_lines_are_reported_and_the_others_are_served(with_model: Make) -> None:
    newel = with_model()
    lines = ["nonsense", '{"type":"dance"}', '{"type":"message","content":"how are you"}']
    done = newel("--json", stdin="\n".join(lines) + "\n")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    errors = [event["message"] for event in events if event["type"] == "error"]
    assert [error for error in errors if "line 1" in error.lower()]
    assert [error for error in errors if "line 2" in error.lower()]
    assert [event["type"] for event in events[-2:]] == ["agent_end", "result"]


def test_an_unsupported_platform_names_the_supported_ones() -> None:
    program = "import sys, newel.cli.main; sys.platform = 'win32'; sys.exit(newel.cli.main.jexida())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Linux and macOS, and on Windows in WSL" in done.stderr
    assert "Traceback" not in done.stderr
