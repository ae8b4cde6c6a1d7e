"""Runs a program on a host in its own SSH session, and makes sure that it ends there.

``run.sh`` is the host's side; it is sent to sh together with the program, its folder and its environment. The program may
run as long as standard input stays open and receives heartbeats. End of input, or silence, ends all processes that the
program started. The output is framed by an unguessable nonce; only its end, with the exit code, proves that the program
has ended.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Final, Unpack

import anyio
import msgspec

from newel.agent.errors import ConnectionLost, WorkspaceError
from newel.workspace.port import CommandResult, ProgramEnded, RunOptions, TimeLimit
from newel.workspace.process.environment import DROPPED, SENSITIVE, UNATTENDED
from newel.workspace.process.output import Capture, Output, OutputSink
from newel.workspace.process.process_mark import new_mark, number_of_mark
from newel.workspace.process.runner import (
    ChildProcess,
    ExitInfo,
    OutputLimits,
    start_error,
    to_completed,
    wait_for_exit,
)
from newel.workspace.ssh.port import RUN_COMMAND, encode_line

LEAVE_GRACE: Final = 0.5
"""Seconds for ssh to exit after the program has ended; it does so once no process holds the outputs."""

SHELL: Final = "if command -v bash >/dev/null; then set -- bash --norc; else set -- sh; fi"
"""Sets the shell for commands. A bash that believes it was started by sshd would read ~/.bashrc without ``--norc``."""

WITHHELD: Final = f'sensitive={shlex.quote(SENSITIVE)} dropped="{" ".join(sorted(DROPPED))}"'
"""Sets which variables a command does not see."""

LAST_OUTPUT: Final = 2_000
"""Characters of output that an error quotes if the outcome of a command is unknown."""

MOST_STDERR: Final = 65_536
"""Bytes to keep of a program's standard error; more is shortened in the middle."""

MOST_UNREAD: Final = 1 << 24
"""Bytes of output to buffer. Reached only while a program is being ended and its output is no longer passed on."""

BUSY: Final = 60.0
"""Seconds that a command without a timeout waits for a free session on the host."""

NOISE: Final = 4_096
"""Bytes to keep of the output before the frame: of start-up files, or ssh's error."""

_RARE: Final = b"\x1e"
"""Delimits the frame. It is rare in output, so that output is hardly ever held back as a possible frame."""

_REFUSED: Final = b"Session open refused by peer"
"""Printed by ssh when the server refuses a session: the command was not started."""

LONGEST: Final = 128 * 1024
"""Bytes: Linux does not accept an argument of this length."""

_NOT_ENTERED: Final = {301: errno.ENOENT, 302: errno.ENOTDIR, 303: errno.EACCES}
"""Codes of ``run.sh`` in place of an exit code, when it cannot enter the folder."""

GLANCE: Final = 0.1
"""Seconds between checks whether a host that is to end a program still responds."""

_NOT_RECEIVED: Final = 304
_ENDED_FOR_SILENCE: Final = 305
_SANDBOX_ENDED: Final = 306

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

OnData = Callable[[bytes], Awaitable[None]]


class ProcessTimeouts(msgspec.Struct, frozen=True, kw_only=True):
    """In seconds. A heartbeat is sent every ``beat``; after ``silence`` without one the host ends the program, as it does at
    once when the connection is closed. ``grace`` is the time between TERM and KILL. ``answer`` allows for the round trip
    of the order to end the program.
    """

    beat: float = 10
    silence: float = 45
    grace: float = 2
    answer: float = 3


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """How a command line gets to a host: ``argv`` is that of ``ssh`` up to and with the host, ``environ`` its
    environment, ``host`` its name in errors. ``busy`` is entered while a command runs. ``is_responsive`` is False while the
    host is known to be silent.
    """

    argv: Sequence[str]
    environ: Mapping[str, str]
    host: str
    timing: ProcessTimeouts = ProcessTimeouts()
    busy: Callable[[], AbstractContextManager[None]] = nullcontext
    is_responsive: Callable[[], bool] = lambda: True


class SandboxRef(msgspec.Struct, frozen=True, kw_only=True):
    """A sandbox on the host, which is told through the folder ``exchange`` what to run (see ``newel.workspace.ssh.sandbox``);
    ``limits`` are options of ``prlimit``.
    """

    exchange: str
    limits: Sequence[str] = ()


class HostSandboxEnded(WorkspaceError):
    """The sandbox of a command has ended before the command did, or does not answer."""


async def run_on_host(
    client: Client,
    command: str,
    *,
    root: str,
    limits: OutputLimits,
    inside: SandboxRef | None = None,
    **options: Unpack[RunOptions],
) -> CommandResult:
    """Run a shell command in a folder of the host, as the port's ``run`` does, perhaps ``inside`` a sandbox.

    Raises ``ConnectionLost`` if the outcome is unknown, ``HostSandboxEnded``, and ``WorkspaceError`` if it was not started.
    """
    output = Output(limits, options.get("on_output"))
    env = options.get("env") or {}
    order = _Order(words=[command], by_shell=True, root=root, env=env, inside=inside)
    try:
        return to_completed(output, await _run(client, order, output, TimeLimit.of(options.get("timeout"))))
    except ConnectionLost as lost:
        received = output.stdout.text("the rest is lost") + output.stderr.text("the rest is lost")
        raise ConnectionLost(
            f"{lost}\nIts output so far:\n{received[-LAST_OUTPUT:]}" if received else str(lost)
        ) from lost


async def run_program_on_host(
    client: Client, argv: Sequence[str], *, stdin: bytes = b"", on_stdout: OnData
) -> ProgramEnded:
    """Run a program in the user's home, with ``stdin`` as its standard input, and pass on all of its output as it arrives.

    While ``on_stdout`` blocks, nothing is read and no heartbeat is sent, so it must return within ``ProcessTimeouts.silence``. An
    exception from it ends the program, as cancellation does. Raises as ``run_on_host`` does.
    """
    passed = _ForwardingSink(on_stdout)
    ending = await _run(client, _Order(words=argv, by_shell=False, stdin=stdin), passed, TimeLimit(None))
    return ProgramEnded(ending.exit_code, passed.stderr.text("the whole output is not kept").encode())


class _Order(msgspec.Struct, frozen=True, kw_only=True):
    """The program ``words``, or if ``by_shell`` one shell command."""

    words: Sequence[str]
    by_shell: bool
    root: str = ""
    """The folder; the user's home if empty."""
    env: Mapping[str, str] = {}
    stdin: bytes = b""
    inside: SandboxRef | None = None


async def _run(client: Client, order: _Order, sink: OutputSink, limit: TimeLimit) -> ExitInfo:
    nonce = os.urandom(16).hex()  # no program can guess it, and so forge the end of its frame
    try:
        line = encode_line(_script(order, nonce, client.timing))
    except ValueError as error:
        raise start_error(order.root, error, order.words) from error
    if max(len(os.fsencode(word)) for word in order.words) >= LONGEST:
        raise start_error(order.root, _system_error(errno.E2BIG), order.words)
    limit.start(began := anyio.current_time())
    until = began + (BUSY if limit.seconds is None else limit.seconds)
    pause = 0.05
    while True:
        channel = _Channel(client, nonce.encode(), sink, line + order.stdin)
        with client.busy():
            ending = await wait_for_exit(channel, limit)
        if channel.code is not None:
            return _raise_for_code(client, order, ending._replace(exit_code=channel.code))
        if _REFUSED not in channel.noise:
            raise _lost(
                _how_it_was_lost(client, channel.noise, limit.seconds if ending.timed_out else None),
                f" Any process that is still running is ended on the host within {client.timing.silence:g} seconds.",
            )
        if anyio.current_time() + pause > until:
            raise WorkspaceError(
                f"The command was not run: {client.host} allows no more sessions on one connection "
                "(MaxSessions in its sshd_config). Try again when other commands have ended."
            )
        await anyio.sleep(pause)
        pause = min(2 * pause, 1)


def _raise_for_code(client: Client, order: _Order, ending: ExitInfo) -> ExitInfo:
    """Raise the error that a code of ``run.sh`` stands for."""
    if ending.exit_code == _ENDED_FOR_SILENCE:
        raise _lost(
            f"Newel sent no heartbeat for {client.timing.silence:g} seconds, perhaps because it was suspended, so "
            f"{client.host} ended the command."
        )
    if reason := _NOT_ENTERED.get(ending.exit_code):
        raise start_error(order.root, _system_error(reason), order.words)
    if ending.exit_code == _NOT_RECEIVED:
        raise WorkspaceError(f"The input could not be written to the temporary folder on {client.host}.")
    if ending.exit_code == _SANDBOX_ENDED:
        if ending.timed_out:
            return ending._replace(exit_code=128 + signal.SIGKILL)
        raise HostSandboxEnded(
            f"The sandbox on {client.host} has ended, and its background processes with it. Run the command again."
        )
    return ending


def _system_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class _Channel(ChildProcess):
    """The ssh process of one program on a host. Over once the host reports the end, even if other processes hold its outputs."""

    pipe_grace = LEAVE_GRACE

    def __init__(self, client: Client, nonce: bytes, sink: OutputSink, stdin: bytes) -> None:
        self._frames = {"stdout": Frame(nonce), "stderr": Frame(nonce)}
        self._is_responsive = client.is_responsive
        self._timing = client.timing
        self._next_beat = anyio.current_time() + self._timing.beat
        super().__init__([*client.argv, RUN_COMMAND], "/", client.environ, sink, stdin=stdin)

    @property
    def code(self) -> int | None:
        """The code at the end of the streams, once both have ended."""
        codes = [frame.code for frame in self._frames.values()]
        return codes[0] if None not in codes else None

    @property
    def noise(self) -> bytes:
        """Standard error, if no frame has started there."""
        return self._frames["stderr"].noise

    @property
    def over(self) -> bool:
        return self.ended or self.code is not None

    def receive(self, stream: str, chunk: bytes) -> None:
        if output := self._frames[stream].add(chunk):
            super().receive(stream, output)

    async def wait(self, deadline: float) -> bool:
        while not await super().wait(min(deadline, self._next_beat)):
            now = anyio.current_time()
            if now >= deadline:
                return False
            self.send(b"\n")
            self._next_beat = now + self._timing.beat
        return True

    async def drain_rest(self) -> bool:
        left_open = await super().drain_rest()
        if not self.ended:
            await super().stop()
        return left_open

    async def left_running(self, *, stopped: bool) -> Sequence[str]:
        del stopped
        return ()  # the client leaves nothing; processes on the host are unknown here

    async def stop(self) -> None:
        """Have the host end the program; then end the client, whether or not the host has confirmed.

        Waiting for the confirmation guarantees that the program no longer changes files. A stubborn program takes twice the
        grace, and the host gets ``answer`` more. A host that is known to be silent is not waited for: the order is on its way,
        and ``run.sh`` ends the program without the client, too.
        """
        self.close_input()
        until = anyio.current_time() + 2 * self._timing.grace + self._timing.answer
        while not self.over and self._is_responsive() and anyio.current_time() < until:
            await self._read_until(lambda: self.over, GLANCE)
        await super().stop()


class Frame:
    """One stream: noise, the nonce, the output, and the nonce with three digits.

    ``code`` is that number, once it has arrived.
    """

    def __init__(self, nonce: bytes) -> None:
        self.code: int | None = None
        self._head = _RARE + nonce + _RARE
        self._end = _RARE + nonce + b" "
        self._ending = re.compile(re.escape(self._end) + rb"(\d{3})" + _RARE)
        self._began = False
        self._held: bytes = b""

    @property
    def noise(self) -> bytes:
        """The data before the frame, as long as no frame has started."""
        return b"" if self._began else self._held

    def add(self, chunk: bytes) -> bytes:
        """The output in the chunk, except for a tail that may be the start of the end marker."""
        data = self._held + chunk if self._held else chunk
        if not self._began:
            _, head, rest = data.partition(self._head)
            if not head:
                self._held = data[-NOISE:]
                return b""
            self._began = True
            data = rest
        self._held = b""
        if self.code is not None:
            return data
        if ending := self._ending.search(data):
            self.code = int(ending[1])
            return data[: ending.start()] + data[ending.end() :]
        at = self._possible_end(data)
        self._held = data[at:]
        return data[:at]

    def _possible_end(self, data: bytes) -> int:
        at = max(0, len(data) - len(self._end) - 3)
        while (at := data.find(_RARE, at)) >= 0:
            if self._end.startswith(data[at : at + len(self._end)]):
                return at
            at += 1
        return len(data)


class _ForwardingSink:
    """A sink that passes standard output on and captures standard error."""

    def __init__(self, on_stdout: OnData) -> None:
        self.stderr = Capture(MOST_STDERR)
        self._on_stdout = on_stdout
        self._unread = bytearray()

    @property
    def due(self) -> float:
        return 0 if self._unread else float("inf")

    def add(self, stream: str, chunk: bytes) -> None:
        if stream == "stderr":
            self.stderr.add(chunk)
        elif len(self._unread) < MOST_UNREAD:
            self._unread += chunk

    async def flush(self, _now: float, *, final: bool = False) -> None:  # noqa: ARG002 — it always flushes everything
        if self._unread:
            data, self._unread = bytes(self._unread), bytearray()
            await self._on_stdout(data)

    def close(self) -> None:
        self._unread.clear()


def _script(order: _Order, nonce: str, timing: ProcessTimeouts) -> str:
    """The text for the host's sh. Raises ``ValueError`` for a string that sh cannot represent."""
    environ = {**UNATTENDED, **order.env}
    for name in environ:
        if not _NAME.fullmatch(name):
            raise WorkspaceError(f"{name!r} is not a valid name of an environment variable.")
    exports = "; ".join(f"export {name}={_quote(value)}" for name, value in environ.items())
    command = " ".join(map(_quote, order.words))
    if order.by_shell:
        command = f'"$@" -c -- {command}'
        shell = SHELL
    else:
        shell = ""
    mark = new_mark()
    marks = f"mark={mark} number={number_of_mark(mark)} root={_quote(order.root)}"
    exchange, inside = "", ""
    if order.inside is not None:
        exchange, limits = order.inside.exchange, _quote(" ".join(order.inside.limits))
        inside = (
            f"{marks} limits={limits}\n{exports}\n{shell}\nset -- {command}\n{text_of('sandbox/order.sh')}"
        )
    return f"""
nonce={nonce} {marks} size={len(order.stdin)} exchange={_quote(exchange)} order={_quote(inside)}
silence={timing.silence:g} grace={round(timing.grace * 20)} {WITHHELD}
export_variables() {{ {exports}; }}
{shell}
set -- {"true" if inside else command}
{text_of("secrets.sh")}
{text_of("run.sh")}"""


@cache
def text_of(name: str) -> str:
    """A script beside this module, without comments."""
    lines = (Path(__file__).parent / name).read_text().splitlines()
    return "\n".join(line.lstrip() for line in lines if not line.lstrip().startswith("#"))


def _quote(word: str) -> str:
    if "\0" in word:
        raise ValueError("embedded null byte")
    return shlex.quote(word)


def _how_it_was_lost(client: Client, noise: bytes, timeout: float | None) -> str:
    if timeout is not None:
        return f"The command timed out after {timeout:g} seconds, but {client.host} is no longer responding."
    if noise:
        lines = noise.decode(errors="replace").split("\n")
        return f"The connection to {client.host} failed: {'; '.join(filter(None, map(str.strip, lines)))}."
    return f"The connection to {client.host} was lost while the command ran."


def _lost(happened: str, note: str = "") -> ConnectionLost:
    return ConnectionLost(
        f"{happened} Its outcome is unknown and it was not run again: check its effects first.{note}"
    )
