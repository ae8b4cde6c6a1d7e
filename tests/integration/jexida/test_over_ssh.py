"""If these fail, ``jexida`` does something else on a real host than its panels show."""

from __future__ import annotations

import os
import signal
import subprocess
import termios
from collections.abc import Generator
from pathlib import Path

import pytest

from mock_llm_server import running
from newel.terminal.jexida.protocol import AnswerReply, ShellReply, render
from tests.integration.jexida.served_host import Begin, command, configure, environ, output_of_pipe
from tests.sshd import Sshd, served
from tests.standins.ollama_program import OllamaProgram
from tests.standins.ollama_server import OllamaServer
from tests.support import scenario
from tests.tmux import Tmux

LOOK = render(ShellReply("echo looked > seen; cat seen", "To look."))
SEEN = render(AnswerReply("It says **looked**, and that is all."))
SCRIPT = [
    {"trigger": "Look around", "answer": LOOK, "constrained": LOOK},
    {"trigger": "Output:\nlooked", "answer": SEEN, "constrained": SEEN},
]
KEY = "sk-test-0123456789abcdef"
PHI3 = {"phi3:latest": {"capabilities": ["completion"], "context_length": 131_072}}


@pytest.fixture
def server() -> Generator[OllamaServer]:
    made = OllamaServer(script=SCRIPT)
    yield made
    made.close()


@pytest.fixture
def program(sshd: Sshd) -> OllamaProgram:
    return OllamaProgram(sshd.bin, models=PHI3, script=SCRIPT, default=render(AnswerReply("Hello.")))


@pytest.fixture
def closed_port() -> int:
    server = OllamaServer()
    server.close()
    return server.port


@pytest.mark.slow  # every command
def test_every_slash_command_works_on_a_host(
    sshd: Sshd, program: OllamaProgram, tmp_path: Path, closed_port: int
) -> None:
    configure(tmp_path, closed_port)
    me = f"{sshd.user}@host"
    with Tmux(command(sshd), tmp_path, environ(tmp_path)) as screen:
        screen.wait_for(f"{me} · phi3 · up")
        screen.type("Look around", "Enter")
        screen.wait_for("Run it? y yes")
        assert not (sshd.home / "seen").exists()
        screen.answer("y", "Enter")
        screen.wait_for("It says looked, and that is all.")
        screen.wait_for("phi3 · ollama run (")
        screen.type("/help", "Enter")
        screen.wait_for("/run ROUTINE")
        screen.type("/cmd echo $((6*7)); exit 3", "Enter")
        screen.wait_for("last   exit code 3")
        assert "\n│ 42 " in screen.text
        screen.type("/routines", "Enter")
        screen.wait_for("/run greet     Say hello")
        screen.type("/run sa", "Tab", "Space", "Enter")
        screen.wait_for("what of say:")
        screen.type("it's said", "Enter")
        screen.wait_for("\n│ it's said ")
        screen.type("/model", "Enter")
        screen.wait_for("phi3:latest  in use")
        screen.type("/undo", "Enter")
        screen.wait_for("Changes made by commands are not recorded here")
        screen.type("/run gr", "Tab", "Enter")
        screen.wait_for(f"│ hello from {sshd.user}")
        screen.type("/shell", "Enter")
        screen.wait_for("/shell\n$")  # the prompt of the remote shell
        screen.type("tty && echo ended | tr a-z A-Z; exit 5", "Enter")
        screen.wait_for("/dev/pts/")
        screen.wait_for("ENDED")
        screen.wait_for("ended with exit code 5.")
        screen.resize(40, 30)
        screen.type("/clear", "Enter")
        screen.wait_for("│ last   exit code 0                   │")
        assert screen.view.startswith("jexida ")
        assert "PROMPT" not in screen.view
        screen.type("/exit", "Enter")
        screen.wait_for_end()
    assert (sshd.home / "seen").read_text() == "looked\n"
    (sshd.home / "seen").unlink()
    assert "Exit code: 0\nOutput:\nlooked" in program.prompts[-1]


def test_the_api_over_the_connection_is_preferred_and_status_says_so(
    sshd: Sshd, server: OllamaServer, tmp_path: Path, begin: Begin
) -> None:
    configure(tmp_path, server.port)
    terminal = begin(sshd)
    terminal.wait_for("phi3 · up")
    terminal.send("Look around\r")
    terminal.wait_for("Run it? y yes")
    terminal.answer("y\r")
    terminal.wait_for("It says looked, and that is all.")
    terminal.wait_for("phi3 · forwarded /api/chat")
    system, first, shell, result = server.requests[-1]["messages"]
    assert f"{sshd.user}@host" in system["content"]
    assert (first["role"], first["content"]) == ("user", "Look around")
    assert (shell["role"], shell["content"]) == ("assistant", LOOK)
    assert result["content"] == "Command: echo looked > seen; cat seen\nExit code: 0\nOutput:\nlooked\n\n"
    assert server.requests[-1]["format"]["anyOf"]
    (sshd.home / "seen").unlink()


@pytest.mark.slow  # seconds of waiting
def test_a_missing_model_is_downloaded_only_after_confirmation(
    sshd: Sshd, program: OllamaProgram, tmp_path: Path, closed_port: int, begin: Begin
) -> None:
    program.set(models={}, registry=["phi3"], default=render(AnswerReply("Hello.")))
    before = len(program.calls)
    configure(tmp_path, closed_port)
    terminal = begin(sshd)
    terminal.wait_for("phi3 · up")
    terminal.send("hi\r")
    terminal.wait_for("Download phi3 there now?")
    terminal.answer("\r")
    terminal.wait_for(lambda: terminal.screen.text.count("STATUS") == 2)
    assert not [call for call in program.calls[before:] if call["argv"][0] == "pull"]
    terminal.send("hi again\r")
    terminal.wait_for("Download phi3 there now?")
    terminal.answer("y\r")
    terminal.wait_for("phi3 was downloaded.")
    terminal.wait_for("│ Hello. ")


@pytest.mark.slow  # a second of a core
def test_an_unreachable_host_is_explained_and_the_conversation_continues(
    tmp_path: Path, begin: Begin
) -> None:
    with served() as host:
        host.stop()
        terminal = begin(host, "--through", "run")
        terminal.wait_for("Error: ")
        terminal.wait_for("phi3 · not connected")
        terminal.send("/cmd echo there\r")
        terminal.wait_for(lambda: terminal.screen.text.count("Error: ") == 2)
        host.start()
        terminal.send("/cmd echo back again\r")
        terminal.wait_for("│ back again ")
        terminal.wait_for("phi3 · up")


def test_a_command_whose_connection_is_lost_has_an_unknown_outcome_and_is_not_repeated(
    tmp_path: Path, begin: Begin
) -> None:
    with served() as host:
        terminal = begin(host, "--through", "run")
        terminal.wait_for("phi3 · up")
        terminal.send("/cmd echo once >> runs; echo begun; sleep 60\r")
        terminal.wait_for("│ begun ")
        host.drop()
        terminal.wait_for("outcome is unknown")
        terminal.send("/cmd echo back; cat runs\r")
        terminal.wait_for("│ back ")
        terminal.wait_for("last   exit code 0")
        assert (host.home / "runs").read_text() == "once\n"


def test_the_terminal_works_after_the_ssh_of_a_shell_was_killed(
    sshd: Sshd, tmp_path: Path, begin: Begin
) -> None:
    terminal = begin(sshd, "--through", "run")
    terminal.wait_for("phi3 · up")
    terminal.send("/shell\r")
    terminal.wait_for(lambda: terminal.screen.text.endswith("$"))
    found = subprocess.run(
        ["pgrep", "-P", str(terminal.process.pid), "-f", "ssh -tt"],
        capture_output=True,
        text=True,
        check=True,
    )
    os.kill(int(found.stdout), signal.SIGKILL)
    terminal.wait_for("ended with exit code 137.")

    def is_typed() -> bool:  # ssh's master reads the terminal too, until it learns that its client has ended
        terminal.send("\x15/cmd echo sane")
        return "/cmd echo sane" in terminal.screen.text

    terminal.wait_for(is_typed)
    terminal.send("\r")
    terminal.wait_for("│ sane ")
    terminal.send("/exit\r")
    assert terminal.end() == 0
    assert termios.tcgetattr(terminal.slave) == terminal.before


def test_a_remote_model_may_use_a_host_that_never_sees_its_key(sshd: Sshd, tmp_path: Path) -> None:
    reply = render(ShellReply("env | sort", "To see."))
    first = scenario("the environment", {"content": reply})
    then = scenario("SSH_CONNECTION", {"content": render(AnswerReply("Nothing secret."))})
    with running({"scenarios": first["scenarios"] + then["scenarios"]}) as server:
        llm = {"LLM_BASE_URL": f"{server.url}/v1", "LLM_AUTH_TOKEN": KEY, "LLM_DEFAULT_MODEL": "mock-model"}
        asked = command(sshd, "--through", "api")
        with Tmux(asked, tmp_path, environ(tmp_path, **llm)) as screen:
            screen.wait_for("mock-model · up")
            screen.type("What is the environment?", "Enter")
            screen.wait_for("Run it? y yes")
            screen.answer("y", "Enter")
            screen.wait_for("Nothing secret.")
            screen.wait_for("mock-model · API of 127.0.0.1")
            assert "│ SSH_CONNECTION=" in screen.text
            assert KEY not in screen.text
        assert "SSH_CONNECTION=" in server.requests[-1]["body"]["messages"][-1]["content"]


def test_a_conversation_is_resumed(sshd: Sshd, program: OllamaProgram, tmp_path: Path) -> None:
    def talk(words: str, *options: str) -> str:
        return output_of_pipe(command(sshd, "--through", "run", *options), tmp_path, words)

    assert "[AGENT RESPONSE]\nHello." in talk("My name is Ada.\n/cmd echo $((6 * 7))\n")
    assert "Resumed a conversation of 2 messages." in talk("Who am I?\n", "--continue")
    assert "My name is Ada." in program.prompts[-1]
    assert "42" not in program.prompts[-1]  # the user's own commands belong to the user
