"""The journal of the tabs: their lasting state, over restarts."""

from __future__ import annotations

from typing import Self

import msgspec

from newel.agent.messages import Wire
from newel.jobs.engine import Engine
from newel.jobs.state_log import StateLog
from newel.runs.models import Tab

KIND = "board"


class TabSaved(Wire, frozen=True, tag_field="type", tag="tab_kept"):
    """A tab was opened, or its lasting state has changed."""

    tab: Tab


class TabClosed(Wire, frozen=True, tag_field="type", tag="tab_closed"):
    tab: str


class RunStopped(Wire, frozen=True, tag_field="type", tag="run_stopped"):
    """The user has stopped a run: a process that resumes it is to end it."""

    tab: str
    run: str


class TabSettings(Wire, frozen=True, tag_field="type", tag="settings"):
    """Settings of no single tab: ``plain`` is the default chat."""

    plain: str


TabEntry = TabSaved | TabClosed | RunStopped | TabSettings
_decoder = msgspec.json.Decoder(TabEntry)


class TabLog:
    """The state that a journal describes; use ``open``. ``tabs`` are in the order in which they were opened, ``stopped_runs``
    has the last stopped run of each tab.
    """

    _journal: StateLog[TabEntry]

    def __init__(self) -> None:
        self.tabs: dict[str, Tab] = {}
        self.default_chat: str | None = None
        self.stopped_runs: dict[str, str] = {}

    @classmethod
    async def open(cls, engine: Engine) -> Self:
        """The log of an engine. Raises ``EngineError``."""
        log = cls()
        log._journal = await StateLog[TabEntry].open(
            engine, KIND, _decoder.decode, log._apply, what="The tabs"
        )
        return log

    async def append(self, entry: TabEntry) -> None:
        """Returns when the change is durable."""
        await self._journal.append(entry)

    def _apply(self, entry: TabEntry) -> None:
        match entry:
            case TabSaved(tab):
                self.tabs[tab.id] = tab
            case TabClosed(tab_id):
                self.tabs.pop(tab_id, None)
                self.stopped_runs.pop(tab_id, None)
            case RunStopped(tab_id, run):
                self.stopped_runs[tab_id] = run
            case TabSettings(plain):
                self.default_chat = plain


def decode_tab_entry(data: bytes) -> TabEntry:
    """An entry of the log. Raises ``msgspec.DecodeError``."""
    return _decoder.decode(data)


def tab_of(entry: TabEntry) -> str:
    """The tab that an entry is about, "" for none."""
    match entry:
        case TabSaved(tab):
            return tab.id
        case TabClosed(tab_id) | RunStopped(tab_id):
            return tab_id
        case TabSettings():
            return ""


def lasting(tab: Tab) -> Tab:
    """A tab as the log has it: the rest is known from its latest run."""
    status = "ready" if tab.kind == "agent" else "idle"
    return msgspec.structs.replace(tab, status=status, run=None, reason="", activity=0, queued=0)
