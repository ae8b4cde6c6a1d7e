"""Newel is killed with a command under way: nothing of the command is left, whoever had started it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mock_llm_server import running
from tests.faults.test_workbench_kill import House
from tests.integration.agents.support import after
from tests.support import BIN, Newel, bash, scenario

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only /proc shows what has left its session")

FAMILY = (
    "sleep 1000 & echo $! > one; setsid sh -c 'echo $$ > two; exec sleep 1000' & "
    "until [ -s two ]; do sleep 0.01; done; echo $$ > three; exec sleep 1000"
)
"""A child in the background, one that has left the session, and the shell itself."""


def family(folder: Path) -> list[int]:
    """The numbers of its three processes, as soon as all are there."""
    files = [folder / name for name in ("one", "two", "three")]
    until(lambda: all(file.exists() and file.read_text().strip() for file in files), "the command")
    return [int(file.read_text()) for file in files]


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 8
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


def lives(pid: int) -> bool:
    """Whether a process is more than a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False


def kill(process: subprocess.Popen[str], pids: list[int]) -> None:
    """Kill Newel, and see that it does not go alone."""
    assert all(map(lives, pids))
    process.kill()
    process.wait()
    until(lambda: not any(map(lives, pids)), "the end of all that the command had started")


@pytest.fixture
def newel_with(tmp_path: Path) -> Iterator[Callable[..., Newel]]:
    with ExitStack() as stack:

        def make(*scenarios: dict[str, Any]) -> Newel:
            whole = {"scenarios": [one for each in scenarios for one in each["scenarios"]]}
            return Newel(tmp_path, stack.enter_context(running(whole, strict=True)))

        yield make


def test_a_command_of_the_model_ends_with_the_terminal_program(newel_with: Callable[..., Newel]) -> None:
    newel = newel_with(scenario("work", bash(FAMILY)))
    with newel.start("work") as process:
        kill(process, family(newel.project))


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
        kill(process, family(newel.project))


def test_an_acceptance_command_ends_with_its_agent(newel_with: Callable[..., Newel]) -> None:
    newel = newel_with(after(1, True), scenario("Work", bash("true")))
    with newel.start("agent", "Work", "--accept", FAMILY) as process:
        kill(process, family(newel.project))


def test_the_commands_of_agents_and_chats_end_with_the_server(newel_with: Callable[..., Newel]) -> None:
    """And the server that takes its place reports them as unknown, and runs none of them again."""
    newel = newel_with(scenario("work", bash(f"echo x >> ran; {FAMILY}"), {"content": "I look first."}))
    with ExitStack() as stack:
        house = House(newel, stack)
        process, url = house.start()
        with house.page(url) as page:
            page.ask("start", tab=page.ask("openAgent")["tab"], contract={"text": "work"})
            pids = family(newel.project)
            for file in ("one", "two", "three"):
                (newel.project / file).unlink()
            page.ask("send", tab=page.ask("openChat")["tab"], messageId="m1", text="work")
            pids += family(newel.project)
        kill(process, pids)
        house.start()
        until(lambda: len(newel.requests) >= 4, "what the new server asks")
    ends = [request["messages"][-1]["content"] for request in newel.requests[2:4]]
    assert all("unknown" in end for end in ends)
    assert (newel.project / "ran").read_text() == "x\nx\n"
