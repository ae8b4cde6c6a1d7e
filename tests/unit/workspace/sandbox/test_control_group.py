"""If these fail, a command takes the memory or the processes of the whole machine, or a limit is claimed that is not there.

The trees of files are laid out as the kernel documents them. What needs a kernel with control groups runs on those of this machine: without
controllers everything but the limits can be seen, and the last tests need the limits.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from newel.workspace.local import LocalWorkspace
from newel.workspace.sandbox.confinement import BubblewrapConfinement
from newel.workspace.sandbox.control_group import (
    GIB,
    ControlGroup,
    GroupPlace,
    NoControlGroup,
    default_memory,
    find_group_place,
    try_limits,
)
from newel.workspace.sandbox.landlock import LEAST, landlock_version
from newel.workspace.sandbox.partial import PartialConfinement
from newel.workspace.sandbox.policy import SandboxPolicy
from newel.workspace.sandbox.sandbox import Sandbox
from tests.ordinary_user import MODULES, USER, usable_python
from tests.processes import ends, read_proc
from tests.requirements import require_program

pytestmark = pytest.mark.anyio

MOUNT = "/sys/fs/cgroup"
SLICE = "/user.slice/user-1000.slice/user@1000.service/app.slice"
TERMINAL = f"{SLICE}/app-org.gnome.Terminal.slice/vte-spawn-1.scope"


def tree(
    root: Path,
    own: str,
    groups: dict[str, dict[str, str]],
    *,
    mounted: str = f"/ {MOUNT}",
    kind: str = "cgroup2 cgroup2 rw,nsdelegate",
) -> str:
    """The files of a kernel, as far as they are read: this process's group, and some groups with files; returns the root."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(f"12:memory:/elsewhere\n0::{own}\n")
    inner, point = mounted.split()
    (root / "proc/self/mountinfo").write_text(
        "23 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
        f"31 23 0:28 / {MOUNT} ro,nosuid - tmpfs tmpfs ro,mode=755\n"
        "38 31 0:35 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        f"41 31 0:38 {inner} {point} rw,nosuid shared:4 - {kind}\n"
    )
    for path, files in groups.items():
        folder = root / f"{point}{path}".lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in {"cgroup.procs": "", "cgroup.subtree_control": "", **files}.items():
            (folder / name).write_text(text)
    return str(root)


def enabled(*controllers: str, **files: str) -> dict[str, str]:
    return {"cgroup.subtree_control": " ".join(controllers), **files}


def test_in_a_terminal_of_a_desktop_the_nearest_group_above_is_found(tmp_path: Path) -> None:
    """Below the manager of a user everything is theirs; the group of the terminal has processes, so it can have no others in it."""
    parent = TERMINAL.rpartition("/")[0]
    groups = {SLICE: enabled("cpu", "memory", "pids"), parent: enabled("memory", "pids"), TERMINAL: {}}
    place = find_group_place(tree(tmp_path, TERMINAL, groups))
    assert place.folder == Path(f"{tmp_path}{MOUNT}{parent}")
    assert place.controllers == {"memory", "pids"}


@pytest.mark.parametrize(
    ("own", "mounted", "found"),
    [
        (f"{SLICE}/newel.service", "/ /sys/fs/cgroup/unified", f"/sys/fs/cgroup/unified{SLICE}"),
        ("/docker/1/work", f"/docker/1 {MOUNT}", MOUNT),
        ("/", f"/ {MOUNT}", MOUNT),
    ],
)
def test_a_hierarchy_may_be_mounted_elsewhere_or_in_part(
    tmp_path: Path, own: str, mounted: str, found: str
) -> None:
    inner, point = mounted.split()
    below = found.removeprefix(point)
    root = tree(tmp_path, own, {below: enabled("pids"), own.removeprefix(inner): {}}, mounted=mounted)
    (Path(root) / found.lstrip("/") / "cgroup.subtree_control").write_text("pids\n")
    place = find_group_place(root)
    assert (str(place.folder), place.controllers) == (root + found, {"pids"})


NONE: dict[str, tuple[str, dict[str, dict[str, str]], dict[str, str]]] = {
    "version 1 only": ("/", {"/": enabled("memory")}, {"kind": "cgroup cgroup rw,memory"}),
    "a container without delegation": ("/", {"/": enabled()}, {}),
    "controllers that limit nothing here": ("/a/b", {"/a": enabled("cpu", "io"), "/a/b": {}}, {}),
    "a group outside of the namespace": ("/../../other", {"/": enabled("memory")}, {}),
    "another part of the hierarchy": ("/a", {"/": enabled("memory")}, {"mounted": f"/docker/1 {MOUNT}"}),
}


@pytest.mark.parametrize("why", NONE)
def test_where_there_is_no_place_that_is_said(tmp_path: Path, why: str) -> None:
    own, groups, options = NONE[why]
    with pytest.raises(NoControlGroup, match=r"not mounted|delegated"):
        find_group_place(tree(tmp_path, own, groups, **options))


def test_a_group_of_another_user_is_no_place() -> None:
    """In a session over SSH, the groups above belong to root."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to have files of another user")
    above = "/user.slice/user-1000.slice"
    session = f"{above}/session-3.scope"
    with tempfile.TemporaryDirectory(prefix="newel-groups-") as name:  # pytest closes its own to others
        Path(name).chmod(0o755)
        root = tree(Path(name), session, {above: enabled("memory", "pids"), session: {}})
        refused = find_as_user(root)
        assert "NoControlGroup: no control group" in refused.stderr
        assert "systemd-run --user --scope newel" in refused.stderr
        os.chown(f"{root}{MOUNT}{above}/cgroup.procs", USER, USER)
        found = find_as_user(root)
        assert (found.returncode, found.stderr) == (0, "")


def find_as_user(root: str) -> subprocess.CompletedProcess[str]:
    code = f"from newel.workspace.sandbox.control_group import *; find_group_place({root!r})"
    user: dict[str, Any] = {"user": USER, "group": USER, "extra_groups": []}
    words, environ = [usable_python(), "-c", code], {"PYTHONPATH": MODULES}
    return subprocess.run(words, env=environ, capture_output=True, text=True, check=False, cwd="/", **user)


def test_limits_that_the_user_gave_newel_hold_for_its_commands(tmp_path: Path) -> None:
    """`systemd-run --user --scope -p MemoryMax=2G newel` must not be a way for commands to have more."""
    limits = {"memory.max": str(2 * GIB), "memory.high": "max", "pids.max": "100", "cpu.max": "max 100000"}
    own = f"{SLICE}/run-1.scope"
    root = tree(tmp_path, own, {SLICE: enabled("memory", "pids"), own: limits | {"cpuset.cpus": "\n"}})
    place = find_group_place(root)
    assert place.limits == {"memory.max": 2 * GIB, "pids.max": 100}
    group = ControlGroup(place, {"RLIMIT_AS": 8 * GIB, "RLIMIT_NPROC": 4_000})
    assert (group.folder / "memory.max").read_text() == str(2 * GIB)
    assert (group.folder / "pids.max").read_text() == "100"


def test_a_limit_of_time_is_not_left(tmp_path: Path) -> None:
    own = f"{SLICE}/run-1.scope"
    root = tree(tmp_path, own, {SLICE: enabled("memory"), own: {"cpu.max": "50000 100000\n"}})
    with pytest.raises(NoControlGroup, match=r"run-1\.scope has cpu\.max"):
        find_group_place(root)


def test_the_machine_keeps_memory_unless_the_user_says_how_much(tmp_path: Path) -> None:
    assert [default_memory(size * GIB) / GIB for size in (1, 2, 4, 10, 20)] == [0.5, 1, 3, 9, 18]
    place = GroupPlace(tmp_path, frozenset({"memory", "pids"}), {}, 16 * GIB)
    written = {
        name: (ControlGroup(place, {}).folder / name).read_text() for name in ("memory.max", "pids.max")
    }
    assert written == {"memory.max": str(default_memory(16 * GIB)), "pids.max": "4096"}
    assert (ControlGroup(place, {}).folder / "memory.swap.max").read_text() == "0"
    more = ControlGroup(place, {"RLIMIT_AS": 20 * GIB})  # than there is: the rest may be swapped
    assert (more.folder / "memory.swap.max").read_text() == str(4 * GIB)


def test_a_container_with_less_memory_than_its_machine_keeps_some_of_that(tmp_path: Path) -> None:
    root = tree(tmp_path, "/a/b", {"/": {}, "/a": enabled("memory", **{"memory.max": str(GIB)}), "/a/b": {}})
    assert find_group_place(root).memory == GIB


def test_a_limit_that_the_kernel_does_not_have_is_not_claimed(tmp_path: Path) -> None:
    group = ControlGroup(GroupPlace(tmp_path, frozenset({"pids"}), {}, GIB), {"RLIMIT_AS": GIB})
    assert (group.describe(), group.replaces("RLIMIT_NPROC"), group.replaces("RLIMIT_AS")) == (
        "4,096 processes",
        True,
        False,
    )
    assert not group.replaces("RLIMIT_FSIZE")
    (group.folder / "cgroup.procs").mkdir()  # no process can be moved
    with pytest.raises(NoControlGroup):
        group.add(os.getpid())
    assert not group.replaces("RLIMIT_NPROC")


# -- with real processes --------------------------------------------------------------------------------


@pytest.fixture
def place() -> GroupPlace:
    """A real group in which others can be made, if only without limits."""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        fields, _, kind = line.partition(" - ")
        folder = Path(fields.split()[4])
        if kind.startswith("cgroup2 ") and os.access(folder / "cgroup.procs", os.W_OK):
            return GroupPlace(folder, frozenset(), {}, GIB)
    pytest.skip("needs control groups (version 2) that this user may change")


class Place:
    """A project with a sandbox."""

    def __init__(self, base: Path, place: GroupPlace, *, is_partial: bool = False, **limits: int) -> None:
        require_program("bwrap", "bubblewrap")
        if is_partial and landlock_version() < LEAST:
            pytest.skip("this kernel has no Landlock")
        base = Path(os.path.realpath(base))
        self.folder = place.folder
        self.project = base / "project"
        (base / "home").mkdir()
        self.project.mkdir()
        policy = SandboxPolicy(
            home=str(base / "home"),
            writable=[str(self.project)],
            readable=[sys.base_prefix, sys.prefix],
            is_partial=is_partial,
            limits=limits,
        )
        confinement = PartialConfinement() if is_partial else BubblewrapConfinement()
        self.sandbox = Sandbox(lambda: policy, confinement, lambda: place)
        self.workspace = LocalWorkspace(str(self.project), find_launcher=lambda _: self.sandbox)

    def groups(self) -> list[Path]:
        return list(self.folder.glob(f"newel-{os.getpid()}-*"))


@pytest.fixture
def opened() -> Iterator[list[Place]]:
    places: list[Place] = []
    yield places
    for each in places:
        each.sandbox.close()


@pytest.mark.parametrize("is_partial", [False, True])
async def test_all_that_runs_in_a_sandbox_is_in_its_group_which_ends_with_it(
    tmp_path: Path, place: GroupPlace, opened: list[Place], is_partial: bool
) -> None:
    opened.append(Place(tmp_path, place, is_partial=is_partial))
    before = read_proc(os.getpid(), "cgroup")
    await opened[0].workspace.run("sleep 300 >/dev/null 2>&1 &")
    (group,) = opened[0].groups()
    pids = [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    assert any("sleep" in read_proc(pid, "cmdline") for pid in pids)
    assert os.getpid() not in pids
    assert read_proc(os.getpid(), "cgroup") == before
    opened[0].sandbox.close()
    assert opened[0].groups() == []
    assert all(ends(pid) for pid in pids)


@pytest.mark.parametrize("is_partial", [False, True])
async def test_a_command_cannot_leave_its_group_nor_make_one(
    tmp_path: Path, place: GroupPlace, opened: list[Place], is_partial: bool
) -> None:
    opened.append(Place(tmp_path, place, is_partial=is_partial))
    leave = f"for file in $(find {place.folder} -name cgroup.procs); do echo $! > $file && echo left; done"
    make = f"for group in $(find {place.folder} -name 'newel-*'); do mkdir $group/x && echo made; done"
    done = await opened[0].workspace.run(f"sleep 300 >/dev/null 2>&1 & {leave}; {make}")
    (group,) = opened[0].groups()
    assert done.stdout == ""
    pids = [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    assert any("sleep" in read_proc(pid, "cmdline") for pid in pids)


def test_what_is_left_in_a_group_is_killed_with_it(place: GroupPlace) -> None:
    group = ControlGroup(place, {})
    with subprocess.Popen(["sh", "-c", "trap '' TERM; setsid sleep 300 & wait"]) as process:
        group.add(process.pid)
        time.sleep(0.1)
        group.close()
        assert process.wait(5) == -signal.SIGKILL
    assert not group.folder.exists()


def test_the_group_of_a_killed_newel_is_removed_and_that_of_a_living_one_stays(place: GroupPlace) -> None:
    code = (
        "import sys; from pathlib import Path; from newel.workspace.sandbox.control_group import *; "
        "group = ControlGroup(GroupPlace(Path(sys.argv[1]), frozenset(), {}, 1), {}); print(group.folder, flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", code, str(place.folder)]
    with (
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as killed,
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as living,
    ):
        assert killed.stdout is not None
        assert living.stdout is not None
        left, used = (Path(stdout.readline().strip()) for stdout in (killed.stdout, living.stdout))
        assert left.is_dir()
        killed.kill()
        killed.wait()
        assert left.is_dir()
        ControlGroup(place, {}).close()
        assert (left.is_dir(), used.is_dir()) == (False, True)
        living.kill()
        living.wait()
    ControlGroup(place, {}).close()
    assert not used.exists()


async def test_where_memory_is_short_the_kernel_ends_a_command_before_the_launcher(
    tmp_path: Path, place: GroupPlace, opened: list[Place]
) -> None:
    """With the launcher, all servers in the background would end."""
    opened.append(Place(tmp_path, place))
    done = await opened[0].workspace.run("cat /proc/self/oom_score_adj /proc/$PPID/oom_score_adj")
    command, launcher = map(int, done.stdout.split())
    assert command > launcher


async def test_where_a_process_cannot_be_moved_commands_run_with_limits_of_each(
    tmp_path: Path, opened: list[Place]
) -> None:
    (tmp_path / "groups").mkdir()
    place = GroupPlace(tmp_path / "groups/gone", frozenset({"memory", "pids"}), {}, GIB)
    opened.append(Place(tmp_path, place, RLIMIT_AS=GIB))
    assert (await opened[0].workspace.run("ulimit -v")).stdout == f"{1 << 20}\n"


@pytest.mark.slow  # seconds of waiting
async def test_the_result_of_a_command_says_that_a_limit_was_reached(
    tmp_path: Path, opened: list[Place]
) -> None:
    """The kernel counts in files; here they are plain ones. What a user reads with a real kernel is tested below."""
    (tmp_path / "groups").mkdir()
    place = GroupPlace(tmp_path / "groups", frozenset({"memory", "pids"}), {}, 16 * GIB)
    opened.append(Place(tmp_path, place, RLIMIT_AS=2 * GIB))
    run = opened[0].workspace.run
    done = await run("ulimit -v")
    assert (done.stdout, done.stderr) == ("unlimited\n", "")
    (group,) = opened[0].groups()
    (group / "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 2\noom_kill 2\noom_group_kill 0\n")
    (group / "pids.events").write_text("max 7\n")
    (group / "pids.current").write_text("4\n")
    (group / "memory.stat").write_text("anon 1000\nfile 2000\nshmem 500\n")
    done = await run("printf text >&2")
    text, memory, processes = done.stderr.splitlines()
    assert text == "text"
    assert memory.startswith("The sandbox has reached its limit of 2 GiB of memory")
    assert "ended 2 of its processes" in memory
    assert processes.startswith("The sandbox has reached its limit of 4,096 processes and threads.")
    assert (await run("true")).stderr == ""
    assert opened[0].groups() == [group]  # there is room again
    (group / "memory.stat").write_text(f"anon 1000\nfile 2000\nshmem {2 * GIB}\n")
    (group / "memory.events").write_text("oom_kill 3\n")
    done = await run("echo here")
    assert done.stdout == "here\n"
    assert "ended 1 of its processes" in done.stderr
    assert "was full, so it was ended" in done.stderr
    assert len(opened[0].groups()) == 2


# -- with real limits -----------------------------------------------------------------------------------


@pytest.fixture
def limited() -> GroupPlace:
    try:
        try_limits({})
        return find_group_place()
    except NoControlGroup as error:
        pytest.skip(f"needs limits of control groups: {error}")


@pytest.mark.parametrize("is_partial", [False, True])
async def test_a_command_that_takes_too_much_memory_ends_and_a_server_does_not(
    tmp_path: Path, limited: GroupPlace, opened: list[Place], is_partial: bool
) -> None:
    opened.append(Place(tmp_path, limited, is_partial=is_partial, RLIMIT_AS=GIB // 8))
    run = opened[0].workspace.run
    server = await run("sleep 300 >/dev/null 2>&1 & echo $!")
    take = f"{sys.executable} -c 'kept = [bytes([1]) * (1 << 20) for _ in range(2000)]'"
    done = await run(f"{take} & {take} & wait $!; echo $?")
    assert done.stdout == "137\n"
    assert "The sandbox has reached its limit of 0.125 GiB of memory" in done.stderr
    assert (await run(f"kill {server.stdout.strip()} && echo it ran")).stdout == "it ran\n"


async def test_a_fork_bomb_stops_at_the_limit_and_the_next_command_runs(
    tmp_path: Path, limited: GroupPlace, opened: list[Place]
) -> None:
    """As root, too, for whom the kernel limits no processes of a user."""
    opened.append(Place(tmp_path, limited, RLIMIT_NPROC=50))
    done = await opened[0].workspace.run("bomb() { bomb | bomb & }; bomb; sleep 1", timeout=10)
    assert "The sandbox has reached its limit of 50 processes and threads." in done.stderr
    done = await opened[0].workspace.run("echo here")
    assert done.stdout == "here\n"
    assert "was full, so it was ended" in done.stderr


async def test_files_in_memory_do_not_keep_commands_from_running(
    tmp_path: Path, limited: GroupPlace, opened: list[Place]
) -> None:
    opened.append(Place(tmp_path, limited, RLIMIT_AS=GIB // 8))
    done = await opened[0].workspace.run("head -c 300000000 /dev/zero > /tmp/file")
    assert done.exit_code == 137
    assert (await opened[0].workspace.run("ls /tmp/file || echo here")).stdout == "here\n"


async def test_limits_cannot_be_raised_from_inside(
    tmp_path: Path, limited: GroupPlace, opened: list[Place]
) -> None:
    opened.append(Place(tmp_path, limited))
    raising = f"for file in $(find {limited.folder} -name '*.max'); do echo max > $file && echo raised; done"
    done = await opened[0].workspace.run(f"{raising}; find {limited.folder} -name pids.max | wc -l")
    assert int(done.stdout) >= 1
