"""The messages on the workbench's socket: JSON objects distinguished by ``type``, with field names in camelCase.

One socket carries all tabs. A request has an ``id`` that the page chooses; the server answers each request with one
``reply`` or one ``error`` with that id in ``re``. It sends all other messages unprompted. A ``tab`` is given wherever a
message belongs to one; ``seq`` is the number of an event in its run's journal.

**Reading a tab.** After ``watch`` the server sends a ``snapshot``; or, if the reader names the run and the last event that
it has, and that run is still the latest, only the events since. Then it sends every event of the tab as it happens. Lasting
events have a ``seq``, and each comes exactly once and in order. Pieces of text and output have the ``seq`` of the event
before; a reader that missed some gets ``soFar``, which replaces the pieces that it has.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from newel.agent.messages import AppMessage, Attachment, Wire
from newel.agent.ports import AgentMode, ThinkingLevel
from newel.mcp.types import ServerStatus
from newel.providers.listed_models import ModelDetails
from newel.providers.routing import AgentModeName
from newel.runs.models import (
    Contract,
    LiveSnapshot,
    ModelStatus,
    QueuedMessage,
    Snapshot,
    Tab,
    TabQuestion,
    TabTotals,
)
from newel.runs.run_events import RunEvent
from newel.workspace.sandbox.policy import SandboxMode
from newel.workspace.ssh.host_monitor import HostState

VERSION = 1
"""Of this protocol; incremented when a reader of the version before would misread it."""

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]

# -- from the page ----------------------------------------------------------------------------------


class SocketRequest(Wire, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """Base of the page's requests."""

    id: Id


class WatchTab(SocketRequest, frozen=True, kw_only=True, tag="watch"):
    """Read a tab, from a snapshot or after event ``after`` of ``run``."""

    tab: Id
    run: Id | None = None
    after: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0


class Unwatch(SocketRequest, frozen=True, kw_only=True, tag="unwatch"):
    tab: Id


class OpenChat(SocketRequest, frozen=True, kw_only=True, tag="openChat"):
    """Open a chat: a new conversation, or the session with this id. The reply's ``tab`` is the new tab's id; the updated list
    of tabs may come later. The other fields are as in ``setModel``, ``setAgentMode``, ``setApprove`` and ``setThinking``; if one of them is
    refused, no chat is opened.
    """

    session: Name | None = None
    model: Name | None = None
    agent_mode: AgentModeName | None = None
    approve: Literal["ask", "auto", "plan"] | None = None
    thinking: ThinkingLevel | None = None


class OpenAgent(SocketRequest, frozen=True, kw_only=True, tag="openAgent"):
    """Open an agent's tab. The reply's ``tab`` is the new tab's id."""


class CloseTab(SocketRequest, frozen=True, kw_only=True, tag="closeTab"):
    """Close a tab and abort its run. The session is kept."""

    tab: Id


class RenameTab(SocketRequest, frozen=True, kw_only=True, tag="renameTab"):
    tab: Id
    title: Name


class SetModel(SocketRequest, frozen=True, kw_only=True, tag="setModel"):
    """Use another model from the next message on."""

    tab: Id
    model: Name


class SetAgentMode(SocketRequest, frozen=True, kw_only=True, tag="setAgentMode"):
    """Have a chat work in another mode from the next request to a model on: ``local``, ``remote`` or ``hybrid_auto``. If its
    model is not available, the reply is an error, and nothing has changed.
    """

    tab: Id
    mode: AgentModeName


class SetTabApprove(SocketRequest, frozen=True, kw_only=True, tag="setApprove"):
    """Approve a chat's calls by another mode from the next one on: ``ask``, ``auto`` or ``plan``. An error, and no change, in a server that
    was started with ``review``, and for ``auto`` where a sandbox is missing that you have not switched off.
    """

    tab: Id
    mode: Literal["ask", "auto", "plan"]


class SetTabThinking(SocketRequest, frozen=True, kw_only=True, tag="setThinking"):
    """Use another reasoning effort in a chat from the next request to the model on."""

    tab: Id
    level: ThinkingLevel


class Send(SocketRequest, frozen=True, kw_only=True, tag="send"):
    """Send a message to a chat. The page chooses ``messageId``: a repeated id is the same message, so a page that lost the reply
    can send it again. During a run the message is queued. With ``before`` the conversation first goes back to just before
    that message: the user edited it and sends it again. ``typed``: the text means what it means in the terminal, so ``@file`` attaches a
    file, and ``/name`` is a prompt template.
    """

    tab: Id
    message_id: Id
    text: Annotated[str, msgspec.Meta(max_length=1_000_000)]
    attachments: Annotated[list[Attachment], msgspec.Meta(max_length=20)] = []
    before: Id | None = None
    typed: bool = False


class SwitchBranch(SocketRequest, frozen=True, kw_only=True, tag="switchBranch"):
    """Go to the end of the branch with a message that the user has sent, or to just ``before`` that message. The conversation keeps all
    branches. An error during a run.
    """

    tab: Id
    message: Id
    before: bool = False


class Withdraw(SocketRequest, frozen=True, kw_only=True, tag="withdraw"):
    """Withdraw a queued message. An error if a run has taken it."""

    tab: Id
    message_id: Id


class SendNow(SocketRequest, frozen=True, kw_only=True, tag="sendNow"):
    """Send a held message. If the message is queued instead, the run in progress is ended at once, and the queue is answered in
    its order.
    """

    tab: Id
    message_id: Id


class RetryMessage(SocketRequest, frozen=True, kw_only=True, tag="retry"):
    """Continue a chat from where it failed or was stopped; held messages are sent, too."""

    tab: Id


class StopTab(SocketRequest, frozen=True, kw_only=True, tag="stop"):
    """End a run before its next request to the model; ``now``: at once. Queued messages are held."""

    tab: Id
    now: bool = False


class Start(SocketRequest, frozen=True, kw_only=True, tag="start"):
    """Start an agent on a contract, also after an earlier one."""

    tab: Id
    contract: Contract


class GetHistory(SocketRequest, frozen=True, kw_only=True, tag="getHistory"):
    """Get up to ``limit`` messages of a tab before message ``before``. The reply has them as ``messages``, the oldest first, and
    in ``more`` whether there are earlier ones.
    """

    tab: Id
    before: Id
    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = 100


class GetSubagent(SocketRequest, frozen=True, kw_only=True, tag="getSubagent"):
    """Get what a subagent of a tab did: the reply has the ``messages`` of its ``session``, which the details of its call's result name."""

    tab: Id
    session: Id


class AnswerQuestion(SocketRequest, frozen=True, kw_only=True, tag="answer"):
    """Answer a question; ``TabQuestion`` describes the shapes."""

    tab: Id
    question: Id
    answer: dict[str, Any]


class GetSessions(SocketRequest, frozen=True, kw_only=True, tag="getSessions"):
    """Get the project's latest 200 sessions, the latest first, as the reply's ``sessions``; with ``query`` those that have all of its
    words in the name or the first message.
    """

    query: Annotated[str, msgspec.Meta(max_length=400)] = ""


class GetModels(SocketRequest, frozen=True, kw_only=True, tag="getModels"):
    """Get the models of a tab's server, by default the configured one, as the reply's ``models``."""

    tab: Id | None = None


class GetPrompts(SocketRequest, frozen=True, kw_only=True, tag="getPrompts"):
    """Get the prompt templates that a typed message can name, as the reply's ``prompts``."""


class GetPaths(SocketRequest, frozen=True, kw_only=True, tag="getPaths"):
    """Get, as the reply's ``paths``, what a path in a typed message may become: entries of the folder that ``part`` names, such as ``~/no``
    or ``../``; folders end with ``/``. Secret places are not listed.
    """

    part: Annotated[str, msgspec.Meta(max_length=4096)]


class UseServer(SocketRequest, frozen=True, kw_only=True, tag="useServer"):
    """Use the model server at an address until this server ends. The key is sent to that server only, and is not saved. If the
    reply has several ``models``, nothing has changed: repeat the request with one of them.
    """

    base_url: Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
    api_key: Annotated[str, msgspec.Meta(min_length=1, max_length=10_000)] | None = None
    model: Name | None = None


class SetServer(SocketRequest, frozen=True, kw_only=True, tag="setServer"):
    """Enable or disable an MCP server, or decide whether its command is trusted; null changes nothing."""

    server: Name
    enabled: bool | None = None
    trusted: bool | None = None


class SetTool(SocketRequest, frozen=True, kw_only=True, tag="setTool"):
    server: Name
    tool: Name
    enabled: bool


class RestartServer(SocketRequest, frozen=True, kw_only=True, tag="restartServer"):
    server: Name


class Ping(SocketRequest, frozen=True, kw_only=True, tag="ping"):
    pass


TabCommand = (
    RenameTab
    | SetModel
    | SetAgentMode
    | SetTabApprove
    | SetTabThinking
    | Send
    | SwitchBranch
    | Withdraw
    | SendNow
    | RetryMessage
    | StopTab
    | Start
    | AnswerQuestion
)
Command = TabCommand | OpenChat | OpenAgent | CloseTab | UseServer | SetServer | SetTool | RestartServer
"""Requests that change something."""
Query = GetHistory | GetSubagent | GetSessions | GetModels | GetPrompts | GetPaths | Ping
"""Requests that only read."""
ClientMessage = Command | Query | WatchTab | Unwatch

# -- from the server --------------------------------------------------------------------------------


class SessionInfo(Wire, frozen=True, kw_only=True):
    """A session in a list; ``modified`` is in seconds since 1970. ``first_text`` is the user's first message."""

    id: str
    title: str
    first_text: str
    messages: int
    modified: float


class PromptInfo(Wire, frozen=True, kw_only=True):
    """A prompt template in a list."""

    name: str
    description: str
    takes_arguments: bool


class ServerMessage(Wire, frozen=True, kw_only=True, tag_field="type", omit_defaults=False):
    """Base of the server's messages. ``tab`` is empty for messages of no single tab, ``seq`` is 0 for messages that are not in a
    journal.
    """

    tab: str = ""
    seq: int = 0


class Welcome(ServerMessage, frozen=True, kw_only=True, tag="welcome"):
    """The first message on every socket. ``server`` changes with each start of the server."""

    version: int
    newel: str
    server: str
    project: str
    home: str = ""
    """The user's home, which the page shows as `~`."""
    now: str = ""
    """The server's time, of whose clock all times are."""
    model: str
    approve: str
    sandbox: SandboxMode
    """What commands may change: the project, nothing, or what the user may; ``partial`` is the project, held as far as the machine can."""
    sandbox_problem: str
    """Why commands run in no sandbox, or in a partial one, although you have not chosen that; else empty."""
    ephemeral: bool
    review: bool
    """Whether the server has the review API (docs/review-api.md)."""
    fleets: bool = False
    """Whether a fleet is set up here (docs/fleet.md)."""
    tabs: list[Tab]
    servers: list[ServerStatus]
    host: HostState | None
    """The host on which the agents work; null for the server's own machine."""
    where: str
    """Describes the model's location if that was not configured; else empty."""
    problem: str
    """Why the model is unavailable; empty if it is available, as far as is known."""
    agent_mode: AgentMode
    """The mode of tabs that have not chosen one."""
    thinking: ThinkingLevel
    """The reasoning effort of tabs that have not chosen one."""
    notice: str = ""
    """A message about the start, for example on a server that the project names and the user does not trust; else empty."""


class Tabs(ServerMessage, frozen=True, kw_only=True, tag="tabs"):
    """The tabs in their order, sent whenever one is opened, closed or changed."""

    tabs: list[Tab]


class SnapshotMessage(ServerMessage, frozen=True, kw_only=True, tag="snapshot"):
    """The state from which to read; it replaces everything read before."""

    snapshot: Snapshot


class EventMessage(ServerMessage, frozen=True, kw_only=True, tag="event"):
    run: str
    event: RunEvent


class SoFarMessage(ServerMessage, frozen=True, kw_only=True, tag="soFar"):
    run: str
    so_far: LiveSnapshot


class TotalsMessage(ServerMessage, frozen=True, kw_only=True, tag="totals"):
    totals: TabTotals


class QuestionsMessage(ServerMessage, frozen=True, kw_only=True, tag="questions"):
    """The pending questions of a tab, sent whenever they change."""

    questions: list[TabQuestion]


class QueueMessage(ServerMessage, frozen=True, kw_only=True, tag="queue"):
    """The messages of a chat that no run has taken yet, the oldest first, sent whenever they change."""

    messages: list[QueuedMessage]


class ModelMessage(ServerMessage, frozen=True, kw_only=True, tag="model"):
    """The model of tabs that have not chosen one, sent whenever it or its availability changes."""

    model: ModelStatus


class Servers(ServerMessage, frozen=True, kw_only=True, tag="servers"):
    """The MCP servers, sent whenever one changes."""

    servers: list[ServerStatus]


class PermissionsChanged(ServerMessage, frozen=True, kw_only=True, tag="permissions"):
    """What answers have allowed in the project has changed, here or in another program. Read ``/api/permissions`` again if you show
    it.
    """


class HostMessage(ServerMessage, frozen=True, kw_only=True, tag="host"):
    """The host on which the agents work, sent whenever its state changes."""

    host: HostState


class ReviewChanged(ServerMessage, frozen=True, kw_only=True, tag="review"):
    """The reviews of files have changed. Read the pending files again, and those of which you have an older revision. An empty
    object means that any file may have changed, for example more than 200 at once.
    """

    revs: dict[str, int]


class ReplyMessage(ServerMessage, frozen=True, kw_only=True, tag="reply"):
    """Request ``re`` was carried out durably. The other fields depend on the request."""

    re: str
    run: str | None = None
    messages: list[AppMessage] | None = None
    more: bool | None = None
    sessions: list[SessionInfo] | None = None
    models: list[ModelDetails] | None = None
    prompts: list[PromptInfo] | None = None
    paths: list[str] | None = None


class ErrorMessage(ServerMessage, frozen=True, kw_only=True, tag="error"):
    """Request ``re`` failed; ``re`` is empty if the request was unreadable. The socket stays open."""

    re: str = ""
    code: str
    message: str
