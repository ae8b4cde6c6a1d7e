"""A persistent sh on a host, behind one ssh process. A request starts no new process there.

A request is a line with an unguessable key and a line of sh text. The text's output comes back unchanged, followed by the
key and the exit status. So the length of an answer need not be known in advance, no file can contain the end marker, and
a file that shrinks while it is read does no harm. Several requests may be sent at once, for the time of one round trip:
the shell reads a line when it has answered the one before.

The key follows a secret of the shell. A line without it is input that an earlier request has left, as a write does on a full
disk, and no text: the shell ends without evaluating it.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Final

import anyio

from newel.concurrency import background_tasks
from newel.workspace.process.process_tree import ProcessTree
from newel.workspace.ssh.connection_errors import no_ssh
from newel.workspace.ssh.port import AnswerTooLong, HostAnswer, quote

SHELL_COMMAND: Final = 'exec env LC_ALL=C sh -c \'read -r n && eval "$(head -c "$n")"\''
"""All that the login shell gets to see, whichever shell it is, and all that a process list shows."""

UNREAD: Final = 15
"""The status of a script that did not read all of its input: the shell would take the rest for a request."""

_BLOCK: Final = 1 << 16
_MAX_NOISE: Final = 1 << 20
"""Bytes that a login shell may print before it runs our command."""

_MAX_ANSWER: Final = 512 << 20

_END_GRACE: Final = 1.0
"""Seconds for a process to exit by itself."""

SETTLE_GRACE: Final = 5.0
"""Seconds to wait for the outcome of a change that is cancelled; a lost host takes longer to notice."""

_MAX_STDERR: Final = 8192

_STATUS_DIGITS: Final = 3

_FAILED: Final = 255
"""How ssh exits if ssh itself failed. At ``LogLevel=ERROR`` it may print nothing about a connection that the host closed; at a
more talkative level it would print hosts' banners.
"""


class ShellEnded(Exception):
    """The shell has ended or is no longer usable; ``message`` is ssh's standard error, ``output`` what came of an answer."""

    def __init__(self, message: str = "", output: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.output = output


class HostShell:
    """``info`` is the output of ``newel_facts`` in ``host.sh``, known after ``start``."""

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start ssh. Raises ``HostUnreachable`` if that fails."""
        self._processes = ProcessTree(environ)
        try:
            self._process = self._processes.start(
                argv, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except OSError as error:
            raise no_ssh(error).error() from error
        self._stdin, self._stdout, self._stderr = map(
            _unblock, (self._process.stdin, self._process.stdout, self._process.stderr)
        )
        self._errors = bytearray()
        self._watching = anyio.CancelScope()
        self._watched: anyio.Event | None = None
        self._has_hung_up = False
        self._in_step = True
        self._secret = secrets.token_hex(16)
        self._active_at: float | None = None
        self.info = b""

    @property
    def stderr_text(self) -> str:
        """The end of ssh's standard error."""
        return self._errors.decode(errors="replace")

    @property
    def is_alive(self) -> bool:
        """Whether its ssh runs; for the master, whether the connection exists. An ssh that has closed its standard error is about
        to exit.
        """
        return not self._has_hung_up and self._process.poll() is None

    @property
    def is_usable(self) -> bool:
        """Whether it is alive and ready for a request, rather than in the middle of an earlier one."""
        return self._in_step and self.is_alive

    @property
    def silent_s(self) -> float | None:
        """Seconds since the pending request last sent or received data; None if no request is pending."""
        return None if self._active_at is None else anyio.current_time() - self._active_at

    def confirm_alive(self) -> None:
        """The host is known to answer: a pending request just takes long."""
        if self._active_at is not None:
            self._active_at = anyio.current_time()

    async def start(self, root: str) -> None:
        """Define the functions of ``host.sh`` in the shell and read ``info`` about the path ``root``. Raises ``ShellEnded``."""
        key = secrets.token_hex(16)
        text = os.fsencode(
            f"{_script()}\nprintf '\\n%s\\n' {key}\nnewel_facts {quote(root)}\nprintf '\\n%s 0\\n' {key}\n"
            f"newel_serve {self._secret}"
        )
        answers: list[HostAnswer] = []
        try:
            await self._exchange(b"%d\n%b" % (len(text), text), [key], answers, _MAX_NOISE)
        except AnswerTooLong as error:
            raise ShellEnded(f"the login shell prints more than {_MAX_NOISE:,} bytes first") from error
        except ShellEnded as ended:  # programs such as nologin give their reason in their output
            raise ShellEnded(ended.message or ended.output) from ended
        self.info = answers[0].data.partition(f"\n{key}\n".encode())[2]

    async def ask(
        self, script: str, stdin: bytes, *, limit: int = _MAX_ANSWER, settle: bool = False
    ) -> HostAnswer:
        """See ``RemoteHostPort.ask``. Raises ``ShellEnded``; after that, or if cancelled, the shell is not usable.

        ``settle``: a cancelled request that is sent whole is waited for, so that it is over when this returns.
        """
        answers: list[HostAnswer] = []
        key, head = self._request(script, has_input=bool(stdin))
        await self._exchange(head + stdin, [key], answers, limit, settle=settle)
        if answers[0].status == UNREAD and stdin:
            self._in_step = False
        return answers[0]

    async def ask_all(
        self,
        scripts: Sequence[str],
        answers: list[HostAnswer],
        *,
        limit: int = _MAX_ANSWER,
        settle: bool = False,
    ) -> None:
        """Send several requests at once, and append each of the ``answers`` as it arrives. Otherwise as ``ask``; ``limit`` is for one
        answer.
        """
        requests = [self._request(script) for script in scripts]
        sent = b"".join(head for _, head in requests)
        await self._exchange(sent, [key for key, _ in requests], answers, limit, settle=settle)

    def _request(self, script: str, *, has_input: bool = False) -> tuple[str, bytes]:
        """A new key, and what is sent of a request before its input."""
        if "\n" in script:
            raise ValueError("a request is one line: quote its arguments")
        key = secrets.token_hex(16)
        return key, os.fsencode(f"{self._secret}{key}{'+' if has_input else ''}\n{script}\n")

    async def watch(self) -> None:
        """Read ssh's standard error until it ends or ``close`` is called."""
        self._watched = anyio.Event()
        try:
            with self._watching:
                while self._read_stderr() != b"":
                    await anyio.wait_readable(self._stderr)
                self._has_hung_up = True
        finally:  # cancelled from outside, too: `close` waits for it
            self._watched.set()

    def _read_stderr(self) -> bytes | None:
        """New data, which is also kept; empty at the end, None if there is none now."""
        try:
            chunk = os.read(self._stderr.fileno(), _BLOCK)
        except BlockingIOError:
            return None
        self._errors += chunk
        del self._errors[:-_MAX_STDERR]
        return chunk

    async def close(self) -> None:
        """End ssh and wait until it has exited."""
        with anyio.CancelScope(shield=True):
            for number in (signal.SIGTERM, signal.SIGKILL):
                if self._process.poll() is None:
                    self._processes.signal(number)
                    with anyio.move_on_after(_END_GRACE):
                        await self._wait_exit()
            self._watching.cancel()
            if self._watched is not None:
                await self._watched.wait()
        self._processes.forget()
        for pipe in (self._stdin, self._stdout, self._stderr):
            pipe.close()

    async def _wait_exit(self) -> None:
        pause = 0.001
        while self._process.poll() is None:
            await anyio.sleep(pause)
            pause = min(2 * pause, 0.05)

    async def _exchange(
        self, sent: bytes, keys: Sequence[str], answers: list[HostAnswer], limit: int, *, settle: bool = False
    ) -> None:
        """Send requests, and append the answer of each of the ``keys``."""
        if not self._in_step:
            raise ShellEnded
        self._in_step = False  # until the answers are complete
        received = bytearray()
        self._active_at = anyio.current_time()
        try:
            await self._talk(
                memoryview(sent), partial(self._receive, received, keys, answers, limit), settle=settle
            )
        finally:
            self._active_at = None
        if len(answers) < len(keys):
            if len(received) > limit:  # the rest is not read, so the shell stays out of step
                raise AnswerTooLong(
                    f"The host's answer is longer than {limit:,} bytes. Request a part of it."
                )
            raise ShellEnded(await self._ending_message(), received.decode(errors="replace"))
        self._in_step = True

    async def _talk(self, sent: memoryview, receive: Callable[[], Awaitable[None]], *, settle: bool) -> None:
        rest = sent[self._write(sent) :]
        if settle:
            await self._send(rest)
            async with background_tasks() as tasks:
                with anyio.CancelScope(shield=True) as settling:
                    tasks.start_soon(_limit_settling, settling)
                    await receive()
        else:
            async with background_tasks(partial(self._send, rest)):
                await receive()

    def _write(self, data: bytes | memoryview) -> int:
        try:
            return os.write(self._stdin.fileno(), data)
        except BlockingIOError:
            return 0
        except BrokenPipeError:  # noticed when the answer is missing
            return len(data)

    async def _send(self, rest: memoryview) -> None:
        while rest:
            await anyio.wait_writable(self._stdin)
            rest = rest[self._write(rest) :]
            self.confirm_alive()

    async def _receive(
        self, received: bytearray, keys: Sequence[str], answers: list[HostAnswer], limit: int
    ) -> None:
        """Append the answers to the requests with ``keys``, in their order. Returns without the rest if the shell ends or an answer
        exceeds the limit. ``received`` are the bytes of the next answer so far.
        """
        for key in keys:
            end = f"\n{key} ".encode()
            at = await self._receive_until(end, received, 0, limit)
            newline = await self._receive_until(b"\n", received, at + len(end), limit) if at >= 0 else -1
            if newline < 0:
                return
            status = bytes(received[at + len(end) : newline])
            if not status.isdigit() or len(status) > _STATUS_DIGITS:
                raise ShellEnded("its sh does not behave like one")
            with memoryview(received) as view:
                answers.append(HostAnswer(int(status), bytes(view[:at])))
            del received[: newline + 1]

    async def _receive_until(self, end: bytes, received: bytearray, start: int, limit: int) -> int:
        """The position of a marker, which is at ``start`` or behind it; -1 if there is none within ``limit`` bytes."""
        while (at := received.find(end, start)) < 0:
            if len(received) > limit:
                return -1
            start = max(start, len(received) - len(end) + 1)
            await anyio.wait_readable(self._stdout)
            try:
                chunk = os.read(self._stdout.fileno(), _BLOCK)
            except BlockingIOError:
                continue
            if not chunk:
                return -1
            self.confirm_alive()
            received += chunk
        return at

    async def _ending_message(self) -> str:
        with anyio.move_on_after(_END_GRACE):
            await self._wait_exit()
        self._read_stderr()
        if not self._errors and self._process.returncode == _FAILED:
            return "Connection closed"
        return self.stderr_text


async def _limit_settling(settling: anyio.CancelScope) -> None:
    """Once cancelled, bound the shielded scope by the grace period."""
    try:
        await anyio.sleep_forever()
    finally:
        settling.deadline = anyio.current_time() + SETTLE_GRACE


def _unblock(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # noqa: S101 — each is a PIPE
    os.set_blocking(pipe.fileno(), False)
    return pipe


def _script() -> str:
    return Path(__file__).with_name("host.sh").read_text(encoding="utf-8")
