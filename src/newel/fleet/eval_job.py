"""A trial of an evaluation as a job of a fleet: all that a worker needs to make it, and what it sends back."""

from __future__ import annotations

from typing import Final

import msgspec

from newel.agent.messages import Wire
from newel.agent.ports import ThinkingLevel, ToolCallMode
from newel.evals.trial import TrialResult

EVAL_TRIAL: Final = "eval_trial"
"""The kind of these jobs."""

MOST_ATTEMPTS: Final = 10
"""How often a trial is begun whose workers die, or whose model's server is unavailable."""

PIECE: Final = 1 << 20
"""Bytes of the files of a trial in one event."""


class TrialName(Wire, frozen=True, kw_only=True):
    """Which trial a job is: the ``repeat``-th one of a task in the run ``fleet``."""

    fleet: str
    task: str
    repeat: int


class EvalTrialJob(TrialName, frozen=True, kw_only=True):
    """``files`` are those of the task, see ``pack_task``; ``digest`` is its own. The model is asked at the server
    of the worker's settings. ``timeout`` is in seconds; None is the task's own.
    """

    digest: str
    files: bytes
    model: str
    thinking: ThinkingLevel = "off"
    tool_calls: ToolCallMode | None = None
    timeout: float | None = None

    @property
    def key(self) -> str:
        """A trial is submitted once, also by a run that is resumed."""
        return f"{self.fleet}/{self.task}.{self.repeat}"


class TrialPiece(Wire, frozen=True, tag_field="type", tag="trial_piece"):
    """A part of the files of a trial, see ``pack_trial``."""

    data: bytes


class TrialEnd(Wire, frozen=True, tag_field="type", tag="trial_end"):
    """The last event of a trial. ``pieces`` is the number of events before it that have its files."""

    result: TrialResult
    pieces: int


_EVENT: Final = msgspec.json.Decoder(TrialPiece | TrialEnd)


def decode_event(data: bytes) -> TrialPiece | TrialEnd:
    """Raises ``msgspec.MsgspecError``."""
    return _EVENT.decode(data)
