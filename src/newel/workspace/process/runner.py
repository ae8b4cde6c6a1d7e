"""Runs one command to its end, without threads or further tasks, leaving no process behind, in bounded memory.

A single selector watches both pipes and the process itself; the event loop watches the selector.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Unpack

import anyio

from newel.agent.errors import WorkspaceError
from newel.workspace.port import CommandResult, RunOptions, TimeLimit
from newel.workspace.process.launcher import DIRECT, ProcessLauncher, StartedProcess
from newel.workspace.process.output import Output, OutputLimits, OutputSink
from newel.workspace.process.process_tree import ProcessTree

BLOCK: Final = 65_536
BLOCKS_AT_ONCE: Final = 32
"""Blocks to read from one pipe before the event loop gets its turn."""

KILL_GRACE: Final = 2.0
"""Seconds between TERM and KILL."""


QUICK_EXIT: Final = 0.02
"""Seconds in which a command usually ends after TERM, before its other processes are looked for among all of the machine."""

LEAVING: Final = 0.05
"""Seconds for a command's processes to end after it, before they count as left running."""


Started = tuple[StartedProcess, int | None, dict[str, int]]
"""A process, and our ends of its input, if any, and its outputs."""


async def run_process(
    argv: Sequence[str],
    *,
    cwd: str,
    environ: Mapping[str, str],
    limits: OutputLimits,
    launcher: ProcessLauncher[StartedProcess] = DIRECT,
    **options: Unpack[RunOptions],
) -> CommandResult:
    """Run a program in a session of its own, without input, until it ends.

    On timeout the program and all its processes (see ``ProcessTree``) get TERM, then KILL, and the output so far is
    returned. On cancellation the same happens, and the cancellation propagates. Raises ``WorkspaceError`` if the program
    cannot be started.
    """
    output = Output(limits, options.get("on_output"))
    env = {**environ, **(options.get("env") or {})}
    child = ChildProcess(argv, cwd, env, output, launcher=launcher)
    return to_completed(output, await wait_for_exit(child, TimeLimit.of(options.get("timeout"))))


class ExitInfo(NamedTuple):
    """How a process ended; as in ``CommandResult``."""

    exit_code: int
    duration: int
    timed_out: bool
    left_open: bool
    left_running: Sequence[str] = ()


async def wait_for_exit(child: ChildProcess, limit: TimeLimit) -> ExitInfo:
    """Wait until a process has ended; end it on timeout or cancellation."""
    began = anyio.current_time()
    limit.start(began)
    try:
        while not (exit_info := await child.wait(until := limit.until)) and until < limit.until:
            pass  # the limit was lifted in the meantime
        if not exit_info:
            with anyio.CancelScope(shield=True):
                await child.stop()
        left_open = await child.drain_rest()
        left_running = await child.left_running(stopped=not exit_info)
        await child.output.flush(anyio.current_time(), final=True)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await child.stop()
        raise
    finally:
        child.close()
        child.output.close()
    return ExitInfo(
        child.exit_code, round((anyio.current_time() - began) * 1000), not exit_info, left_open, left_running
    )


def to_completed(output: Output, ending: ExitInfo) -> CommandResult:
    return CommandResult(
        stdout=output.stdout.text(output.spill.where),
        stderr=output.stderr.text(output.spill.where),
        truncated=output.stdout.truncated or output.stderr.truncated,
        output_file=output.spill.path,
        whole=output.spill.where if output.spill.path else "",
        **ending._asdict(),
    )


class ChildProcess:
    """A process with its pipes. ``ended`` is true once it has been reaped.

    Its standard input is ``stdin`` and the data of later ``send`` calls, until ``close_input``; it is empty if None.
    """

    pipe_grace = 0.1
    """Seconds to read the pipes after the process is over, if others hold them open."""

    def __init__(
        self,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        output: OutputSink,
        *,
        stdin: bytes | None = None,
        launcher: ProcessLauncher[StartedProcess] = DIRECT,
    ) -> None:
        self.output = output
        self.ended = False
        self.folder = cwd
        self.processes = ProcessTree(env)
        self._unsent = bytearray()
        self._is_all_sent = False
        self.process, self._input, self._pipes = self._start(argv, launcher, with_input=stdin is not None)
        try:
            self._selector = selectors.DefaultSelector()
            self._exit = exit_descriptor(self.process)
        except OSError as error:  # out of descriptors: a process that cannot be monitored must not run
            self.process.kill()
            self.process.wait()
            for pipe in (*self._pipes.values(), *([] if self._input is None else [self._input])):
                os.close(pipe)
            self.processes.forget()
            raise WorkspaceError(
                f"The command could not be monitored and was stopped: {error.strerror}."
            ) from error
        self._selector.register(self._exit, selectors.EVENT_READ)
        for name, pipe in self._pipes.items():
            os.set_blocking(pipe, False)
            self._selector.register(pipe, selectors.EVENT_READ, name)
        if self._input is not None:
            os.set_blocking(self._input, False)
        self.send(stdin or b"")

    @property
    def exit_code(self) -> int:
        """As in shells: 128 + N for signal N, also while even KILL has not ended it yet."""
        code = self.process.returncode
        if code is None:
            return 128 + signal.SIGKILL
        return code if code >= 0 else 128 - code

    @property
    def over(self) -> bool:
        """Whether its work is done."""
        return self.ended

    async def wait(self, deadline: float) -> bool:
        """Read until it is over: True; or until ``deadline``, on the event loop's clock: False."""
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
        await self._read_until(lambda: self.ended and not self._pipes, self.pipe_grace)
        return bool(self._pipes)

    async def left_running(self, *, stopped: bool) -> Sequence[str]:
        """Describe the processes that it left running, after a moment for those that are about to end."""
        until = anyio.current_time() + LEAVING
        while (rest := self.processes.find_remaining(all_of_them=stopped)) and anyio.current_time() < until:  # noqa: ASYNC110 — there is no event
            await anyio.sleep(LEAVING / 5)
        if rest:
            self.processes.leave(self.folder)
        return rest

    async def stop(self) -> None:
        """End the process and all that it started. Keep reading until then, as a process that blocks on a write cannot exit
        cleanly.
        """
        until = anyio.current_time() + KILL_GRACE
        if was_first := self.processes.signal_first(signal.SIGTERM):
            await self._read_until(lambda: self.ended and not self._pipes, QUICK_EXIT)
        if not self.processes.signal(signal.SIGTERM, but_first=was_first) and self.ended:
            return
        pause = 0.005
        while self._lives() and anyio.current_time() < until:
            await anyio.sleep(pause)
            pause = min(2 * pause, 0.05)
        while self._lives() and anyio.current_time() < until + KILL_GRACE:
            self.processes.signal(signal.SIGKILL)
            await anyio.sleep(0.01)

    def receive(self, stream: str, chunk: bytes) -> None:
        """Handle data from one of its outputs."""
        self.output.add(stream, chunk)

    def send(self, data: bytes) -> None:
        """Write to its standard input as soon as it reads; dropped if that is closed."""
        if self._input is not None and data:
            if not self._unsent:
                self._selector.register(self._input, selectors.EVENT_WRITE, "stdin")
            self._unsent += data

    def end_input(self) -> None:
        """Close its standard input as soon as it has read all of it."""
        self._is_all_sent = True
        if not self._unsent:
            self.close_input()

    def close_input(self) -> None:
        """Close its standard input; unsent data is dropped."""
        if self._input is not None:
            if self._unsent:
                self._selector.unregister(self._input)
                self._unsent.clear()
            os.close(self._input)
            self._input = None

    def close(self) -> None:
        self.close_input()
        for pipe in list(self._pipes.values()):
            self._close(pipe)
        self._selector.close()
        os.close(self._exit)
        self.processes.forget()

    async def _read_until(self, done: Callable[[], bool], seconds: float) -> None:
        """Read without flushing until ``done``, or for so many seconds."""
        until = anyio.current_time() + seconds
        self._drain()
        while not done() and anyio.current_time() < until:
            with anyio.move_on_at(until):
                await anyio.wait_readable(self._selector)
            self._drain()

    def _start(
        self, argv: Sequence[str], launcher: ProcessLauncher[StartedProcess], *, with_input: bool
    ) -> Started:
        return _spawn(argv, self.folder, self.processes, launcher, with_input=with_input)

    def _lives(self) -> bool:
        self._drain()
        return not self.ended or self.processes.is_running()

    def _drain(self) -> bool:
        """Read and write without blocking; True if the process is over."""
        for key, _ in self._selector.select(0):
            if key.data is None:
                self._selector.unregister(self._exit)
                self.process.wait()
                self.ended = True
            elif key.data == "stdin":
                self._write()
            else:
                self._read(key.data)
        return self.over

    def _write(self) -> None:
        if self._input is None:
            return
        try:
            written = os.write(self._input, memoryview(self._unsent)[:BLOCK])
        except BlockingIOError:
            return
        except OSError:  # it has closed its input
            self.close_input()
            return
        del self._unsent[:written]
        if not self._unsent:
            self._selector.unregister(self._input)
            if self._is_all_sent:
                self.close_input()

    def _read(self, name: str) -> None:
        pipe = self._pipes[name]
        for _ in range(BLOCKS_AT_ONCE):
            try:
                chunk = os.read(pipe, BLOCK)
            except BlockingIOError:
                return
            except OSError:  # a terminal that no process has open any more
                chunk = b""
            if not chunk:
                del self._pipes[name]
                self._close(pipe)
                return
            self.receive(name, chunk)

    def _close(self, pipe: int) -> None:
        self._selector.unregister(pipe)
        os.close(pipe)


def _spawn(
    argv: Sequence[str],
    cwd: str,
    descendants: ProcessTree,
    launcher: ProcessLauncher[StartedProcess],
    *,
    with_input: bool,
) -> Started:
    """Start a process; returns it and our ends of its input, if any, and its outputs.

    The pipes are created here, not by ``Popen``: CPython 3.11.2 leaks some of them when it runs out of descriptors.
    """
    ours: list[int] = []
    theirs: list[int] = []
    no_longer_wanted = ours
    try:
        for _ in range(2):
            read, write = os.pipe()
            ours.append(read)
            theirs.append(write)
        if with_input:
            read, write = os.pipe()
            ours.append(write)
            theirs.append(read)
        else:
            theirs.append(os.open(os.devnull, os.O_RDONLY))
        stdout, stderr, stdin = theirs
        process = descendants.launch(launcher, argv, cwd=cwd, streams=(stdin, stdout, stderr))
        no_longer_wanted = []
    except (OSError, ValueError) as error:
        raise start_error(cwd, error, argv) from error
    finally:
        for descriptor in (*no_longer_wanted, *theirs):
            os.close(descriptor)
    return process, ours[2] if with_input else None, {"stdout": ours[0], "stderr": ours[1]}


def start_error(folder: str, error: OSError | ValueError, argv: Sequence[str]) -> WorkspaceError:
    """The error for a command that could not be started."""
    return WorkspaceError(f"The command could not be started in {folder}: {_reason(error, argv)}")


def _reason(error: OSError | ValueError, argv: Sequence[str]) -> str:
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        size = max(len(os.fsencode(argument)) for argument in argv)
        return f"it is {size:,} bytes long, more than the system accepts. Put the long part into a file."
    if isinstance(error, UnicodeEncodeError):
        return "it contains an unpaired surrogate, which is not a character."
    if isinstance(error, OSError):
        return f"{error.strerror} ({error.filename})" if error.filename else str(error.strerror)
    return f"{error}."


def exit_descriptor(process: StartedProcess) -> int:
    """A descriptor that becomes readable when the process has ended."""
    # `isinstance` with a protocol takes fifty times as long
    own: int | None = getattr(process, "descriptor", None)
    if own is not None:
        return os.dup(own)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # an old kernel, or a container that forbids it
            return os.pidfd_open(process.pid)
    return exit_descriptor_by_thread(process)


def exit_descriptor_by_thread(process: StartedProcess) -> int:
    """The same without pidfd: a thread waits and closes the end of a pipe."""
    reader, writer = os.pipe()

    def wait() -> None:
        process.wait()
        os.close(writer)

    threading.Thread(target=wait, name=f"newel-wait-{process.pid}", daemon=True).start()
    return reader
