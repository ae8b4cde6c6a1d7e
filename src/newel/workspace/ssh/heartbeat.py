"""Heartbeat: detects an unresponsive host before the SSH connection times out."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress

import anyio
import anyio.abc

from newel.concurrency import task_group
from newel.workspace.ssh.shell import HostShell
from newel.workspace.ssh.supervisor import ShellSupervisor


class Heartbeat:
    """Reports the host as ``slow`` after ``slow_after`` seconds without an answer. It checks only while something is ``busy``,
    and after that until the host is no longer slow.

    Three cases: an idle shell is sent an empty request. A request that is older than half the time may just take long, so a second
    session checks whether the host still answers. Otherwise silence itself tells.
    """

    def __init__(self, shells: ShellSupervisor, slow_after: float) -> None:
        self._shells = shells
        self._slow_after = slow_after
        self._busy_count = 0
        self._started = anyio.Event()
        self._is_probing = False

    @contextmanager
    def busy(self) -> Generator[None]:
        self._busy_count += 1
        self._started.set()
        try:
            yield
        finally:
            self._busy_count -= 1

    async def run(self) -> None:
        """Until cancelled."""
        async with task_group() as tasks:
            while True:
                await self._started.wait()
                is_checked = False
                while self._busy_count or not is_checked:
                    await anyio.sleep(self._slow_after / 3)
                    self._check(tasks)
                    is_checked = self._shells.state.name != "slow"
                self._started = anyio.Event()

    def report_answer(self) -> None:
        if self._shells.state.name == "slow":
            self._shells.set_state("up")

    def _check(self, tasks: anyio.abc.TaskGroup) -> None:
        if not self._shells.state.is_connected:
            return
        shell = self._shells.current
        silent_s = None if shell is None else shell.silent_s
        if shell is None or silent_s is None:
            if not self._shells.is_busy:
                tasks.start_soon(self._ping)
        elif silent_s >= self._slow_after:
            self._shells.set_state("slow", f"no answer for {silent_s:.0f} s")
        elif self._shells.state.name == "slow":
            self.report_answer()
        elif silent_s >= self._slow_after / 2 and not self._is_probing:
            tasks.start_soon(self._probe, shell)

    async def _ping(self) -> None:
        if await self._shells.ping_idle():
            self.report_answer()

    async def _probe(self, shell: HostShell) -> None:
        self._is_probing = True
        try:
            with suppress(OSError):  # without a second ssh, the probe tells nothing
                await self._shells.ssh.run(self._shells.ssh.session_args("exit"))
            shell.confirm_alive()  # a host that refuses the session has answered, too
        finally:
            self._is_probing = False
