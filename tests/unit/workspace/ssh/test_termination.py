"""If these fail, a cancelled command on a host keeps running, or its background processes are killed."""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import msgspec
import pytest

from newel.agent.errors import ConnectionLost
from newel.workspace.process.output import OutputLimits
from newel.workspace.ssh.process import Client, ProcessTimeouts, run_on_host, run_program_on_host
from tests.processes import is_alive, read_pids
from tests.unit.workspace.ssh.hosts import (
    FAMILY,
    LIMITS,
    SHELLS,
    client,
    end_members,
    members,
    output_of,
    program,
    wait_for_condition,
    with_programs,
    with_shell,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="looks for what is left in /proc"),
]


def altered(edit: str) -> Client:
    """A host that differs: ``edit`` is a sed program for the text sent there."""
    return client("sh", "-c", f"""IFS= read -r s && eval "$(printf %b "$s" | sed '{edit}')" """)


WITHOUT_PROC = "s,/proc,/none,g"
"""As on a BSD: it goes by what ps says."""

WITHOUT_ENVIRONMENTS = f"{WITHOUT_PROC}; s/^ps -AEww/echo 0 0 0 S kernel; ps -Aww/; s/axeww/axww/"
"""As on macOS, which shows nothing of the environments of its own programs; and a process is its own parent."""

SLOW_TO_BEGIN = "s/^export_variables$/sleep 0.5; export_variables/"

BLIND_GREP = """#!/bin/sh
# As grep in a busybox made without GNU's regular expressions, which sees of each line what comes before the first NUL:
# not the second letter of a probe, nor a variable that is not the first.
case $1:$2 in
-q:b | -ls:*) exit 1 ;;
*) exec {grep} "$@" ;;
esac
"""


async def ended_family(host: Client, folder: Path, *, but: str = "") -> None:
    """Start a family of processes, cancel their command, and check that none is left; ``but`` names exceptions."""

    async def run() -> None:
        path = {"PATH": os.environ["PATH"]}  # found by the command, whatever the host's shell does
        await run_on_host(host, FAMILY, root=str(folder), limits=LIMITS, env=path)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await wait_for_condition(lambda: members(folder), "the family")
        assert all(map(is_alive, members(folder)))
        group.cancel_scope.cancel()
    left = [pid for pid in members(folder, but=but) if is_alive(pid)]
    end_members(folder)
    assert not left


@pytest.mark.parametrize("shell", SHELLS)
async def test_no_process_of_a_cancelled_command_survives_in_any_shell(shell: str, tmp_path: Path) -> None:
    await ended_family(with_shell(tmp_path / "bin", shell), tmp_path)


STRIPPED = """
(env -i PATH="$PATH" setsid sh -c 'echo $$ > stripped; exec sleep 1000' < /dev/null > /dev/null 2>&1 &)
exec sleep 1000
"""
"""A daemon that has kept nothing of its command's."""


@pytest.mark.parametrize("shell", SHELLS)
async def test_a_daemon_without_the_commands_environment_ends_where_limits_can_be_set(
    shell: str, tmp_path: Path
) -> None:
    async def run() -> None:
        host = with_shell(tmp_path / "bin", shell)
        path = {"PATH": os.environ["PATH"]}
        await run_on_host(host, STRIPPED, root=str(tmp_path), limits=LIMITS, env=path)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await wait_for_condition(lambda: read_pids(tmp_path / "stripped"), "the daemon")
        group.cancel_scope.cancel()
    assert not any(map(is_alive, read_pids(tmp_path / "stripped")))


async def test_no_process_survives_without_proc(tmp_path: Path) -> None:
    await ended_family(altered(WITHOUT_PROC), tmp_path)


async def test_without_visible_environments_all_descendants_of_the_command_end(
    tmp_path: Path,
) -> None:
    await ended_family(altered(WITHOUT_ENVIRONMENTS), tmp_path, but="daemon")


async def test_no_process_survives_if_grep_stops_at_a_nul(tmp_path: Path) -> None:
    links = dict.fromkeys(("tail", "tr"), "busybox")
    host = with_programs(tmp_path / "bin", "sh", more=os.environ["PATH"], **links)
    (grep := tmp_path / "bin" / "grep").write_text(BLIND_GREP.replace("{grep}", program("grep")))
    grep.chmod(0o755)
    await ended_family(host, tmp_path)


async def test_no_process_survives_if_perl_creates_the_session(tmp_path: Path) -> None:
    """As on macOS, which has no ``setsid``."""
    await ended_family(with_programs(tmp_path / "bin", "sh", "sleep", "grep", "perl", "env", "sed"), tmp_path)


async def test_without_a_session_all_processes_with_the_mark_end(tmp_path: Path) -> None:
    await ended_family(
        with_programs(tmp_path / "bin", "sh", "sleep", "grep", "env", "sed"), tmp_path, but="bare"
    )


async def test_a_timeout_keeps_the_output_and_no_process_survives(tmp_path: Path) -> None:
    command = "echo begun; sleep 1000 & echo $! > child; wait"
    done = await run_on_host(client(), command, root=str(tmp_path), limits=LIMITS, timeout=1.5)
    assert (done.stdout, done.timed_out, done.left_open) == ("begun\n", True, False)
    assert not any(map(is_alive, read_pids(tmp_path / "child")))


async def test_a_command_cancelled_before_it_starts_does_not_start_later(tmp_path: Path) -> None:
    command = "echo $$ > pid; exec sleep 1000"
    done = await run_on_host(altered(SLOW_TO_BEGIN), command, root=str(tmp_path), limits=LIMITS, timeout=0.1)
    assert done.timed_out
    assert not any(map(is_alive, read_pids(tmp_path / "pid")))


async def test_a_command_that_floods_its_output_can_be_cancelled(tmp_path: Path) -> None:
    limits = OutputLimits(output=1_000, spill=10_000, spill_dir=str(tmp_path / "spill"))

    async def run() -> None:
        await run_on_host(client(), "echo $$ > pid; exec yes", root=str(tmp_path), limits=limits)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await wait_for_condition(lambda: read_pids(tmp_path / "pid"), "the flood")
        group.cancel_scope.cancel()
    assert not any(map(is_alive, read_pids(tmp_path / "pid")))


async def test_a_program_that_waits_for_input_ends_when_cancelled(tmp_path: Path) -> None:
    async def on_stdout(_: bytes) -> None:
        group.cancel_scope.cancel()

    async def run() -> None:
        argv = ["sh", "-c", f"echo $$ > {tmp_path}/pid; cat; exec sleep 1000"]
        await run_program_on_host(client(), argv, stdin=b"go", on_stdout=on_stdout)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
    assert not any(map(is_alive, read_pids(tmp_path / "pid")))


async def test_background_processes_of_a_finished_command_stay(tmp_path: Path) -> None:
    host = client()
    start = "setsid sleep 1000 {} & echo $!"
    quiet = await run_on_host(host, start.format(">/dev/null 2>&1"), root="/", limits=LIMITS)
    loud = await run_on_host(host, start.format(""), root="/", limits=LIMITS)
    pids = [int(quiet.stdout), int(loud.stdout)]
    try:
        assert (quiet.left_open, loud.left_open) == (False, True)
        assert all(map(is_alive, pids))
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


async def test_no_watching_process_survives_its_command(tmp_path: Path) -> None:
    """One sleep per command would soon be many."""
    session = int(await output_of(client(), "ps -o sess= -p $PPID"))
    await wait_for_condition(lambda: session not in sessions(), "the end of all that watched")


async def test_a_host_ends_the_command_after_a_long_silence(tmp_path: Path) -> None:
    """A vanished connection never sends its end."""
    host = client(timing=ProcessTimeouts(beat=1000, silence=0.3, grace=0.2))
    command = "echo $$ > shell; trap '' TERM; sleep 1000; sleep 1000"
    with pytest.raises(ConnectionLost):
        await run_on_host(host, command, root=str(tmp_path), limits=LIMITS)
    [pid] = read_pids(tmp_path / "shell")
    assert not is_alive(pid)


@pytest.mark.slow  # a campaign: each shell, killed
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("ends", ["exit 0", "true"])
async def test_a_command_that_a_host_ended_for_silence_is_never_reported_as_finished(
    ends: str, shell: str, tmp_path: Path
) -> None:
    """Whatever the command returns. A user whose laptop was suspended that long learns it on return."""
    host = msgspec.structs.replace(
        with_shell(tmp_path / "bin", shell), timing=ProcessTimeouts(beat=1000, silence=0.3, grace=0.2)
    )
    command = f"trap '{ends}' TERM; echo begun; sleep 1000 & wait"
    with pytest.raises(ConnectionLost, match="outcome is unknown and it was not run again") as error:
        await run_on_host(host, command, root=str(tmp_path), limits=LIMITS)
    assert re.search(
        "sent no heartbeat .* suspended.*Its output so far:\nbegun\n", str(error.value), re.DOTALL
    )


@pytest.mark.slow  # a command that runs for seconds
async def test_a_command_may_run_longer_than_the_silence_limit_on_a_live_connection(tmp_path: Path) -> None:
    host = client(timing=ProcessTimeouts(beat=0.05, silence=2))
    assert await output_of(host, "sleep 2.3; echo well") == "well\n"


def sessions() -> set[int]:
    """The environments of all processes except zombies."""
    found: set[int] = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, session, *_ = path.read_text().rpartition(")")[2].split()
            if state not in "ZX":
                found.add(int(session))
    return found
