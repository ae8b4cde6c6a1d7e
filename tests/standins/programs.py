"""Runs programs on this machine, through the port that ``ollama_run`` uses for hosts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import anyio

from newel.agent.errors import WorkspaceError
from newel.providers.ollama.cli import ProgramEnded


class LocalPrograms:
    """Searches ``folder`` for programs first. While ``lost``, the host is unreachable."""

    def __init__(self, folder: Path) -> None:
        self.place = "user@box"
        self.lost = False
        self.running = 0
        self._path = f"{folder}:/usr/bin:/bin"

    async def run_program(
        self, argv: Sequence[str], /, *, stdin: bytes, on_stdout: Callable[[bytes], Awaitable[None]]
    ) -> ProgramEnded:
        if self.lost:
            raise WorkspaceError("The connection to user@box was lost.")
        # As on a host, a shell searches the program, and exits with 127 if there is none.
        command = ["/bin/sh", "-c", 'exec "$@"', "sh", *argv]
        stderr = bytearray()
        async with await anyio.open_process(command, env={"PATH": self._path}) as process:
            assert process.stdin
            assert process.stdout
            assert process.stderr
            self.running += 1
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(_collect, process.stderr, stderr)
                    await _give(process.stdin, stdin)
                    async for piece in process.stdout:
                        await on_stdout(piece)
            except BaseExceptionGroup as failed:  # errors of `on_stdout` are raised unchanged
                process.kill()
                raise failed.exceptions[0] from None
            finally:
                self.running -= 1
            return ProgramEnded(await process.wait(), bytes(stderr))


async def _give(stdin: anyio.abc.ByteSendStream, given: bytes) -> None:
    with suppress(anyio.BrokenResourceError):  # it did not read all its input
        await stdin.send(given)
    await stdin.aclose()


async def _collect(source: anyio.abc.ByteReceiveStream, kept: bytearray) -> None:
    async for piece in source:
        kept += piece
