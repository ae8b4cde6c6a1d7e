"""Runs one command to its end: no thread and no second task, nothing left alive, memory bounded.

A single selector watches both pipes and the process itself; the event loop watches the selector.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

import anyio
import msgspec

from newel.agent.errors import WorkspaceError
from newel.workspace.descendants import Descendants
from newel.workspace.output import Output
from newel.workspace.port import Completed, OnOutput

BLOCK: Final = 65_536
BLOCKS_AT_ONCE: Final = 32
"""How many blocks of one pipe are read before the event loop gets its turn."""

PIPE_GRACE: Final = 0.1
"""Seconds that the pipes are still read after the shell has ended, if others hold them open."""

KILL_GRACE: Final = 2.0
"""Seconds between TERM and KILL."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one command's output in bytes: of each stream in memory, and of the file for the whole,
    which is made in ``spill_dir`` (by default the system's folder for temporary files).
    """

    output: int = 1_000_000
    spill: int = 64 * 1024 * 1024
    spill_dir: str | None = None


async def run_process(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    limits: Limits,
    timeout: float | None = None,  # noqa: ASYNC109 — partial output is returned, which cancelling cannot
    on_output: OnOutput | None = None,
) -> Completed:
    """Run a program in a session of its own, without input, until it ends.

    On timeout (seconds) it and all that it started (see ``Descendants``) is sent TERM, and KILL to what
    remains, and the output until then is returned; on cancellation the same happens and the cancellation
    goes on. Raises ``WorkspaceError`` if the program cannot be started.
    """
    began = anyio.current_time()
    output = Output(limit=limits.output, directory=limits.spill_dir, cap=limits.spill, on_output=on_output)
    child = _Child(argv, cwd, env, output)
    try:
        ended = await child.wait(began + timeout if timeout is not None else float("inf"))
        if not ended:
            with anyio.CancelScope(shield=True):
                await child.stop()
        left_open = await child.drain_rest()
        await output.flush(anyio.current_time(), final=True)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await child.stop()
        raise
    finally:
        child.close()
        output.close()
    return Completed(
        stdout=output.stdout.text(output.spill.where),
        stderr=output.stderr.text(output.spill.where),
        exit_code=child.exit_code,
        duration=round((anyio.current_time() - began) * 1000),
        timed_out=not ended,
        truncated=output.stdout.truncated or output.stderr.truncated,
        output_file=output.spill.path,
        left_open=left_open,
    )


class _Child:
    """A process with its two pipes. ``ended`` is true once it has been waited for."""

    def __init__(self, argv: Sequence[str], cwd: str, env: Mapping[str, str], output: Output) -> None:
        self.output = output
        self.ended = False
        self._all = Descendants(env)
        self.process, self._pipes = _spawn(argv, cwd, self._all)
        try:
            self._selector = selectors.DefaultSelector()
            self._exit = exit_descriptor(self.process)
        except OSError as error:  # no descriptor is left: what nobody can watch must not run
            with self.process:
                self.process.kill()
            for pipe in self._pipes.values():
                pipe.close()
            self._all.forget()
            raise WorkspaceError(
                f"The command could not be watched and was stopped: {error.strerror}."
            ) from error
        self._selector.register(self._exit, selectors.EVENT_READ)
        for name, pipe in self._pipes.items():
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, name)

    @property
    def exit_code(self) -> int:
        """As shells count: 128 + N for signal N, also for one that even KILL has not ended yet."""
        code = self.process.returncode
        if code is None:
            return 128 + signal.SIGKILL
        return code if code >= 0 else 128 - code

    async def wait(self, deadline: float) -> bool:
        """Read until the process ends: True; or until ``deadline``, on the event loop's clock: False."""
        while not self._drain():
            now = anyio.current_time()
            await self.output.flush(now)
            if now >= deadline:
                return False
            with anyio.move_on_at(min(deadline, self.output.due)):
                await anyio.wait_readable(self._selector)
        return True

    async def drain_rest(self) -> bool:
        """Read what the ended process left in its pipes; True if another process still holds them."""
        until = anyio.current_time() + PIPE_GRACE
        self._drain()
        while self._pipes and anyio.current_time() < until:
            with anyio.move_on_at(until):
                await anyio.wait_readable(self._selector)
            self._drain()
        return bool(self._pipes)

    async def stop(self) -> None:
        """End the process and all that it started, and read on until then: a process that waits to write
        cannot end well.
        """
        self._all.signal(signal.SIGTERM)
        until = anyio.current_time() + KILL_GRACE
        pause = 0.005
        while self._lives() and anyio.current_time() < until:
            await anyio.sleep(pause)
            pause = min(2 * pause, 0.05)
        while self._lives() and anyio.current_time() < until + KILL_GRACE:
            self._all.signal(signal.SIGKILL)
            await anyio.sleep(0.01)

    def close(self) -> None:
        for pipe in list(self._pipes.values()):
            self._close(pipe)
        self._selector.close()
        os.close(self._exit)
        self._all.forget()

    def _lives(self) -> bool:
        self._drain()
        return not self.ended or self._all.live()

    def _drain(self) -> bool:
        """Read what is there without waiting; True if the process has ended."""
        for key, _ in self._selector.select(0):
            if key.data is None:
                self._selector.unregister(self._exit)
                self.process.wait()
                self.ended = True
            else:
                self._read(key.data)
        return self.ended

    def _read(self, name: str) -> None:
        pipe = self._pipes[name]
        for _ in range(BLOCKS_AT_ONCE):
            try:
                chunk = os.read(pipe.fileno(), BLOCK)
            except BlockingIOError:
                return
            if not chunk:
                del self._pipes[name]
                self._close(pipe)
                return
            self.output.add(name, chunk)

    def _close(self, pipe: IO[bytes]) -> None:
        self._selector.unregister(pipe)
        pipe.close()


def _spawn(
    argv: Sequence[str], cwd: str, descendants: Descendants
) -> tuple[subprocess.Popen[bytes], dict[str, IO[bytes]]]:
    """Start it; returns the process and our ends of its outputs.

    The pipes are made here and not by ``Popen``: CPython 3.11.2 loses the ones it has made when there are no
    descriptors for the rest.
    """
    try:
        with contextlib.ExitStack() as on_failure, contextlib.ExitStack() as always:
            nothing = always.enter_context(Path(os.devnull).open("rb"))
            reads: list[IO[bytes]] = []
            writes: list[IO[bytes]] = []
            for _ in range(2):
                read, write = os.pipe()
                reads.append(on_failure.enter_context(os.fdopen(read, "rb", buffering=0)))
                writes.append(always.enter_context(os.fdopen(write, "wb", buffering=0)))
            process = descendants.start(argv, cwd=cwd, stdin=nothing, stdout=writes[0], stderr=writes[1])
            on_failure.pop_all()
            return process, dict(zip(("stdout", "stderr"), reads, strict=True))
    except (OSError, ValueError) as error:
        raise WorkspaceError(f"The command could not be started in {cwd}: {_reason(error, argv)}") from error


def _reason(error: OSError | ValueError, argv: Sequence[str]) -> str:
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        size = max(len(os.fsencode(argument)) for argument in argv)
        return (
            f"it is {size:,} bytes long, more than the system takes. "
            "Put the long part into a file and use that."
        )
    if isinstance(error, UnicodeEncodeError):
        return "it holds half of a surrogate pair, which is no character."
    if isinstance(error, OSError):
        return f"{error.strerror} ({error.filename})" if error.filename else str(error.strerror)
    return f"{error}."


def exit_descriptor(process: subprocess.Popen[bytes]) -> int:
    """A descriptor of ours that becomes readable when the process has ended."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # an old kernel, or a container that forbids it
            return os.pidfd_open(process.pid)
    return exit_descriptor_by_thread(process)


def exit_descriptor_by_thread(process: subprocess.Popen[bytes]) -> int:
    """The same where the system has no such descriptor: a thread waits and closes the end of a pipe."""
    reader, writer = os.pipe()

    def wait() -> None:
        process.wait()
        os.close(writer)

    threading.Thread(target=wait, name=f"newel-wait-{process.pid}", daemon=True).start()
    return reader
