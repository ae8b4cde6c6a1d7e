"""If these fail, a server outlives the window that started it, or ends for no reason."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mock_llm_server import running
from tests.processes import ends, is_alive, read_pids
from tests.served import Served, begin, served, wait_until
from tests.stranger import strange_server
from tests.support import BIN, Newel, bash, scenario

COMMAND = ("newel", "web", "--port", "0", "--exit-with-stdin")
PARENT = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE); time.sleep(60)"


def test_the_server_and_its_commands_end_with_a_killed_parent(tmp_path: Path) -> None:
    """``kill -9`` of a desktop window must not leave a server that runs commands, whose window is gone."""
    held = "echo $$ > command; exec sleep 60"
    with running(scenario("wait", bash(held))) as model:
        newel = Newel(tmp_path, model)
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, str(BIN / "newel"), *COMMAND[1:]],
            cwd=newel.project,
            env=newel.environ,
            stdout=subprocess.PIPE,
            text=True,
        )
        with parent:
            assert parent.stdout is not None
            line = parent.stdout.readline().strip()
            server = Served(parent, line)
            with server.page() as page:
                tab = page.ask("openChat")["tab"]
                page.ask("send", tab=tab, messageId="m1", text="wait")
                wait_until(lambda: read_pids(newel.project / "command"), "the command")
            (command,) = read_pids(newel.project / "command")
            parent.kill()
            parent.stdout.read()  # ends when the server, too, has closed it
        assert ends(command)


def test_input_does_not_end_the_server_and_its_end_does(tmp_path: Path) -> None:
    with running() as model:
        newel = Newel(tmp_path, model)
        process = newel.start(*COMMAND[1:], stdin=subprocess.PIPE)
        with process:
            assert process.stdout is not None
            assert process.stdin is not None
            server = Served(process, process.stdout.readline().strip())
            process.stdin.write("words that nobody reads\n" * 10_000)
            process.stdin.flush()
            with server.client:
                assert server.client.get("/health").status_code == 200
            process.stdin.close()
            assert server.ended() == 0


def test_standard_input_that_is_no_pipe_is_refused(tmp_path: Path) -> None:
    """From a terminal, or with ``</dev/null``, the server would end at once without a reason."""
    with running() as model:
        newel = Newel(tmp_path, model)
        with newel.start(*COMMAND[1:]) as process:
            words = process.communicate(timeout=20)[1]
        assert process.returncode == 2
        assert "--exit-with-stdin" in words
        assert "Leave it out" in words


def test_without_the_option_the_server_stays_when_its_input_ends(tmp_path: Path) -> None:
    with running() as model, served(Newel(tmp_path, model)) as server:
        assert server.client.get("/health").status_code == 200
        assert is_alive(server.process.pid)


@pytest.mark.slow  # waits for the ten seconds of grace
def test_a_process_that_hangs_is_killed_after_its_grace() -> None:
    program = (
        "import signal, time; from newel.app.parent_pipe import exit_with_stdin; "
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); exit_with_stdin(); print('on', flush=True); time.sleep(60)"
    )
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        process.stdin.close()
        assert process.wait(20) == -signal.SIGKILL
    assert time.monotonic() - began > 9


def test_a_program_that_takes_the_port_of_a_joined_server_does_not_get_the_token(tmp_path: Path) -> None:
    """Who has joined a server asks it again and again whether it is still there."""
    with running() as model:
        newel = Newel(tmp_path, model)
        with served(newel) as server, begin(newel, "newel", "web", "--join") as joined:
            assert joined.stdout is not None
            assert joined.stdout.readline().strip() == server.line
            os.kill(joined.pid, signal.SIGSTOP)  # it must not ask between the two
            server.kill()
            with strange_server(int(server.url.rpartition(":")[2])) as stranger:
                os.kill(joined.pid, signal.SIGCONT)
                assert joined.wait(20) == 0
    assert "/" in stranger.words
    assert server.token not in stranger.words
