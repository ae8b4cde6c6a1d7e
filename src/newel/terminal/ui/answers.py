"""The final answers of runs on the command line, separate from their progress."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from newel.agent.errors import ConfigError, UsageError
from newel.agent.events import AgentEvent, ErrorEvent
from newel.terminal.stdout import TextSink
from newel.text.sanitize import sanitize


class AnswerOutput:
    """Writes each answer to ``out``, made inert, and all of them to the file at ``path``, verbatim.

    Raises ``UsageError`` if the file is not writable.
    """

    def __init__(self, out: TextSink | None = None, path: Path | None = None) -> None:
        self._out = out
        self._path = path
        self._texts: list[str] = []
        if path and (path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK)):
            raise UsageError(f"--output: {path} is not writable.")

    def add(self, text: str) -> None:
        """Raises ``OSError`` if the reader of ``out`` has gone, ``ConfigError`` if the file cannot be written."""
        text = text.strip("\n")
        if not text:
            return
        self._texts.append(text)
        if self._out is not None:
            self._out.write(f"{sanitize(text)}\n")
            self._out.flush()
        if self._path is not None:
            try:
                self._path.write_bytes("\n".join([*self._texts, ""]).encode(errors="replace"))
            except OSError as error:
                raise ConfigError(
                    f"The answer cannot be written to {self._path}: {error.strerror}."
                ) from error


def errors_to(out: TextSink) -> Callable[[AgentEvent], None]:
    """A subscriber that writes errors of runs to ``out``, for runs displayed elsewhere."""

    def on_event(event: AgentEvent) -> None:
        if isinstance(event, ErrorEvent) and not event.is_notice:
            out.write(f"newel: {sanitize(event.message)}\n")

    return on_event
