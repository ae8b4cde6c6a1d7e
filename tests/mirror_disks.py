"""The disks on which copies are tested: this machine's, and those of hosts with various programs."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

import anyio

from newel.workspace.mirror.local_disk import LocalMirrorBackend
from newel.workspace.mirror.mirror import Mirror, MirrorLimits
from newel.workspace.ssh.mirror.disk import SshMirrorBackend
from tests.requirements import require_program
from tests.shell_host import ShellHost, link_busybox

DISKS: Final = ("local", "dash", "busybox")


class Disks:
    """Opens mirrors on one disk. ``host`` is the host, None for this machine."""

    def __init__(self, home: Path, tasks: anyio.abc.TaskGroup, host: ShellHost | None) -> None:
        self.copies = home / ".newel" / "copies"
        self.host = host
        self._home = home
        self._tasks = tasks
        self._opened: list[Mirror] = []

    async def __call__(self, project: Path, **limits: int) -> Mirror:
        if self.host is None:
            disk = LocalMirrorBackend.open(self.copies, str(project))
        else:
            disk = await SshMirrorBackend.open(
                self.host, str(project), str(self._home), self._tasks.start_soon
            )
            self._tasks.start_soon(disk.keep, lambda: True)
        self._opened.append(Mirror(disk, MirrorLimits(**limits), []))
        return self._opened[-1]

    def close(self) -> None:
        for mirror in self._opened:
            mirror.close()


@contextlib.asynccontextmanager
async def open_mirrors(name: str, home: Path) -> AsyncGenerator[Disks]:
    # Beside the home, as the process may be killed: what is there is removed with the other files of the tests.
    with (
        tempfile.TemporaryDirectory(prefix="programs-", dir=home.parent) as programs,
        contextlib.ExitStack() as stack,
    ):
        host = None
        if name == "busybox":
            require_program("busybox")
            link_busybox(Path(programs), "git")
            host = ShellHost(("busybox", "sh"), path=programs)
        elif name != "local":
            host = ShellHost((name,))
        if host is not None:
            stack.callback(host.close)
        async with anyio.create_task_group() as tasks:
            disks = Disks(home, tasks, host)
            yield disks
            disks.close()
            tasks.cancel_scope.cancel()
