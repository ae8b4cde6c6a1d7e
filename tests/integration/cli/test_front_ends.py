"""If these fail, a terminal, a pipe or JSON lines cannot talk with the installed Newel."""

from __future__ import annotations

import os
import pty
import re
import select
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.driver import Driver
from tests.forked import start
from tests.requirements import require_program
from tests.support import BIN, Newel, bash, scenario
from tests.terminal_waits import wait_until_accepted
from tests.tmux import Tmux

Make = Callable[..., Newel]
PATIENCE = 15.0
"""Seconds to wait for what must come; only a failure takes so long."""


class Terminal:
    """A command on a terminal; ``shown`` is all its output."""

    def __init__(self, newel: Newel, words: list[str], environ: dict[str, str]) -> None:
        self.shown = ""
        self._master, slave = pty.openpty()
        self.process = start(
            [str(BIN / words[0]), *words[1:]],
            cwd=newel.project,
            env=newel.environ | environ,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def answer(self, text: str) -> None:
        """``type`` to an interrupting question: keys count only after a pause in typing."""
        wait_until_accepted(self._master, self._look)
        self.type(text)

    def wait_for(self, text: str, *, times: int = 1) -> None:
        """Wait until the text was shown this often."""
        self._read(lambda: self.shown.count(text) >= times, f"{text!r} was not shown")

    def end(self) -> int:
        """The exit code of a command that is about to end."""
        self._read(lambda: self.process.poll() is not None, "the command did not end")
        return self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)

    def _look(self) -> str:
        time.sleep(0.02)
        return ""  # lines are read: there is no state line

    def _read(self, enough: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not enough():
            assert time.monotonic() < deadline, f"{otherwise}; there was: {self.shown[-2000:]}"
            if select.select([self._master], [], [], 0.05)[0]:
                try:
                    self.shown += os.read(self._master, 65_536).decode(errors="replace")
                except OSError:  # the command has closed its end, so it is about to end
                    self.process.wait(PATIENCE)
                    assert enough(), f"{otherwise}; there was: {self.shown[-2000:]}"


@pytest.fixture
def open_terminal() -> Iterator[Callable[..., Terminal]]:
    with ExitStack() as terminals:

        def make(newel: Newel, *words: str, **environ: str) -> Terminal:
            terminal = Terminal(newel, list(words), environ)
            terminals.callback(terminal.close)
            return terminal

        yield make


# -- on a terminal ------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["newel", "coding-agent"])
def test_without_a_prompt_a_terminal_starts_a_conversation(
    with_model: Make, open_terminal: Callable[..., Terminal], command: str
) -> None:
    newel = with_model()
    terminal = open_terminal(newel, command, TERM="xterm")
    terminal.wait_for("Enter sends")
    terminal.type("how are you\r")
    terminal.wait_for("All is well")
    terminal.type("/quit\r")
    assert terminal.end() == 0
    assert len(newel.requests) == 1
    assert len(newel.sessions) == 1


@pytest.mark.parametrize("moment", [0.0, 0.1, 0.25, 0.5])
def test_a_message_typed_before_the_prompt_is_shown_is_sent(with_model: Make, moment: float) -> None:
    """At each moment of the start, someone types ahead: the terminal may still make a line feed of Enter."""
    newel = with_model()
    with Tmux([str(BIN / "newel")], newel.project, newel.environ) as terminal:
        time.sleep(moment)
        terminal.type("how are you", "Enter")
        terminal.type("then what")
        terminal.wait_for("All is well")
        terminal.wait_for("\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} then what")
    assert len(newel.requests) == 1


def test_the_keys_of_the_input_are_those_of_the_users_configuration(
    with_model: Make, open_terminal: Callable[..., Terminal]
) -> None:
    newel = with_model()
    settings = newel.home / ".newel" / "config.toml"
    settings.parent.mkdir()
    settings.write_text('[terminal]\nediting = "vi"\n')
    terminal = open_terminal(newel, "newel", TERM="xterm")
    terminal.wait_for("INSERT · Enter sends")


def test_a_conversation_started_with_a_prompt_continues_at_the_terminal(
    with_model: Make, open_terminal: Callable[..., Terminal]
) -> None:
    newel = with_model()
    newel("how are you")
    terminal = open_terminal(newel, "newel", "--continue")
    terminal.wait_for("how are you")
    terminal.type("and now: how are you\n")
    terminal.wait_for("All is well", times=2)  # the first one is of the earlier conversation
    terminal.type("/quit\n")
    assert terminal.end() == 0
    assert [message["role"] for message in newel.requests[1]["messages"]].count("user") == 2


def test_below_a_command_of_any_length_the_question_says_that_it_leaves_the_sandbox(
    with_model: Make, open_terminal: Callable[..., Terminal]
) -> None:
    """The words above a long command have left the screen."""
    require_program("bwrap", "bubblewrap")
    arguments = {"command": "touch made" + "\n" * 200 + "ls", "unsandboxed": True}
    call = {"tool_calls": [{"function": {"name": "bash", "arguments": arguments}}]}
    newel = with_model(scenario("go", call, {"content": "Done."}))
    terminal = open_terminal(newel, "newel", "--sandbox", "workspace", "go")
    terminal.wait_for("Run all 202 lines outside of the sandbox? y once")
    terminal.answer("n\n")
    assert terminal.end() == 0
    assert not (newel.project / "made").exists()


def test_a_prompt_on_the_command_line_asks_at_the_terminal_before_it_acts(
    with_model: Make, open_terminal: Callable[..., Terminal]
) -> None:
    newel = with_model()
    terminal = open_terminal(newel, "newel", "--approve", "ask", "please write a hello world")
    terminal.wait_for("Make this change?")
    assert "+print(" in terminal.shown
    assert not (newel.project / "hello.py").exists()
    terminal.answer("y\n")
    terminal.wait_for("python3 hello.py")
    terminal.wait_for("Run this?")
    terminal.answer("not now\n")
    assert terminal.end() == 0
    assert (newel.project / "hello.py").exists()
    assert "declined this call and said: not now" in newel.requests[2]["messages"][-1]["content"]


def test_an_address_in_an_answer_is_a_link(with_model: Make, open_terminal: Callable[..., Terminal]) -> None:
    """Otherwise it has to be copied by hand from a terminal that could open it."""
    newel = with_model(scenario("", {"content": "See https://example.org/a now."}))
    terminal = open_terminal(newel, "newel", TERM="xterm-256color")
    terminal.wait_for("Enter sends")
    terminal.type("go\r")
    terminal.wait_for(" now.")
    terminal.type("/quit\r")
    assert terminal.end() == 0  # by then the answer has taken the place of its preview, which has no links
    assert re.search(r"\x1b\]8;[^;]*;https://example\.org/a\x1b\\", terminal.shown)


def test_clear_starts_a_new_conversation_and_keeps_the_old_one(
    with_model: Make, open_terminal: Callable[..., Terminal]
) -> None:
    newel = with_model()
    terminal = open_terminal(newel, "newel", "--renderer", "console")
    terminal.wait_for("> ")
    terminal.type("how are you\n")
    terminal.wait_for("All is well")
    terminal.type("/clear\n")
    terminal.wait_for("New conversation.")
    terminal.type("once more: how are you\n/quit\n")
    assert terminal.end() == 0
    assert [len(request["messages"]) for request in newel.requests] == [2, 2]
    assert len(newel.sessions) == 2
    assert "\x1b" not in terminal.shown


def test_every_slash_command_works(with_model: Make, open_terminal: Callable[..., Terminal]) -> None:
    newel = with_model()
    terminal = open_terminal(newel, "newel", "--renderer", "console")
    terminal.wait_for("> ")
    terminal.type("how are you\n")
    terminal.wait_for("All is well")
    for line, shown in (
        ("/help", "/branch"),
        ("/tools", "bash         Execute Shell Command (changes things)"),
        ("/cost", "the price of this model is not known"),
        ("/session name A talk", ""),
        ("/session", "name      A talk"),
        ("/status", "model     mock-model"),
        ("/export talk.md", f"Written: {newel.project / 'talk.md'}"),
        ("/export talk.md", "talk.md exists already. Name another file."),
        ("/export", ".md"),
        ("/export", "-2.md"),
        ("/thinking high", "Thinking is high."),
        ("/agent-mode cloud", "There is no mode cloud."),
        ("/agent-mode hybrid_auto", "both models are mock-model"),
        ("/agent-mode local", "The agent mode is local: requests go to mock-model."),
        ("/agent-mode remote", "The agent mode is remote: requests go to mock-model."),
        ("/agent-mode", "Modes: local, remote, hybrid_auto."),
        ("/model", "1  mock-model       (in use)"),
        ("2", "The next prompt goes to mock-model-mini."),
        (
            "/model gpt-typo",
            "The next prompt goes to gpt-typo. The server does not list it; /model shows",
        ),
        ("/model mock-model-mini", "The next prompt goes to mock-model-mini."),
        ("once more: how are you", "once more"),
        ("/compact Keep the greeting.", "Summarized"),
        ("/nonsense", "Error: There is no command /nonsense. /help lists them."),
        ("/plan", "Error: There is no command /plan. `/approve plan` looks around"),
        ("/doctor", "Error: There is no command /doctor. `newel doctor` in a shell"),
        ("/redo", "There is nothing to redo in "),
        ("/permissions add bash(ls)", "`newel permissions add RULE` in a shell adds a rule"),
        ("/approve yolo", "There is no mode yolo. Modes: auto, ask, review, plan, read-only."),
        ("/approve ask", "Approval mode: ask."),
    ):
        terminal.type(f"{line}\n")
        terminal.wait_for(shown)
    terminal.type("/quit\n")
    assert terminal.end() == 0
    assert terminal.shown.count("does not list it") == 1
    assert "All is well" in (newel.project / "talk.md").read_text()
    assert [(request["model"], request.get("reasoning_effort")) for request in newel.requests[:2]] == [
        ("mock-model", None),
        ("mock-model-mini", "high"),
    ]
    assert "Keep the greeting." in newel.requests[2]["messages"][-1]["content"]
    assert "A talk" in newel("sessions").stdout


# -- the plainest conversation ------------------------------------------------------------------------


def test_the_simple_repl_has_exactly_its_format(with_model: Make) -> None:
    newel = with_model()
    done = newel(
        stdin="please write a hello world\n\n!cat hello.py; exit 4\n/clear\nhow are you\n",
        command="lsimons-agent",
    )
    assert done.returncode == 0, done.stderr
    assert re.sub(r"\d+ ms", "N ms", done.stdout) == (
        "You: please write a hello world\n"
        "\n"
        "Agent: A small Python script will do. Writing it now.\n"
        "\n"
        '[Tool: write_file("hello.py", ...)]\n'
        "\n"
        "Agent: The file is there. Next, a run to see that it works.\n"
        "\n"
        '[Tool: bash("python3 hello.py")]\n'
        "\n"
        "Agent: `hello.py` is written and runs: it prints `Hello, World!`.\n"
        "\n"
        "You: You: !cat hello.py; exit 4\n"
        'print("Hello, World!")\n'
        "[exit code 4 · N ms]\n"
        "\n"
        "You: /clear\n"
        "\n"
        "You: how are you\n"
        "\n"
        "Agent: All is well here, thank you. What shall we work on?\n"
        "\n"
        "You: \n"
    )
    assert [message["role"] for message in newel.requests[-1]["messages"]] == ["system", "user"]


# -- JSON lines ---------------------------------------------------------------------------------------


def test_a_program_approves_declines_and_reads_the_state(with_model: Make) -> None:
    newel = with_model()
    driver = Driver(newel, "--approve", "ask")
    driver.send(type="message", content="please write a hello world")
    asked = driver.until("approval_request")
    assert (asked["toolName"], asked["folder"]) == ("write", str(newel.project))
    assert asked["preview"].endswith('+print("Hello, World!")\n')
    assert not (newel.project / "hello.py").exists()
    driver.send(type="approve", toolCallId=asked["toolCallId"], decision="once")
    asked = driver.until("approval_request")
    assert asked["preview"] == "python3 hello.py"
    driver.send(type="approve", toolCallId=asked["toolCallId"], decision="no", word="Not today.")
    assert driver.until("agent_end")["reason"] == "done"
    driver.send(type="get_state")
    state = driver.until("state")
    assert (state["model"], state["messageCount"], state["isStreaming"]) == ("mock-model", 6, False)
    assert state["sessionFile"] == str(newel.sessions[0])
    assert driver.finish() == 0
    assert "said: Not today." in newel.requests[2]["messages"][-1]["content"]
    assert (newel.project / "hello.py").exists()


def test_a_program_interrupts_a_command_and_continues(with_model: Make) -> None:
    """With the three lines of the specification's example: a message, an interrupt, a message."""
    answer = scenario("Count", {"content": "There are none."})
    newel = with_model({"scenarios": answer["scenarios"] + scenario("List", bash("sleep 60"))["scenarios"]})
    driver = Driver(newel)
    driver.send(type="message", content="List all TypeScript files")
    driver.until("tool_execution_start")
    driver.send(type="interrupt")
    ended = driver.until("tool_execution_end")
    assert (ended["toolName"], ended["isError"]) == ("bash", True)
    driver.until("interrupted")
    driver.send(type="message", content="Count the files")
    driver.until("agent_end")
    assert driver.until("agent_end")["reason"] == "done"
    assert driver.finish() == 0
    assert [message["role"] for message in newel.requests[1]["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "user",
    ]
