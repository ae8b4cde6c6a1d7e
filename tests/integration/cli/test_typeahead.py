"""If these fail, input typed while Newel starts is lost, not sent, or shown above the header."""

from __future__ import annotations

import os
import pty
import signal
import termios
import time
from collections.abc import Callable

import pytest

from tests.forked import start
from tests.served import wait_until
from tests.support import BIN, Newel, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]


def test_early_input_is_sent_by_its_enter_and_echoed_once(with_model: Make) -> None:
    newel = with_model(scenario("hello early", {"content": "Good morning."}))
    for _ in range(5):  # on a busy machine it may be too late to be early
        command = ["env", str(BIN / "newel")]  # as a user starts it: a fork is too fast
        with Tmux(command, newel.project, newel.environ | {"TERM": "xterm-256color"}) as terminal:
            wait_until(lambda: not terminal.echoes, "the terminal without echo")
            if "newel 0." in terminal.text:
                continue
            terminal.type("hello early", "Enter")
            terminal.type("a draft")
            terminal.wait_for("Good morning.")
            terminal.wait_for("\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} a draft")
            assert terminal.text.startswith("newel 0.")
            assert terminal.text.count("hello early") == 1
            return
    raise AssertionError("it was always too late to be early")


def test_input_echoed_before_the_start_shows_only_at_the_prompt(with_model: Make) -> None:
    newel = with_model(scenario("", {"content": "Good morning."}))
    command = ["sh", "-c", f"sleep 0.5; exec {BIN / 'newel'}"]
    with Tmux(command, newel.project, newel.environ | {"TERM": "xterm-256color"}) as terminal:
        terminal.type("a draft")
        terminal.wait_for("a draft")
        terminal.wait_for("\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} a draft")
        assert terminal.text.startswith("newel 0.")
        assert terminal.text.count("a draft") == 1


@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGINT])
def test_the_terminal_is_restored_however_the_start_ends(
    with_model: Make, number: signal.Signals | None
) -> None:
    newel = with_model()
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    environ = newel.environ | {"TERM": "xterm-256color"} | ({} if number else {"LLM_BASE_URL": "nonsense"})
    process = start(
        [str(BIN / "newel")],
        cwd=newel.project,
        env=environ,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    until = time.monotonic() + 10
    while number and termios.tcgetattr(slave)[3] & termios.ECHO:
        assert time.monotonic() < until
    if number:
        os.kill(process.pid, number)
        os.kill(process.pid, number)
    assert process.wait(15) != 0
    assert termios.tcgetattr(slave) == before
    os.close(master)
    os.close(slave)
