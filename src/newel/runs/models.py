"""What a workbench shows: its tabs, and what a reader needs to begin reading one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from newel.agent.messages import AppMessage, AssistantMessage, UserMessage, Wire
from newel.runs.run_events import ContractStatus, RunEvent

Positive = Annotated[int, msgspec.Meta(ge=1)]
Amount = Annotated[float, msgspec.Meta(gt=0)]

ChatStatus = Literal["idle", "running", "waiting"]
"""``waiting``: a question waits for a person. An agent that runs may have that state, too."""


class Contract(Wire, frozen=True, kw_only=True):
    """What an agent is to achieve, and what it may use. ``accept`` is a shell command that must succeed before the
    contract counts as fulfilled. ``worktree`` gives the agent a git worktree of its own to work in.
    """

    text: Annotated[str, msgspec.Meta(max_length=100_000, pattern=r"\S")]
    accept: str | None = None
    max_turns: Positive = 50
    max_minutes: Amount = 60.0
    max_tokens: Positive | None = None
    max_cost: Amount | None = None
    small_model: bool = False
    """Whether the small model judges the work."""
    worktree: bool = False


class Tab(Wire, frozen=True, kw_only=True):
    """One tab. ``session`` is the conversation's id. ``run`` is the latest run, ``reason`` says in words why an agent
    stopped or failed. ``activity`` grows with everything said in it, so that a reader can mark what is new.
    """

    id: str
    kind: Literal["chat", "agent"]
    title: str
    session: str
    status: ChatStatus | ContractStatus
    model: str | None = None
    contract: Contract | None = None
    run: str | None = None
    reason: str = ""
    log: str | None = None
    """The file of the run's log."""
    folder: str = ""
    activity: int = 0
    queued: int = 0
    """Messages that wait for the run to take them."""


class LiveSnapshot(Wire, frozen=True, kw_only=True):
    """What a reader that comes late has missed of what is not journalled: the message being written and the output
    of the tools that run, by call id. It replaces what the reader had of them.
    """

    message: AssistantMessage | None = None
    outputs: dict[str, str] = {}


class SequencedEvent(msgspec.Struct, frozen=True):
    """An event of a run and its number; an ephemeral event, and a snapshot, have the number of the lasting event before."""

    run: str
    seq: int
    event: RunEvent | LiveSnapshot


class TabQuestion(Wire, frozen=True, kw_only=True):
    """Something that waits for a person.

    ``approval``: ``title`` names the tool, ``preview`` is exactly what would be done, in ``folder``; the answer is
    ``{"decision": "once"|"always"|"no", "word": …}``. ``form``: ``schema`` is a flat JSON Schema to be filled in; the
    answer is ``{"action": "accept"|"decline"|"cancel", "content": {…}}``. ``link``: as ``form``, with a URL to visit.
    """

    id: str
    kind: Literal["approval", "form", "link"]
    title: str
    preview: str = ""
    folder: str = ""
    fields: dict[str, Any] = msgspec.field(default_factory=dict[str, Any], name="schema")
    url: str = ""


class TabTotals(Wire, frozen=True, kw_only=True):
    """Tokens and US dollars of a conversation so far; ``cost`` is None where no price is known, ``window`` where the
    model's context is not.
    """

    input: int = 0
    output: int = 0
    context: int = 0
    window: int | None = None
    cost: float | None = None


class ModelStatus(Wire, frozen=True, kw_only=True):
    """The model that answers where a tab has chosen none. ``where`` describes its location if that was not configured,
    ``problem`` says why it does not answer; it is empty as far as is known.
    """

    name: str
    where: str = ""
    problem: str = ""


class QueuedMessage(Wire, frozen=True, kw_only=True):
    """A message that no run has taken yet. A ``held`` one is sent only when the user says so: the run before it was
    stopped.
    """

    message: UserMessage
    held: bool = False


class RunReport(Wire, frozen=True, kw_only=True):
    """An event of the latest run that is no message, and the message ``after`` which it happened; empty for none."""

    after: str
    event: RunEvent


class Snapshot(Wire, frozen=True, kw_only=True):
    """Where a reader begins: the conversation up to event ``seq`` of ``run``. ``more`` says that earlier messages exist.
    ``working`` is the set of calls that run now, ``queue`` the messages that wait for a run, the oldest first. ``told`` is what
    else the latest run tells: tries that failed, notices, its end. Of an agent no messages are given: its run is read from
    its first event, which says more than they do.
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
