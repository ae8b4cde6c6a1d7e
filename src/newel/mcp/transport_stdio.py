"""A server as a process: MCP over its standard input and output, with limits for everything.

The SDK's own transport suits well-behaved servers. It buffers lines of any length, reports each invalid line with
a traceback, gives the server our standard error, and cannot end a child that left the server's process group.
This one returns the same pair of streams.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import IO, TYPE_CHECKING, Final

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from newel.agent.errors import ConfigError, WorkspaceError
from newel.concurrency import task_group
from newel.mcp.framing import JsonLineFramer, LimitExceeded, StderrTail, parse
from newel.mcp.server_config import ServerConfig
from newel.workspace.process.environment import child_env, without_own_python
from newel.workspace.process.launcher import DIRECT, ProcessLauncher, StartedProcess
from newel.workspace.process.process_mark import MARK
from newel.workspace.process.process_tree import ProcessTree
from newel.workspace.process.runner import exit_descriptor

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

    ToClient = MemoryObjectSendStream[SessionMessage | Exception]
    Streams = tuple[
        MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
    ]

BLOCK: Final = 65_536


class ProcessPipes:
    """A process with its three pipes; ``ended`` is set once it was waited for."""

    def __init__(self, process: StartedProcess, pipes: tuple[int, int, int]) -> None:
        """``pipes`` are our ends of its standard streams."""
        self.ended = anyio.Event()
        self.process = process
        self.stdin: IO[bytes] = os.fdopen(pipes[0], "wb", buffering=0)
        self.stdout: IO[bytes] = os.fdopen(pipes[1], "rb", buffering=0)
        self.stderr: IO[bytes] = os.fdopen(pipes[2], "rb", buffering=0)
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
            except (OSError, ValueError, anyio.ClosedResourceError):  # closed by another task
                return
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


MAX_UNSENT: Final = 256
"""Messages queued for a server that does not read its input."""

EXIT_GRACE: Final = 0.05
"""Seconds to wait for an explanation after one of the streams or the process ended."""

_HOME = {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "TMPDIR", "TERM", "LANG", "LANGUAGE", "TZ"}
_FOLDERS = {"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"}
_NETWORK = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}
_CERTIFICATES = {"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"}
PASSED: Final = frozenset(
    _HOME | _FOLDERS | _NETWORK | {name.lower() for name in _NETWORK} | _CERTIFICATES | {MARK}
)
"""The variables that every server gets; others only through its ``env``."""


def environment(server: ServerConfig, environ: Mapping[str, str], folder: str) -> dict[str, str]:
    """The environment of a server that starts in ``folder``."""
    environ = without_own_python(environ, folder)
    passed = {name: value for name, value in environ.items() if name in PASSED or name.startswith("LC_")}
    return child_env(passed, server.env)


class ShutdownTimeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds for each step of a shutdown: to read what was sent before its input is closed, to exit by itself, to
    react to SIGTERM, and to be gone after SIGKILL.
    """

    flush: float = 0.5
    exit: float = 1.5
    term: float = 1.5
    kill: float = 2.0


class StdioTransport:
    """One process of a server. ``ended`` is set when it can send nothing more; ``reason`` explains that, unless we
    ended it. ``exited`` is true if it exited by itself.
    """

    def __init__(
        self,
        server: ServerConfig,
        *,
        folder: str,
        environ: Mapping[str, str],
        timeouts: ShutdownTimeouts,
        launcher: ProcessLauncher[StartedProcess] = DIRECT,
    ) -> None:
        self.ended = anyio.Event()
        self.exited = False
        self.reason = ""
        self.tail = StderrTail()
        self._server = server
        self._folder = folder
        self._timeouts = timeouts
        self._launcher = launcher
        self._all = ProcessTree(environment(server, environ, folder))
        self._stopping = False

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[Streams]:
        """The process for the duration of the context; afterwards no process of it is left. Raises ``ConfigError``
        if it cannot be started.
        """
        pipes = self._start()
        to_us, incoming = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
        outgoing, from_us = anyio.create_memory_object_stream["SessionMessage"](MAX_UNSENT)
        written = anyio.Event()
        pumps: list[Callable[[], Awaitable[None]]] = [
            partial(self._watch, pipes, to_us),
            partial(self._read_messages, pipes, to_us, outgoing),
            partial(self._read_errors, pipes),
            partial(self._write, pipes, from_us, written),
        ]
        scopes = [anyio.CancelScope(shield=True) for _ in pumps]
        try:
            async with task_group() as tasks:
                for scope, pump in zip(scopes, pumps, strict=True):
                    tasks.start_soon(_run_in, scope, pump)
                try:
                    yield incoming, outgoing
                finally:
                    self._stopping = True
                    with anyio.CancelScope(shield=True):
                        incoming.close()
                        outgoing.close()
                        with anyio.move_on_after(self._timeouts.flush):
                            await written.wait()
                        pipes.close(pipes.stdin)
                        await self._stop(pipes)
                    for scope in scopes:
                        scope.cancel()
        finally:
            for stream in (to_us, incoming, outgoing, from_us):
                stream.close()
            pipes.close_all()
            self._all.forget()

    # -- the process ------------------------------------------------------------------------------

    def _start(self) -> ProcessPipes:
        command = self._server.command or ""
        ours, theirs = _open_pipes()
        try:
            process = self._all.launch(
                self._launcher, [command, *self._server.args], cwd=self._folder, streams=theirs
            )
        except (OSError, ValueError, WorkspaceError) as error:
            for descriptor in ours:
                os.close(descriptor)
            why = str(error).removesuffix(".")
            if isinstance(error, OSError):
                why = f"{error.filename or command}: {error.strerror}"
            raise ConfigError(f"It could not be started: {why}.") from None
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        try:
            return ProcessPipes(process, ours)
        except OSError as error:  # no descriptor is left: a process that cannot be watched must not run
            process.kill()
            process.wait()
            self._all.forget()
            raise ConfigError(f"It could not be watched and was stopped: {error.strerror}.") from None

    async def _stop(self, pipes: ProcessPipes) -> None:
        """Wait for the process to exit, then end it with all its processes."""
        with anyio.move_on_after(self._timeouts.exit):
            await pipes.ended.wait()
        for number, grace in (
            (signal.SIGTERM, self._timeouts.term),
            (signal.SIGKILL, self._timeouts.kill),
        ):
            until = anyio.current_time() + grace
            while not pipes.ended.is_set() or self._all.is_running():
                if anyio.current_time() >= until:
                    break
                self._all.signal(number)
                await anyio.sleep(0.05)

    def _end(self, reason: str, to_us: ToClient) -> None:
        if not self._stopping:
            self.reason = self.reason or reason
        self.ended.set()
        to_us.close()

    # -- the pumps --------------------------------------------------------------------------------
    # They survive a cancellation: a server shuts down properly only if it can read and write to the end.

    async def _watch(self, pipes: ProcessPipes, to_us: ToClient) -> None:
        code = await pipes.wait()
        if not self._stopping:
            self.exited = True
            self.reason = (
                self.reason or f"It ended ({f'exit code {code}' if code >= 0 else f'signal {-code}'})."
            )
        await anyio.sleep(EXIT_GRACE)
        self._end("", to_us)

    async def _read_messages(
        self,
        pipes: ProcessPipes,
        to_us: ToClient,
        outgoing: MemoryObjectSendStream[SessionMessage],
    ) -> None:
        lines = JsonLineFramer()

        async def take(chunk: bytes) -> None:
            for line in lines.feed(chunk):
                message = parse(line)
                if message is None:
                    self.tail.add(line + b"\n")
                    lines.junk(line)
                else:
                    lines.message()
                    await to_us.send(message)
            if outgoing.statistics().tasks_waiting_send > MAX_UNSENT:
                raise LimitExceeded("It asks faster than it reads the answers.")

        try:
            await pipes.read(pipes.stdout, take)
            await anyio.sleep(EXIT_GRACE)  # the exit says more
            self._end("It closed its output.", to_us)
        except LimitExceeded as error:
            self._end(str(error), to_us)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):  # the session is closed
            pass
        await pipes.read(pipes.stdout, _ignore)  # a task that waits to write would never end

    async def _read_errors(self, pipes: ProcessPipes) -> None:
        async def take(chunk: bytes) -> None:
            self.tail.add(chunk)

        await pipes.read(pipes.stderr, take)

    async def _write(
        self, pipes: ProcessPipes, from_us: MemoryObjectReceiveStream[SessionMessage], written: anyio.Event
    ) -> None:
        try:
            async for item in from_us:
                # Text that cannot be encoded is not sent; the connection continues.
                with contextlib.suppress(ValueError):
                    data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
                    await pipes.write(data + b"\n")
        except (OSError, anyio.ClosedResourceError):  # it reads no more; its exit is noticed elsewhere
            pass
        finally:
            from_us.close()
            written.set()


def _open_pipes() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Our ends and the process's ends of three pipes. Raises ``ConfigError`` if no descriptor is left."""
    opened: list[int] = []
    try:
        for _ in range(3):
            opened += os.pipe()
    except OSError as error:
        for descriptor in opened:
            os.close(descriptor)
        raise ConfigError(f"It could not be started: {error.strerror}.") from None
    stdin, ours_in, ours_out, stdout, ours_err, stderr = opened
    return (ours_in, ours_out, ours_err), (stdin, stdout, stderr)


async def _run_in(scope: anyio.CancelScope, pump: Callable[[], Awaitable[None]]) -> None:
    with scope:
        await pump()


async def _ignore(_: bytes) -> None:
    """Ignore input that arrives after the end."""
