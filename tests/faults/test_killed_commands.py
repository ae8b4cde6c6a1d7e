"""If these fail, commands keep running after Newel is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.forked import Process
from tests.integration.agents.support import after
from tests.processes import is_alive, read_pids
from tests.served import served, wait_until
from tests.support import BIN, Newel, bash, scenario

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only /proc shows what has left its session")

FAMILY = (
    "sleep 1000 & echo $! > one; setsid sh -c 'echo $$ > two; exec sleep 1000' & "
    "env -i setsid sh -c 'echo $$ > four; exec /bin/sleep 1000' < /dev/null > /dev/null 2>&1 & "
    "until [ -s two ] && [ -s four ]; do sleep 0.01; done; echo $$ > three; exec sleep 1000"
)
"""A child in the background, one that has left the session, one that has left its environment too, and the shell itself."""


def family(newel: Newel) -> list[int]:
    """The pids of its processes, once all are known."""
    files = [newel.project / name for name in ("one", "two", "three", "four")]
    wait_until(lambda: read_pids(*files), "the command")
    pids = read_pids(*files)
    for file in files:
        file.unlink()
    return pids


def kill(process: Process, pids: list[int]) -> None:
    """Kill Newel, and check that its processes end."""
    assert all(map(is_alive, pids))
    process.kill()
    process.wait()
    wait_until(lambda: not any(map(is_alive, pids)), "the end of all that was started")


def test_a_command_of_the_model_ends_with_the_terminal_program(newel_with: Callable[..., Newel]) -> None:
    newel = newel_with(scenario("work", bash(FAMILY)))
    with newel.start("work") as process:
        kill(process, family(newel))


def test_a_command_of_the_user_ends_with_the_terminal_program(newel_with: Callable[..., Newel]) -> None:
    newel = newel_with(scenario("work", {"content": "Nothing to do."}))
    with subprocess.Popen(
        [str(BIN / "lsimons-agent")],
        cwd=newel.project,
        env=newel.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(f"!{FAMILY}\n")
        process.stdin.flush()
        kill(process, family(newel))


def test_an_acceptance_command_ends_with_its_agent(newel_with: Callable[..., Newel]) -> None:
    newel = newel_with(after(1, True), scenario("Work", bash("true")))
    with newel.start("agent", "Work", "--accept", FAMILY) as process:
        kill(process, family(newel))


def test_the_commands_of_agents_and_chats_end_with_the_server(newel_with: Callable[..., Newel]) -> None:
    """The restarted server reports them as unknown and repeats none."""
    newel = newel_with(scenario("work", bash(f"echo x >> ran; {FAMILY}"), {"content": "I look first."}))
    with served(newel) as server, server.page() as page:
        page.ask("start", tab=page.ask("openAgent")["tab"], contract={"text": "work"})
        pids = family(newel)
        page.ask("send", tab=page.ask("openChat")["tab"], messageId="m1", text="work")
        pids += family(newel)
        kill(server.process, pids)
    with served(newel):
        wait_until(lambda: len(reported(newel)) >= 2, "what the new server reports to the model")
    assert [result for result in reported(newel) if "unknown" not in result] == []
    assert (newel.project / "ran").read_text() == "x\nx\n"


def reported(newel: Newel) -> list[str]:
    """The results at the end of requests; verdict requests have none."""
    last = [request["messages"][-1] for request in newel.requests]
    return [message["content"] for message in last if message["role"] == "tool"]
