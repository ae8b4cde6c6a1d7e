"""The server's process, seen from Newel: its start, the reasons of its failures, its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import IO, Final

import anyio
import msgspec

from newel.agent.errors import ProviderError, RequestRejected, ServerFailed, as_sentence
from newel.providers.errors import quote
from newel.providers.llamacpp.server_main import ServerOptions, ServerReport
from newel.text.format import format_duration
from newel.workspace.process.environment import child_env

LOAD_TIMEOUT_S: Final = 900.0
"""A model larger than the disk's cache is read at the disk's speed."""

PROGRESS_S: Final = 2.0
"""Seconds between two messages about a model that is being loaded."""

EXIT_GRACE_S: Final = 1.0
"""The connection of a process that dies breaks before the system reports its end."""

PAUSE_S: Final = 0.01
"""Between two checks of a process that is about to end."""

MAX_REPORT_BYTES: Final = 65_536
MAX_LOG_BYTES: Final = 16_384

OnProgress = Callable[[str], Awaitable[None]]

_ERROR_LINE: Final = r"(?m)^[\d.]+ E (?:srv +|cmn +)?[\w~: ]*?: (.+)$"
_NO_MEMORY: Final = r"(?i)insufficient memory|failed to allocate|out of memory|bad_alloc"
_LESS: Final = "Use a smaller model, or set a smaller context_window for it."
_SIGNALS: Final = {
    signal.SIGKILL: f"was killed, as the system does when memory runs out. {_LESS}",
    signal.SIGILL: "uses instructions that this processor does not have. Build xllamacpp from its source on this machine.",
}


class ServerProcess:
    """A process that serves one model. ``url`` is its address once ``start`` has returned."""

    def __init__(self, options: ServerOptions) -> None:
        self.url = ""
        self.options = options
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 — the log lives as long as the process
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "newel.providers.llamacpp.server_main"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                cwd="/",
                env=child_env(os.environ),
                start_new_session=True,
            )
        except OSError as error:
            self._log.close()
            raise ServerFailed(f"The process for {options.alias} could not be started: {error}.") from error

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    async def start(self, on_progress: OnProgress | None) -> None:
        """Wait until the model is loaded; ``on_progress`` gets messages meanwhile. Raises ``ProviderError`` if that fails, and
        ends the process then and on cancellation.
        """
        try:
            self.url = await self._wait_for_url(on_progress)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.end()
            raise

    async def wait_for_exit(self) -> bool:
        """Whether the process has ended, or ends within a moment."""
        with anyio.move_on_after(EXIT_GRACE_S):
            await self._exited()
        return not self.is_running

    def crash_error(self) -> ServerFailed:
        """The error for a process that ended by itself after its start."""
        return ServerFailed(
            f"The process of {self.options.alias} {self._ending()} It starts again with the next request."
        )

    async def end(self) -> None:
        """End the process and wait for it. It holds nothing that it would have to save."""
        self._process.kill()
        await self._exited()
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    async def _exited(self) -> None:
        """Wait for the process; any number of tasks may."""
        while self.is_running:  # noqa: ASYNC110 — the system sets no event
            await anyio.sleep(PAUSE_S)

    async def _wait_for_url(self, on_progress: OnProgress | None) -> str:
        report = await self._wait_for_report(on_progress)
        if report.url:
            return report.url
        await self.wait_for_exit()
        raise self._load_error(report.problem)

    async def _wait_for_report(self, on_progress: OnProgress | None) -> ServerReport:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None  # noqa: S101 — both were asked for
        assert stdout is not None  # noqa: S101 — likewise
        with suppress(BrokenPipeError):  # its end follows, and says more
            os.write(stdin.fileno(), msgspec.json.encode(self.options) + b"\n")
        line = b""
        began = anyio.current_time()
        while not line.endswith(b"\n") and len(line) < MAX_REPORT_BYTES:
            with anyio.move_on_after(PROGRESS_S):
                await anyio.wait_readable(stdout)
                if not (piece := os.read(stdout.fileno(), MAX_REPORT_BYTES)):
                    break
                line += piece
                continue
            waited = anyio.current_time() - began
            if waited > LOAD_TIMEOUT_S:
                raise ServerFailed(
                    f"{self.options.alias} was not loaded within {format_duration(1_000 * LOAD_TIMEOUT_S)}. {_LESS}"
                )
            if on_progress is not None:
                await on_progress(f"loading {self.options.alias} ({format_duration(1_000 * waited)})")
        try:
            return msgspec.json.decode(line, type=ServerReport)
        except msgspec.DecodeError:
            return ServerReport()

    def _load_error(self, problem: str) -> ProviderError:
        name = self.options.alias
        logged = self._logged_problem()
        if re.search(_NO_MEMORY, logged):
            return RequestRejected(f"There is too little memory for {name}: {as_sentence(logged)} {_LESS}")
        if problem:
            return RequestRejected(f"{name} cannot be loaded: {as_sentence(logged or problem)}")
        return RequestRejected(f"The process that was to load {name} {self._ending()}")

    def _ending(self) -> str:
        """How the process ended, as the rest of a sentence."""
        code = self._process.poll() or 0
        if -code in _SIGNALS:
            return _SIGNALS[signal.Signals(-code)]
        how = f"crashed (signal {-code})" if code < 0 else f"ended (exit code {code})"
        logged = self._logged_problem()
        return f"{how}: {as_sentence(logged)}" if logged else f"{how}."

    def _logged_problem(self) -> str:
        """The first error in the log, else its last line: the others follow from it."""
        with suppress(OSError, ValueError):
            text = os.pread(self._log.fileno(), MAX_LOG_BYTES, 0).decode("utf-8", "replace")
            errors = (
                re.findall(_ERROR_LINE, text) or [line for line in text.splitlines() if line.strip()][-1:]
            )
            return quote(errors[0], self.options.key) if errors else ""
        return ""
