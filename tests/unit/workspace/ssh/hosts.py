"""Hosts without a network: a shell replaces ``ssh HOST``, everything but the wire is real."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import anyio

from newel.workspace.process.output import OutputLimits
from newel.workspace.process.process_mark import MARK
from newel.workspace.ssh.process import Client, ProcessTimeouts, run_on_host
from tests.processes import read_pids
from tests.requirements import require_program

SHELLS = ("dash", "bash", "zsh", "busybox")
SECONDS = 20
"""How long is waited for what happens soon, on a machine that is busy."""

QUICK = ProcessTimeouts(grace=0.2, answer=8)
LIMITS = OutputLimits()


FAMILY = """
number() { echo $$ > "$1"; }
sleep 1000 & echo $! > child
setsid sh -c 'echo $$ > escapee; exec sleep 1000' &
(setsid sh -c 'echo $$ > daemon; exec sleep 1000' >/dev/null 2>&1 &)
env -i PATH="$PATH" sh -c 'echo $$ > bare; exec sleep 1000' &
sh -c 'trap "" TERM; echo $$ > deaf; exec sleep 1000' &
echo $$ > shell
exec sleep 1000
"""
"""What a command can start: a child, what has left for a session of its own, a daemon, one without the command's
environment, one that does not hear TERM."""

MEMBERS = ("child", "escapee", "daemon", "bare", "deaf", "shell")


def client(*argv: str, timing: ProcessTimeouts = QUICK, environ: Mapping[str, str] | None = None) -> Client:
    """A client whose host is this machine: ``argv`` runs its last argument as a command.

    Its processes are separated from the client by session, environment and limit, so that nothing here ends them.
    """
    apart = [program("prlimit"), "--rttime=unlimited:", program("env"), "-u", MARK, program("setsid"), "-w"]
    return Client(
        argv=[*apart, *(argv or ("sh", "-c"))], environ=environ or os.environ, host="here", timing=timing
    )


PACKAGES = {"setsid": "util-linux", "prlimit": "util-linux", "env": "coreutils", "ssh": "openssh-client"}
"""Debian's packages of programs that have another name."""


def program(name: str) -> str:
    """The path of a program; the test is skipped without it."""
    return require_program(name, PACKAGES.get(name, ""))


def with_programs(folder: Path, *programs: str, more: str = "", **links: str) -> Client:
    """A host with these programs, with ``links`` under other names, and otherwise with those in the PATH ``more``."""
    folder.mkdir()
    for name, target in {**{each: each for each in programs}, **links}.items():
        (folder / name).symlink_to(program(target))
    path = f"{folder}:{more}" if more else str(folder)
    return client(str(folder / "sh"), "-c", environ={**os.environ, "PATH": path})


def with_shell(folder: Path, shell: str) -> Client:
    """A host with another ``sh``; busybox also brings the other programs."""
    names = ("sh", "grep", "head", "rm", "setsid", "sleep") if shell == "busybox" else ("sh",)
    return with_programs(folder, more=os.environ["PATH"], **dict.fromkeys(names, shell))


def members(folder: Path, *, but: str = "") -> list[int]:
    return read_pids(*(folder / name for name in MEMBERS if name != but))


def end_members(folder: Path) -> None:
    """End the remaining processes of a test, and forget their pids."""
    for pid in members(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for name in MEMBERS:
        (folder / name).unlink(missing_ok=True)


async def wait_for_condition(holds: Callable[[], object], what: str) -> None:
    """Wait for something without a notification: a file, a process."""
    with anyio.move_on_after(SECONDS):
        while not holds():  # noqa: ASYNC110 — no event tells of what is waited for
            await anyio.sleep(0.01)
    assert holds(), f"waited in vain for {what}"


async def output_of(host: Client, command: str, root: str = "/") -> str:
    """The output of a command that succeeds."""
    done = await run_on_host(host, command, root=root, limits=LIMITS)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout
