"""Events: one typed stream, agent > turn > message > tool, that every screen and log reads.

Events carry deltas, never the whole state: a reader folds them. On the wire an event is a JSON object tagged by ``type``, with
field names in camelCase.

    agent_start
      turn_start
        message_start, message_end            the user's messages, then the results of tools
        message_start, message_update…, message_end                        the assistant's message
        tool_execution_start, tool_execution_update…, tool_execution_end   one group for each call
      turn_end
    agent_end

``retry``, ``model_routed``, ``queue_update``, ``state_update``, ``interrupted`` and ``error`` may occur anywhere.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from newel.agent.messages import AppMessage, ImageContent, Usage, Wire, now

Level = Literal["error", "warning", "info"]
"""How grave it is: at ``error`` something failed."""

# -- deltas of an assistant message ---------------------------------------------------------------


class TextDelta(Wire, frozen=True, tag_field="type", tag="text_delta"):
    """A piece of the answer's text."""

    delta: str


class ThinkingDelta(Wire, frozen=True, tag_field="type", tag="thinking_delta"):
    """A piece of the model's reasoning."""

    delta: str


class ToolCallDelta(Wire, frozen=True, tag_field="type", tag="toolcall_delta"):
    """A piece of a tool call that is being written. ``index`` identifies the call within its message; ``name`` comes with the
    first piece.
    """

    index: int
    name: str | None = None
    delta: str = ""


Delta = TextDelta | ThinkingDelta | ToolCallDelta


# -- events ---------------------------------------------------------------------------------------


class Event(Wire, frozen=True, kw_only=True, tag_field="type"):
    """Base of all events."""

    timestamp: str = field(default_factory=now)


class AgentStart(Event, frozen=True, tag="agent_start"):
    """A run begins."""


class TurnStart(Event, frozen=True, tag="turn_start"):
    """A request to the model begins, with the messages that it answers."""


class MessageStart(Event, frozen=True, tag="message_start"):
    """A message starts. An assistant's message is still empty; its content follows as updates."""

    message: AppMessage


class MessageUpdate(Event, frozen=True, tag="message_update"):
    """A piece of the assistant's message with the id ``message_id``, of its text, its reasoning or a tool call."""

    message_id: str
    assistant_message_event: Delta


class MessageEnd(Event, frozen=True, tag="message_end"):
    """A message is complete. Once ``emit`` has returned, it is durable."""

    message: AppMessage


class ToolExecutionStart(Event, frozen=True, tag="tool_execution_start"):
    """A tool call begins; it is approved. ``args`` are those of the model."""

    tool_call_id: str
    tool_name: str
    args: dict[str, Any]


class ToolExecutionUpdate(Event, frozen=True, tag="tool_execution_update"):
    """A piece of output of a tool that is still running. ``event`` is an event of an agent that the tool runs; ``delta`` then describes
    it.
    """

    tool_call_id: str
    delta: str
    event: AgentEvent | None = None


class ToolExecutionEnd(Event, frozen=True, tag="tool_execution_end"):
    """``duration`` is in milliseconds."""

    tool_call_id: str
    tool_name: str
    result: str
    is_error: bool
    duration: int
    images: list[ImageContent] = []
    details: dict[str, Any] = {}


class TurnEnd(Event, frozen=True, tag="turn_end"):
    """A request and its tool calls are done. The messages were sent before; these are their ids."""

    message_id: str
    tool_result_ids: list[str] = []


EndReason = Literal[
    "done", "stopped", "aborted", "error", "max_turns", "max_tool_calls", "max_tokens", "max_cost"
]


class AgentEnd(Event, frozen=True, tag="agent_end"):
    """The run is over. ``usage`` and ``cost`` (US dollars) are the totals of the run."""

    reason: EndReason
    message: str = ""
    usage: Usage = Usage()
    cost: float | None = None


class QueueUpdate(Event, frozen=True, tag="queue_update"):
    """How many messages are queued for the end of the current tool calls (steer) and of the turn (follow-up)."""

    steer: int
    follow_up: int


class StateUpdate(Event, frozen=True, tag="state_update"):
    """A setter changed these fields of the agent's state."""

    changed: list[str]


class Retry(Event, frozen=True, tag="retry"):
    """A request failed and is repeated after ``delay`` seconds."""

    attempt: int
    max_attempts: int
    delay: float
    reason: str


class ModelRouted(Event, frozen=True, tag="model_routed"):
    """Which of several models is asked from now on, and why: ``place`` is ``local`` or ``remote``."""

    place: str
    provider: str
    model: str
    reason: str


class Interrupted(Event, frozen=True, tag="interrupted"):
    """The run was aborted; its ``agent_end`` follows."""


class ErrorEvent(Event, frozen=True, tag="error"):
    """Something that the user should know. At the level ``error`` something failed, and ``code`` is that of the error's class in
    ``newel.agent.errors``; at the other levels ``code`` is the topic, such as ``connection``, ``hook`` or ``progress``.
    """

    code: str
    message: str
    level: Level = "error"


AgentEvent = (
    AgentStart
    | TurnStart
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
    | TurnEnd
    | AgentEnd
    | QueueUpdate
    | StateUpdate
    | Retry
    | ModelRouted
    | Interrupted
    | ErrorEvent
)
