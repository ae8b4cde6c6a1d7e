"""The data of the responses of ``newel rpc``: what the commands in ``protocol`` return."""

from __future__ import annotations

from typing import Literal

from newel.agent.messages import AppMessage, Usage, Wire
from newel.agent.ports import AgentMode, ThinkingLevel
from newel.providers.listed_models import ModelDetails
from newel.workspace.sandbox.policy import SandboxMode


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
