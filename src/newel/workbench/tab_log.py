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


class SavedTabs:
    """The state that a journal describes: tabs by id, in the order in which they were opened."""

    def __init__(self) -> None:
        self.tabs: dict[str, Tab] = {}
        self.default_chat: str | None = None
        self.stopped_runs: dict[str, str] = {}
        """The last stopped run of each tab."""

    def apply(self, entry: TabEntry) -> None:
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


class TabLog:
    """Writes changes of tabs. Each method returns when the change is durable. Nothing is read from here after ``open``."""

    def __init__(self, journal: StateLog[TabEntry]) -> None:
        self._journal = journal

    @classmethod
    async def open(cls, engine: Engine) -> tuple[Self, SavedTabs]:
        """The log of an engine, and the state that it holds now. Raises ``EngineError``."""
        saved = SavedTabs()
        journal = await StateLog[TabEntry].open(engine, KIND, _decoder.decode, saved.apply, what="The tabs")
        return cls(journal), saved

    async def save(self, tab: Tab) -> None:
        await self._journal.append(TabSaved(tab))

    async def save_stop(self, tab: str, run: str) -> None:
        await self._journal.append(RunStopped(tab, run))

    async def close(self, tab: str) -> None:
        await self._journal.append(TabClosed(tab))

    async def save_default_chat(self, tab: str) -> None:
        await self._journal.append(TabSettings(tab))
