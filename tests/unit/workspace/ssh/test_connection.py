"""If these fail, a broken connection to a host loses requests, repeats changes or leaves processes behind."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import anyio
import msgspec
import pytest

from newel.agent.errors import ConnectionLost, HostUnreachable, StaleFile, WorkspaceError
from newel.workspace.port import ABSENT, WriteResult
from newel.workspace.process.output import OutputLimits
from newel.workspace.ssh.connection import ConnectionOptions, ConnectionState
from newel.workspace.ssh.process import ProcessTimeouts, run_on_host
from newel.workspace.ssh.target import Target
from newel.workspace.ssh.workspace import SshWorkspace
from tests.opened_host import open_host
from tests.processes import is_alive
from tests.sshd import SECONDS, Sshd, served
from tests.tcp_relay import Relay, open_relay

pytestmark = pytest.mark.anyio


class Seen:
    """The states that a connection has reported."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.last = ConnectionState("connecting")

    def __call__(self, state: ConnectionState) -> None:
        self.names.append(state.name)
        self.last = state

    async def until(self, name: str) -> None:
        await until(lambda: self.last.name == name)


async def until(holds: Callable[[], object]) -> None:
    with anyio.fail_after(SECONDS):
        while not holds():  # noqa: ASYNC110 — no event tells of what is waited for
            await anyio.sleep(0.005)


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def relay(sshd: Sshd) -> Generator[Relay]:
    with open_relay(sshd.port) as wire:
        yield wire


@pytest.fixture
async def far(sshd: Sshd, relay: Relay, tmp_path: Path, seen: Seen) -> AsyncGenerator[SshWorkspace]:
    """A host behind a relay that can be cut."""
    config = tmp_path / "ssh_config"
    config.write_text(sshd.client_config(port=relay.port))
    target = Target("own", path=str(tmp_path))
    async with open_host(
        target, config=str(config), lost_after=3, reconnect_timeout=10, on_state=seen
    ) as workspace:
        yield workspace


@pytest.fixture
async def patient(
    sshd: Sshd, relay: Relay, tmp_path: Path, seen: Seen, request: pytest.FixtureRequest
) -> AsyncGenerator[SshWorkspace]:
    """Like ``far``, but a silent host is soon called slow, and is not given up. Each login leaves a line in ``logins``."""
    name = sshd.login(f"counted-{tmp_path.name}", f'echo >>{tmp_path}/logins; eval "$SSH_ORIGINAL_COMMAND"')
    config = tmp_path / "ssh_config"
    config.write_text(sshd.config.read_text().replace(f"Port {sshd.port}", f"Port {relay.port}"))
    target, slow = Target(name, path=str(tmp_path)), getattr(request, "param", 0.5)
    async with open_host(
        target, config=str(config), lost_after=60, slow_after=slow, on_state=seen
    ) as workspace:
        yield workspace


def on(sshd: Sshd) -> AbstractAsyncContextManager[SshWorkspace]:
    return open_host(Target("host"), config=str(sshd.config), reconnect_timeout=10)


class TestLost:
    async def test_a_lost_connection_is_reported_and_the_next_request_reconnects(
        self, far: SshWorkspace, relay: Relay, tmp_path: Path, seen: Seen
    ) -> None:
        (tmp_path / "f").write_bytes(b"x")
        assert await far.read_bytes(f"{tmp_path}/f") == b"x"
        relay.cut()
        await seen.until("lost")
        assert await far.read_bytes(f"{tmp_path}/f") == b"x"
        assert seen.names == ["up", "lost", "connecting", "up"]

    async def test_requests_in_flight_at_a_disconnect_are_repeated(
        self, far: SshWorkspace, relay: Relay, tmp_path: Path
    ) -> None:
        script = f"cd {tmp_path}; >began; until [ -e go ]; do sleep 0.01; done; echo done"
        answers: list[bytes] = []

        async def ask() -> None:
            answers.append((await far.connection.ask(script)).data)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await until((tmp_path / "began").exists)
            relay.cut()
            (tmp_path / "go").touch()
        assert answers == [b"done\n"]

    @pytest.mark.slow  # seconds of waiting
    async def test_a_silent_host_counts_as_disconnected(
        self, far: SshWorkspace, relay: Relay, tmp_path: Path, seen: Seen
    ) -> None:
        with relay.swallowing():
            await seen.until("lost")
        assert await far.list(str(tmp_path / "nothing" / "..")) != []

    async def test_an_unresponsive_host_is_reported_long_before_it_counts_as_disconnected(
        self, patient: SshWorkspace, relay: Relay, tmp_path: Path, seen: Seen
    ) -> None:
        """The waiting user learns the reason. Nothing is given up: the answer arrives when it can."""
        (tmp_path / "f").write_bytes(b"x")
        async with anyio.create_task_group() as tasks:
            with relay.holding():
                tasks.start_soon(patient.read_bytes, f"{tmp_path}/f")
                await seen.until("slow")
            assert re.fullmatch(r"no answer for \d+ s", seen.last.reason)
            await seen.until("up")
        assert set(seen.names) == {"up", "slow"}

    async def test_a_host_that_falls_silent_during_a_command_is_reported_too(
        self, patient: SshWorkspace, relay: Relay, tmp_path: Path, seen: Seen
    ) -> None:
        ended: list[int] = []

        async def run() -> None:
            ended.append((await patient.run("touch begun; until [ -e go ]; do sleep 0.01; done")).exit_code)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await until((tmp_path / "begun").exists)
            with relay.holding():
                await seen.until("slow")
            await seen.until("up")
            (tmp_path / "go").touch()
        assert ended == [0]

    async def test_waiting_for_an_unresponsive_host_can_be_cancelled(
        self, sshd: Sshd, relay: Relay, tmp_path: Path, seen: Seen
    ) -> None:
        """The probe of the host ends with the connection, and reports nothing."""
        config = tmp_path / "ssh_config"
        config.write_text(sshd.client_config(port=relay.port))
        target = Target("own", path=str(tmp_path))
        options = ConnectionOptions(config=str(config), lost_after=60, slow_after=0.3, on_state=seen)
        with contextlib.ExitStack() as silence:
            async with open_host(target, **options) as workspace, anyio.create_task_group() as tasks:
                timing = ProcessTimeouts(grace=0.1, answer=0.1)
                client = msgspec.structs.replace(await workspace.connection.client(), timing=timing)
                run = partial(run_on_host, root=str(tmp_path), limits=OutputLimits())
                tasks.start_soon(run, client, "touch begun; sleep 1000")
                await until((tmp_path / "begun").exists)
                silence.enter_context(relay.holding())
                await seen.until("slow")
                tasks.cancel_scope.cancel()
        assert set(seen.names) <= {"up", "slow"}

    async def test_a_recovered_host_is_not_reported_as_silent_even_without_waiters(
        self, patient: SshWorkspace, relay: Relay, tmp_path: Path, seen: Seen
    ) -> None:
        with relay.holding():
            for _ in range(2):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(patient.stat, str(tmp_path))
                    await anyio.wait_all_tasks_blocked()
                    await seen.until("slow")
                    tasks.cancel_scope.cancel()
        await seen.until("up")
        assert set(seen.names) == {"up", "slow"}

    async def test_the_user_can_cancel_a_command_on_a_silent_host_and_it_ends_there(
        self, patient: SshWorkspace, relay: Relay, tmp_path: Path, seen: Seen
    ) -> None:
        """Otherwise the user waits for a message that cannot arrive."""
        timing = ProcessTimeouts(answer=2 * SECONDS)
        client = msgspec.structs.replace(await patient.connection.client(), timing=timing)
        run = partial(run_on_host, root=str(tmp_path), limits=OutputLimits())
        stays = "trap 'touch ended; exit' TERM; touch begun; while :; do sleep 0.01; done"
        with anyio.fail_after(SECONDS), contextlib.ExitStack() as silence:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run, client, stays)
                await until((tmp_path / "begun").exists)
                silence.enter_context(relay.holding())
                await seen.until("slow")
                tasks.cancel_scope.cancel()
            assert not (tmp_path / "ended").exists()
        await until((tmp_path / "ended").exists)

    @pytest.mark.slow  # seconds of waiting
    @pytest.mark.parametrize("patient", [4], indirect=True)
    async def test_a_host_busy_with_a_long_request_is_not_reported_as_slow(
        self, patient: SshWorkspace, tmp_path: Path, seen: Seen
    ) -> None:
        """Listing a large project may take a while: separate sessions probe the host meanwhile."""
        asked = 2
        waits = f"until [ $(wc -l <{tmp_path}/logins) -gt {asked} ]"
        script = f"n=0; {waits} || [ $((n += 1)) -gt 1000 ]; do sleep 0.01; done; echo done"
        assert (await patient.connection.ask(script)).data == b"done\n"
        assert seen.names == ["up"]

    async def test_an_interrupted_write_changes_nothing_and_reports_it(
        self, far: SshWorkspace, relay: Relay, tmp_path: Path
    ) -> None:
        path = tmp_path / "project" / "f"
        path.parent.mkdir()
        path.write_bytes(b"old")
        failed: list[WorkspaceError] = []

        async def write() -> None:
            with pytest.raises(WorkspaceError, match="was not written") as error:
                await far.write_bytes(str(path), bytes(60_000_000))
            failed.append(error.value)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            await until(lambda: any(each.stat().st_size for each in path.parent.glob(".newel-*.tmp")))
            relay.cut()
        assert failed
        assert path.read_bytes() == b"old"
        await until(lambda: [each.name for each in path.parent.iterdir()] == ["f"])
        await far.write_bytes(str(path), b"new")
        assert path.read_bytes() == b"new"

    async def test_a_write_whose_answer_was_lost_is_recognized_as_done(
        self, far: SshWorkspace, relay: Relay, tmp_path: Path
    ) -> None:
        path = tmp_path / "f"
        written: list[WriteResult] = []

        async def write() -> None:
            written.append(await far.write_bytes(str(path), b"new"))

        async with anyio.create_task_group() as tasks:
            with relay.swallowing(answers_only=True):
                tasks.start_soon(write)
                await until(path.exists)
        assert len(written) == 1
        assert path.read_bytes() == b"new"

    async def test_a_removal_whose_answer_was_lost_is_recognized_as_done(
        self, far: SshWorkspace, relay: Relay, tmp_path: Path
    ) -> None:
        path = tmp_path / "f"
        path.touch()
        async with anyio.create_task_group() as tasks:
            with relay.swallowing(answers_only=True):
                tasks.start_soon(far.remove, str(path))
                await until(lambda: not path.exists())
        assert not path.exists()

    async def test_any_other_change_has_an_unknown_outcome_and_is_not_repeated(
        self, far: SshWorkspace, relay: Relay, tmp_path: Path
    ) -> None:
        async def change() -> None:
            with pytest.raises(ConnectionLost, match="unknown"):
                await far.connection.change(f"echo once >>{tmp_path}/count; sleep 5")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(change)
            await until((tmp_path / "count").exists)
            relay.cut()
        await far.connection.ask(":")
        assert (tmp_path / "count").read_text() == "once\n"

    async def test_a_returning_host_is_used_again_and_one_that_stays_away_is_given_up(
        self, seen: Seen
    ) -> None:
        with served() as server:
            config = str(server.config)
            async with open_host(
                Target("host"), config=config, reconnect_timeout=0.2, on_state=seen
            ) as workspace:
                server.stop()
                with pytest.raises(HostUnreachable, match="no SSH server is listening"):
                    await workspace.stat("/")
                assert seen.last.name == "failed"
                server.start()
                assert await workspace.stat("/") is not None
                assert seen.last.name == "up"

    async def test_a_killed_ssh_is_replaced(self, sshd: Sshd) -> None:
        async with on(sshd) as workspace:
            for pid in children("ssh"):
                os.kill(pid, signal.SIGKILL)
            assert await workspace.stat("/") is not None


class TestRequests:
    async def test_a_request_that_was_given_up_does_not_take_the_next_ones_answer(self, sshd: Sshd) -> None:
        seen = Seen()
        async with on(sshd) as workspace:
            workspace.connection.listeners.append(seen)
            for _ in range(2):
                with anyio.move_on_after(0.05) as given_up:
                    await workspace.connection.ask("sleep 1; echo of the first")
                assert given_up.cancelled_caught
                assert (await workspace.connection.ask("echo of the next")).data == b"of the next\n"
        assert seen.names == [], "the connection stayed"

    async def test_requests_run_one_at_a_time_in_order(self, sshd: Sshd) -> None:
        answers: list[bytes] = []
        async with on(sshd) as workspace:

            async def ask(number: int) -> None:
                answers.append((await workspace.connection.ask(f"echo {number}")).data)

            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(ask, number)
        assert answers == [b"%d\n" % number for number in range(20)]

    async def test_output_that_resembles_the_end_of_an_answer_does_not_end_it(self, sshd: Sshd) -> None:
        async with on(sshd) as workspace:
            key = "0123456789abcdef" * 2
            answer = await workspace.connection.ask(f"printf '\\n{key} 0\\n'; (exit 7)")
            assert answer == (7, f"\n{key} 0\n".encode())

    async def test_a_request_reads_exactly_its_input(self, sshd: Sshd) -> None:
        async with on(sshd) as workspace:
            assert (await workspace.connection.ask("cat")).data == b""
            given = bytes(range(256)) * 5_000
            assert (await workspace.connection.ask(f"head -c {len(given)}", stdin=given)).data == given
            assert (await workspace.connection.ask("echo still in step")).data == b"still in step\n"

    async def test_a_cancelled_write_has_ended_when_the_cancellation_returns(self, sshd: Sshd) -> None:
        """Otherwise it could change a file that another program has written since."""
        project = sshd.project("cancelled")
        async with on(sshd) as workspace:
            for number in range(10):
                with anyio.move_on_after(0.001 * number):
                    await workspace.write_bytes(f"{project}/f", b"x" * 1000)
                before = sorted(project.iterdir())
                await workspace.connection.ask(":")
                assert sorted(project.iterdir()) == before
                (project / "f").unlink(missing_ok=True)


class TestLeavingNothing:
    async def test_closing_leaves_no_process_and_no_socket(self, sshd: Sshd, runtime: Path) -> None:
        environ = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
        async with open_host(Target("host"), config=str(sshd.config), environ=environ) as workspace:
            shell = int((await workspace.connection.ask("echo $$")).data)
            with anyio.move_on_after(0.05):
                await workspace.connection.ask("sleep 0.2")
            await workspace.stat("/")
            assert len(children("ssh")) == 2
            assert modes(runtime) == [0o700]
        assert children("ssh") == []
        assert modes(runtime) == []
        await until(lambda: not is_alive(shell))

    async def test_a_killed_newel_leaves_no_process_and_the_next_one_removes_its_folder(
        self, sshd: Sshd, runtime: Path
    ) -> None:
        environ = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
        async with await anyio.open_process(
            [sys.executable, "-c", OPENS_A_HOST, str(sshd.config)], env=environ
        ) as newel:
            assert newel.stdout is not None
            shell = int(await newel.stdout.receive())
            ssh = children("ssh", of=newel.pid)
            newel.kill()
        assert ssh
        await until(lambda: not any(map(is_alive, (*ssh, shell))))
        await until(lambda: not any(each.is_socket() for each in runtime.rglob("*")))
        async with open_host(Target("host"), config=str(sshd.config), environ=environ):
            assert modes(runtime) == [0o700], "only that of the one that lives"


@pytest.fixture
def runtime() -> Generator[Path]:
    """A folder with a path as short as those of real systems; pytest's are too long for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="newel-ssh-test-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


def modes(folder: Path) -> list[int]:
    return [path.stat().st_mode & 0o777 for path in folder.iterdir()]


OPENS_A_HOST = """
import sys, anyio
from newel.workspace.ssh.process import ProcessTimeouts, run_on_host
from newel.workspace.ssh.target import Target
from tests.opened_host import open_host

async def main():
    async with open_host(Target("host"), config=sys.argv[1]) as workspace:
        print((await workspace.connection.ask("echo $$")).data.decode(), end="", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


def children(name: str, of: int | None = None) -> list[int]:
    """The live processes of a name that a process, or this one, has started."""
    command = ["ps", "-A", "-o", "pid=,ppid=,comm="]
    rows = [
        line.split()
        for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    ]
    return [
        int(row[0])
        for row in rows
        if int(row[1]) == (of or os.getpid()) and row[2] == name and is_alive(int(row[0]))
    ]


async def test_two_hosts_at_once_stay_separate(sshd: Sshd) -> None:
    with served() as other:
        async with on(sshd) as here, on(other) as there:
            assert here.name != there.name
            await there.write_bytes(f"{there.root}/f", b"there")
            assert await here.stat(f"{here.root}/f") is None
            other.drop()
            assert await here.list(here.root) is not None
            assert await there.read_bytes(f"{there.root}/f") == b"there"


async def test_creating_a_file_twice_at_once_fails_for_one_of_the_two(sshd: Sshd) -> None:
    project = sshd.project("created")
    async with on(sshd) as one, on(sshd) as other:
        for number in range(15):
            created: list[str] = []

            async def create(
                workspace: SshWorkspace, text: str, name: str, created: list[str] = created
            ) -> None:
                with contextlib.suppress(StaleFile):
                    await workspace.write_bytes(f"{project}/{name}", text.encode(), expect=ABSENT)
                    created.append(text)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(create, one, "one", str(number))
                tasks.start_soon(create, other, "other", str(number))
            assert created == [(project / str(number)).read_text()]


@pytest.mark.parametrize("path", ["", "~", "~/named", "named", "./named/../named", "{home}/named"])
async def test_a_target_path_is_resolved_from_the_remote_home(sshd: Sshd, path: str) -> None:
    named = sshd.home / "named"
    named.mkdir(exist_ok=True)
    named.chmod(0o755)
    target = Target.parse(f"host:{path.format(home=sshd.home)}")
    async with open_host(target, config=str(sshd.config)) as workspace:
        assert workspace.root == str(named if "named" in path else sshd.home)
        assert workspace.name == f"ssh://{sshd.user}@127.0.0.1:{sshd.port}{workspace.root}"
