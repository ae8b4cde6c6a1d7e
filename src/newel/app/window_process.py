"""A window's process: it ends with this one, and its errors are kept for a message."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final, cast

import anyio
import anyio.abc

from newel.concurrency import background_tasks
from newel.text.sanitize import sanitize
from newel.workspace.process.environment import is_withheld

_END_TIMEOUT_S: Final = 3.0
_TAIL: Final = 4000
"""Characters of the error output."""


class WindowProcess:
    """Standard input and output are pipes. The process ends when its input is closed, which the system does if this process is
    killed.
    """

    def __init__(self, process: anyio.abc.Process) -> None:
        self._process = process
        self._input = cast("anyio.abc.ByteSendStream", process.stdin)
        self._output = cast("anyio.abc.ByteReceiveStream", process.stdout)
        self._error_output = cast("anyio.abc.ByteReceiveStream", process.stderr)
        self._errors = b""

    @property
    def errors(self) -> str:
        """The end of its error output, on one line."""
        lines = sanitize(self._errors.decode(errors="replace")).strip().splitlines()
        return " ".join(line.strip() for line in lines[-3:])[-400:] or "it printed no error"

    async def wait(self) -> int:
        """Wait for its end; returns the exit code."""
        code = await self._process.wait()
        await anyio.lowlevel.checkpoint()  # for the last of its errors
        return code

    async def send(self, data: bytes) -> None:
        """Raises ``anyio.BrokenResourceError`` and ``ClosedResourceError``."""
        await self._input.send(data)

    async def receive(self) -> bytes:
        """Raises ``anyio.EndOfStream`` at the end of its output."""
        return await self._output.receive()

    async def collect_errors(self) -> None:
        async for data in self._error_output:
            self._errors = (self._errors + data)[-_TAIL:]

    async def end(self) -> None:
        """Close its input, which ends it; kill it and its children if it does not end."""
        await self._input.aclose()
        with anyio.move_on_after(_END_TIMEOUT_S):
            await self._process.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()


@asynccontextmanager
async def window_process(arguments: list[str]) -> AsyncGenerator[WindowProcess]:
    """Run a window's process for as long as the block, in a session of its own. Raises ``OSError`` if it cannot start."""
    process = await anyio.open_process(
        arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(os.environ),
        start_new_session=True,
    )
    window = WindowProcess(process)
    try:
        async with background_tasks(window.collect_errors):
            yield window
    finally:
        with anyio.CancelScope(shield=True):
            await window.end()
            await process.aclose()


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without keys and settings of models, which a browser does not need."""
    return {name: value for name, value in environ.items() if not is_withheld(name)}
