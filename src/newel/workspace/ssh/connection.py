"""The connection to a host: one login, shared by a shell that answers requests and by the sessions of commands.

The connection's first shell, the *master*, carries the SSH connection; later shells and commands are sessions on it.

    connecting ──▶ up ◀──▶ slow    no answer for a while; the connection may be intact (see ``Heartbeat``)
     ▲  ▲  │        │       │
     │  │  ├─────▶ lost ◀───┘       ssh ended, or an attempt failed; the pending request tries again after a pause
     │  └──┼─────────┘
     │     └─────▶ failed           gave up; the next request tries again
     └───────────────┘
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, Final, Literal, TypedDict, Unpack

import anyio
import anyio.abc
import msgspec

from newel.agent.errors import ConnectionLost, HostUnreachable, WorkspaceError
from newel.concurrency import background_tasks
from newel.workspace.port import ProgramEnded
from newel.workspace.ssh.command_line import SshCommand
from newel.workspace.ssh.connection_errors import SshProblem, explain
from newel.workspace.ssh.port import AnswerTooLong, HostAnswer, HostInfo
from newel.workspace.ssh.process import Client, run_program_on_host
from newel.workspace.ssh.quick_requests import QuickRequest, send_together
from newel.workspace.ssh.shell import SETTLE_GRACE, SHELL_COMMAND, HostShell, ShellEnded
from newel.workspace.ssh.target import Target

RECONNECT_TIMEOUT: Final = 120.0
"""Seconds that a request waits for a lost host to come back."""

LOST_AFTER: Final = 15
"""Seconds without a sign of life after which a host counts as lost."""

SLOW_AFTER: Final = 4.0
"""Seconds without an answer after which a host is reported as slow."""

LOGIN_TIMEOUT: Final = 45.0
"""Seconds from the start of ssh to the first answer: proxies, keys, the login shell's start-up files."""

MIN_PAUSE: Final = 0.5
MAX_PAUSE: Final = 15.0
"""Seconds between two attempts to reconnect."""

MAX_TRIES: Final = 3
"""Times that a request is sent if the connection breaks over it."""

StateName = Literal["connecting", "up", "slow", "lost", "failed"]


class ConnectionState(msgspec.Struct, frozen=True):
    """``reason`` says why the connection is ``lost`` or ``failed``, or for how long a ``slow`` host has not answered."""

    name: StateName
    reason: str = ""

    @property
    def is_connected(self) -> bool:
        return self.name in {"up", "slow"}


OnState = Callable[[ConnectionState], None]


class ConnectionOptions(TypedDict, total=False):
    """``config`` is a file that ssh reads instead of the user's, ``environ`` replaces this process's environment.

    In seconds: a request waits for a lost host for ``reconnect_timeout``; a host without a sign of life is lost after
    ``lost_after``, one without an answer is slow after ``slow_after``. ``on_state`` is called on each change of state.
    """

    config: str | None
    environ: Mapping[str, str]
    reconnect_timeout: float
    lost_after: int
    slow_after: float
    on_state: OnState


@asynccontextmanager
async def connected(target: Target, **options: Unpack[ConnectionOptions]) -> AsyncGenerator[SshConnection]:
    """Connect to a host; a failure of this first attempt is final. Raises ``HostUnreachable``."""
    connection = SshConnection(target, options)
    async with connection.open():
        yield connection


class SshConnection:
    """A ``RemoteHostPort``; see ``connected``. Requests are answered in order, one at a time; those that wait and are quick, together."""

    def __init__(self, target: Target, options: ConnectionOptions) -> None:
        self.target = target
        """Once connected, with the address, user and port that ssh's configuration gives."""
        self.host = target.host
        """The host's name as the user wrote it, perhaps an alias; ``target`` is the machine."""
        self.info = HostInfo()
        self.state = ConnectionState("connecting")
        environ, lost_after = options.get("environ", os.environ), options.get("lost_after", LOST_AFTER)
        self.ssh = SshCommand(target, options.get("config"), environ, lost_after)
        self.shell: HostShell | None = None
        """The shell that answers requests."""
        self._master: HostShell | None = None
        self._reconnect_timeout = options.get("reconnect_timeout", RECONNECT_TIMEOUT)
        self._heartbeat = Heartbeat(self, options.get("slow_after", SLOW_AFTER))
        self.listeners = [options["on_state"]] if "on_state" in options else []
        """Called on each change of the state; they must not raise."""
        self._lock = anyio.Lock()
        self._quick: list[QuickRequest] = []
        """What waits for the lock and may be sent together."""
        self._tunnel_lock = anyio.Lock()
        self._retry_now = anyio.Event()
        self._tasks: anyio.abc.TaskGroup
        self._services: anyio.abc.TaskGroup

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Connect until the block ends."""
        try:
            async with background_tasks() as self._tasks:
                try:
                    self.target = await self.ssh.resolve()
                    async with self._lock:
                        await self._ready(anyio.current_time())
                    async with background_tasks(self._heartbeat.run), background_tasks() as self._services:
                        yield
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._close_shells()
        finally:
            self.ssh.close()

    @property
    def is_busy(self) -> bool:
        """Whether a request or an attempt to connect is in progress."""
        return self._lock.locked()

    def retry_now(self) -> None:
        """If a lost connection is to be tried again later, try it now."""
        self._retry_now.set()

    @contextmanager
    def listening(self, listener: OnState) -> Generator[None]:
        """Call the listener on each change until the block ends."""
        self.listeners.append(listener)
        try:
            yield
        finally:
            self.listeners.remove(listener)

    def set_state(self, name: StateName, reason: str = "") -> None:
        state = ConnectionState(name, reason)
        if state != self.state:
            self.state = state
            for listener in list(self.listeners):
                listener(state)

    async def ask(self, script: str, /, *, stdin: bytes = b"") -> HostAnswer:
        """See ``RemoteHostPort``. The request must change nothing: it is repeated if the connection breaks."""
        return await self._retry(partial(self._request, script, stdin, self._deadline(), settle=False))

    async def ask_quick(self, script: str, /) -> HostAnswer:
        """As ``ask``, for a request that the host answers at once: those that wait at the same time share a round trip."""
        return await self._retry(partial(self._request_quick, QuickRequest(script), self._deadline()))

    async def _retry(self, send: Callable[[], Awaitable[HostAnswer]]) -> HostAnswer:
        tries = 0
        while True:
            tries += 1
            try:
                return await send()
            except ShellEnded as ended:
                if tries == MAX_TRIES:
                    raise ConnectionLost(
                        f"The connection to {self.host} broke {tries} times during one request. {ended.message}"
                    ) from ended

    async def change(self, script: str, /, *, stdin: bytes = b"") -> HostAnswer:
        """As ``ask``, but sent only once: raises ``ConnectionLost`` if the outcome is unknown. Without input, it may share a round trip."""
        try:
            if stdin:  # some programs read more than theirs, and so what follows
                return await self._request(script, stdin, self._deadline(), settle=True)
            return await self._request_quick(QuickRequest(script, is_change=True), self._deadline())
        except ShellEnded as ended:
            raise ConnectionLost(
                f"The connection to {self.host} was lost during a change. Its outcome is unknown and it was not retried."
                " Check the host before you repeat it."
            ) from ended

    async def ping(self) -> float:
        """The round-trip time of an empty request, in seconds."""
        async with self._lock:  # the wait for other requests does not count
            pass
        started = anyio.current_time()
        await self.ask(":")
        return anyio.current_time() - started

    async def ping_idle(self) -> bool:
        """Send an empty request, if there is a connection; False if it got no answer. Never reconnects."""
        async with self._lock:
            if self._is_alive:
                with suppress(ShellEnded, WorkspaceError):  # `_watch` reports the end of the connection
                    shell = await self._ready(anyio.current_time())
                    await shell.ask(":", b"")
                    return True
        return False

    async def client(self) -> Client:
        """How to start a session on this connection for a command. Reconnects first if necessary."""
        if not self._is_alive:
            async with self._lock:
                await self._ready(self._deadline())
        return Client(
            argv=self.ssh.session_args(),
            environ=self.ssh.environ,
            host=self.host,
            busy=self._heartbeat.busy,
            is_responsive=lambda: self.state.name != "slow",
        )

    @property
    def place(self) -> str:
        """``user@host``, for messages."""
        return msgspec.structs.replace(self.target, host=self.host).login

    async def run_program(
        self, argv: Sequence[str], /, *, stdin: bytes, on_stdout: Callable[[bytes], Awaitable[None]]
    ) -> ProgramEnded:
        """Run a program of the user's on the host, in their home; see ``run_program_on_host``."""
        return await run_program_on_host(await self.client(), argv, stdin=stdin, on_stdout=on_stdout)

    async def tunnel(self, port: int) -> str:
        """The path of a Unix socket, usable by this user only, that leads to a port on the host's loopback.

        It lasts as long as the connection, so ask each time. Whether anything listens on the port shows on use. Raises
        ``WorkspaceError``.
        """
        async with self._tunnel_lock:
            await self.client()
            path, args = self.ssh.forward_args(port)
            if not await anyio.Path(path).exists():
                done = await self.ssh.run(args)
                if done.returncode != 0:
                    reason = done.stderr.decode(errors="replace").strip()
                    raise WorkspaceError(
                        f"Cannot forward a port over the connection to {self.host}: {reason}"
                    )
        return path

    def attach(self, service: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run a service until the connection is closed; it is cancelled first, and may then ask the host once more."""
        self._services.start_soon(service)

    def _deadline(self) -> float:
        return anyio.current_time() + self._reconnect_timeout

    async def _request(self, script: str, stdin: bytes, deadline: float, *, settle: bool) -> HostAnswer:
        with self._heartbeat.busy():
            # a request that is cancelled here was not sent, and leaves the shell in step
            async with self._lock:
                shell = await self._ready(deadline)
                answer = await shell.ask(script, stdin, settle=settle)
                self._heartbeat.report_answer()
                return answer

    async def _request_quick(self, request: QuickRequest, deadline: float) -> HostAnswer:
        """Send a request with those that wait, unless another one has sent it meanwhile. Raises ``ShellEnded`` if it is sent without an
        answer.
        """
        self._quick.append(request)
        try:
            with self._heartbeat.busy():
                async with self._lock:
                    if request.is_waiting:
                        await send_together(await self._ready(deadline), request, self._quick)
                        self._heartbeat.report_answer()
        except anyio.get_cancelled_exc_class():
            if request.is_under_way:
                with anyio.move_on_after(SETTLE_GRACE, shield=True):
                    async with self._lock:  # until it is over
                        pass
            raise
        finally:
            self._quick.remove(request)
        if isinstance(request.outcome, AnswerTooLong):
            raise request.outcome
        if request.outcome is None:
            raise ShellEnded
        return request.outcome

    # -- shells -----------------------------------------------------------------------------------

    @property
    def _is_alive(self) -> bool:
        """Whether the connection's ssh runs."""
        return self._master is not None and self._master.is_alive

    async def _close_shells(self) -> None:
        shells = {self.shell, self._master}
        self.shell = self._master = None
        for shell in shells:
            if shell is not None:
                await shell.close()

    async def _ready(self, deadline: float) -> HostShell:
        """A shell that is ready for a request: the current one, a new one on this connection, or one on a new connection.

        Reconnects until ``deadline``, on the event loop's clock. The caller holds the lock until it has its answer. Raises
        ``HostUnreachable``.
        """
        if self.shell is not None and self.shell.is_usable:
            return self.shell
        if self._is_alive:
            try:
                return await self._replace_shell()
            except ShellEnded as ended:
                if self._is_alive:
                    raise self._explain(ended.message).error() from ended
        return await self._reconnect(deadline)

    async def _replace_shell(self) -> HostShell:
        """Replace a shell that still owes an answer. The master stays, idle, as it carries the connection."""
        if self.shell is not None and self.shell is not self._master:
            await self.shell.close()
        self.shell = None
        self.shell = await self._start(self.ssh.session_args(SHELL_COMMAND))
        return self.shell

    async def _reconnect(self, deadline: float) -> HostShell:
        reason = self.state.reason
        if self._master is not None:
            reason = self._explain(self._master.stderr_text).message
            self.set_state("lost", reason)
        await self._close_shells()
        pause = MIN_PAUSE
        while True:
            self.set_state("connecting", reason)
            try:
                return await self._connect()
            except ShellEnded as ended:
                problem = self._explain(ended.message)
            except HostUnreachable as error:
                self.set_state("failed", str(error))
                raise
            except anyio.get_cancelled_exc_class():
                self.set_state("lost", reason)
                raise
            reason = problem.message
            if not problem.is_transient or anyio.current_time() + pause > deadline:
                self.set_state("failed", reason)
                raise problem.error()
            self.set_state("lost", reason)
            self._retry_now = anyio.Event()
            with anyio.move_on_after(pause):
                await self._retry_now.wait()
            pause = min(2 * pause, MAX_PAUSE)

    async def _connect(self) -> HostShell:
        shell = await self._start(self.ssh.master_args(SHELL_COMMAND))
        try:
            self.info = HostInfo.parse(shell.info, self.ssh.asked)
        except BaseException:
            await shell.close()
            raise
        self._master = self.shell = shell
        self.set_state("up")
        return shell

    async def _start(self, args: list[str]) -> HostShell:
        shell = HostShell(args, self.ssh.environ)
        self._tasks.start_soon(self._watch, shell)
        try:
            with anyio.fail_after(LOGIN_TIMEOUT):
                await shell.start(self.ssh.asked.from_home)
        except TimeoutError as error:
            await shell.close()
            raise ShellEnded(f"it took more than {LOGIN_TIMEOUT:.0f} seconds") from error
        except BaseException:
            await shell.close()
            raise
        return shell

    async def _watch(self, shell: HostShell) -> None:
        await shell.watch()
        if shell is self._master and self.state.is_connected:
            self.set_state("lost", self._explain(shell.stderr_text).message)

    def _explain(self, stderr: str) -> SshProblem:
        return explain(stderr, self.ssh.asked, keys=self.ssh.keys)


class Heartbeat:
    """Reports the host as ``slow`` after ``slow_after`` seconds without an answer. It checks only while something is ``busy``,
    and after that until the host is no longer slow.

    Three cases: an idle shell is sent an empty request. A request that is older than half the time may just take long, so a second
    session checks whether the host still answers. Otherwise silence itself tells.
    """

    def __init__(self, connection: SshConnection, slow_after: float) -> None:
        self._connection = connection
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
        async with background_tasks() as tasks:
            while True:
                await self._started.wait()
                is_checked = False
                while self._busy_count or not is_checked:
                    await anyio.sleep(self._slow_after / 3)
                    self._check(tasks)
                    is_checked = self._connection.state.name != "slow"
                self._started = anyio.Event()

    def report_answer(self) -> None:
        if self._connection.state.name == "slow":
            self._connection.set_state("up")

    def _check(self, tasks: anyio.abc.TaskGroup) -> None:
        if not self._connection.state.is_connected:
            return
        shell = self._connection.shell
        silent_s = None if shell is None else shell.silent_s
        if shell is None or silent_s is None:
            if not self._connection.is_busy:
                tasks.start_soon(self._ping)
        elif silent_s >= self._slow_after:
            self._connection.set_state("slow", f"no answer for {silent_s:.0f} s")
        elif self._connection.state.name == "slow":
            self.report_answer()
        elif silent_s >= self._slow_after / 2 and not self._is_probing:
            tasks.start_soon(self._probe, shell)

    async def _ping(self) -> None:
        if await self._connection.ping_idle():
            self.report_answer()

    async def _probe(self, shell: HostShell) -> None:
        self._is_probing = True
        try:
            with suppress(OSError):  # without a second ssh, the probe tells nothing
                await self._connection.ssh.run(self._connection.ssh.session_args("exit"))
            shell.confirm_alive()  # a host that refuses the session has answered, too
        finally:
            self._is_probing = False
