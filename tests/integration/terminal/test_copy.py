"""If these fail, an answer has to be selected with the mouse, line by line, or what is pasted acts by itself."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

Open = Callable[..., Any]

ANSWER = "Try this:\n```sh\nls -l\n```\nor this:\n~~~\nrm \x1b[201~x\n~~~\nGood luck."
"""What the scripted model repeats."""


def given_to_the_terminal(terminal: Any) -> list[str]:
    found = re.findall(r"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", terminal.raw)
    return [base64.b64decode(each).decode() for each in found]


def test_the_last_answer_goes_to_the_terminals_clipboard(open_terminal: Open) -> None:
    terminal = open_terminal("rich", "hello there")
    terminal.wait_for("You said: hello there")
    terminal.send("/copy\r")
    terminal.wait_for("Copied the last answer (1 line)")
    assert given_to_the_terminal(terminal) == ["You said: hello there"]


def test_a_block_of_code_is_copied_alone_and_without_control_characters(open_terminal: Open) -> None:
    terminal = open_terminal("rich", ANSWER)
    terminal.wait_for("1.2k in")
    terminal.send("/copy 1\r")
    terminal.wait_for("Copied code block 1")
    terminal.send("/copy 2\r")
    terminal.wait_for("Copied code block 2")
    first, second = given_to_the_terminal(terminal)
    assert first == "ls -l"
    assert second.startswith("rm ")
    assert "\x1b" not in second
    terminal.send("/copy 3\r")
    terminal.wait_for("The last answer has 2 code blocks.")


def test_before_an_answer_there_is_nothing_to_copy(open_terminal: Open) -> None:
    terminal = open_terminal("rich")
    terminal.wait_for("Enter sends")
    terminal.send("/copy\r")
    terminal.wait_for("There is no answer yet.")


def test_a_program_of_the_desktop_gets_it_too(open_terminal: Open, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    program = programs / "wl-copy"
    program.write_text(f"#!/bin/sh\nexport > {tmp_path}/environment\n/bin/cat > {tmp_path}/copied\n")
    program.chmod(0o755)
    environ = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "WAYLAND_DISPLAY": "wayland-0",
        "MY_API_KEY": "very secret",
    }
    terminal = open_terminal("rich", "hello", **environ)
    terminal.wait_for("You said: hello")
    terminal.send("/copy\r")
    terminal.wait_for("with wl-copy and by the terminal")
    assert (tmp_path / "copied").read_text() == "You said: hello"
    # It serves the clipboard in the background, where commands could read its environment.
    assert "WAYLAND_DISPLAY" in (tmp_path / "environment").read_text()
    assert "very secret" not in (tmp_path / "environment").read_text()
