"""If these fail, commands on a host outlive the connection or Newel, or their outcome is reported wrongly."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import anyio
import msgspec
import pytest

from newel.agent.errors import ConnectionLost
from newel.workspace.process.output import OutputLimits
from newel.workspace.ssh.connection import SshConnection, connected
from newel.workspace.ssh.process import ProcessTimeouts, run_on_host, run_program_on_host
from newel.workspace.ssh.target import Target
from tests.processes import is_alive, read_pids
from tests.served import wait_until
from tests.sshd import SECONDS, Sshd, served
from tests.tcp_relay import open_relay
from tests.unit.workspace.ssh.hosts import FAMILY, end_members, members, wait_for_condition

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="only /proc shows what has left its session"),
]

LIMITS = OutputLimits()
COUNTED = f"echo begun; echo ran >> runs\n{FAMILY}"
TIMING = ProcessTimeouts(beat=0.05, grace=0.2, answer=0.5)

PROGRAM = """
import sys
import anyio
from newel.workspace.ssh.target import Target
from tests.opened_host import open_host

async def main():
    target = Target("host", path=sys.argv[1])
    async with open_host(target, config=sys.argv[2]) as workspace:
        await workspace.run(sys.argv[3])

anyio.run(main)
"""


SUSPENDED = """
import sys
import anyio
import msgspec
from newel.agent.errors import ConnectionLost
from newel.workspace.process.output import OutputLimits
from newel.workspace.ssh.connection import connected
from newel.workspace.ssh.process import ProcessTimeouts, run_on_host
from newel.workspace.ssh.target import Target

async def main():
    async with connected(Target("host"), config=sys.argv[2]) as connection:
        timing = ProcessTimeouts(beat=0.2, silence=1, grace=0.2)
        client = msgspec.structs.replace(await connection.client(), timing=timing)
        try:
            print(await run_on_host(client, sys.argv[3], root=sys.argv[1], limits=OutputLimits()))
        except ConnectionLost as lost:
            print(lost)

anyio.run(main)
"""


@pytest.fixture
def project(sshd: Sshd, request: pytest.FixtureRequest) -> Path:
    return sshd.project(request.node.name)


class Family(NamedTuple):
    """The processes of a command, and the error with which it ended."""

    pids: list[int]
    errors: list[ConnectionLost]

    async def ended(self) -> None:
        await wait_for_condition(lambda: not any(map(is_alive, self.pids)), "the end of all that was started")


@asynccontextmanager
async def started(
    connection: SshConnection, project: Path, timing: ProcessTimeouts = TIMING
) -> AsyncGenerator[Family]:
    """A command whose processes have all started."""
    errors: list[ConnectionLost] = []

    async def run() -> None:
        client = msgspec.structs.replace(await connection.client(), timing=timing)
        try:
            await run_on_host(client, COUNTED, root=str(project), limits=LIMITS)
        except ConnectionLost as lost:
            errors.append(lost)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        try:
            await wait_for_condition(lambda: members(project), "the family")
            family = Family(members(project), errors)
            assert all(map(is_alive, family.pids))
            yield family
        finally:
            end_members(project)
            group.cancel_scope.cancel()


def kill_ssh(words: str) -> None:
    """Kill the ssh that this process started with these arguments."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    (pid,) = (pid for pid in children if words.encode() in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(int(pid), signal.SIGKILL)


GOES: dict[str, Callable[[Sshd], None]] = {
    "the server": Sshd.drop,
    "the connection's ssh": lambda _: kill_ssh("ControlMaster=yes"),
    "the command's ssh": lambda _: kill_ssh("ProxyCommand=false\0"),
}


@pytest.mark.parametrize("what", GOES)
async def test_a_command_ends_with_its_connection_and_its_outcome_is_unknown(
    what: str, sshd: Sshd, project: Path
) -> None:
    """And it is not repeated."""
    async with (
        connected(Target("host"), config=str(sshd.config)) as connection,
        started(connection, project) as family,
    ):
        GOES[what](sshd)
        await family.ended()
        await wait_for_condition(lambda: family.errors, "the error")
    assert re.search("unknown.*not run again.*\nIts output so far:\nbegun\n", str(family.errors[0]))
    assert (project / "runs").read_text() == "ran\n"


async def test_a_command_ends_when_the_network_drops_everything(
    sshd: Sshd, project: Path, tmp_path: Path
) -> None:
    """The end of the connection never gets through."""
    with open_relay(sshd.port) as relay, ExitStack() as silence:
        config = tmp_path / "config"
        config.write_text(sshd.client_config(port=relay.port))
        async with connected(Target("host"), config=str(config)) as connection:
            brief = msgspec.structs.replace(TIMING, silence=1.5)
            async with started(connection, project, brief) as family:
                silence.enter_context(relay.swallowing())
                await family.ended()
            assert (
                connection.state.name == "up"
            )  # it cannot be known here yet, and the cancelled command has ended
            silence.close()


def test_a_command_ends_with_newel(sshd: Sshd, project: Path) -> None:
    words = [sys.executable, "-c", PROGRAM, str(project), str(sshd.config), FAMILY]
    with subprocess.Popen(words) as newel:
        try:
            wait_until(lambda: members(project), "the family")
            pids = members(project)
            assert all(map(is_alive, pids))
            newel.kill()
            wait_until(lambda: not any(map(is_alive, pids)), "the end of all that was started")
        finally:
            newel.kill()
            end_members(project)


def test_a_long_suspension_is_reported_as_ending_the_command(sshd: Sshd, project: Path) -> None:
    """As with Ctrl+Z and fg, however the command ended: a successful end would be believed."""
    command = "trap 'exit 0' TERM; echo begun; echo $$ > shell; sleep 1000 & wait"
    words = [sys.executable, "-c", SUSPENDED, str(project), str(sshd.config), command]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as newel:
        try:
            wait_until(lambda: read_pids(project / "shell"), "the command")
            [pid] = read_pids(project / "shell")
            newel.send_signal(signal.SIGSTOP)
            wait_until(lambda: not is_alive(pid), "the end of the command")
            newel.send_signal(signal.SIGCONT)
            said, _ = newel.communicate(timeout=SECONDS)
        finally:
            newel.kill()
    assert said.startswith("Newel sent no heartbeat for 1 seconds, perhaps because it was suspended")
    assert "Its outcome is unknown and it was not run again" in said
    assert said.endswith("Its output so far:\nbegun\n\n")


async def test_commands_beyond_the_hosts_limit_wait_for_each_other() -> None:
    """Most servers allow ten sessions per connection, this one three; one is the connection's own shell."""
    said: list[str] = []
    with served("MaxSessions 3") as server:
        async with connected(Target("own"), config=str(server.config)) as connection:

            async def run(number: int) -> None:
                done = await run_on_host(
                    await connection.client(), f"sleep 0.1; echo {number}", root="/", limits=LIMITS
                )
                said.append(done.stdout)

            async with anyio.create_task_group() as group:
                for number in range(6):
                    group.start_soon(run, number)
    assert sorted(said) == [f"{number}\n" for number in range(6)]


async def test_background_processes_of_a_command_stay_and_are_not_awaited(sshd: Sshd) -> None:
    async with connected(Target("host"), config=str(sshd.config)) as connection:
        client = await connection.client()
        done = await run_on_host(client, "sleep 1000 & echo $!", root="/", limits=LIMITS)
    pid = int(done.stdout)
    try:
        assert done.left_open
        assert is_alive(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


async def test_a_program_reads_any_bytes_and_its_output_is_passed_on_unchanged(sshd: Sshd) -> None:
    data = os.urandom(3_000_000)
    pieces: list[bytes] = []

    async def on_stdout(piece: bytes) -> None:
        pieces.append(piece)

    async with connected(Target("host"), config=str(sshd.config)) as connection:
        done = await run_program_on_host(
            await connection.client(), ["sh", "-c", "cat; exit 255"], stdin=data, on_stdout=on_stdout
        )
    assert done.exit_code == 255
    assert b"".join(pieces) == data
