"""If these fail, a command breaks out of the sandbox, or real work does not run in it."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import anyio.to_thread
import pytest

from newel.workspace.local import LocalWorkspace
from newel.workspace.port import CommandResult
from newel.workspace.process.process_mark import new_mark
from newel.workspace.sandbox.confinement import BubblewrapConfinement, SandboxError
from newel.workspace.sandbox.partial import PartialConfinement
from newel.workspace.sandbox.policy import SETTINGS_OF_TOOLS, SandboxPolicy
from newel.workspace.sandbox.sandbox import Sandbox
from newel.workspace.sandbox.seccomp import MACHINES, seccomp_filter
from tests.processes import ends, read_proc, until_listening
from tests.requirements import require_program

pytestmark = pytest.mark.anyio

require_program("bwrap", "bubblewrap")


class Place:
    """A home folder with a project, a key and a server beside it, and a sandbox for the project's commands."""

    def __init__(self, base: Path, *, is_partial: bool = False) -> None:
        self.base = base
        self.is_partial = is_partial
        self.confinement = PartialConfinement() if is_partial else BubblewrapConfinement()
        self.home = base / "home"
        self.project = self.home / "src" / "project"
        for folder in (
            self.project / ".git/hooks",
            self.project / ".vscode",
            self.home / ".ssh",
            base / "other",
        ):
            folder.mkdir(parents=True)
        (self.project / ".git/config").write_text("[core]\n")
        (self.home / ".ssh/id_ed25519").write_text("secret key\n")
        (self.home / ".bashrc").write_text("")
        (base / "other/file.txt").write_text("other\n")
        (base / "secret.txt").write_text("secret\n")
        self.opened: list[Sandbox] = []

    def policy(self) -> SandboxPolicy:
        protected = [str(self.project / name) for name in SETTINGS_OF_TOOLS]
        return SandboxPolicy(
            home=str(self.home),
            writable=[str(self.project)],
            readable=[sys.base_prefix, sys.prefix],
            protected=[] if self.is_partial else protected,
            watched=protected if self.is_partial else [],
            is_partial=self.is_partial,
            hidden=[str(self.base / "secret.txt")],
        )

    def sandbox(self) -> Sandbox:
        if not self.opened:
            self.opened.append(Sandbox(self.policy, self.confinement))
        return self.opened[0]

    async def run(self, command: str, **environ: str) -> CommandResult:
        workspace = LocalWorkspace(
            str(self.project),
            environ=dict(os.environ) | {"HOME": str(self.home)} | environ,
            find_launcher=lambda _: self.sandbox(),
        )
        return await workspace.run(command, timeout=20)

    async def outside(self, command: str) -> CommandResult:
        return await LocalWorkspace(str(self.project), environ=os.environ | {"HOME": str(self.home)}).run(
            command, timeout=20
        )


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(Path(os.path.realpath(tmp_path)))
    yield place
    for sandbox in place.opened:
        sandbox.close()


def python(code: str) -> str:
    return f"{sys.executable} -c '{code}'"


def call(name: str, arguments: str = "0, 0, 0, 0, 0") -> str:
    """A system call by its number; succeeds unless it is refused with EPERM."""
    number = MACHINES[os.uname().machine].calls[name]
    return python(
        f"import ctypes, sys; libc = ctypes.CDLL(None, use_errno=True); "
        f"sys.exit(libc.syscall({number}, {arguments}) == -1 and ctypes.get_errno() == 1)"
    )


FORBIDDEN = {
    "write a file of the system": "touch /etc/newel-test",
    "write a program": "touch /usr/bin/newel-test",
    "write into the root": "touch /newel-test",
    "write beside the project": "echo x > ../beside.txt; exit 1",
    "write another folder": "touch {base}/other/new.txt",
    "change another file": "echo x >> {base}/other/file.txt",
    "remove another file": "rm {base}/other/file.txt",
    "rename the project": "mv {project} {home}/src/moved",
    "remove the project": "rmdir {project}",
    "read a key": "cat ~/.ssh/id_ed25519",
    "see that there is a key": "test -e ~/.ssh",
    "read a start-up file": "test -e ~/.bashrc",
    "read a hidden file": "grep secret {base}/secret.txt",
    "write a hidden file": "echo x > {base}/secret.txt; grep secret {base}/secret.txt",
    "reach a key through the root of a process": "cat /proc/1/root{home}/.ssh/id_ed25519",
    "reach a key through its own root": "cat /proc/self/root{home}/.ssh/id_ed25519",
    "reach a key by a link": "ln -s {home}/.ssh/id_ed25519 l && cat l",
    "make a hard link of another file": "ln {base}/other/file.txt hard",
    "write a hook": "echo x > .git/hooks/pre-commit",
    "change the configuration of git": "git config core.pager evil || echo x >> .git/config",
    "replace the folder of git": "mv .git .git2",
    "add a task for the editor": "echo x > .vscode/tasks.json",
    "mount over the folder of git": "mount -t tmpfs none .git",
    "bind the project elsewhere": "mount --bind . /mnt",
    "remount the root": "mount -o remount,rw /",
    "unmount the protection": "umount .git",
    "make a user namespace": "unshare -U true",
    "make a mount namespace": "unshare -m true",
    "join the namespaces of init": "nsenter -t 1 -m true",
    "change the root": "chroot / true",
    "trace a process": call("ptrace", "16, 1, 0, 0"),
    "read the memory of a process": call("process_vm_readv"),
    "change the memory of the launcher": ": <> /proc/$PPID/mem",
    "open a file of the launcher": "ls /proc/$PPID/fd/0",
    "use keys of the kernel": call("keyctl", "0, -3, 0, 0, 0"),
    "load a program into the kernel": call("bpf"),
    "watch the processor": call("perf_event_open"),
    "ask for io_uring": call("io_uring_setup"),
    "open a file by its handle": call("open_by_handle_at"),
    "mount by the new calls": call("fsopen"),
    "take a descriptor of a process": call("pidfd_getfd"),
    "type into the terminal": python('import fcntl, termios; fcntl.ioctl(0, 0x5412, b"x")'),
    "open a packet socket": python("import socket; socket.socket(17, 3, 3)"),
    "open a socket of the host": python("import socket; socket.socket(40, 1)"),
    "reach a server of this machine": "echo > /dev/tcp/127.0.0.1/{port}",
    "reach the metadata of a cloud": "timeout 2 bash -c 'echo > /dev/tcp/169.254.169.254/80'",
    "look up a name": python('import socket; socket.getaddrinfo("example.org", 80)'),
    "see the processes of this machine": "test -d /proc/{pid}",
    "end a process of this machine": "kill -9 {pid}",
    "make a device": "mknod disk b 8 0",
    "read a disk": "head -c 1 /dev/sda || head -c 1 /dev/vda",
    "read the memory of the machine": "head -c 1 /dev/mem || head -c 1 /proc/kcore",
    "set the clock": "date -s 2001-01-01",
    "change a setting of the kernel": "(: >> /proc/sys/kernel/core_pattern) && echo open",
    # But for what tells only the one who opens it of a load.
    "change anything of the kernel": python(
        'import os; ways = [f"{folder}/{name}" for top in os.listdir("/proc") if not top.isdigit() and top not in ("self", "thread-self", "pressure") '
        'for folder, _, names in [*os.walk(f"/proc/{top}"), ("/proc", (), [top])] for name in names]; '
        "[os.close(os.open(way, os.O_WRONLY | os.O_NONBLOCK)) or print(way) for way in ways if os.access(way, os.W_OK)]"
    )
    + " | grep /proc",
    "write a control group": "mkdir /sys/fs/cgroup/newel-test",
    "leave its control group": "for file in $(find /sys/fs/cgroup -name cgroup.procs); do echo $$ > $file && exit; done; exit 1",
    "gain rights by a program of root": "chmod u+s /bin/true",
    "change the permissions of another file": "chmod 600 {base}/other/file.txt",
    "limit a process of this machine": "prlimit --cpu=1000000 --pid {pid}",
    "see that there is a key, by its path": "test -e {home}/.ssh/id_ed25519",
    "make a namespace by another call": python(
        "import ctypes, os, sys; "
        f"pid = ctypes.CDLL(None).syscall({56 if os.uname().machine == 'x86_64' else 220}, 0x10000011, 0, 0, 0, 0); "
        "os._exit(0) if pid == 0 else sys.exit(pid < 0)"
    ),
}


def outside_of(place: Place) -> dict[str, bytes]:
    """All that lies around the project, and what is protected in it."""
    return {
        str(path): path.read_bytes() if path.is_file() else b""
        for path in place.base.rglob("*")
        if place.project not in path.parents or path.is_relative_to(place.project / ".git")
    }


@pytest.mark.parametrize("act", FORBIDDEN)
async def test_a_forbidden_act_fails(place: Place, act: str) -> None:
    before = outside_of(place)
    with socket.create_server(("127.0.0.1", 0)) as server:
        values = {
            "{home}": str(place.home),
            "{base}": str(place.base),
            "{project}": str(place.project),
            "{port}": str(server.getsockname()[1]),
            "{pid}": str(os.getpid()),
        }
        command = FORBIDDEN[act]
        for name, value in values.items():
            command = command.replace(name, value)
        done = await place.run(command)
    assert done.exit_code != 0, done.stdout
    assert "secret" not in done.stdout
    assert outside_of(place) == before


@pytest.mark.parametrize(
    "act",
    [
        "write another folder",
        "read a key",
        "write a hook",
        "reach a server of this machine",
        "see the processes of this machine",
    ],
)
async def test_the_same_act_succeeds_outside(place: Place, act: str) -> None:
    """Else the table above would prove nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = FORBIDDEN[act].replace("{base}", str(place.base)).replace("{pid}", str(os.getpid()))
        done = await place.outside(command.replace("{port}", str(server.getsockname()[1])))
    assert done.exit_code == 0, done.stderr


async def test_a_protected_file_that_the_user_saves_stays_protected(place: Place) -> None:
    """Editors replace files, and what is mounted on a file is gone with it."""
    settings = place.project / ".envrc"
    settings.write_text("one\n")
    await place.run("true")
    (place.project / ".envrc.new").write_text("two\n")
    (place.project / ".envrc.new").rename(settings)
    done = await place.run("echo evil >> .envrc")
    assert done.exit_code != 0
    assert settings.read_text() == "two\n"


@pytest.mark.parametrize("name", [".envrc", ".vscode"])
async def test_a_link_in_circles_stops_no_command(place: Place, name: str) -> None:
    """Anybody can put one into a project, also a command, for the next conversation."""
    (place.project / ".vscode").rmdir()
    (place.project / name).symlink_to(name)
    done = await place.run("echo fine")
    assert (done.exit_code, done.stdout) == (0, "fine\n")


async def test_real_work_runs(place: Place) -> None:
    (place.project / "test_it.py").write_text(
        "def test_it(tmp_path):\n    (tmp_path / 'a').write_text('b')\n"
    )
    for command in (
        "echo made > a.txt && mkdir -p deep/er && mv a.txt deep/er && cat deep/er/a.txt",
        f"{sys.executable} -m pytest -q -p no:cacheprovider test_it.py",
        "git status --short; git log || true",
        "printf 'all:\\n\\techo built > out.txt\\n' > Makefile && make && cat out.txt",
        "echo x > /tmp/mine && cat /tmp/mine && touch ~/.cache-of-mine",
        "find . -name '*.py' | xargs grep -l def",
    ):
        done = await place.run(command)
        assert done.exit_code == 0, (command, done.stdout, done.stderr)
    assert (place.project / "out.txt").read_text() == "built\n"
    assert not (place.home / ".cache-of-mine").exists()


async def test_a_server_in_the_background_answers_the_next_command_and_ends_with_the_sandbox(
    place: Place,
) -> None:
    done = await place.run(f"{sys.executable} -m http.server 8123 >/dev/null 2>&1 & {until_listening(8123)}")
    (left,) = done.left_running
    pid = int(re.findall(r"\d+", left)[-1])
    done = await place.run(
        f"{sys.executable} -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8123\").status)'"
    )
    assert done.stdout == "200\n", done.stderr
    place.opened[0].close()
    assert ends(pid)


async def test_the_next_command_ends_a_server_by_the_number_in_the_result(place: Place) -> None:
    """Models do; they would kill another process, or none."""
    done = await place.run("sleep 300 >/dev/null 2>&1 &")
    (left,) = done.left_running
    inside, pid = (int(number) for number in re.findall(r"\d+", left.rpartition("(")[2]))
    assert (await place.run(f"kill {inside}")).exit_code == 0
    assert ends(pid)


async def test_output_exit_codes_and_time_limits_are_those_of_a_shell(place: Place) -> None:
    done = await place.run("echo out; echo err >&2; exit 3")
    assert (done.stdout, done.stderr, done.exit_code) == ("out\n", "err\n", 3)
    assert (await place.run("kill -TERM $$")).exit_code == 143
    assert (await place.run("head -c 30000000 /dev/zero | tr '\\0' x | tail -c 1")).stdout == "x"
    workspace = LocalWorkspace(str(place.project), find_launcher=lambda _: place.sandbox())
    began = time.monotonic()
    done = await workspace.run("setsid sleep 300 & echo begun; sleep 300", timeout=1.5)
    assert (done.timed_out, done.stdout) == (True, "begun\n")
    assert time.monotonic() - began < 25  # the commands sleep for 300 s


async def test_a_program_whose_reader_has_gone_ends_silently(place: Place) -> None:
    """As in every shell: `git log | head` is no error."""
    done = await place.run("yes | head -n 1; echo ${PIPESTATUS[0]}")
    assert (done.stdout, done.stderr) == ("y\n141\n", "")


@pytest.mark.parametrize("text", ["x" * 120_000, "中" * 40_000, "\\n" * 50_000])
async def test_a_long_command_arrives_whole(place: Place, text: str) -> None:
    """A packet of the system holds about 200 KB, escapes included."""
    done = await place.run(f": '{text}'; printf done")
    assert done.stdout == "done"


async def test_a_program_that_is_missing_is_an_error(place: Place) -> None:
    with pytest.raises(OSError, match="nosuch"):
        place.sandbox().start(["/nosuch"], cwd="/", env={}, streams=(0, 1, 2), mark="0" * 32)


async def test_a_missing_program_is_named_as_it_was_called(place: Place) -> None:
    cwd, env = str(place.project), {"PATH": os.defpath}
    with pytest.raises(FileNotFoundError) as refused:
        place.sandbox().start(["no-such-program"], cwd=cwd, env=env, streams=(0, 1, 2), mark="0" * 16)
    assert refused.value.filename == "no-such-program"


async def test_a_command_that_ends_the_sandbox_does_not_escape_from_it(place: Place) -> None:
    """It can end the launcher, which has its user. The next command gets a new sandbox."""
    with contextlib.suppress(SandboxError):  # it may end it before it is known to have begun
        assert (await place.run("kill -9 -1; echo alive")).exit_code != 0
    for _ in range(3):
        done = await place.run("test -e ~/.ssh || echo confined")
        assert done.stdout == "confined\n"


@pytest.mark.slow  # seconds of waiting
async def test_a_command_that_stops_the_launcher_stops_nothing_else(place: Place) -> None:
    began = time.monotonic()
    with contextlib.suppress(SandboxError):
        await place.run("kill -STOP $PPID")
    done = await place.run("echo confined")
    if done.exit_code:  # the stopped one has just been given up
        done = await place.run("echo confined")
    assert done.stdout == "confined\n"
    assert time.monotonic() - began < 15


async def test_it_starts_before_its_first_command_is_there(place: Place) -> None:
    """The user waits for the command, and not for the model meanwhile."""
    place.sandbox().prepare()
    with anyio.fail_after(10):
        while not sandboxes():  # noqa: ASYNC110 — nothing tells of it
            await anyio.sleep(0.01)
    (one,) = sandboxes()
    time.sleep(0.2)  # noqa: ASYNC251 — for what should not happen: it ends with the thread that starts it
    assert (await place.run("echo confined")).stdout == "confined\n"
    place.sandbox().prepare()
    await place.run("true")
    assert sandboxes() == [one]


async def test_what_is_made_while_it_starts_is_protected_from_the_first_command(place: Place) -> None:
    """A copy of the project gets its repository at that time."""
    place.sandbox().prepare()
    with anyio.fail_after(10):
        while not sandboxes():  # noqa: ASYNC110 — nothing tells of it
            await anyio.sleep(0.01)
    await anyio.sleep(0.2)
    (place.project / ".idea").mkdir()
    assert (await place.run("echo evil > .idea/new.xml")).exit_code != 0
    assert (await place.run("mkdir .claude; echo > .claude/new; sleep 300 >/dev/null 2>&1 &")).exit_code == 0
    before = sandboxes()
    await place.run("true")
    assert sandboxes() == before  # what a command makes itself ends no server that it has started


async def test_a_command_that_cannot_be_followed_does_not_run_on(place: Place) -> None:
    """It would change files after its result has said that it failed, and nobody would record that."""
    await place.run("true")
    late = place.project / "late"
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)  # the lowest that is free
    os.close(free)
    # There is room for the request, and then for the process, but not for a look at the process.
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, limits[1]))
    try:
        with pytest.raises(SandboxError, match="could not be followed"):
            place.sandbox().start(
                ["sh", "-c", "sleep 0.2; echo > late"],
                cwd=str(place.project),
                env={"PATH": os.defpath},
                streams=(0, 1, 2),
                mark="0" * 16,
            )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    await anyio.sleep(0.4)
    assert not late.exists()
    assert (await place.run("echo a new one")).stdout == "a new one\n"


async def test_one_that_is_closed_while_it_starts_does_not_stay(place: Place) -> None:
    for _ in range(5):
        place.sandbox().prepare()
        place.sandbox().close()
    time.sleep(0.3)  # noqa: ASYNC251 — for what should not happen
    assert sandboxes() == []


def sandboxes() -> list[int]:
    """The processes of bubblewrap that this one has started, in any thread."""
    tasks = Path("/proc/self/task").glob("*/children")
    pids = [int(pid) for task in tasks for pid in task.read_text().split()]
    return [pid for pid in pids if read_proc(pid, "comm") == "bwrap\n"]


async def test_variables_and_bytes_arrive_as_they_are(place: Place) -> None:
    done = await place.run("printf %s \"$ODD\" | od -An -tx1 | tr -d ' \\n'", ODD="ä\n\udcff'\"$(x)")
    assert done.stdout == "c3a40aff272224287829"


async def test_the_self_test_finds_nothing(place: Place) -> None:
    assert await anyio.to_thread.run_sync(place.sandbox().test) == []


async def test_the_self_test_finds_what_is_left_open(place: Place) -> None:
    """A folder of the home that the policy does not list, as after a slip in the order of mounts."""
    open_folder = place.home / "open"
    open_folder.mkdir()
    listed = place.policy()
    sandbox = Sandbox(lambda: listed)
    try:
        await anyio.to_thread.run_sync(sandbox.test)
        leaky = SandboxPolicy(
            home=listed.home, writable=[*listed.writable, str(open_folder)], readable=listed.readable
        )
        other = Sandbox(lambda: leaky)
        assert await anyio.to_thread.run_sync(other.test) == []
        failures = await anyio.to_thread.run_sync(other.test_against, listed)
        other.close()
    finally:
        sandbox.close()
    assert len(failures) == 3, failures
    assert f"{open_folder} can be seen" in failures


@pytest.mark.parametrize("machine", MACHINES)
def test_a_filter_is_whole_instructions_and_ends_by_allowing(machine: str) -> None:
    program = seccomp_filter(machine)
    assert len(program) % 8 == 0
    assert program[-8:] == b"\x06\0\0\0\0\0\xff\x7f"
    assert len(program) // 8 < 256


def test_a_command_that_ends_at_once_is_known_outside(place: Place) -> None:
    """By its number, from which follows what it has left running: without it, all processes of the machine are searched."""
    sandbox = place.sandbox()
    with Path(os.devnull).open("r+b") as null:
        for _ in range(50):
            process = sandbox.start(
                ["/bin/true"], cwd="/", env={}, streams=(null, null, null), mark=new_mark()
            )
            assert process.pid > 0
            assert process.wait(20) == 0


async def test_ended_processes_do_not_stay_inside(place: Place) -> None:
    await place.run("true")
    states = await place.run("cat /proc/[0-9]*/stat")
    assert " Z " not in states.stdout
