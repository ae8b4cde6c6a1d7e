"""The connection to a host: one login, whose first session is a shell that answers requests; more sessions share it."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Literal, TypedDict, Unpack

import anyio
import anyio.abc
import msgspec

from newel.agent.errors import ConnectionLost, HostUnreachable, WorkspaceError
from newel.concurrency import background_tasks
from newel.workspace.port import ProgramEnded
from newel.workspace.ssh.command_line import SshCommand
from newel.workspace.ssh.config_lookup import look_up
from newel.workspace.ssh.connection_errors import SshProblem, explain
from newel.workspace.ssh.heartbeat import Heartbeat
from newel.workspace.ssh.host_info import HostInfo
from newel.workspace.ssh.port import HostAnswer
from newel.workspace.ssh.process import Client, run_program_on_host
from newel.workspace.ssh.shell import COMMAND, HostShell, ShellEnded
from newel.workspace.ssh.target import Target

PATIENCE: Final = 120.0
"""Seconds that a request waits for a host to come back."""

SILENCE: Final = 15
"""Seconds after which a host that gives no sign of life is gone."""

SLOW: Final = 4.0
"""Seconds after which it is told that a host does not answer, while it is waited for."""

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 15.0
"""Seconds between one try to connect again and the next."""

LOGIN: Final = 45.0
"""Seconds for all between the call of ssh and the first answer: proxies, keys, what a login shell does."""

TRIES: Final = 3
"""How often a request is asked when the connection or the shell ends over it."""


class ConnectionState(msgspec.Struct, frozen=True):
    """``reason`` says why a connection was lost, or failed for good: then the next request tries once more; or for how long
    a host that is ``slow`` has not answered: it is waited for, and its connection may be as good as it was.
    """

    name: Literal["connecting", "up", "slow", "lost", "failed"]
    reason: str = ""


_HELD: Final = frozenset({"up", "slow"})
"""The states in which there is a connection."""

OnState = Callable[[ConnectionState], None]


class SshConnection:
    """A ``Host``; made by ``connected``. Requests are answered one at a time, in the order in which they came."""

    def __init__(
        self, target: Target, ssh: SshCommand, tasks: anyio.abc.TaskGroup, patience: float, slow: float
    ) -> None:
        self.target = target
        """With the user, the host and the port that ssh's configuration makes of what was asked for."""
        self.facts = HostInfo()
        self.state = ConnectionState("connecting")
        self._asked = target
        self._ssh = ssh
        self._tasks = tasks
        self._services: anyio.abc.TaskGroup | None = None
        self._patience = patience
        self._keys: tuple[str, ...] = ()
        self._lock = anyio.Lock()
        self._tunnelling = anyio.Lock()
        self._master: HostShell | None = None
        self._shell: HostShell | None = None
        self._listeners: list[OnState] = []
        self._hurried = anyio.Event()
        self._attention = Heartbeat(slow, self._look)
        self._probing = False

    @property
    def host(self) -> str:
        """What the user calls the host, an alias of theirs perhaps; ``target`` says which machine that is."""
        return self._asked.host

    @property
    def is_busy(self) -> bool:
        """Whether a request is under way, or what it takes to connect."""
        return self._lock.locked()

    def hurry(self) -> None:
        """If a lost connection is to be tried again later, try it now."""
        self._hurried.set()

    def on_state(self, listener: OnState) -> Callable[[], None]:
        """Be told of each change; returns what ends that. The listener must not raise."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def ask(self, script: str, /, *, given: bytes = b"") -> HostAnswer:
        """See ``Host``. What is asked must change nothing: it is asked again if the connection was lost meanwhile."""
        until = anyio.current_time() + self._patience
        tries = 0
        while True:
            tries += 1
            try:
                return await self._once(script, given, until, settle=False)
            except ShellEnded as ended:
                if tries == TRIES:
                    raise ConnectionLost(
                        f"The connection to {self.host} broke {tries} times over one request. {ended.words}"
                    ) from ended

    async def change(self, script: str, /, *, given: bytes = b"") -> HostAnswer:
        """As ``ask``, but never twice: raises ``ConnectionLost`` if it is not known whether the host did it."""
        try:
            return await self._once(script, given, anyio.current_time() + self._patience, settle=True)
        except ShellEnded as ended:
            raise ConnectionLost(
                f"The connection to {self.host} was lost meanwhile. Whether the change was made there is unknown;"
                " it was not tried again. Look before you repeat it."
            ) from ended

    async def ping(self) -> float:
        """How many seconds a request takes now that costs the host nothing."""
        async with self._lock:
            pass  # waiting for others is not the host's time
        began = anyio.current_time()
        await self.ask(":")
        return anyio.current_time() - began

    async def client(self) -> Client:
        """What begins a session of its own on this connection, for a command.

        Waits for a lost connection to come back, as ``ask`` does.
        """
        if self._master is None or not self._master.lives:
            async with self._lock:
                await self._ready(anyio.current_time() + self._patience)
        argv = [*self._ssh.uses(), *self._asked.words]
        return Client(
            argv=argv,
            environ=self._ssh.environ,
            host=self.host,
            under_way=self._attention.under_way,
            answers=lambda: self.state.name != "slow",
        )

    @property
    def place(self) -> str:
        """``user@host``, for messages."""
        return msgspec.structs.replace(self.target, host=self.host).login

    async def run_program(
        self, argv: Sequence[str], /, *, given: bytes, on_stdout: Callable[[bytes], Awaitable[None]]
    ) -> ProgramEnded:
        """Run a program of the user's on the host, in their home; see ``run_program_on_host``."""
        ended = await run_program_on_host(await self.client(), argv, given=given, on_stdout=on_stdout)
        return ProgramEnded(ended.exit_code, ended.stderr.encode())

    async def tunnel(self, port: int) -> str:
        """The path of a Unix socket that leads to a port which listens on the host's loopback; only this user can use it.

        It lasts as long as the connection: ask each time. Whether anything listens there shows when it is used. Raises
        ``WorkspaceError``.
        """
        async with self._tunnelling:
            await self.client()
            path, command = self._ssh.forwards(port)
            if not await anyio.Path(path).exists():
                words = [*command, *self._asked.words]
                asked = await anyio.run_process(words, env=self._ssh.environ, check=False, cwd="/")
                if asked.returncode != 0:
                    said = asked.stderr.decode(errors="replace").strip()
                    raise WorkspaceError(f"The connection to {self.host} leads to no port there: {said}")
        return path

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """While this is open, something can be attached."""
        async with background_tasks() as self._services:
            yield

    def attach(self, service: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Have something done for as long as the connection is held. Then it is cancelled, and may ask the host once more."""
        if self._services is not None:
            self._services.start_soon(service)

    async def open(self) -> None:
        """Connect for the first time: a failure is not tried again. Raises ``HostUnreachable``."""
        async with self._lock:
            self.target, self._keys = await look_up(self._ssh, self._asked)
            await self._ready(anyio.current_time())

    @asynccontextmanager
    async def minded(self) -> AsyncGenerator[None]:
        """While this is open, it is told when the host does not answer."""
        async with background_tasks(self._attention.pay):
            yield

    async def close(self) -> None:
        shells = {self._shell, self._master}
        self._shell = self._master = None
        for shell in shells:
            if shell is not None:
                await shell.close()

    async def _once(self, script: str, given: bytes, until: float, *, settle: bool) -> HostAnswer:
        with self._attention.under_way():
            async with self._lock:
                shell = await self._ready(until)
                answer = await shell.ask(script, given, settle=settle)
                self._answered()
                return answer

    # -- a host that does not answer ------------------------------------------------------------------

    def _look(self, tasks: anyio.abc.TaskGroup) -> bool:
        """Something is under way. Where that asks nothing of the shell, the shell is asked; where it does and is not answered,
        it may take its time: a session beside it tells. Returns whether the host is no longer, or not yet, called slow.
        """
        shell = self._shell
        if self.state.name in _HELD:
            silent = None if shell is None else shell.silent
            if shell is None or silent is None:
                if not self._lock.locked():
                    tasks.start_soon(self._greet)
            elif silent >= self._attention.slow:
                self._tell(ConnectionState("slow", f"no answer for {silent:.0f} s"))
            elif self.state.name == "slow":
                self._answered()
            elif silent >= self._attention.slow / 2 and not self._probing:
                tasks.start_soon(self._probe, shell)
        return self.state.name != "slow"

    def _answered(self) -> None:
        if self.state.name == "slow":
            self._tell(ConnectionState("up"))

    async def _greet(self) -> None:
        async with self._lock:
            if self._master is not None and self._master.lives:
                with suppress(ShellEnded, WorkspaceError):  # who watches the connection tells
                    shell = await self._ready(anyio.current_time())
                    await shell.ask(":", b"")
                    self._answered()

    async def _probe(self, shell: HostShell) -> None:
        self._probing = True
        words = [*self._ssh.uses(), *self._asked.words, "exit"]
        try:
            with suppress(OSError):  # nobody knows, then
                await anyio.run_process(words, env=self._ssh.environ, check=False, cwd="/")
            shell.vouch()  # also by refusing to open a session
        finally:
            self._probing = False

    # -- connecting -----------------------------------------------------------------------------------

    async def _ready(self, until: float) -> HostShell:
        """A shell that waits for a request: the one there is, another on this connection, or on a new one."""
        if self._shell is not None and self._shell.usable:
            return self._shell
        if self._master is not None and self._master.lives:
            try:
                return await self._another()
            except ShellEnded as ended:
                if self._master.lives:
                    raise self._explained(ended.words).error() from ended
        return await self._reconnect(until)

    async def _another(self) -> HostShell:
        """In the place of one that still owes an answer. The connection's first shell stays, idle: it bears the others."""
        if self._shell is not None and self._shell is not self._master:
            await self._shell.close()
        self._shell = None
        shell = HostShell([*self._ssh.uses(), *self._asked.words, COMMAND], self._ssh.environ)
        await self._begin(shell)
        self._shell = shell
        return shell

    async def _reconnect(self, until: float) -> HostShell:
        reason = self.state.reason
        if self._master is not None:
            reason = self._explained(self._master.said).what
            self._tell(ConnectionState("lost", reason))
        await self.close()
        pause = FIRST_PAUSE
        while True:
            self._tell(ConnectionState("connecting", reason))
            try:
                return await self._connect()
            except ShellEnded as ended:
                problem = self._explained(ended.words)
            except HostUnreachable as error:
                self._tell(ConnectionState("failed", str(error)))
                raise
            except anyio.get_cancelled_exc_class():
                self._tell(ConnectionState("lost", reason))
                raise
            reason = problem.what
            if not problem.passing or anyio.current_time() + pause > until:
                self._tell(ConnectionState("failed", reason))
                raise problem.error()
            self._tell(ConnectionState("lost", reason))
            self._hurried = anyio.Event()
            with anyio.move_on_after(pause):
                await self._hurried.wait()
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _connect(self) -> HostShell:
        shell = HostShell([*self._ssh.connects(), *self._asked.words, COMMAND], self._ssh.environ)
        await self._begin(shell)
        try:
            self.facts = HostInfo.read(shell.facts, self._asked)
        except BaseException:
            await shell.close()
            raise
        self._master = self._shell = shell
        self._tell(ConnectionState("up"))
        return shell

    async def _begin(self, shell: HostShell) -> None:
        self._tasks.start_soon(self._watch, shell)
        try:
            with anyio.fail_after(LOGIN):
                await shell.begin(self._asked.from_home)
        except TimeoutError as error:
            await shell.close()
            raise ShellEnded(f"it took more than {LOGIN:.0f} seconds") from error
        except BaseException:
            await shell.close()
            raise

    async def _watch(self, shell: HostShell) -> None:
        await shell.watch()
        if shell is self._master and self.state.name in _HELD:
            self._tell(ConnectionState("lost", self._explained(shell.said).what))

    def _explained(self, words: str) -> SshProblem:
        return explain(words, self._asked, keys=self._keys)

    def _tell(self, state: ConnectionState) -> None:
        if state != self.state:
            self.state = state
            for listener in list(self._listeners):
                listener(state)


class ConnectionOptions(TypedDict, total=False):
    """``config`` is a file that ssh reads instead of the user's, ``environ`` its environment instead of this process's.

    ``patience`` is how many seconds a request waits for a host that went away; it has gone away after ``silence`` seconds
    without a sign of life, and is ``slow`` after so many without an answer. ``on_state`` is told of each change from the
    beginning.
    """

    config: str | None
    environ: Mapping[str, str]
    patience: float
    silence: int
    slow: float
    on_state: OnState


@asynccontextmanager
async def connected(target: Target, **options: Unpack[ConnectionOptions]) -> AsyncGenerator[SshConnection]:
    """Connect to a host, and let go of it at the end. Raises ``HostUnreachable``."""
    ssh = SshCommand(
        options.get("config"), options.get("environ", os.environ), options.get("silence", SILENCE)
    )
    try:
        async with background_tasks() as tasks:
            patience, slow = options.get("patience", PATIENCE), options.get("slow", SLOW)
            connection = SshConnection(target, ssh, tasks, patience, slow)
            if "on_state" in options:
                connection.on_state(options["on_state"])
            try:
                await connection.open()
                async with connection.minded(), connection.serving():
                    yield connection
            finally:
                with anyio.CancelScope(shield=True):
                    await connection.close()
    finally:
        ssh.close()
