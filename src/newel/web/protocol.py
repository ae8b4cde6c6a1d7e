"""The messages on the workbench's socket: JSON objects told apart by ``type``, their names in camelCase.

One socket carries all tabs. What the page asks for has an ``id`` of its own choice; the server answers each request
with one ``reply`` or one ``error`` that names it in ``re``. Everything else the server sends unasked. A ``tab`` is named
wherever a message belongs to one; ``seq`` is the number of an event in its run's journal.

**Reading a tab.** ``watch`` begins it: the server sends a ``snapshot``, or, if the reader names the run and the number
up to which it has read and that run is still the latest, only what came since. Then every event of the tab follows as
it happens. Lasting events have a ``seq``, each exactly once and in order. Pieces of text and of output have the ``seq``
of the event before; a reader that lost some gets ``soFar``, which replaces what it had of them.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from newel.agent.messages import AppMessage, Attachment, Wire
from newel.mcp.server_status import ServerStatus
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
from newel.workspace.ssh.host_monitor import HostState

VERSION = 1
"""Of this protocol; it grows when a reader of the one before would misread."""

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]

# -- from the page ----------------------------------------------------------------------------------


class SocketRequest(Wire, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """Base of what the page asks for."""

    id: Id


class WatchTab(SocketRequest, frozen=True, kw_only=True, tag="watch"):
    """Read a tab, from the beginning or after event ``after`` of ``run``."""

    tab: Id
    run: Id | None = None
    after: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0


class Unwatch(SocketRequest, frozen=True, kw_only=True, tag="unwatch"):
    tab: Id


class OpenChat(SocketRequest, frozen=True, kw_only=True, tag="openChat"):
    """Open a chat: a new conversation, or the session with this id. The reply's ``tab`` is its id; the
    list of tabs that has it may come later.
    """

    session: Name | None = None
    model: Name | None = None


class OpenAgent(SocketRequest, frozen=True, kw_only=True, tag="openAgent"):
    """Open an agent's tab. The reply's ``tab`` is its id."""


class CloseTab(SocketRequest, frozen=True, kw_only=True, tag="closeTab"):
    """Take a tab away; a run in it is aborted. The session stays."""

    tab: Id


class RenameTab(SocketRequest, frozen=True, kw_only=True, tag="renameTab"):
    tab: Id
    title: Name


class SetModel(SocketRequest, frozen=True, kw_only=True, tag="setModel"):
    """Go on with another model, from the next message on."""

    tab: Id
    model: Name


class Send(SocketRequest, frozen=True, kw_only=True, tag="send"):
    """Say something in a chat. ``messageId`` is the page's choice: the same one again is the same message, so a page
    that lost the reply may ask again. While a run is under way the message waits for it. With ``before`` the
    conversation first goes back to just before that message: it was edited, and is sent again.
    """

    tab: Id
    message_id: Id
    text: Annotated[str, msgspec.Meta(max_length=1_000_000)]
    attachments: Annotated[list[Attachment], msgspec.Meta(max_length=20)] = []
    before: Id | None = None


class Withdraw(SocketRequest, frozen=True, kw_only=True, tag="withdraw"):
    """Take back a message that no run has taken yet. An error if one has."""

    tab: Id
    message_id: Id


class SendNow(SocketRequest, frozen=True, kw_only=True, tag="sendNow"):
    """Send a message that is held. Where a message waits for a run, that run is ended at once instead, and the messages that
    wait are answered in their order.
    """

    tab: Id
    message_id: Id


class RetryMessage(SocketRequest, frozen=True, kw_only=True, tag="retry"):
    """Go on with a chat from where it failed or was stopped; held messages are sent along."""

    tab: Id


class StopTab(SocketRequest, frozen=True, kw_only=True, tag="stop"):
    """End a run before its next request to the model; ``now``: at once. Messages that wait for the run are held."""

    tab: Id
    now: bool = False


class Start(SocketRequest, frozen=True, kw_only=True, tag="start"):
    """Start an agent on a contract, or start it again."""

    tab: Id
    contract: Contract


class GetHistory(SocketRequest, frozen=True, kw_only=True, tag="getHistory"):
    """Earlier messages of a tab: up to ``limit`` of them before message ``before``, as the reply's ``messages``, the
    oldest first, and ``more``.
    """

    tab: Id
    before: Id
    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = 100


class AnswerQuestion(SocketRequest, frozen=True, kw_only=True, tag="answer"):
    """Answer a question; see ``TabQuestion`` for the shapes."""

    tab: Id
    question: Id
    answer: dict[str, Any]


class GetSessions(SocketRequest, frozen=True, kw_only=True, tag="getSessions"):
    """The project's sessions, the latest first, as the reply's ``sessions``."""


class GetModels(SocketRequest, frozen=True, kw_only=True, tag="getModels"):
    """The models that the server offers, as the reply's ``models``."""


class UseServer(SocketRequest, frozen=True, kw_only=True, tag="useServer"):
    """Ask the model server at an address from now on, until this server ends. The key is sent to that server and nowhere
    else, and is not kept. The reply's ``models`` are those of which one has to be chosen: then nothing has changed.
    """

    base_url: Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
    api_key: Annotated[str, msgspec.Meta(min_length=1, max_length=10_000)] | None = None
    model: Name | None = None


class SetServer(SocketRequest, frozen=True, kw_only=True, tag="setServer"):
    """Switch an MCP server on or off, or decide whether its command is trusted; None leaves as it is."""

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


ClientMessage = (
    WatchTab
    | Unwatch
    | OpenChat
    | OpenAgent
    | CloseTab
    | RenameTab
    | SetModel
    | Send
    | Withdraw
    | SendNow
    | RetryMessage
    | StopTab
    | Start
    | GetHistory
    | AnswerQuestion
    | GetSessions
    | GetModels
    | UseServer
    | SetServer
    | SetTool
    | RestartServer
    | Ping
)

# -- from the server --------------------------------------------------------------------------------


class SessionInfo(Wire, frozen=True, kw_only=True):
    """A session as a list shows it; ``modified`` is in seconds since 1970."""

    id: str
    title: str
    messages: int
    modified: float


class FromServer(Wire, frozen=True, kw_only=True, tag_field="type", omit_defaults=False):
    """Base of what the server sends. ``tab`` is empty where a message belongs to none, ``seq`` 0 where it stands in no
    journal.
    """

    tab: str = ""
    seq: int = 0


class Welcome(FromServer, frozen=True, kw_only=True, tag="welcome"):
    """The first message on every socket. ``server`` is another one after each start of the server."""

    version: int
    newel: str
    server: str
    project: str
    model: str
    approve: str
    ephemeral: bool
    review: bool
    """Whether there are reviews: docs/review-api.md."""
    tabs: list[Tab]
    servers: list[ServerStatus]
    host: HostState | None
    """Where the agents work; null for the server's own machine."""
    where: str
    """Where the model is, in words, if that was not configured; else empty."""
    problem: str
    """Why the model does not answer, or that there is none; empty as far as is known."""
    notice: str = ""
    """What the user should know of the start, such as a server that the project names and that is not trusted; else empty."""


class Tabs(FromServer, frozen=True, kw_only=True, tag="tabs"):
    """The tabs, in their order: one was opened, closed, or changed its state."""

    tabs: list[Tab]


class SnapshotMessage(FromServer, frozen=True, kw_only=True, tag="snapshot"):
    """Begin reading here, and forget what was read before."""

    snapshot: Snapshot


class EventMessage(FromServer, frozen=True, kw_only=True, tag="event"):
    run: str
    event: RunEvent


class SoFarMessage(FromServer, frozen=True, kw_only=True, tag="soFar"):
    run: str
    so_far: LiveSnapshot


class TotalsMessage(FromServer, frozen=True, kw_only=True, tag="totals"):
    totals: TabTotals


class QuestionsMessage(FromServer, frozen=True, kw_only=True, tag="questions"):
    """The questions that wait in a tab now."""

    questions: list[TabQuestion]


class QueueMessage(FromServer, frozen=True, kw_only=True, tag="queue"):
    """The messages of a chat that no run has taken yet, the oldest first, whenever they change."""

    messages: list[QueuedMessage]


class ModelMessage(FromServer, frozen=True, kw_only=True, tag="model"):
    """The model that answers where a tab has chosen none, whenever it is another or its server falls silent or answers."""

    model: ModelStatus


class Servers(FromServer, frozen=True, kw_only=True, tag="servers"):
    """The MCP servers, whenever one changes."""

    servers: list[ServerStatus]


class HostMessage(FromServer, frozen=True, kw_only=True, tag="host"):
    """The way to the host that is worked on, whenever it changes."""

    host: HostState


class ReviewChanged(FromServer, frozen=True, kw_only=True, tag="review"):
    """The reviews of files have changed, by whoever it was: read what waits anew, and those files that you do not have at the
    revision that stands behind them. No files at all stand for any file, as they do where more than 200 changed at once.
    """

    revs: dict[str, int]


class ReplyMessage(FromServer, frozen=True, kw_only=True, tag="reply"):
    """Request ``re`` is done, and as durable as it will ever be. What else is set depends on the request."""

    re: str
    run: str | None = None
    messages: list[AppMessage] | None = None
    more: bool | None = None
    sessions: list[SessionInfo] | None = None
    models: list[str] | None = None


class ErrorMessage(FromServer, frozen=True, kw_only=True, tag="error"):
    """Request ``re`` was not done; ``re`` is empty where it could not even be read. Nothing else happens to the socket."""

    re: str = ""
    code: str
    message: str


ServerMessage = (
    Welcome
    | Tabs
    | SnapshotMessage
    | EventMessage
    | SoFarMessage
    | TotalsMessage
    | QuestionsMessage
    | QueueMessage
    | ModelMessage
    | Servers
    | HostMessage
    | ReviewChanged
    | ReplyMessage
    | ErrorMessage
)
