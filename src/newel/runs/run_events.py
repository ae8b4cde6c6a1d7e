"""The events of a run: those of its agent, and those of the work around it.

A journal entry is a JSON object distinguished by ``type``; ``encode`` and ``decode`` lose nothing. Events that only update a
screen (pieces of text, the output of a running tool) are not journalled; see ``is_lasting``. What a subagent does is: it comes as output
with an event.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from newel.agent.events import (
    AgentEvent,
    Event,
    MessageStart,
    MessageUpdate,
    QueueUpdate,
    StateUpdate,
    ToolExecutionUpdate,
)
from newel.agent.messages import Usage
from newel.text.json import decode_json, to_json

ContractStatus = Literal["ready", "running", "stopped", "completed", "failed"]


class Evaluation(Event, frozen=True, tag="evaluation"):
    """The verdict of the judge, a ``model``, on a contract after a cycle of work. ``missing`` lists the remaining work."""

    satisfied: bool
    why: str
    missing: str = ""
    model: str = ""
    usage: Usage = Usage()
    cost: float | None = None


class AcceptanceStart(Event, frozen=True, tag="acceptance_start"):
    """Newel starts the contract's acceptance command."""

    command: str


class AcceptanceEnd(Event, frozen=True, tag="acceptance_end"):
    """``output`` is the command's, shortened like a tool's; ``duration`` is in milliseconds."""

    command: str
    passed: bool
    output: str
    duration: int


class Notice(Event, frozen=True, tag="notice"):
    """Information for the reader, such as a new worktree or a log that cannot be written."""

    level: Literal["info", "warning"]
    message: str


class ContractState(Event, frozen=True, tag="contract_state"):
    """The agent's state changed; ``reason`` explains why."""

    state: ContractStatus
    reason: str = ""


class FolderSnapshot(Event, frozen=True, tag="folder_snapshot"):
    """The job's folder as it is with the next event in the journal, stored under ``ref`` for the machine that continues the job.
    ``missing`` says what of the folder is not in it.
    """

    number: int
    ref: str
    missing: str = ""


RunEvent = AgentEvent | Evaluation | AcceptanceStart | AcceptanceEnd | Notice | ContractState | FolderSnapshot

_EPHEMERAL = (MessageStart, MessageUpdate, ToolExecutionUpdate, QueueUpdate, StateUpdate)
_decoder = msgspec.json.Decoder(RunEvent)


def is_lasting(event: RunEvent) -> bool:
    """Whether an event belongs in the journal."""
    return not isinstance(event, _EPHEMERAL) or is_nested(event)


def is_nested(event: RunEvent) -> bool:
    """Whether an event tells of an event of a subagent."""
    return isinstance(event, ToolExecutionUpdate) and event.event is not None


def encode(event: RunEvent) -> bytes:
    return to_json(event)


def decode(data: bytes) -> RunEvent:
    """Raises ``msgspec.DecodeError`` if the data is not an event."""
    return decode_json(data, _decoder)
