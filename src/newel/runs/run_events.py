"""What a run's journal may say: the events of the agent, and those of the work around it.

Every entry is a JSON object told apart by ``type``; ``decode`` and ``encode`` are exact. What only moves a screen
(pieces of text, the output of a tool that still runs) is not journalled: ``is_lasting`` tells.
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
from newel.text.json import to_json

ContractStatus = Literal["ready", "running", "stopped", "completed", "failed"]


class Evaluation(Event, frozen=True, tag="evaluation"):
    """The model's own verdict on its contract, after a cycle of work. ``missing`` says what is left to do."""

    satisfied: bool
    why: str
    missing: str = ""
    usage: Usage = Usage()
    cost: float | None = None


class AcceptanceStart(Event, frozen=True, tag="acceptance_start"):
    """Newel itself runs the contract's acceptance command."""

    command: str


class AcceptanceEnd(Event, frozen=True, tag="acceptance_end"):
    """``output`` is the command's, shortened as a tool's would be; ``duration`` is in milliseconds."""

    command: str
    passed: bool
    output: str
    duration: int


class Notice(Event, frozen=True, tag="notice"):
    """Something the reader should know and nothing depends on: the log file cannot be written, a worktree was made."""

    level: Literal["info", "warning"]
    message: str


class ContractState(Event, frozen=True, tag="contract_state"):
    """The agent's state changed; ``reason`` says why, in words."""

    state: ContractStatus
    reason: str = ""


RunEvent = AgentEvent | Evaluation | AcceptanceStart | AcceptanceEnd | Notice | ContractState

_FLEETING = (MessageStart, MessageUpdate, ToolExecutionUpdate, QueueUpdate, StateUpdate)
_decoder = msgspec.json.Decoder(RunEvent)


def is_lasting(event: RunEvent) -> bool:
    """Whether an event belongs into the journal."""
    return not isinstance(event, _FLEETING)


def encode(event: RunEvent) -> bytes:
    return to_json(event)


def decode(data: bytes) -> RunEvent:
    """Raises ``msgspec.DecodeError`` on what is no event."""
    return _decoder.decode(data)
