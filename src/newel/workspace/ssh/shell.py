"""One sh on a host, at the end of one process of ``ssh``: asked again and again, without a new process there.

A request is a line with a key that nobody can guess and a line of sh text. What the text prints comes back as it is,
followed by the key and the text's status: so no length has to be known before, no file can hold what ends the answer,
and one that shrinks while it is read does no harm.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Final

import anyio

from newel.agent.errors import WorkspaceError
from newel.concurrency import background_tasks
from newel.workspace.process.process_tree import ProcessTree
from newel.workspace.ssh.connection_errors import no_ssh
from newel.workspace.ssh.port import HostAnswer, quoted

COMMAND: Final = 'exec env LC_ALL=C sh -c \'read -r n && eval "$(head -c "$n")"\''
"""All that a login shell gets to see, whichever it is, and all that a list of processes shows."""

UNREAD: Final = 15
"""The status of a text that could not read all that it was given: what follows would be taken for a request."""

BLOCK: Final = 1 << 16
NOISE: Final = 1 << 20
"""Bytes that a login shell may print before it does what it is told."""

LARGEST_ANSWER: Final = 512 << 20

_END_GRACE: Final = 1.0
"""Seconds that a process is given to end by itself."""

SETTLE_GRACE: Final = 5.0
"""Seconds that a change which is cancelled is waited for; a host that is gone takes longer to notice."""

_KEPT_WORDS: Final = 8192

_FAILED: Final = 255
"""How ssh exits when it failed itself. Of a connection that the host closed it may say nothing at the level that it is asked for: below
that, hosts print their banners.
"""


class ShellEnded(Exception):
    """The shell is gone, or no longer to be used; ``words`` are what ssh said to that."""

    def __init__(self, words: str = "") -> None:
        super().__init__(words)
        self.words = words


class AnswerTooLong(WorkspaceError):
    """The shell is no longer to be used: nobody reads the rest."""


class HostShell:
    """``facts`` are what ``newel_facts`` in ``host.sh`` prints, once ``begin`` is through."""

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start it. Raises ``HostUnreachable`` if there is no ssh."""
        self._all = ProcessTree(environ)
        try:
            self._process = self._all.start(
                argv, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except OSError as error:
            raise no_ssh(error).error() from error
        self._stdin, self._stdout, self._stderr = map(
            _unblocked, (self._process.stdin, self._process.stdout, self._process.stderr)
        )
        self._words = bytearray()
        self._watching = anyio.CancelScope()
        self._watched: anyio.Event | None = None
        self._in_step = True
        self._heard: float | None = None
        self.facts = b""

    @property
    def said(self) -> str:
        """The last that its ssh said."""
        return self._words.decode(errors="replace")

    @property
    def lives(self) -> bool:
        """Whether its ssh runs, and with it, if it is the first of a connection, that."""
        return self._process.poll() is None

    @property
    def usable(self) -> bool:
        """Whether it lives and waits for a request, rather than to give or take the rest of an earlier one."""
        return self._in_step and self.lives

    @property
    def silent(self) -> float | None:
        """How many seconds nothing has come or gone of what is under way; None if nothing is."""
        return None if self._heard is None else anyio.current_time() - self._heard

    def vouch(self) -> None:
        """The host is there, as somebody else knows: what is under way takes its time."""
        if self._heard is not None:
            self._heard = anyio.current_time()

    async def begin(self, root: str) -> None:
        """Teach the shell what it is to know; ``root`` is the path to tell about. Raises ``ShellEnded``."""
        key = secrets.token_hex(16)
        text = os.fsencode(
            f"{_text()}\nprintf '\\n%s\\n' {key}\nnewel_facts {quoted(root)}\nprintf '\\n%s 0\\n' {key}\nnewel_serve"
        )
        try:
            answer = await self._exchange(b"%d\n%b" % (len(text), text), key, NOISE)
        except AnswerTooLong as error:
            raise ShellEnded(f"the login shell prints more than {NOISE:,} bytes instead") from error
        self.facts = answer.data.partition(f"\n{key}\n".encode())[2]

    async def ask(
        self, script: str, given: bytes, *, limit: int = LARGEST_ANSWER, settle: bool = False
    ) -> HostAnswer:
        """See ``Host.ask``. Raises ``ShellEnded``; after that, or if cancelled, the shell is not usable.

        ``settle``: once all is sent the answer is waited for, also if cancelled, so that then what was asked is over.
        """
        if "\n" in script:
            raise ValueError("a request is one line: quote its words")
        key = secrets.token_hex(16)
        head = os.fsencode(f"{key}{'+' if given else ''}\n{script}\n")
        answer = await self._exchange(head + given, key, limit, settle=settle)
        if answer.status == UNREAD and given:
            self._in_step = False
        return answer

    async def watch(self) -> None:
        """Read what ssh says, until it ends or ``close`` is called."""
        self._watched = anyio.Event()
        try:
            with self._watching:
                while self._hear() != b"":
                    await anyio.wait_readable(self._stderr)
        finally:  # cancelled from outside, too: `close` waits for it
            self._watched.set()

    def _hear(self) -> bytes | None:
        """What ssh has just said, also kept; nothing at its end, None if it is silent."""
        try:
            chunk = os.read(self._stderr.fileno(), BLOCK)
        except BlockingIOError:
            return None
        self._words += chunk
        del self._words[:-_KEPT_WORDS]
        return chunk

    async def close(self) -> None:
        """End its ssh, and wait until it has ended."""
        with anyio.CancelScope(shield=True):
            for number in (signal.SIGTERM, signal.SIGKILL):
                if self.lives:
                    self._all.signal(number)
                    with anyio.move_on_after(_END_GRACE):
                        await self._until_ended()
            self._watching.cancel()
            if self._watched is not None:
                await self._watched.wait()
        self._all.forget()
        for pipe in (self._stdin, self._stdout, self._stderr):
            pipe.close()

    async def _until_ended(self) -> None:
        pause = 0.001
        while self._process.poll() is None:
            await anyio.sleep(pause)
            pause = min(2 * pause, 0.05)

    async def _exchange(self, sent: bytes, key: str, limit: int, *, settle: bool = False) -> HostAnswer:
        if not self._in_step:
            raise ShellEnded
        self._in_step = False  # until the answer is here
        received = bytearray()
        end = f"\n{key} ".encode()
        self._heard = anyio.current_time()
        try:
            at = await self._talk(memoryview(sent), received, end, limit, settle=settle)
        finally:
            self._heard = None
        if at < 0:
            if len(received) > limit:
                raise AnswerTooLong(
                    f"The host's answer is longer than {limit:,} bytes. Ask for a part of it."
                )
            raise ShellEnded(await self._last_words())
        status = bytes(received[at + len(end) : -1])
        if not status.isdigit():
            raise ShellEnded("its sh does not answer as one")
        self._in_step = True
        del received[at:]
        return HostAnswer(int(status), bytes(received))

    async def _talk(
        self, sent: memoryview, received: bytearray, end: bytes, limit: int, *, settle: bool
    ) -> int:
        rest = sent[self._write(sent) :]
        at = -1
        if settle:
            await self._send(rest)
            async with background_tasks() as tasks:
                with anyio.CancelScope(shield=True) as settling:
                    tasks.start_soon(_hurry, settling)
                    at = await self._receive(received, end, limit)
        else:
            async with background_tasks(partial(self._send, rest)):
                at = await self._receive(received, end, limit)
        return at

    def _write(self, data: bytes | memoryview) -> int:
        try:
            return os.write(self._stdin.fileno(), data)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            return len(data)  # its end is seen where the answer is missing

    async def _send(self, rest: memoryview) -> None:
        while rest:
            await anyio.wait_writable(self._stdin)
            rest = rest[self._write(rest) :]
            self.vouch()

    async def _receive(self, received: bytearray, end: bytes, limit: int) -> int:
        """Where the answer's end begins; -1 if there is none, or more than ``limit`` bytes before it."""
        while True:
            await anyio.wait_readable(self._stdout)
            try:
                chunk = os.read(self._stdout.fileno(), BLOCK)
            except BlockingIOError:
                continue
            if not chunk:
                return -1
            self.vouch()
            received += chunk
            at = received.rfind(end, max(0, len(received) - len(end) - 8))
            if at >= 0 and received.endswith(b"\n"):
                return at
            if len(received) > limit:
                return -1

    async def _last_words(self) -> str:
        with anyio.move_on_after(_END_GRACE):
            await self._until_ended()
        self._hear()
        if not self._words and self._process.returncode == _FAILED:
            return "Connection closed"
        return self.said


async def _hurry(settling: anyio.CancelScope) -> None:
    """Once it is cancelled, leave what is shielded no more than the grace."""
    try:
        await anyio.sleep_forever()
    finally:
        settling.deadline = anyio.current_time() + SETTLE_GRACE


def _unblocked(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # noqa: S101 — each was asked for
    os.set_blocking(pipe.fileno(), False)
    return pipe


def _text() -> str:
    """The host's side."""
    return Path(__file__).with_name("host.sh").read_text(encoding="utf-8")
