"""If these fail, a command breaks out of the sandbox on a host, or real work does not run in it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import anyio
import pytest

from newel.agent.errors import ConnectionLost, WorkspaceError
from newel.app.agent_place import policy_finder, sandboxes_on
from newel.app.sandbox_choice import why_not_on
from newel.config.settings import Flags, Settings, load_settings
from newel.workspace.port import CommandResult
from newel.workspace.sandbox.policy import SandboxMode
from newel.workspace.ssh.connection import SshConnection, connected
from newel.workspace.ssh.process import Client, HostSandboxEnded
from newel.workspace.ssh.sandbox.host_sandbox import START_S, HostSandbox, HostSandboxes, SandboxPlan
from newel.workspace.ssh.target import Target
from newel.workspace.ssh.workspace import SshWorkspace
from tests.processes import ends, is_alive, until_listening
from tests.requirements import require_program
from tests.sshd import Sshd, served
from tests.unit.workspace.sandbox.test_broken_starts import processes_of
from tests.unit.workspace.sandbox.test_sandbox import FORBIDDEN
from tests.unit.workspace.ssh.hosts import SHELLS, wait_for_condition

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,  # a sandbox on a host for each; test_sandbox_on_hosts.py has the quick tests
    pytest.mark.skipif(sys.platform != "linux", reason="the host of the tests is this machine"),
]

require_program("bwrap", "bubblewrap")

PYTHON = "/usr/bin/python3"
"""One that the host's user may run."""


class Place:
    """A home folder on a host, with a project, a key and settings of tools."""

    def __init__(self, server: Sshd) -> None:
        self.server = server
        self.home = server.home
        self.base = server.folder
        self.project = server.home / "src/project"
        for folder in (self.project / ".git/hooks", self.project / ".vscode", self.home / ".ssh"):
            folder.mkdir(parents=True)
        (self.base / "other").mkdir()
        for path, text in {
            self.project / ".git/config": "[core]\n",
            self.home / ".ssh/id_ed25519": "secret key\n",
            self.home / ".bashrc": "",
            self.home / ".newel/copies/x": "",
            self.base / "other/file.txt": "other\n",
            self.home / ".netrc": "secret\n",
        }.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for path in (self.base / "other", *self.home.rglob("*"), *(self.base / "other").iterdir()):
            server.give(path)

    def outside(self) -> dict[str, bytes]:
        """All that lies around the project, and what is protected in it."""
        return {
            str(path): path.read_bytes() if path.is_file() else b""
            for folder in (self.home, self.base / "other")
            for path in folder.rglob("*")
            if self.project not in path.parents or path.is_relative_to(self.project / ".git")
        }


@pytest.fixture
def place() -> Iterator[Place]:
    with served() as server:
        yield Place(server)


class Opened:
    def __init__(self, workspace: SshWorkspace, sandboxes: HostSandboxes) -> None:
        self.workspace = workspace
        self.sandboxes = sandboxes

    async def run(self, command: str, timeout: float = 8) -> CommandResult:  # noqa: ASYNC109 — the workspace's
        return await self.workspace.run(command, timeout=timeout)


def settings_for(place: Place, mode: SandboxMode) -> Settings:
    environ = {"NEWEL_HOME": str(place.base / "newel")}
    return load_settings(Flags(sandbox=mode), cwd=place.project, environ=environ)


@asynccontextmanager
async def opened(
    place: Place, *, who: str = "host", mode: SandboxMode = "workspace"
) -> AsyncGenerator[Opened]:
    target = Target(who, path=str(place.project))
    async with connected(target, config=str(place.server.config)) as connection:
        sandboxes = sandboxes_on(connection, settings_for(place, mode))
        yield Opened(SshWorkspace(connection, sandboxes=sandboxes), sandboxes)


NOT_HELD = {"change the memory of the launcher", "open a file of the launcher"}
"""docs/sandbox.md says so: commands of one sandbox can forge each other's output there, as a shell starts them."""


@pytest.mark.parametrize(
    "who",
    ["host", pytest.param("own", marks=pytest.mark.slow)],  # four seconds of a core for each user
)
async def test_forbidden_acts_fail(place: Place, who: str) -> None:
    """Those of the sandbox on this machine, as an ordinary user and as the one who runs the tests."""
    before = place.outside()
    stranger = subprocess.Popen(  # noqa: ASYNC220 — starting takes no time
        ["sleep", "300"], user=place.server.user if who == "host" and os.geteuid() == 0 else None
    )
    possible: dict[str, object] = {}
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            async with opened(place, who=who) as host:
                for act, template in FORBIDDEN.items():
                    if act in NOT_HELD:
                        continue
                    command = template.replace("{base}/secret.txt", str(place.home / ".netrc"))
                    for name, value in {
                        sys.executable: PYTHON,
                        "{home}": str(place.home),
                        "{base}": str(place.base),
                        "{project}": str(place.project),
                        "{port}": str(server.getsockname()[1]),
                        "{pid}": str(stranger.pid),
                    }.items():
                        command = command.replace(name, value)
                    done = await host.run(command)
                    if done.exit_code in {0, 127} or "secret" in done.stdout or place.outside() != before:
                        possible[act] = done
        assert possible == {}
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


async def test_the_same_acts_succeed_outside(place: Place) -> None:
    """Else the table would prove nothing."""
    target = Target("host", path=str(place.project))
    with socket.create_server(("127.0.0.1", 0)) as server:
        async with connected(target, config=str(place.server.config)) as connection:
            workspace = SshWorkspace(connection)
            for act in (
                "write another folder",
                "read a key",
                "write a hook",
                "reach a server of this machine",
            ):
                command = FORBIDDEN[act].replace("{base}", str(place.base))
                done = await workspace.run(command.replace("{port}", str(server.getsockname()[1])))
                assert done.exit_code == 0, (act, done.stderr)


async def test_nothing_of_newels_own_is_within_reach(place: Place) -> None:
    """Its shells and the sandbox's keeper, its copies of projects, and the files through which it starts commands."""
    async with opened(place) as host:
        for command in (
            "ls ~/.newel",
            "ls -d /tmp/.newel-sandbox-* /tmp/newel-sshd-*/log",
            "touch /run/newel/new",
            "rm /run/newel/orders",
            "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -e '[n]ewel_serve' -e '[k]eeper' -e '[h]eartbeat'",
        ):
            done = await host.run(command)
            assert done.exit_code != 0, (command, done.stdout)
        exchange = Path((await host.sandboxes.of(str(place.project)).ready()).exchange)
        assert exchange.stat().st_mode & 0o777 == 0o700  # noqa: ASYNC240 — once


async def test_real_work_runs(place: Place) -> None:
    async with opened(place) as host:
        for command in (
            "echo made > a.txt && mkdir -p deep/er && mv a.txt deep/er && cat deep/er/a.txt",
            "printf 'all:\\n\\techo built > out.txt\\n' > Makefile && make && cat out.txt",
            "echo x > /tmp/mine && touch ~/.cache-of-mine",
            "cat /tmp/mine && test -e ~/.cache-of-mine",  # by a later command, too
            "rm -rf .git/config || git status --short || true",
        ):
            done = await host.run(command)
            assert done.exit_code == 0, (command, done.stdout, done.stderr)
    assert (place.project / "out.txt").read_text() == "built\n"
    assert not (place.home / ".cache-of-mine").exists()


async def test_read_only_changes_nothing(place: Place) -> None:
    async with opened(place, mode="read-only") as host:
        done = await host.run("touch made; cat .git/config")
    assert "[core]" in done.stdout
    assert not (place.project / "made").exists()


async def test_a_server_in_the_background_answers_the_next_command_and_ends_with_the_session(
    place: Place,
) -> None:
    async with opened(place) as host:
        await host.run(
            f"{PYTHON} -m http.server 8123 >/dev/null 2>&1 & echo $! > server; {until_listening(8123)}"
        )
        ask = f"{PYTHON} -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8123\").status)'"
        done = await host.run(ask)
        assert done.stdout == "200\n", done.stderr
        assert (await host.run("kill $(cat server)")).exit_code == 0
        assert (await host.run(ask)).exit_code != 0
        await host.run("sleep 4321 >/dev/null 2>&1 &")
        assert marked("4321")
    assert not marked("4321")


RESERVED_SIGNALS = 1 << 31 | 1 << 32
"""Signals 32 and 33 as bits of ``SigIgn``: glibc keeps them to itself, and its ``posix_spawn``, by which Python 3.13 starts the tests' SSH
server, leaves them ignored.
"""


def marked(word: str) -> list[int]:
    """The processes of this machine that sleep for so long."""
    found = subprocess.run(["pgrep", "-fx", f"sleep {word}"], capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


@pytest.mark.slow  # seconds of waiting
async def test_output_exit_codes_and_time_limits_are_those_of_a_shell(place: Place) -> None:
    async with opened(place) as host:
        done = await host.run("echo out; echo err >&2; exit 3")
        assert (done.stdout, done.stderr, done.exit_code) == ("out\n", "err\n", 3)
        assert (await host.run("kill -TERM $$")).exit_code == 143
        assert (await host.run("trap 'echo heard' INT; kill -INT $$")).stdout == "heard\n"
        assert (await host.run("head -c 3000000 /dev/zero | tr '\\0' x")).stdout.count("x") > 1000
        whole = await host.run("seq 200000 | md5sum; seq 3000")
        assert whole.stdout.endswith("\n3000\n")
        began = time.monotonic()
        done = await host.run("setsid sleep 4322 & echo begun; sleep 4322", timeout=1.5)
        assert (done.timed_out, done.stdout) == (True, "begun\n")
        assert time.monotonic() - began < 25  # the commands sleep for an hour
        assert not marked("4322")
        ignored = (await host.run("cat /proc/self/status | grep SigIgn")).stdout.split()[1]
        assert int(ignored, 16) & ~RESERVED_SIGNALS == 0


async def test_two_commands_at_once_stay_separate(place: Place) -> None:
    """Each waits for the other's file."""
    said: list[str] = []

    async with opened(place) as host:

        async def run(one: str, other: str) -> None:
            waiting = f"touch {one}; until [ -e {other} ]; do sleep 0.01; done; echo {one}"
            said.append((await host.run(waiting)).stdout)

        async with anyio.create_task_group() as group:
            group.start_soon(run, "a", "b")
            group.start_soon(run, "b", "a")
    assert sorted(said) == ["a\n", "b\n"]


async def test_a_cancelled_command_ends_and_the_sandbox_stays(place: Place) -> None:
    async with opened(place) as host:
        await host.run("sleep 4326 >/dev/null 2>&1 &")
        async with anyio.create_task_group() as group:
            group.start_soon(host.run, "setsid sleep 4327 & echo begun > begun; sleep 4327")
            await wait_for_condition((place.project / "begun").exists, "the command")
            group.cancel_scope.cancel()
        assert not marked("4327")
        assert marked("4326")  # an earlier one's


@pytest.mark.slow  # seconds of waiting
@pytest.mark.parametrize("shell", SHELLS)
async def test_any_sh_of_a_host_will_do(place: Place, shell: str) -> None:
    place.server.bin.mkdir()
    names = ("sh", "cat", "mkfifo", "readlink", "grep", "rm") if shell == "busybox" else ("sh",)
    for name in names:
        (place.server.bin / name).symlink_to(require_program(shell))
    seconds = str(4330 + SHELLS.index(shell))  # the processes of all tests are looked at
    async with opened(place) as host:
        assert await why_not_on(host.sandboxes, str(place.project)) == ""
        done = await host.run(f"printf %s '\"$(x)' \"it's\"; cat ~/.ssh/id_ed25519; sleep {seconds} & exit 4")
        assert (done.stdout, done.exit_code) == ("\"$(x)it's", 4)
        done = await host.run(f"trap '' TERM; sleep {seconds}; sleep {seconds}", timeout=0.5)
        assert done.timed_out
    assert not marked(seconds)


@pytest.mark.slow  # seconds of waiting
@pytest.mark.parametrize("act", ["kill -9 -1", "kill -9 $PPID", "kill -STOP 2; sleep 60"])
async def test_a_command_that_ends_or_stops_the_sandbox_does_not_escape_from_it(
    place: Place, act: str
) -> None:
    """It may, as it has the same user. The next command gets a new one."""
    async with opened(place) as host:
        with contextlib.suppress(HostSandboxEnded):
            assert (await host.run(act, timeout=1)).exit_code != 0
        for _ in range(2):
            with contextlib.suppress(HostSandboxEnded):
                done = await host.run("test -e ~/.ssh || echo confined", timeout=20)
                assert done.stdout == "confined\n"
        assert (await host.run("test -e ~/.ssh || echo confined")).stdout == "confined\n"


async def test_a_protected_file_that_the_user_saves_stays_protected(place: Place) -> None:
    settings = place.project / ".envrc"
    settings.write_text("one\n")
    place.server.give(settings)
    async with opened(place) as host:
        await host.run("true")
        (place.project / ".envrc.new").write_text("two\n")
        (place.project / ".envrc.new").rename(settings)
        place.server.give(settings)
        assert (await host.run("echo evil >> .envrc")).exit_code != 0
    assert settings.read_text() == "two\n"


async def test_a_folder_that_the_user_replaces_is_worked_in(place: Place) -> None:
    """Otherwise commands go on in the old one, which nobody sees any more."""
    shutil.rmtree(place.project)
    place.project.mkdir()
    place.server.give(place.project)
    async with opened(place) as host:
        await host.run("true")
        place.project.rename(place.home / "old")
        place.project.mkdir()
        place.server.give(place.project)
        assert (await host.run("echo x > made")).exit_code == 0
    assert [path.name for path in place.project.iterdir()] == ["made"]


async def test_a_sandbox_with_another_folder_than_was_judged_is_not_used(place: Place) -> None:
    """A process in the sandbox of another conversation can swap a folder for a link into the home folder, which bubblewrap follows."""
    judged, other = place.project / ".github", place.project / "other"
    for folder in (judged / "workflows", other / "workflows"):
        folder.mkdir(parents=True)

    class SwappedMeanwhile:
        """The connection; when the files have been looked at, another process swaps the folder."""

        def __init__(self, connection: SshConnection) -> None:
            self._connection = connection

        def __getattr__(self, name: str) -> object:
            return getattr(self._connection, name)

        async def client(self) -> Client:
            judged.rename(place.project / "away")
            other.rename(judged)
            return await self._connection.client()

    async with opened(place) as host:
        plan = await host.sandboxes.of(str(place.project)).plan()

        async def find_plan() -> SandboxPlan:
            return plan

        sandbox = HostSandbox(cast("SshConnection", SwappedMeanwhile(host.workspace.connection)), find_plan)
        with pytest.raises(WorkspaceError, match="was replaced while it started"):
            await sandbox.ready()


def make_linked_tree(place: Place) -> tuple[Path, Path]:
    """A repository and a linked working tree of it, with a tool and a linked ``.gitconfig`` in the home folder."""
    tool = place.home / ".local/bin/tool"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\necho works\n")
    tool.chmod(0o755)
    (place.home / "dotfiles").mkdir()
    (place.home / "dotfiles/gitconfig").write_text("[user]\n\tname = Somebody\n")
    (place.home / ".gitconfig").symlink_to(place.home / "dotfiles/gitconfig")
    main, tree = place.home / "main repository", place.home / "tree"
    main.mkdir()
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@b"]
    for words in (
        ["init", "-q"],
        ["commit", "-qm", "First", "--allow-empty"],
        ["worktree", "add", "-q", str(tree)],
    ):
        subprocess.run([*git, *words], cwd=main, check=True)
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", place.server.user, str(place.home)], check=True)
    return main, tree


async def test_toolchains_are_found_and_git_reads_in_a_linked_tree(place: Place) -> None:
    main, tree = make_linked_tree(place)
    place.project = tree
    async with opened(place) as host:
        assert (await host.run("~/.local/bin/tool")).stdout == "works\n"
        done = await host.run("git config user.name; umask")
        assert done.stdout.startswith("Somebody\n0022\n"), done
        assert "First" in (await host.run("git log --oneline")).stdout
        assert (await host.run("git commit -qm Second --allow-empty")).exit_code != 0
        assert (await host.run(f"echo x > '{main}/.git/hooks/pre-commit'")).exit_code != 0


async def test_the_self_test_finds_what_is_left_open(place: Place) -> None:
    """A bubblewrap that leaves a way to the network and to processes."""
    real = shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin")
    leaky = place.base / "leaky/bwrap"
    leaky.parent.mkdir()
    leaky.write_text(
        "#!/bin/sh\nshift 2\n"
        "exchange=$(tr '\\0' '\\n' </proc/$PPID/cmdline | grep -m 1 '^/tmp/.newel-sandbox')\n"
        f'exec {real} --bind / / --proc /proc --dev /dev --tmpfs /run --ro-bind "$exchange" /run/newel "$@"\n'
    )
    leaky.chmod(0o755)
    async with connected(
        Target("host", path=str(place.project)), config=str(place.server.config)
    ) as connection:
        find = policy_finder(connection, settings_for(place, "workspace"))
        sandboxes = HostSandboxes(connection, find, programs=str(leaky.parent))
        why = await why_not_on(sandboxes, str(place.project))
    for failure in (
        "The sandbox does not hold on host: ",
        f"files can be created in {place.project}/.git",
        f"{place.home}/.ssh can be seen",
        "the network of the host can be reached",
        "servers of the host can be reached",
        "processes of the host can be reached",
        "system calls are not filtered",
    ):
        assert failure in why, why


@pytest.mark.parametrize("end", ["exit 1", "kill -9 $$"])
async def test_nothing_is_left_of_a_bubblewrap_that_ends_while_it_starts(place: Place, end: str) -> None:
    """Its second process then waits for ever, and holds the session of the connection."""
    broken, never = place.base / "broken/bwrap", place.base / "broken/never"
    broken.parent.mkdir()
    os.mkfifo(never)
    broken.write_text(f"""#!/bin/sh\nsh -c ': <"$0"' {never} &\n{end}\n""")
    for path in (never, broken):
        path.chmod(0o755)
    began = time.monotonic()
    async with connected(
        Target("host", path=str(place.project)), config=str(place.server.config)
    ) as connection:
        sandboxes = HostSandboxes(
            connection,
            policy_finder(connection, settings_for(place, "workspace")),
            programs=str(broken.parent),
        )
        with pytest.raises(WorkspaceError, match="could not be started"):
            await sandboxes.find_failure(str(place.project))
        assert time.monotonic() - began < START_S  # it has not waited for the second one
        assert all(map(ends, processes_of(never)))


async def test_nothing_is_left_when_the_connection_is_lost(place: Place) -> None:
    async with opened(place) as host:
        await host.run("sleep 4324 >/dev/null 2>&1 & setsid sleep 4324 >/dev/null 2>&1 &")
        await wait_for_condition(lambda: len(marked("4324")) == 2, "both processes")
        left = marked("4324")
        place.server.drop()
        await wait_for_condition(lambda: not any(map(is_alive, left)), "the end of what was started")
        with contextlib.suppress(HostSandboxEnded, ConnectionLost):  # it may be the first to notice
            await host.run("true")
        assert (await host.run("test -e ~/.ssh || echo confined")).stdout == "confined\n"


PROGRAM = """
import sys, anyio
from pathlib import Path
from types import SimpleNamespace
from tests.unit.workspace.ssh.test_host_sandbox import opened

async def main():
    place = SimpleNamespace(project=Path(sys.argv[1]), base=Path(sys.argv[2]))
    place.server = SimpleNamespace(config=sys.argv[3])
    async with opened(place) as host:
        await host.run("sleep 4325 >/dev/null 2>&1 & echo begun > begun; sleep 4325", timeout=60)

anyio.run(main)
"""


async def test_nothing_is_left_after_a_kill_of_newel(place: Place) -> None:
    words = [str(place.project), str(place.base), str(place.server.config)]
    with subprocess.Popen([sys.executable, "-c", PROGRAM, *words]) as newel:  # noqa: ASYNC220 — as above
        try:
            await wait_for_condition((place.project / "begun").exists, "the command")
        finally:
            newel.send_signal(signal.SIGKILL)
    pids = marked("4325")
    assert all(map(ends, pids))
