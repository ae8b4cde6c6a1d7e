"""If these fail, commands survive their timeout or leave processes behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import anyio
import pytest

from newel.workspace.local import LocalWorkspace
from tests.processes import is_alive

pytestmark = pytest.mark.anyio


def alive(file: Path) -> bool:
    """Whether the process whose pid is in the file is more than a zombie."""
    return is_alive(int(file.read_text()))


@pytest.fixture
def workspace(tmp_path: Path) -> LocalWorkspace:
    return LocalWorkspace(str(tmp_path))


async def test_an_error_of_the_reader_stops_the_command(workspace: LocalWorkspace) -> None:
    async def on_output(_: str) -> None:
        raise RuntimeError("the screen is gone")

    with pytest.raises(RuntimeError, match="the screen is gone"):
        await workspace.run("echo $$ > pid; echo x; sleep 60", timeout=20, on_output=on_output)
    assert not alive(Path(workspace.root) / "pid")


async def test_a_command_ends_with_its_shell_even_if_a_child_keeps_the_pipe(
    workspace: LocalWorkspace,
) -> None:
    """Otherwise a server started in the background hangs every run until the timeout."""
    began = time.monotonic()
    done = await workspace.run("sleep 1000 & echo $! > pid; echo started", timeout=20)
    try:
        assert done.stdout == "started\n"
        assert done.left_open
        assert not done.timed_out
        assert time.monotonic() - began < 15
        assert alive(Path(workspace.root) / "pid")
    finally:
        os.kill(int((Path(workspace.root) / "pid").read_text()), 9)


async def test_a_timeout_stops_everything_and_keeps_the_output(workspace: LocalWorkspace) -> None:
    done = await workspace.run("echo before; sleep 60 & echo $! > pid; wait", timeout=0.3)
    assert done.timed_out
    assert done.stdout == "before\n"
    assert done.exit_code == 143
    assert not alive(Path(workspace.root) / "pid")


async def test_a_stopped_command_may_clean_up(workspace: LocalWorkspace) -> None:
    done = await workspace.run("trap 'echo tidied > done; exit 0' TERM; echo x; sleep 60 & wait", timeout=0.3)
    assert done.timed_out
    assert (Path(workspace.root) / "done").read_text() == "tidied\n"


LEFT = (
    """setsid sh -c 'trap "echo left >> terms; exit" TERM; echo $$ > pid; while :; do sleep 0.01; done' &"""
)
TIDIES = "trap 'echo first >> terms; is_told=1' TERM; echo begun; until [ $is_told ]; do sleep 0.01; done; sleep 0.3"


@pytest.mark.skipif(sys.platform != "linux", reason="only /proc tells")
async def test_a_stopped_command_and_what_has_left_it_are_told_once(workspace: LocalWorkspace) -> None:
    """Programs that are told again give up what they are tidying up."""
    with anyio.CancelScope() as scope:

        async def on_output(_: str) -> None:
            scope.cancel()

        await workspace.run(f"{LEFT} until [ -s pid ]; do sleep 0.01; done; {TIDIES}", on_output=on_output)
    assert sorted((Path(workspace.root) / "terms").read_text().split()) == ["first", "left"]
    assert not alive(Path(workspace.root) / "pid")


async def test_cancelling_stops_the_command(workspace: LocalWorkspace) -> None:
    shown: list[str] = []
    with anyio.CancelScope() as scope:

        async def on_output(piece: str) -> None:
            shown.append(piece)
            scope.cancel()

        await workspace.run("echo $$ > pid; echo shown; sleep 60", timeout=30, on_output=on_output)
    assert scope.cancelled_caught
    assert shown == ["shown\n"]
    assert not alive(Path(workspace.root) / "pid")


IGNORES = """trap "" TERM; echo $$ > {pid}; while :; do sleep 0.1; done"""
LEAVES = """(setsid setsid sh -c 'trap "" TERM; echo $$ > {pid}; exec sleep 60' &)"""
FORGETS = """(env -i setsid setsid sh -c 'trap "" TERM; echo $$ > {pid}; exec /bin/sleep 60' < /dev/null > /dev/null 2>&1 &)"""
WRITTEN = "until [ -s {pid} ]; do sleep 0.01; done; echo begun"
STUBBORN = {
    "ignores TERM where the shell has gone at the first word": f"sh -c '{IGNORES}' & {WRITTEN}; wait",
    "ignores TERM itself": f"echo begun; {IGNORES}",
}
if sys.platform != "darwin":  # elsewhere the parent of a process that left its session is unknown
    STUBBORN["has left the session, as servers do"] = f"{LEAVES}; {WRITTEN}; sleep 60"
    STUBBORN["has left everything behind"] = f"{FORGETS}; {WRITTEN}; sleep 60"
ENDS = ("timeout", "cancelled", "cancelled during the grace")


async def test_a_process_that_ignores_term_is_killed(workspace: LocalWorkspace) -> None:
    """However it ignores it. All run at once, as each gets two seconds to end."""
    left = [(how, end) for how in STUBBORN for end in ENDS]

    async def stop(how: str, end: str, pid: Path) -> None:
        with anyio.CancelScope() as scope:

            async def on_output(_: str) -> None:
                if end == "cancelled":
                    scope.cancel()
                elif end == "cancelled during the grace":
                    scope.deadline = anyio.current_time() + 2.5

            limit = 20 if end == "cancelled" else 1.5
            done = await workspace.run(STUBBORN[how].format(pid=pid.name), timeout=limit, on_output=on_output)
            assert done.timed_out
        assert scope.cancelled_caught or end != "cancelled"
        if not alive(pid):
            left.remove((how, end))

    async with anyio.create_task_group() as group:
        for number, (how, end) in enumerate(tuple(left)):
            group.start_soon(stop, how, end, Path(workspace.root) / f"pid{number}")
    assert left == []


async def test_job_control_does_not_let_a_process_survive(workspace: LocalWorkspace) -> None:
    """`set -m` gives each job its own process group, which a kill of the first group would miss."""
    if sys.platform == "darwin":
        pytest.xfail("there is no list of a session's process groups")
    done = await workspace.run("set -m; sleep 60 & echo $! > pid; wait", timeout=0.3)
    assert done.timed_out
    assert not alive(Path(workspace.root) / "pid")


@pytest.mark.skipif(sys.platform != "linux", reason="only /proc tells")
@pytest.mark.parametrize(
    "how", ["sleep 1000", "setsid sleep 1000", "env -i setsid /bin/sleep 1000", "nohup setsid sleep 1000"]
)
async def test_processes_that_a_command_leaves_running_are_listed(
    workspace: LocalWorkspace, how: str
) -> None:
    """Otherwise a forgotten server holds its port, and the next command fails for no visible reason."""
    done = await workspace.run(f"{how} < /dev/null > out.log 2>&1 & echo $! > pid; sleep 0.1")
    pid = int((Path(workspace.root) / "pid").read_text())
    try:
        assert not done.left_open
        assert list(done.left_running) == [f"{how.rpartition('setsid ')[2]} (pid {pid})"]
        assert list((await workspace.run("sleep 0.01 & sleep 0.1")).left_running) == []
    finally:
        os.kill(pid, 9)


@pytest.mark.skipif(sys.platform != "linux", reason="only /proc tells")
async def test_processes_about_to_end_are_not_listed_as_running(workspace: LocalWorkspace) -> None:
    listed = [
        (await workspace.run("sleep 0.02 > /dev/null 2>&1 &")).left_running
        for _ in range(5)  # on a busy machine, one may take longer
    ]
    assert () in map(tuple, listed)


@pytest.mark.skipif(sys.platform != "linux", reason="only /proc tells")
async def test_other_newel_programs_do_not_belong_to_a_command(workspace: LocalWorkspace) -> None:
    """Programs that Newel itself starts during a command, such as git, must not end with it."""
    async with anyio.create_task_group() as group:
        group.start_soon(partial(workspace.run, "sleep 60", timeout=0.5))
        await anyio.sleep(0.1)
        with subprocess.Popen(["sleep", "60"]) as other:  # noqa: ASYNC220 — as Newel starts git
            await anyio.sleep(1)
            assert other.poll() is None
            other.kill()


async def test_only_the_processes_of_the_stopped_command_are_stopped(workspace: LocalWorkspace) -> None:
    """A development server of an earlier command must survive a hanging test run."""
    await workspace.run("setsid sleep 1000 > out.log 2>&1 & echo $! > pid")
    try:
        assert (await workspace.run("sleep 60", timeout=0.2)).timed_out
        assert alive(Path(workspace.root) / "pid")
    finally:
        os.kill(int((Path(workspace.root) / "pid").read_text()), 9)


async def test_the_inner_agents_commands_belong_to_the_outer_one(tmp_path: Path) -> None:
    """A command may be another agent, which is killed before it can stop its own commands."""
    outer = LocalWorkspace(str(tmp_path))
    marks = (await outer.run("echo $NEWEL_RUN")).stdout.split()
    inner = LocalWorkspace(str(tmp_path), environ={"PATH": os.environ["PATH"], "NEWEL_RUN": marks[0]})
    both = (await inner.run("echo $NEWEL_RUN")).stdout.split()
    assert len(marks) == 1
    assert len(both) == 2
    assert both[0] == marks[0]


async def test_a_flood_of_output_does_not_delay_the_timeout(workspace: LocalWorkspace) -> None:
    async def on_output(_: str) -> None:
        pass

    done = await workspace.run("echo $$ > pid; exec yes", timeout=0.3, on_output=on_output)
    assert done.timed_out
    assert done.truncated
    assert not alive(Path(workspace.root) / "pid")


async def test_a_background_flood_does_not_delay_the_end(workspace: LocalWorkspace) -> None:
    began = time.monotonic()
    done = await workspace.run("yes & echo $! > pid", timeout=20)
    assert done.exit_code == 0
    assert time.monotonic() - began < 15
    with anyio.fail_after(15):
        while alive(Path(workspace.root) / "pid"):  # noqa: ASYNC110 — nobody is told of a grandchild's end
            await anyio.sleep(0.01)


MEASURE = """
import anyio, pathlib, resource, sys
from newel.workspace.local import LocalWorkspace

def peak():
    '''Megabytes. What getrusage says on Linux includes the process that started this one.'''
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 2**20
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))

async def main():
    async def on_output(piece): pass
    done = await LocalWorkspace(sys.argv[1]).run("yes | head -c 2G", timeout=60, on_output=on_output)
    print(done.exit_code, done.truncated, done.output_file, peak())

anyio.run(main)
"""


def test_two_gigabytes_of_output_stay_under_a_hundred_megabytes(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    exit_code, truncated, kept_in, megabytes = ended.stdout.split()
    assert (exit_code, truncated) == ("0", "True")
    assert Path(kept_in).stat().st_size == 64 * 1024 * 1024
    assert int(megabytes) < 100
