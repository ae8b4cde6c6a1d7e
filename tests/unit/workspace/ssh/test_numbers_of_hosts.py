"""If these fail, a host ends Newel, and with it every tab of a workbench, by a number that no host has, or an answer of another length."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from newel.agent.errors import WorkspaceError
from newel.workspace.ssh import port
from newel.workspace.ssh.port import HostInfo
from newel.workspace.ssh.shell import SHELL_COMMAND, HostShell, ShellEnded
from newel.workspace.ssh.snapshots.rooted_shell import (
    STAT_VARIANTS,
    HostCapabilities,
    SnapshotScripts,
    time_of,
)
from newel.workspace.ssh.target import Target

LONG = "9" * 5_000
"""Python refuses to convert it."""


@pytest.mark.anyio
@pytest.mark.parametrize("status", [LONG, "9" * 4])
async def test_a_status_that_no_command_has_ends_the_connection(status: str) -> None:
    shell = HostShell(["sh", "-c", SHELL_COMMAND], dict(os.environ))
    try:
        await shell.start("/")
        with pytest.raises(ShellEnded):
            await shell.ask(f"printf '\\n%s {status}\\n' \"$newel_key\"", b"")
    finally:
        await shell.close()


@pytest.mark.parametrize(
    ("parse", "answer"),
    [
        (port.info, f"{'f' * 40} 1 1"),
        (port.info, "-81a4 1 1"),
        (port.info, f"81a4 {LONG} 1"),
        (port.info, f"81a4 {10**40} 1"),
        (port.info, f"81a4 1 {10**40}"),
        (port.info, "81a4 -1 1"),
        (port.node, f"{'f' * 40}\n"),
        (port.node, "-81a4\n"),
    ],
)
def test_a_number_that_no_file_has_is_a_malformed_answer(
    parse: Callable[[bytes], object], answer: str
) -> None:
    with pytest.raises(WorkspaceError, match="malformed"):
        parse(answer.encode())


@pytest.mark.parametrize("answer", ["", "1", "101\n{0}\n{0}", "1\n{0}", "12\n{0}"])
def test_an_answer_about_another_number_of_files_is_malformed(answer: str) -> None:
    with pytest.raises(WorkspaceError, match="malformed"):
        port.infos(answer.format("81a4 1 1").encode(), 2)


@pytest.mark.parametrize("variant", STAT_VARIANTS)
@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("number", ["7" * 30, LONG, "-7"])
def test_a_number_that_no_listed_file_has_is_a_malformed_answer(
    variant: str, place: int, number: str
) -> None:
    facts = ["f644" if variant == "find" else "81a4", "1", "1.5", "1.5", "12", "1"]
    facts[place] = ("f" if variant == "find" and place == 0 else "") + number
    if number == "-7" and place in {2, 3}:
        return  # a time before 1970
    scripts = SnapshotScripts(HostCapabilities(variant, "sha256sum", gzip=False, umask=0o22))
    with pytest.raises(WorkspaceError, match="malformed"):
        scripts.seen(" ".join(facts).encode())


@pytest.mark.parametrize("time", [LONG, "9" * 30, "soon"])
def test_a_time_that_no_host_has_is_a_malformed_answer(time: str) -> None:
    with pytest.raises(WorkspaceError, match="malformed"):
        time_of(f"now {time}.5".encode())


def test_a_clock_that_no_host_has_is_none() -> None:
    data = f"root=/\0clock={LONG}\0".encode()
    assert HostInfo.parse(data, Target("h")).clock_ahead == 0
