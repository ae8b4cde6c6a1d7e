"""If these fail, the end of one side leaves processes behind, or loses what the other was promised."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration.rpc.conftest import Program
from tests.processes import ends, is_alive, read_pids
from tests.support import BIN, Newel

Open = Callable[..., Program]


def begin_tool(program: Program, newel: Newel) -> int:
    """Start a run whose tool sleeps; returns the tool's pid."""
    program.ask("prompt", text="sleep for long")
    program.event("tool_execution_update")
    (pid,) = read_pids(newel.project / "pid")
    assert is_alive(pid)
    return pid


def texts(session: Path) -> list[str]:
    lines = [json.loads(line) for line in session.read_text().splitlines()]
    return [str(line["message"].get("content")) for line in lines if line["type"] == "message"]


def test_a_run_is_finished_when_the_input_ends(open_rpc: Open, newel: Newel) -> None:
    program = open_rpc()
    program.ask("prompt", text="wait for go")
    program.send("prompt", "next", text="hello there")
    program.send("compact", "last")
    program.until(lambda line: line.get("id") == "next")
    assert program.process.stdin is not None
    program.process.stdin.close()
    time.sleep(0.3)
    assert program.process.poll() is None
    (newel.project / "go").touch()
    while program.read():
        pass
    assert program.process.wait(10) == 0
    kinds = [line["type"] for line in program.lines]
    assert kinds.count("agent_end") == 2
    assert program.lines[-1]["id"] == "last"


def test_the_end_of_the_input_declines_approvals(open_rpc: Open, newel: Newel) -> None:
    """Nobody is there to answer them any more."""
    program = open_rpc("--approve", "ask")
    program.ask("prompt", text="touch the file")
    program.event("approval_request")
    assert program.end() == 0
    assert not (newel.project / "touched").exists()


def test_a_closed_output_ends_the_run_and_its_tools(open_rpc: Open, newel: Newel) -> None:
    program = open_rpc()
    pid = begin_tool(program, newel)
    assert program.process.stdout is not None
    program.process.stdout.close()
    program.send("state")
    assert program.process.wait(10) == 1
    assert ends(pid)
    assert program.process.stderr is not None
    assert program.process.stderr.read() == ""


def test_the_death_of_the_program_ends_the_run_and_its_tools(open_rpc: Open, newel: Newel) -> None:
    """Both ends are closed at once, and a silent tool writes nothing that could fail."""
    program = open_rpc()
    pid = begin_tool(program, newel)
    for stream in (program.process.stdin, program.process.stdout):
        assert stream is not None
        stream.close()
    assert program.process.wait(10) == 1
    assert ends(pid)


def test_a_killed_newel_has_saved_what_it_accepted(open_rpc: Open, newel: Newel) -> None:
    file = newel.project / "a.txt"
    file.write_text("one\n")
    program = open_rpc("--approve", "review")
    program.ask("prompt", text="change the file")
    program.event("agent_end")
    assert program.ask("decide", verdict="keep", all=True)["data"]["written"] == ["a.txt"]
    accepted = program.ask("prompt", text="hello there")["data"]["messageId"]
    program.process.kill()
    program.process.wait(10)
    assert file.read_text() == "two\n"
    (session,) = newel.sessions
    assert accepted in session.read_text()


def test_the_tools_of_a_killed_newel_end(open_rpc: Open, newel: Newel) -> None:
    program = open_rpc()
    pid = begin_tool(program, newel)
    program.process.kill()
    program.process.wait(10)
    assert ends(pid)
    (session,) = newel.sessions
    assert "sleep for long" in texts(session)
    resumed = open_rpc("--session", session.stem.rpartition("_")[2])
    messages = resumed.ask("messages")["data"]["messages"]
    assert "the outcome of this call is unknown" in messages[-1]["output"]


def test_a_signal_answers_what_was_queued(open_rpc: Open, newel: Newel) -> None:
    program = open_rpc()
    pid = begin_tool(program, newel)
    promised = program.ask("prompt", text="hello there")["data"]["messageId"]
    program.send("new_session", "queued")
    program.ask("state")
    program.process.send_signal(signal.SIGTERM)
    while program.read():
        pass
    assert program.process.wait(10) == 128 + signal.SIGTERM
    assert ends(pid)
    answer = next(line for line in program.lines if line.get("id") == "queued")
    assert answer["error"]["code"] == "aborted"
    dropped = [line for line in program.lines if line.get("code") == "prompt_dropped"]
    assert [promised in line["message"] for line in dropped] == [True]


def test_a_message_that_no_run_took_is_reported_and_stays_in_its_session(
    open_rpc: Open, newel: Newel
) -> None:
    """Its command has succeeded, so the program takes it for sent. In another session, it would tell the model about the wrong work."""

    def dropped() -> list[str]:
        told = [line["message"] for line in program.lines if line.get("code") == "prompt_dropped"]
        return [each.split()[3] for each in told]

    program = open_rpc()
    begin_tool(program, newel)
    sent = [program.ask(kind, text="not there")["data"]["messageId"] for kind in ("steer", "follow_up")]
    program.ask("abort")
    assert program.ask("new_session")["success"]
    assert dropped() == sent
    program.ask("prompt", text="hello there")
    program.event("agent_end")
    assert "not there" not in str(newel.requests[-1]["messages"])
    sent.append(program.ask("steer", text="and then")["data"]["messageId"])
    assert program.end() == 0
    assert dropped() == sent


PARENT = """
import sys, anyio
from newel.client import RpcClient

async def main():
    async with RpcClient(cwd=sys.argv[1], command=[sys.argv[2], "rpc"]) as newel:
        events = newel.events()
        await newel.prompt("sleep for long")
        async for event in events:
            if type(event).__name__ == "ToolExecutionUpdate":
                print(newel.pid, flush=True)

anyio.run(main)
"""


def test_when_the_client_is_killed_newel_and_its_tools_end(newel: Newel) -> None:
    command: list[Any] = [sys.executable, "-c", PARENT, newel.project, BIN / "newel"]
    with subprocess.Popen(command, env=newel.environ, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        server = int(parent.stdout.readline())
        (tool,) = read_pids(newel.project / "pid")
        parent.kill()
    assert ends(server)
    assert ends(tool)
