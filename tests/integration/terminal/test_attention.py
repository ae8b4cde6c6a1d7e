"""If these fail, an agent waits for somebody who looks at another window, or calls one who looks on."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

Open = Callable[..., Any]

FOCUS_IN, FOCUS_OUT = "\x1b[I", "\x1b[O"
BELL = "\a\x1b]9;"


def titles(terminal: Any) -> list[str]:
    return re.findall(r"\x1b\]2;([^\x07]*)\x07", terminal.raw)


def test_the_title_tells_what_it_does(open_terminal: Open) -> None:
    terminal = open_terminal("rich", "run true", PROGRAM_APPROVE="ask")
    terminal.wait_for("Run this?")
    terminal.answer("y\r")
    terminal.wait_for("2.4k in")
    terminal.wait_for(lambda: titles(terminal)[-1] == "newel · project")
    assert titles(terminal)[-4:] == [
        "● newel · project",
        "? newel · project",
        "● newel · project",
        "newel · project",
    ]


def test_a_question_calls_somebody_who_is_elsewhere(open_terminal: Open, tmp_path: Path) -> None:
    called = tmp_path / "called"
    program = tmp_path / "call"
    program.write_text(f'#!/bin/sh\necho "$1 $2" > {called}.new\nmv {called}.new {called}\n')
    program.chmod(0o755)
    terminal = open_terminal("rich", PROGRAM_APPROVE="ask", PROGRAM_NOTIFY=f"{program} urgent")
    terminal.wait_for("Enter sends")
    terminal.send(FOCUS_OUT)
    terminal.send("run true\r")
    terminal.wait_for("Run this?")
    terminal.wait_for(called.exists)
    assert called.read_text().startswith("urgent newel · project: Run this?")
    assert f"{BELL}newel · project: Run this?" in terminal.raw


def test_somebody_who_looks_on_is_not_called(open_terminal: Open) -> None:
    terminal = open_terminal("rich", PROGRAM_APPROVE="ask")
    terminal.wait_for("Enter sends")
    terminal.send(FOCUS_IN)
    terminal.send("run true\r")
    terminal.wait_for("Run this?")
    terminal.answer("y\r")
    terminal.wait_for("2.4k in")
    assert "\a\x1b]9" not in terminal.raw
    assert "[I" not in terminal.screen.text


def test_a_program_that_cannot_be_started_is_told(open_terminal: Open) -> None:
    terminal = open_terminal(
        "rich", "run true", PROGRAM_APPROVE="ask", PROGRAM_NOTIFY="/no/such/program", columns=160
    )
    terminal.answer("y\r")
    terminal.wait_for("notify in config.toml cannot be started: No such file or directory: /no/such/program")
    terminal.wait_for("2.4k in")


def test_the_terminal_is_left_as_it_was(open_terminal: Open) -> None:
    terminal = open_terminal("rich")
    terminal.wait_for("Enter sends")
    terminal.send("/quit\r")
    terminal.end()
    assert terminal.raw.index("\x1b[?1004h") < terminal.raw.rindex("\x1b[?1004l")
    assert terminal.raw.index("\x1b[22;0t") < terminal.raw.rindex("\x1b[23;0t")
