"""The wire of ``newel rpc``: commands in, one response to each, and the events of JSON mode in between.

Each line is a JSON object. A command has a ``type``, an ``id`` of the caller's choice, and fields; unknown fields are refused.
Its response has the same ``id`` and, as ``data``, the type that its class names: ``StateCommand`` is an ``RpcCommand[d.StateData]``. The
types of the data are in ``data``.

``scripts/rpc_doc.py`` writes docs/rpc.md, the JSON Schema and the TypeScript types from this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Generic, Literal, TypeVar, cast, get_args

from msgspec import UNSET, Meta, UnsetType

from newel.agent.events import AgentEvent, Event
from newel.agent.messages import Attachment, Wire
from newel.agent.ports import AgentMode, ThinkingLevel, Touch
from newel.terminal.rpc import data as d

Data = TypeVar("Data")

RequestId = Annotated[str, Meta(max_length=256)] | int | float
"""Chosen by the caller; the response repeats it."""

NonEmpty = Annotated[str, Meta(min_length=1)]

MAX_LINE: Final = 64 * 1024 * 1024
"""Bytes of a command's line; a longer one is skipped and answered with an error."""


# -- events besides those of the agent ----------------------------------------------------------------


class ApprovalAsked(Event, frozen=True, kw_only=True, tag="approval_request"):
    """A call needs an ``approve`` request; ``preview`` is its exact effect. ``touches`` are the files that it opens itself. The
    same call asks again if one of them changes meanwhile. ``rule`` is what an answer ``rule`` allows in this project from then on;
    without it, that is a ``no``. With the ``kind`` ``server``, a command in the sandbox wants to reach the server in ``args``: ``once`` and
    ``always`` allow it until the session ends.
    """

    tool_call_id: str
    tool_name: str
    args: dict[str, Any]
    label: str
    preview: str
    folder: str
    touches: Sequence[Touch] = ()
    rule: str = ""
    kind: Literal["call", "server"] = "call"


RpcEvent = AgentEvent | ApprovalAsked
"""Everything on standard output that is no response."""


# -- commands -----------------------------------------------------------------------------------------


class RpcCommand(
    Wire, Generic[Data], frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True
):
    """Base of all commands; ``Data`` is the type of the response's data."""

    id: RequestId | None = None


class PromptCommand(RpcCommand[d.PromptAccepted], frozen=True, tag="prompt"):
    """Start a run, or queue one behind those before it. Its events follow, up to ``agent_end``. ``expand`` treats the text as typed
    in a terminal: ``/NAME`` calls a prompt template, and ``@PATH`` attaches a file. Leave it off for text of others.
    """

    text: NonEmpty
    attachments: list[Attachment] = []
    expand: bool = False


class SteerCommand(RpcCommand[d.QueuedForRun], frozen=True, tag="steer"):
    """Send a message that reaches the model after the current tool calls."""

    text: NonEmpty


class FollowUpCommand(RpcCommand[d.QueuedForRun], frozen=True, tag="follow_up"):
    """Send a message that reaches the model at the end of the run."""

    text: NonEmpty


class AbortCommand(RpcCommand[d.RunActivity], frozen=True, tag="abort"):
    """End the current turn at once, with the processes of its tools. Queued turns follow."""


class StopCommand(RpcCommand[d.RunActivity], frozen=True, tag="stop"):
    """End the run before its next request to the model."""


class ApproveCommand(RpcCommand[d.ApprovalAnswered], frozen=True, tag="approve"):
    """Answer an ``approval_request``. ``always`` holds for exactly this call, ``rule`` for what the request's ``rule`` says; ``word`` is
    for the model, with a ``no``.
    """

    tool_call_id: str
    decision: Literal["once", "always", "rule", "no"]
    word: str = ""


class StateCommand(RpcCommand[d.StateData], frozen=True, tag="state"):
    """Return the state of the agent."""


class MessagesCommand(RpcCommand[d.MessagesData], frozen=True, tag="messages"):
    """Return the messages of the conversation, or the last ``limit`` of them."""

    limit: Annotated[int, Meta(ge=0)] | None = None


class ModelCommand(RpcCommand[d.ModelData], frozen=True, tag="model"):
    """Use another model of the same server from the next request on."""

    model: NonEmpty


class ModelsCommand(RpcCommand[d.ModelsData], frozen=True, tag="models"):
    """List the models of the server."""


class ThinkingCommand(RpcCommand[d.ThinkingData], frozen=True, tag="thinking"):
    """Set how much the model reasons."""

    level: ThinkingLevel


class AgentModeCommand(RpcCommand[d.AgentModeData], frozen=True, tag="agent_mode"):
    """Set which model works, from the next request on."""

    mode: AgentMode


class CompactCommand(RpcCommand[d.CompactData], frozen=True, tag="compact"):
    """Summarize the conversation to free context."""

    instructions: str = ""


class SessionsCommand(RpcCommand[d.SessionsData], frozen=True, tag="sessions"):
    """List the saved sessions of this folder, or of ``all`` folders."""

    all: bool = False
    limit: Annotated[int, Meta(ge=1)] = 20


class NewSessionCommand(RpcCommand[d.SessionOpened], frozen=True, tag="new_session"):
    """Start a new session."""


class SwitchSessionCommand(RpcCommand[d.SessionOpened], frozen=True, tag="switch_session"):
    """Resume another session: its id, the beginning of its id, or its file. The error is ``session_in_use`` if another program has it
    open.
    """

    session: NonEmpty


class NameSessionCommand(RpcCommand[d.NameData], frozen=True, tag="name_session"):
    """Name the session; an empty name removes the name."""

    name: str


class ForkCommand(RpcCommand[d.SessionOpened], frozen=True, tag="fork"):
    """Start a new session that begins as a copy of this one: up to a message and the results of its tool calls, or up to the end.
    With ``before``, the message itself is left out.
    """

    message_id: NonEmpty | None = None
    before: bool = False


class StatsCommand(RpcCommand[d.StatsData], frozen=True, tag="stats"):
    """Return the usage and cost of the conversation."""


class ExportCommand(RpcCommand[d.ExportData], frozen=True, tag="export"):
    """Write the session as Markdown (``.md``) or HTML (``.html``) to a new file, or return it as text. Secrets are masked."""

    path: NonEmpty | None = None
    html: bool = False
    unmasked: bool = False


class CommandsCommand(RpcCommand[d.CommandsData], frozen=True, tag="commands"):
    """List the commands of a conversation: prompt templates, and built-in ones with their requests."""


class ChangesCommand(RpcCommand[d.ChangesData], frozen=True, tag="changes"):
    """Return the changes to be decided and the latest runs."""

    limit: Annotated[int, Meta(ge=0)] = 10


class DecideCommand(RpcCommand[d.DecideData], frozen=True, tag="decide"):
    """Keep or reject changes: ``names`` are hunks (an id or its beginning) and files. Kept ones are written. A rejection of a hunk that
    the user has edited needs ``mine``: drop only the user's lines (``peel``), or the whole hunk (``base``).
    """

    verdict: Literal["keep", "reject"]
    names: list[NonEmpty] = []
    all: bool = False
    mine: Literal["peel", "base"] | None = None


class UndoCommand(RpcCommand[d.UndoData], frozen=True, tag="undo"):
    """Undo the last run that is not undone, or the run of a checkpoint; with ``redo``, redo what the last undo, or that of the
    checkpoint, has undone. ``preview`` changes nothing.
    """

    checkpoint: NonEmpty | None = None
    preview: bool = False
    redo: bool = False


QueuedCommand = (
    PromptCommand | CompactCommand | NewSessionCommand | SwitchSessionCommand | ForkCommand | UndoCommand
)
"""Commands that take turns: each waits until those before it are done."""

ConcurrentCommand = ModelsCommand | SessionsCommand | ExportCommand | ChangesCommand | DecideCommand
"""Commands that may take long and are answered when they are done; later ones do not wait for them."""

InlineCommand = (
    SteerCommand
    | FollowUpCommand
    | AbortCommand
    | StopCommand
    | ApproveCommand
    | StateCommand
    | MessagesCommand
    | ModelCommand
    | ThinkingCommand
    | AgentModeCommand
    | NameSessionCommand
    | StatsCommand
    | CommandsCommand
)
"""Commands that are done before the next line is read."""

AnyCommand = QueuedCommand | ConcurrentCommand | InlineCommand

COMMANDS: Final[Sequence[type[RpcCommand[Any]]]] = get_args(AnyCommand)


def name_of(command: type[RpcCommand[Any]]) -> str:
    """The ``type`` on the wire."""
    return str(command.__struct_config__.tag)


def data_of(command: type[RpcCommand[Data]]) -> type[Data]:
    """The type of the response's data."""
    (base,) = (base for base in cast("tuple[Any, ...]", vars(command)["__orig_bases__"]) if get_args(base))
    (data,) = get_args(base)
    return data


# -- responses ----------------------------------------------------------------------------------------


class RpcFailure(Wire, frozen=True):
    """``code`` is for programs: that of an error of `newel.agent.errors`, ``bad_request``, ``aborted``, ``not_recorded`` or
    ``internal``. ``message`` is for users.
    """

    code: str
    message: str


class RpcResponse(Wire, frozen=True, kw_only=True, omit_defaults=False, tag_field="type", tag="response"):
    """The one response to a command, with ``data`` if it succeeded, else ``error``. ``id`` is null if the command had none, or if it
    could not be read; ``command`` is null if the line names none.
    """

    id: RequestId | None
    command: str | None
    success: bool
    data: Any | UnsetType = UNSET
    error: RpcFailure | UnsetType = UNSET


def response(
    command: str | None, request_id: RequestId | None, outcome: d.RpcData | RpcFailure
) -> RpcResponse:
    if isinstance(outcome, RpcFailure):
        return RpcResponse(id=request_id, command=command, success=False, error=outcome)
    return RpcResponse(id=request_id, command=command, success=True, data=outcome)
