"""Pipes to a server process: reading takes a limited share of the time, writing blocks nothing else."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Awaitable, Callable
from typing import IO, Final

import anyio

from newel.workspace.process.runner import exit_descriptor

BLOCK: Final = 65_536


class ProcessPipes:
    """A process with its three pipes; ``ended`` is set once it was waited for."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None  # noqa: S101 — who starts it asks for all three
        assert process.stdout is not None  # noqa: S101 — likewise
        assert process.stderr is not None  # noqa: S101 — likewise
        self.ended = anyio.Event()
        self.process = process
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr
        self._exit = exit_descriptor(process)
        for pipe in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(pipe.fileno(), False)

    async def wait(self) -> int:
        """Wait for the process to end; returns its exit code, like ``subprocess``."""
        await anyio.wait_readable(self._exit)
        code = self.process.wait()
        self.ended.set()
        return code

    async def read(self, pipe: IO[bytes], take: Callable[[bytes], Awaitable[None]]) -> None:
        """Pass all output to ``take``, until the end.

        After each chunk it pauses for as long as that took, so that a flood costs other tasks at most half of the
        time.
        """
        while not pipe.closed:
            try:
                await anyio.wait_readable(pipe)
                chunk = os.read(pipe.fileno(), BLOCK)
            except BlockingIOError:
                continue
            except (OSError, ValueError, anyio.ClosedResourceError):
                return  # closed by another task
            if not chunk:
                return
            began = anyio.current_time()
            await take(chunk)
            await anyio.sleep(anyio.current_time() - began)

    async def write(self, data: bytes) -> None:
        """Write all of it. Raises ``OSError`` if the reader is gone."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self.stdin.fileno(), rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self.stdin)

    def close(self, pipe: IO[bytes]) -> None:
        if not pipe.closed:
            anyio.notify_closing(pipe)
            with contextlib.suppress(OSError):
                pipe.close()

    def close_all(self) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr):
            self.close(pipe)
        os.close(self._exit)
