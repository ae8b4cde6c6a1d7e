"""What happened in a conversation, on a time axis: prompts, requests to models, tool calls, waits for the user, summaries.

Sessions of earlier versions lack durations of requests: such a request is taken to have begun when the step before it ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from newel.agent.errors import SessionError
from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    CustomMessage,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    Wire,
)
from newel.agent.transform import COMPACTION
from newel.session.paths import find_exact, read_metadata
from newel.session.reader import read_session
from newel.text.format import call_text

StepKind = Literal["prompt", "model", "tool", "wait", "compaction", "note"]

MAX_DEPTH: Final = 3
"""Of agents in agents. Newel's own subagents have none; a file may claim anything."""
MAX_STEPS: Final = 20_000
SHOWN_WAIT: Final = 100
"""Milliseconds from which an approval is a step: a shorter one was none by a user."""


class TimelineStep(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """``start`` is in milliseconds since 1970, ``duration`` in milliseconds. ``retries`` are in milliseconds after the start. ``steps`` are
    those of the agent that a call ran.
    """

    kind: StepKind
    start: float
    duration: float = 0
    text: str
    failed: bool = False
    usage: Usage = Usage()
    cost: float | None = None
    retries: list[int] = []
    steps: list[TimelineStep] = []

    @property
    def end(self) -> float:
        return self.start + self.duration


class Timeline(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """``damage`` describes the broken lines of the file."""

    title: str
    project: str
    steps: list[TimelineStep]
    damage: list[str] = []


def milliseconds_of(timestamp: str) -> float:
    """Milliseconds since 1970 of a time in ISO 8601. Raises ``ValueError``."""
    try:
        return datetime.fromisoformat(timestamp).timestamp() * 1000
    except (OverflowError, OSError) as error:
        raise ValueError(timestamp) from error


def session_timeline(path: Path, directory: Path) -> Timeline:
    """The time line of the active branch of a session in ``directory``. Raises ``SessionError``."""
    stored = read_session(path)
    data = stored.data()
    prompts = (message.text for message in data.messages if isinstance(message, UserMessage))
    return Timeline(
        title=data.name or next(prompts, "") or "conversation",
        project=data.metadata.cwd,
        steps=_Builder(data.metadata.id, data.metadata.cwd, directory).steps(data.messages),
        damage=stored.damage,
    )


class _Builder:
    def __init__(self, session: str, project: str, directory: Path, depth: int = 0) -> None:
        self._session = session
        self._project = project
        self._directory = directory
        self._depth = depth
        self._calls: dict[str, ToolCall] = {}

    def steps(self, messages: Sequence[AppMessage]) -> list[TimelineStep]:
        found: list[TimelineStep] = []
        latest = 0.0
        for message in messages[:MAX_STEPS]:
            with contextlib.suppress(ValueError, TypeError):  # figures of a foreign file
                end = milliseconds_of(message.timestamp)
                found += self._of(message, end, min(latest, end) if latest else end)
                latest = max(latest, end)
        return sorted(found, key=lambda step: step.start)

    def _of(self, message: AppMessage, end: float, earlier: float) -> list[TimelineStep]:
        """``earlier`` is when the step before it ended."""
        match message:
            case UserMessage():
                kind: StepKind = "note" if message.is_notice else "prompt"
                return [TimelineStep(kind=kind, start=end, text=message.text)]
            case AssistantMessage():
                self._calls = {call.id: call for call in message.tool_calls}
                return [_answer(message, end, earlier)]
            case ToolResultMessage():
                return self._call(message, end)
            case CustomMessage(name=name, data=data) if name == COMPACTION:
                return [_summary(data, end)]
            case _:
                return []

    def _call(self, result: ToolResultMessage, end: float) -> list[TimelineStep]:
        call = self._calls.get(result.tool_call_id)
        start = end - result.duration
        step = TimelineStep(
            kind="tool",
            start=start,
            duration=result.duration,
            text=call_text(result.tool_name, call.arguments if call else {}),
            failed=result.is_error or bool(result.details.get("exitCode")),
            usage=result.usage,
            cost=result.cost,
            steps=self._nested(result.details.get("session")),
        )
        if result.waited < SHOWN_WAIT:
            return [step]
        wait = TimelineStep(
            kind="wait", start=start - result.waited, duration=result.waited, text="waiting for approval"
        )
        return [wait, step]

    def _nested(self, session: Any) -> list[TimelineStep]:
        """The steps of the agent that a call ran, from its own session, if that is there."""
        if not isinstance(session, str) or not session.isalnum() or self._depth >= MAX_DEPTH:
            return []
        path = find_exact(self._directory, self._project, session)
        metadata = read_metadata(path) if path is not None else None
        if path is None or metadata is None or metadata.parent != self._session:
            return []
        with contextlib.suppress(SessionError):
            builder = _Builder(metadata.id, self._project, self._directory, self._depth + 1)
            return builder.steps(read_session(path).data().messages)
        return []


def _answer(message: AssistantMessage, end: float, earlier: float) -> TimelineStep:
    duration = message.duration or end - earlier
    return TimelineStep(
        kind="model",
        start=end - duration,
        duration=duration,
        text=message.error_message or message.model,
        failed=message.stop_reason == "error",
        usage=message.usage,
        cost=message.cost,
        retries=message.retries,
    )


def _summary(data: dict[str, Any], end: float) -> TimelineStep:
    duration = float(data.get("duration") or 0)
    return TimelineStep(
        kind="compaction",
        start=end - duration,
        duration=duration,
        text=str(data.get("model") or "without a model"),
        failed="problem" in data,
        usage=msgspec.convert(data.get("usage") or {}, Usage),
        cost=data.get("cost"),
    )
