"""If these fail, a command breaks out of a partial sandbox, or real work does not run in it, or the docs promise what it does not hold."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio.to_thread
import msgspec
import pytest

from newel.workspace.sandbox.confinement import SandboxError
from newel.workspace.sandbox.landlock import READ, landlock_rules, landlock_version
from newel.workspace.sandbox.partial import PartialConfinement
from newel.workspace.sandbox.policy import SandboxPolicy
from newel.workspace.sandbox.sandbox import Sandbox
from newel.workspace.sandbox.seccomp import MACHINES, partial_filter
from tests.processes import ends, is_alive
from tests.served import wait_until
from tests.unit.workspace.sandbox.test_sandbox import FORBIDDEN, Place, outside_of, python

pytestmark = pytest.mark.anyio

if landlock_version() < 3:
    pytest.skip("this kernel has no Landlock", allow_module_level=True)

DOCS = Path(__file__).parents[4] / "docs/sandbox.md"

SETTINGS = "settings of git and of other tools in the project"
METADATA = "permissions, times and attributes of your files"
NAMES = "names of files, and other processes"

NOT_HELD = {
    "write a hook": SETTINGS,
    "change the configuration of git": SETTINGS,
    "replace the folder of git": SETTINGS,
    "add a task for the editor": SETTINGS,
    "change the permissions of another file": METADATA,
    "see the processes of this machine": NAMES,
    "see that there is a key, by its path": NAMES,
}
"""The forbidden acts that succeed in a partial sandbox, with the row of the docs that says so."""

NOT_TRIED = {
    "Newel and environments, where they are in the project",
    "what your rules deny in the project",
    "the shared memory of this machine",
    "servers that commands start",
    "signals",
}
"""Rows of the docs without an act in the table."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(Path(os.path.realpath(tmp_path)), is_partial=True)
    yield place
    for sandbox in place.opened:
        sandbox.close()


def filled(act: str, place: Place, port: int) -> str:
    command = FORBIDDEN[act]
    for name, value in {
        "{home}": str(place.home),
        "{base}": str(place.base),
        "{project}": str(place.project),
        "{port}": str(port),
        "{pid}": str(os.getpid()),
    }.items():
        command = command.replace(name, value)
    return command


@pytest.mark.parametrize("act", [act for act in FORBIDDEN if act not in NOT_HELD])
async def test_a_forbidden_act_fails(place: Place, act: str) -> None:
    before = outside_of(place)
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = await place.run(filled(act, place, server.getsockname()[1]))
    assert done.exit_code != 0, done.stdout
    assert "secret" not in done.stdout
    assert outside_of(place) == before


@pytest.mark.parametrize("act", NOT_HELD)
async def test_what_it_does_not_hold_is_known(place: Place, act: str) -> None:
    """Else the docs would scare for nothing."""
    assert (await place.run(filled(act, place, 1))).exit_code == 0


def test_the_docs_name_what_it_does_not_hold() -> None:
    _, _, text = DOCS.read_text(encoding="utf-8").partition("## The partial sandbox")
    table = text.partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+?) \|", table, re.MULTILINE)
    assert set(NOT_HELD.values()) <= set(rows)
    assert set(rows) - {"not held", "---"} == set(NOT_HELD.values()) | NOT_TRIED


# -- the network ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
        "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
        "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
        "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)",  # several paths of TCP
        "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)",  # SCTP
        "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)",
        "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
        "socket.socket(43, socket.SOCK_STREAM)",  # SMC
        "socket.socket().sendto(b'x', 0x20000000, ('127.0.0.1', PORT))",  # opens the connection with the first data
        "socket.socket().sendmsg([b'x'], [], 0x20000000, ('127.0.0.1', PORT))",
        "socket.create_connection(('127.0.0.1', PORT))",
        "socket.create_connection(('127.1.2.3', PORT))",
        "socket.create_connection(('0.0.0.0', PORT))",
        "socket.create_connection(('::ffff:127.0.0.1', PORT))",
        "socket.create_connection(('192.0.2.1', 80))",
        "socket.create_connection(('2001:db8::1', 80))",
    ],
)
async def test_other_ways_to_the_network_are_closed(place: Place, code: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        text = code.replace("PORT", str(server.getsockname()[1])).replace("'", '"')
        done = await place.run(python(f"import socket; {text}"))
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert done.exit_code != 0


@pytest.mark.parametrize("kind", ["file", "link", "name"])
async def test_sockets_of_other_programs_are_out_of_reach(place: Place, kind: str) -> None:
    """Such as those of Docker and of the desktop, which run whatever they are asked."""
    address = "\0newel-test" if kind == "name" else str(place.base / "other/socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        wanted = address.replace("\0", "\\0")
        if kind == "link":
            (place.project / "link").symlink_to(address)
            wanted = "link"
        done = await place.run(python(f'import socket; socket.socket(socket.AF_UNIX).connect("{wanted}")'))
    assert done.exit_code != 0
    assert "PermissionError" in done.stderr or "ConnectionRefused" in done.stderr


@pytest.mark.slow  # four seconds of two threads that race
async def test_an_address_that_changes_while_it_is_judged_leads_nowhere_else(place: Place) -> None:
    """The kernel would read it again."""
    code = """
import ctypes, socket, struct, threading, time
libc = ctypes.CDLL(None)
own = socket.create_server(("127.0.0.1", 0))
def address(port): return struct.pack("=H", 2) + struct.pack(">H", port) + b"\\x7f\\0\\0\\1" + bytes(8)
good, bad = address(own.getsockname()[1]), address(PORT)
buffer = ctypes.create_string_buffer(good, 16)
running = True
def swap():
    while running:
        ctypes.memmove(buffer, bad, 16); ctypes.memmove(buffer, good, 16)
threading.Thread(target=swap).start()
end = time.monotonic() + 4
for n in range(300):
    if n > 50 and time.monotonic() > end:
        break  # on a busy machine
    s = socket.socket(); s.setblocking(False)
    libc.connect(s.fileno(), buffer, 16)
    s.close()
running = False
"""
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as server:
        (place.project / "swap.py").write_text(code.replace("PORT", str(server.getsockname()[1])))
        done = await place.run(f"{sys.executable} swap.py")
        assert done.exit_code == 0, done.stderr
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


async def test_its_own_servers_answer_the_next_command(place: Place) -> None:
    done = await place.run(
        f"{sys.executable} -u -m http.server 0 >server.log 2>&1 & "
        "until grep -o 'port [0-9]*' server.log; do sleep 0.02; done"
    )
    (left,) = done.left_running
    port = done.stdout.removeprefix("port ").strip()
    done = await place.run(
        f"{sys.executable} -c 'import urllib.request as u; print(u.urlopen(\"http://localhost:{port}\").status)'"
    )
    assert done.stdout == "200\n", done.stderr
    pid = int(re.findall(r"\d+", left)[-1])
    place.opened[0].close()
    assert ends(pid)


async def test_only_its_own_processes_use_the_port_of_the_proxy(place: Place) -> None:
    """Any user of this machine can connect to a port of the loopback."""
    path = place.base / "proxy.sock"
    with socket.socket(socket.AF_UNIX) as proxy:
        proxy.bind(str(path))
        proxy.listen()
        policy = msgspec.structs.replace(place.policy(), proxy=str(path))
        place.opened.append(Sandbox(lambda: policy, PartialConfinement()))
        port = int((await place.run("echo ${HTTPS_PROXY##*:}")).stdout)
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(b"GET http://example.org/ HTTP/1.1\r\n\r\n")
            proxy.settimeout(0.5)
            with pytest.raises(TimeoutError):
                proxy.accept()

        def answer() -> None:
            proxy.settimeout(10)
            connection, _ = proxy.accept()
            with connection:
                connection.sendall(connection.recv(100).upper())

        thread = threading.Thread(target=answer)
        thread.start()
        code = f'import socket; s = socket.create_connection(("127.0.0.1", {port})); s.sendall(b"hello"); print(s.recv(100))'
        done = await place.run(python(code))
        thread.join()
    assert done.stdout == "b'HELLO'\n", done.stderr


# -- files ------------------------------------------------------------------------------------------


def test_what_is_hidden_has_no_rule(tmp_path: Path) -> None:
    """Nor has a folder above it, whose rights it would have."""
    for name in (
        "a/hidden/x",
        "a/open/y",
        "home/.ssh/key",
        "home/.cargo/bin/cargo",
        "home/.cargo/credentials",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    base = str(tmp_path)
    policy = SandboxPolicy(
        home=f"{base}/home",
        writable=[],
        readable=[f"{base}/home/.cargo", f"{base}/a"],
        hidden=[f"{base}/a/hidden", f"{base}/home/.cargo/credentials"],
    )
    readable = {path for path, rights in landlock_rules(policy, f"{base}/t", 7) if rights == READ}
    assert {f"{base}/a/open", f"{base}/home/.cargo/bin"} <= readable
    hidden = [f"{base}/a/hidden", f"{base}/home/.cargo/credentials", f"{base}/home/.ssh"]
    assert not any(
        path == rule or path.startswith(f"{rule.rstrip('/')}/") for path in hidden for rule in readable
    )


async def test_the_self_test_finds_nothing(place: Place) -> None:
    assert await anyio.to_thread.run_sync(place.sandbox().test) == []


async def test_the_self_test_finds_a_secret_that_cannot_be_hidden(place: Place) -> None:
    """In a project that is a home folder, for one."""
    policy = msgspec.structs.replace(place.policy(), writable=[str(place.home)])
    place.opened.append(Sandbox(lambda: policy, PartialConfinement()))
    closed = msgspec.structs.replace(policy, hidden=[str(place.home / ".ssh")])
    failures = await anyio.to_thread.run_sync(place.opened[0].test_against, closed)
    assert f"{place.home}/.ssh can be read" in failures


@pytest.mark.slow  # a second of a core
async def test_real_work_runs(place: Place) -> None:
    (place.project / "test_it.py").write_text(
        "import multiprocessing\n\n"
        "def test_it(tmp_path):\n    (tmp_path / 'a').write_text('b')\n"
        "    with multiprocessing.Manager() as manager, multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "        assert manager.list(pool.map(abs, [-1, 2]))[0] == 1\n"
    )
    for command in (
        "echo made > a.txt && mkdir -p deep/er && mv a.txt deep/er && cat deep/er/a.txt > /dev/null",
        f"{sys.executable} -m pytest -q -p no:cacheprovider test_it.py",
        "rm -r .git && git init -q && git add deep && git -c user.name=A -c user.email=a@b commit -qm One && git log",
        "printf 'all:\\n\\techo built > out.txt\\n' > Makefile && make && cat out.txt",
        "f=$(mktemp) && echo x > $f && touch ~/.cache-of-mine && cat ~/src/project/out.txt",
        "cat /etc/passwd /proc/cpuinfo /proc/self/status > /dev/null",
        "find . -name '*.py' | xargs grep -l def",
    ):
        done = await place.run(command)
        assert done.exit_code == 0, (command, done.stdout, done.stderr)
    assert not (place.home / ".cache-of-mine").exists()


async def test_root_works_on_a_project_of_another_user(place: Place) -> None:
    """As in a container, into which a folder of the host is mounted."""
    if os.geteuid() != 0:
        pytest.skip("only root can")
    for path in (place.project, *place.project.rglob("*")):
        os.chown(path, 54321, 54321)
    place.project.chmod(0o755)
    done = await place.run("echo made > a.txt; date -s 2001-01-01; cat a.txt")
    assert done.stdout.endswith("made\n"), done.stderr
    assert "Operation not permitted" in done.stderr


# -- its end ----------------------------------------------------------------------------------------


@pytest.mark.slow  # seconds of waiting
@pytest.mark.parametrize("end", ["close", "killed from inside", "stopped from inside"])
async def test_nothing_outlives_it(place: Place, end: str) -> None:
    sleeps = f"sleep {290 + len(end)}"  # each of these tests has its own
    begun = f"until pgrep -fx '{sleeps}' >/dev/null; do sleep 0.02; done"
    done = await place.run(f"setsid setsid {sleeps} >/dev/null 2>&1 & echo $! $TMPDIR; {begun}")
    (line,) = [each for each in done.left_running if "sleep" in each]
    pid, temporary = int(re.findall(r"\d+", line)[-1]), Path(done.stdout.split()[1])
    assert is_alive(pid)
    if end == "close":
        place.opened[0].close()
    else:
        name = "KILL" if end.startswith("killed") else "STOP"
        with contextlib.suppress(SandboxError):
            await place.run(f"kill -{name} $PPID; sleep 5")
        with contextlib.suppress(SandboxError):
            await place.run("true")
    wait_until(lambda: not is_alive(pid), "the end of the process")
    wait_until(lambda: not temporary.exists(), "the end of its files")
    assert (await place.run("cat ~/.ssh/id_ed25519 || echo confined")).stdout == "confined\n"


async def test_a_command_cannot_stop_what_judges_it(place: Place) -> None:
    """Nor end Newel, the watchdog, or any process outside."""
    (supervisor,) = (await place.run("ps -o ppid= -p $PPID")).stdout.split()
    done = await place.run(f"kill -9 {supervisor} || kill -STOP {os.getpid()}")
    assert done.exit_code != 0
    with contextlib.suppress(SandboxError):
        await place.run("kill -9 -1")
    with subprocess.Popen(["sleep", "60"]) as process:  # noqa: ASYNC220 — it only has to live
        with contextlib.suppress(SandboxError):
            await place.run("kill -9 -1; true")
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_filter_is_whole_instructions(machine: str) -> None:
    program = partial_filter(machine)
    assert len(program) % 8 == 0
    assert program[-8:] == b"\x06\0\0\0\0\0\xff\x7f"
    assert len(program) // 8 < 256
