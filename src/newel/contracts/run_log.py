"""The log of an agent's run, for people: a file that is appended to as events happen."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from newel.agent.events import (
    AgentEnd,
    ErrorEvent,
    Interrupted,
    MessageEnd,
    ModelRouted,
    Retry,
    ToolExecutionStart,
)
from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    CustomMessage,
    ThinkingContent,
    ToolResultMessage,
    UserMessage,
)
from newel.config.settings import mask_secret
from newel.runs.run_events import AcceptanceEnd, AcceptanceStart, ContractState, Evaluation, Notice, RunEvent
from newel.session.masking import KEY, spellings
from newel.text.json import to_json

HEAD, TAIL = 2_000, 6_000
"""Characters of one entry that are written: the session has all of them."""


class RunLog:
    """Appends to the file ``path``, which only its owner can read. ``secrets`` and strings that look like keys are masked.

    Nothing is raised. A disk that fails is reported once, by the ``Notice`` that ``write`` returns; later entries are still
    tried, and the first that succeeds says how many are missing.
    """

    def __init__(self, path: Path | str, *, secrets: Sequence[str] = ()) -> None:
        self.path = Path(path)
        self._spellings = spellings(secrets)
        self._file: int | None = None
        self._missing = 0
        self._reported = False
        self._torn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, event: RunEvent) -> Notice | None:
        """Add the entries for an event. Returns a notice for the readers of the run if that fails."""
        entries = "".join(
            f"{event.timestamp}  {self._clean(head)}\n{_indent(self._clean(body))}"
            for head, body in _entries(event)
        )
        if not entries:
            return None
        if self._missing:
            entries = f"[{self._missing} entries are missing here: they could not be written]\n{entries}"
        try:
            self._append(("\n" if self._torn else "") + entries)
        except OSError as error:
            self.close()
            return self._on_write_error(error)
        self._missing, self._torn = 0, False
        return None

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # reported when the write failed
                os.close(file)

    def _append(self, text: str) -> None:
        if self._file is None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
            self._file = os.open(self.path, flags, 0o600)
        rest = memoryview(text.encode(errors="replace"))
        while rest:
            rest = rest[os.write(self._file, rest) :]
            self._torn = True

    def _on_write_error(self, error: OSError) -> Notice | None:
        self._missing += 1
        if self._reported:
            return None
        self._reported = True
        message = f"The log {self.path} cannot be written: {error.strerror}. The run continues without it."
        return Notice(level="warning", message=message)

    def _clean(self, text: str) -> str:
        """A text without secrets and control characters, and not too long."""
        for spelling, secret in self._spellings.items():
            text = text.replace(spelling, mask_secret(secret))
        text = re.sub(KEY, lambda match: mask_secret(match[0]), text)
        return inert(shorten(text, HEAD, TAIL))


def log_file(directory: Path, name: str) -> Path:
    """``<directory>/<UTC time>_<name>.log``, a file that does not exist yet."""
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S.%fZ")
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:64] or "agent"
    path, number = directory / f"{stamp}_{plain}.log", 1
    while path.exists():
        number += 1
        path = directory / f"{stamp}_{plain}-{number}.log"
    return path


def _indent(body: str) -> str:
    """The lines of a text, indented below the line that they belong to."""
    return "".join(f"    {line}\n" for line in body.split("\n")) if body else ""


def shorten(text: str, head: int, tail: int) -> str:
    """The first ``head`` and last ``tail`` characters of a text that is longer than both."""
    left_out = len(text) - head - tail
    if left_out <= 0:
        return text
    return f"{text[:head]}\n[… {left_out:,} characters left out …]\n{text[-tail:]}"


def inert(text: str) -> str:
    """The text with control and invisible characters escaped: ``<U+001B>``."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    text = text.replace("\r\n", "\n")
    return "".join(
        char if char.isprintable() or char in "\n\t\u00a0" else f"<U+{ord(char):04X}>" for char in text
    )


def _entries(event: RunEvent) -> Iterator[tuple[str, str]]:
    """The entries for an event: a line, and the text below it."""
    match event:
        case MessageEnd():
            yield from _message_entries(event.message)
        case ToolExecutionStart():
            yield f"runs {event.tool_name}", to_json(event.args).decode()
        case Evaluation():
            missing = f"\nmissing: {event.missing}" if event.missing else ""
            yield f"evaluation: {'satisfied' if event.satisfied else 'not yet'}", event.why + missing
        case AcceptanceStart():
            yield "runs the acceptance command", event.command
        case AcceptanceEnd():
            yield f"acceptance: {'passed' if event.passed else 'failed'} · {event.duration} ms", event.output
        case Retry():
            yield f"request {event.attempt} of {event.max_attempts} in {event.delay:g} s", event.reason
        case ModelRouted():
            yield f"{event.place} model {event.model}", event.reason
        case ErrorEvent():
            yield event.level, event.message
        case Notice():
            yield event.level, event.message
        case Interrupted():
            yield "interrupted", ""
        case ContractState():
            yield event.state, event.reason
        case AgentEnd():
            cost = "" if event.cost is None else f" · ${event.cost:.4f}"
            yield f"used {event.usage.input:,} tokens in · {event.usage.output:,} out{cost}", ""
        case _:
            return


def _message_entries(message: AppMessage) -> Iterator[tuple[str, str]]:
    match message:
        case UserMessage():
            yield "told", message.text
        case AssistantMessage():
            thoughts = [part.thinking for part in message.content if isinstance(part, ThinkingContent)]
            if any(thoughts):
                yield "thought", "".join(thoughts)
            if message.text:
                yield "said", message.text
        case ToolResultMessage():
            yield f"{message.tool_name}: {'failed' if message.is_error else 'done'}", message.output
        case CustomMessage():
            yield message.name, ""
