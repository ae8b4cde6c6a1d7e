"""Types of the workbench: tabs, contracts, questions, and the snapshots and events that readers get."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from newel.agent.messages import AppMessage, AssistantMessage, UserMessage, Wire
from newel.agent.ports import AgentMode, ThinkingLevel
from newel.permissions.approval import ApprovalMode
from newel.providers.routing import AgentModeName
from newel.runs.run_events import ContractStatus, RunEvent
from newel.session.message_tree import BranchPoint
from newel.tools.todo import TodoItem

Positive = Annotated[int, msgspec.Meta(ge=1)]
Amount = Annotated[float, msgspec.Meta(gt=0)]

ChatStatus = Literal["idle", "running", "waiting"]
"""``waiting``: a question waits for the user. A running agent may have that status, too."""


class Contract(Wire, frozen=True, kw_only=True):
    """An agent's task and its limits. ``accept`` is a shell command that must succeed before the contract counts as fulfilled.
    ``worktree`` gives the agent a git worktree of its own. ``agent_mode`` None is the configured one.
    """

    text: Annotated[str, msgspec.Meta(max_length=100_000, pattern=r"\S")]
    accept: str | None = None
    max_turns: Positive = 50
    max_minutes: Amount = 60.0
    max_tokens: Positive | None = None
    max_cost: Amount | None = None
    small_model: bool = False
    """Whether the small model is the judge."""
    worktree: bool = False
    agent_mode: AgentModeName | None = None


class Tab(Wire, frozen=True, kw_only=True):
    """One tab. ``agent_mode``, ``approve`` and ``thinking`` are None until they are others than the configured ones. ``session`` is the
    conversation's id, ``run`` the latest run; ``reason`` explains why an agent stopped or failed. ``activity`` grows with every message,
    over restarts, too, so that a reader can mark unread ones.
    """

    id: str
    kind: Literal["chat", "agent"]
    title: str
    session: str
    status: ChatStatus | ContractStatus
    model: str | None = None
    agent_mode: AgentMode | None = None
    approve: ApprovalMode | None = None
    thinking: ThinkingLevel | None = None
    contract: Contract | None = None
    run: str | None = None
    reason: str = ""
    log: str | None = None
    """The file of the run's log."""
    folder: str = ""
    activity: int = 0
    switches: int = 0
    """Grows whenever the conversation goes back or to another branch without a message: what a reader has of it may be out of date."""
    queued: int = 0
    """The number of messages that wait for the run to take them."""


class LiveSnapshot(Wire, frozen=True, kw_only=True):
    """The live state that is not journalled: the message being written, and the output of running tools by call id. It replaces
    what the reader has of them.
    """

    message: AssistantMessage | None = None
    outputs: dict[str, str] = {}


class SequencedEvent(msgspec.Struct, frozen=True):
    """An event of a run and its number; an ephemeral event, and a snapshot, have the number of the lasting event before."""

    run: str
    seq: int
    event: RunEvent | LiveSnapshot


class TabQuestion(Wire, frozen=True, kw_only=True):
    """A question to the user.

    ``approval``: ``title`` names the tool, ``subagent`` the subagent whose call it is, ``preview`` is exactly the action to approve, in
    ``folder``; the answer is ``{"decision": "once"|"always"|"rule"|"no", "word": …}``; ``rule`` allows what the field of that name says, in
    this project from then on, and is no answer if it is empty. ``server``: a command or a tool server in a sandbox wants to reach the
    server ``title``, with a port other than those of the web; ``preview`` says which; the answers are the same, and all but ``rule`` hold
    for the session. ``form``: ``schema`` is a flat JSON Schema of the form's fields; the answer is ``{"action":
    "accept"|"decline"|"cancel", "content": {…}}``. ``link``: as ``form``, with a URL to visit.
    """

    id: str
    kind: Literal["approval", "server", "form", "link"]
    title: str
    preview: str = ""
    folder: str = ""
    subagent: str = ""
    rule: str = ""
    fields: dict[str, Any] = msgspec.field(default_factory=dict[str, Any], name="schema")
    url: str = ""


class TabTotals(Wire, frozen=True, kw_only=True):
    """Tokens and US dollars of a conversation so far; ``cached`` is the part of the input that servers had in their caches; ``cost`` is
    None without a known price, ``window`` without a known context size.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    context: int = 0
    window: int | None = None
    cost: float | None = None


class ModelStatus(Wire, frozen=True, kw_only=True):
    """The model of tabs that have not chosen one. ``where`` describes its location if that was not configured, ``problem`` says
    why it is unavailable. ``agent_mode`` is the configured mode.
    """

    name: str
    where: str = ""
    problem: str = ""
    agent_mode: AgentMode = "remote"


class QueuedMessage(Wire, frozen=True, kw_only=True):
    """A message that no run has taken yet. A ``held`` one waits until the user sends it, because the run before was stopped."""

    message: UserMessage
    held: bool = False


class RunReport(Wire, frozen=True, kw_only=True):
    """An event of the latest run other than a message. It followed the message ``after``, or no message if that is empty."""

    after: str
    event: RunEvent


class Snapshot(Wire, frozen=True, kw_only=True):
    """The state from which a reader starts: the conversation up to event ``seq`` of ``run``. ``more`` means that earlier messages
    exist. ``working`` are the running calls, ``queue`` the messages that wait for a run, the oldest first. ``told`` are the
    other reports of the latest run: retries, notices, its end, and the events of subagents whose call has no result with their
    session. ``todo`` is the model's todo list. ``branches`` are the places where the user has said something else, too, and what can be
    brought back at the end. ``switches`` is the tab's number to which the messages belong. An agent's snapshot has no
    messages: its run is read from the first event, which has more details.
    """

    messages: list[AppMessage]
    run: str | None = None
    seq: int = 0
    more: bool = False
    so_far: LiveSnapshot = LiveSnapshot()
    working: list[str] = []
    queue: list[QueuedMessage] = []
    told: list[RunReport] = []
    questions: list[TabQuestion] = []
    totals: TabTotals = TabTotals()
    todo: list[TodoItem] = []
    branches: list[BranchPoint] = []
    switches: int = 0
