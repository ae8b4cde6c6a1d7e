"""The wire of ``newel rpc``: commands in, one response to each, and the events of JSON mode in between.

Each line is a JSON object. A command has a ``type``, an ``id`` of the caller's choice, and fields; unknown fields are refused.
Its response has the same ``id`` and, as ``data``, the type that its class names: ``StateCommand`` is an ``RpcCommand[StateData]``.

``scripts/rpc_doc.py`` writes docs/rpc.md, the JSON Schema and the TypeScript types from this module, which is why all types are in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Generic, Literal, TypeVar, cast, get_args

from msgspec import UNSET, Meta, UnsetType

from newel.agent.events import AgentEvent, Event
from newel.agent.messages import AppMessage, Attachment, Usage, Wire
from newel.agent.ports import AgentMode, ThinkingLevel, Touch
from newel.providers.listed_models import ModelDetails
from newel.workspace.sandbox.policy import SandboxMode

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


# -- data of responses --------------------------------------------------------------------------------


class RpcData(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """Base of the data of responses; all fields are present."""


class PromptAccepted(RpcData, frozen=True):
    """The prompt's run has begun and its message is in the session's file. If ``queued``, it waits in memory for the turns before
    it, and its ``message_end`` event tells that it is saved.
    """

    message_id: str
    queued: bool


class QueuedForRun(RpcData, frozen=True):
    """The message waits in memory; its ``message_end`` event tells that the run has taken it."""

    message_id: str


class RunActivity(RpcData, frozen=True):
    """``running`` tells whether there was something to end."""

    running: bool


class StateData(RpcData, frozen=True):
    """The agent as it is now."""

    model: str
    provider: str
    where: str
    """The model's location if it is not the configured server: `on host (ollama run)`."""
    thinking_level: ThinkingLevel
    agent_mode: AgentMode
    approve: str
    """The approval mode: which calls run without asking."""
    sandbox: SandboxMode
    """What commands may change: the project, nothing, or what the user may; ``partial`` is the project, held as far as the machine can."""
    sandbox_problem: str
    """Why commands run in no sandbox, or in a partial one, although you have not chosen that; else empty."""
    folder: str
    is_streaming: bool
    """Whether a prompt is being answered."""
    pending_tool_calls: list[str]
    pending_approvals: list[str]
    """The calls that wait for `approve`."""
    waiting: int
    """Queued requests."""
    steer: int
    follow_up: int
    session_id: str
    session_name: str | None
    session_file: str | None
    """None for a session in memory."""
    message_count: int
    usage: Usage
    cost: float | None
    """US dollars; None if no price is known."""
    context: int
    """Tokens of the last request."""
    window: int | None
    """Tokens of the model's window."""
    error: str | None
    """Of the last run."""


class MessagesData(RpcData, frozen=True):
    """``total`` counts the messages of the conversation, of which ``messages`` are the last ones."""

    messages: list[AppMessage]
    total: int


class ModelData(RpcData, frozen=True):
    """The model from the next request on."""

    model: str
    provider: str
    where: str


class ModelsData(RpcData, frozen=True):
    """The models that the server lists, and the name of the one in use."""

    models: list[ModelDetails]
    current: str


class ThinkingData(RpcData, frozen=True):
    level: ThinkingLevel


class AgentModeData(RpcData, frozen=True):
    mode: AgentMode
    model: str
    where: str


class CompactData(RpcData, frozen=True):
    """``context_before`` is the size of the last request before it, in tokens."""

    summary: str
    context_before: int


class ListedSession(RpcData, frozen=True):
    """A saved session. ``modified`` is in seconds since 1970; the texts are single lines without control characters."""

    id: str
    name: str | None
    first_text: str
    messages: int
    modified: float
    cwd: str
    path: str


class SessionsData(RpcData, frozen=True):
    """The latest first."""

    sessions: list[ListedSession]


class SessionOpened(RpcData, frozen=True):
    """The session in use from now on. ``damage`` describes broken lines of its file."""

    session_id: str
    session_file: str | None
    message_count: int
    damage: list[str]


class NameData(RpcData, frozen=True):
    name: str | None


class StatsData(RpcData, frozen=True):
    """Counts of the conversation. ``context`` and ``window`` are in tokens, ``cost`` in US dollars."""

    session_id: str
    user_messages: int
    assistant_messages: int
    tool_calls: int
    failed_tool_calls: int
    compactions: int
    usage: Usage
    cost: float | None
    context: int
    window: int | None


class ExportData(RpcData, frozen=True):
    """``text`` without a ``path``, else the written file. ``masked`` counts the secret values that were replaced."""

    path: str | None
    text: str | None
    masked: int


class CommandInfo(RpcData, frozen=True):
    """A command of a conversation. A ``template`` is called by a prompt with ``expand``; a ``builtin`` by the request of that name."""

    name: str
    kind: Literal["template", "builtin"]
    description: str
    arguments: str
    request: str


class CommandsData(RpcData, frozen=True):
    commands: list[CommandInfo]


class ReviewHunk(RpcData, frozen=True):
    """A change under review. ``patch`` is its effect alone; ``conflict``: the file changed there since; ``mine``: the user has edited
    it; ``warning`` is a reason to look twice. ``hunk_id`` changes with the hunk's content.
    """

    hunk_id: str
    state: Literal["pending", "accepted", "rejected"]
    conflict: bool
    mine: bool
    run: str
    patch: str
    warning: str


class FileToDecide(RpcData, frozen=True):
    """``change`` and ``about`` describe the file if all of it is kept."""

    file_path: str
    change: str
    about: str
    hunks: list[ReviewHunk]


class RunFileChange(RpcData, frozen=True):
    """``patch`` is a unified diff; ``state`` is empty, or tells that the change is undone, or to be decided."""

    file_path: str
    state: str
    patch: str


class RecordedRun(RpcData, frozen=True):
    """A run that changed files. ``checkpoint_id`` names it in ``undo``."""

    checkpoint_id: str
    session_id: str
    created_at: str
    title: str
    files: list[RunFileChange]


class ChangesData(RpcData, frozen=True):
    """Changes to be decided, and the latest runs, the last one first. ``problems`` are files that could not be read."""

    pending: list[FileToDecide]
    runs: list[RecordedRun]
    problems: list[FileProblem]


class FileProblem(RpcData, frozen=True):
    path: str
    reason: str


class DecideData(RpcData, frozen=True):
    """``decided`` are hunks, ``written`` files. ``left`` are those that were not decided or could not be written, with the reason."""

    decided: list[str]
    written: list[str]
    left: list[FileProblem]


class UndoneFile(RpcData, frozen=True):
    path: str
    patch: str


class UndoData(RpcData, frozen=True):
    """``files`` with the effect of the undo as unified diffs; ``redo``: it undoes an undo. ``done`` is false for a preview, and if
    nothing changed. ``skipped`` has the changes that cannot be undone, with the reason.
    """

    checkpoint_id: str
    redo: bool
    done: bool
    files: list[UndoneFile]
    skipped: list[FileProblem]


class ApprovalAnswered(RpcData, frozen=True):
    tool_call_id: str


# -- commands -----------------------------------------------------------------------------------------


class RpcCommand(
    Wire, Generic[Data], frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True
):
    """Base of all commands; ``Data`` is the type of the response's data."""

    id: RequestId | None = None


class PromptCommand(RpcCommand[PromptAccepted], frozen=True, tag="prompt"):
    """Start a run, or queue one behind those before it. Its events follow, up to ``agent_end``. ``expand`` treats the text as typed
    in a terminal: ``/NAME`` calls a prompt template, and ``@PATH`` attaches a file. Leave it off for text of others.
    """

    text: NonEmpty
    attachments: list[Attachment] = []
    expand: bool = False


class SteerCommand(RpcCommand[QueuedForRun], frozen=True, tag="steer"):
    """Send a message that reaches the model after the current tool calls."""

    text: NonEmpty


class FollowUpCommand(RpcCommand[QueuedForRun], frozen=True, tag="follow_up"):
    """Send a message that reaches the model at the end of the run."""

    text: NonEmpty


class AbortCommand(RpcCommand[RunActivity], frozen=True, tag="abort"):
    """End the current turn at once, with the processes of its tools. Queued turns follow."""


class StopCommand(RpcCommand[RunActivity], frozen=True, tag="stop"):
    """End the run before its next request to the model."""


class ApproveCommand(RpcCommand[ApprovalAnswered], frozen=True, tag="approve"):
    """Answer an ``approval_request``. ``always`` holds for exactly this call, ``rule`` for what the request's ``rule`` says; ``word`` is
    for the model, with a ``no``.
    """

    tool_call_id: str
    decision: Literal["once", "always", "rule", "no"]
    word: str = ""


class StateCommand(RpcCommand[StateData], frozen=True, tag="state"):
    """Return the state of the agent."""


class MessagesCommand(RpcCommand[MessagesData], frozen=True, tag="messages"):
    """Return the messages of the conversation, or the last ``limit`` of them."""

    limit: Annotated[int, Meta(ge=0)] | None = None


class ModelCommand(RpcCommand[ModelData], frozen=True, tag="model"):
    """Use another model of the same server from the next request on."""

    model: NonEmpty


class ModelsCommand(RpcCommand[ModelsData], frozen=True, tag="models"):
    """List the models of the server."""


class ThinkingCommand(RpcCommand[ThinkingData], frozen=True, tag="thinking"):
    """Set how much the model reasons."""

    level: ThinkingLevel


class AgentModeCommand(RpcCommand[AgentModeData], frozen=True, tag="agent_mode"):
    """Set which model works, from the next request on."""

    mode: AgentMode


class CompactCommand(RpcCommand[CompactData], frozen=True, tag="compact"):
    """Summarize the conversation to free context."""

    instructions: str = ""


class SessionsCommand(RpcCommand[SessionsData], frozen=True, tag="sessions"):
    """List the saved sessions of this folder, or of ``all`` folders."""

    all: bool = False
    limit: Annotated[int, Meta(ge=1)] = 20


class NewSessionCommand(RpcCommand[SessionOpened], frozen=True, tag="new_session"):
    """Start a new session."""


class SwitchSessionCommand(RpcCommand[SessionOpened], frozen=True, tag="switch_session"):
    """Resume another session: its id, the beginning of its id, or its file. The error is ``session_in_use`` if another program has it
    open.
    """

    session: NonEmpty


class NameSessionCommand(RpcCommand[NameData], frozen=True, tag="name_session"):
    """Name the session; an empty name removes the name."""

    name: str


class ForkCommand(RpcCommand[SessionOpened], frozen=True, tag="fork"):
    """Start a new session that begins as a copy of this one: up to a message and the results of its tool calls, or up to the end.
    With ``before``, the message itself is left out.
    """

    message_id: NonEmpty | None = None
    before: bool = False


class StatsCommand(RpcCommand[StatsData], frozen=True, tag="stats"):
    """Return the usage and cost of the conversation."""


class ExportCommand(RpcCommand[ExportData], frozen=True, tag="export"):
    """Write the session as Markdown (``.md``) or HTML (``.html``) to a new file, or return it as text. Secrets are masked."""

    path: NonEmpty | None = None
    html: bool = False
    unmasked: bool = False


class CommandsCommand(RpcCommand[CommandsData], frozen=True, tag="commands"):
    """List the commands of a conversation: prompt templates, and built-in ones with their requests."""


class ChangesCommand(RpcCommand[ChangesData], frozen=True, tag="changes"):
    """Return the changes to be decided and the latest runs."""

    limit: Annotated[int, Meta(ge=0)] = 10


class DecideCommand(RpcCommand[DecideData], frozen=True, tag="decide"):
    """Keep or reject changes: ``names`` are hunks (an id or its beginning) and files. Kept ones are written. A rejection of a hunk that
    the user has edited needs ``mine``: drop only the user's lines (``peel``), or the whole hunk (``base``).
    """

    verdict: Literal["keep", "reject"]
    names: list[NonEmpty] = []
    all: bool = False
    mine: Literal["peel", "base"] | None = None


class UndoCommand(RpcCommand[UndoData], frozen=True, tag="undo"):
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


def response(command: str | None, request_id: RequestId | None, outcome: RpcData | RpcFailure) -> RpcResponse:
    if isinstance(outcome, RpcFailure):
        return RpcResponse(id=request_id, command=command, success=False, error=outcome)
    return RpcResponse(id=request_id, command=command, success=True, data=outcome)
