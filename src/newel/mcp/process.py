"""Our ends of a server's pipes: read at a bounded share of the time, written without waiting for anybody else."""

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
    """A process with its three pipes; ``ended`` is set once it has been waited for."""

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
        """Wait for the process to end; its exit code, as ``subprocess`` counts."""
        await anyio.wait_readable(self._exit)
        code = self.process.wait()
        self.ended.set()
        return code

    async def read(self, pipe: IO[bytes], take: Callable[[bytes], Awaitable[None]]) -> None:
        """Give ``take`` all that comes, to the end.

        After each piece it rests for as long as that took, so that a flood costs the others at most half of the time.
        """
        while not pipe.closed:
            try:
                await anyio.wait_readable(pipe)
                chunk = os.read(pipe.fileno(), BLOCK)
            except BlockingIOError:
                continue
            except (OSError, ValueError, anyio.ClosedResourceError):
                return  # closed under us
            if not chunk:
                return
            began = anyio.current_time()
            await take(chunk)
            await anyio.sleep(anyio.current_time() - began)

    async def write(self, data: bytes) -> None:
        """Write all of it. Raises ``OSError`` if nobody reads any more."""
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
