"""The tabs, kept."""

from __future__ import annotations

import msgspec

from newel.agent.messages import Wire
from newel.jobs.engine import Engine
from newel.jobs.state_log import StateLog
from newel.runs.models import Tab

KIND = "board"


class TabSaved(Wire, frozen=True, tag_field="type", tag="tab_kept"):
    """A tab is new, or something lasting of it has changed."""

    tab: Tab


class TabClosed(Wire, frozen=True, tag_field="type", tag="tab_closed"):
    tab: str


class RunStopped(Wire, frozen=True, tag_field="type", tag="run_stopped"):
    """A person has stopped a run: whoever goes on with it is to end it."""

    tab: str
    run: str


class TabSettings(Wire, frozen=True, tag_field="type", tag="settings"):
    """What belongs to no tab: ``plain`` is the chat of those who know no tabs."""

    plain: str


TabEntry = TabSaved | TabClosed | RunStopped | TabSettings
_decoder = msgspec.json.Decoder(TabEntry)


class TabStore:
    """Tabs in their order, by id. Each method returns when the change is durable."""

    _journal: StateLog[TabEntry]

    def __init__(self) -> None:
        self.tabs: dict[str, Tab] = {}
        self.plain: str | None = None
        self.stopped: dict[str, str] = {}
        """The run of each tab that was stopped last."""

    @classmethod
    async def open(cls, engine: Engine) -> TabStore:
        """Raises ``EngineError``."""
        store = cls()
        store._journal = await StateLog[TabEntry].open(
            engine, KIND, _decoder.decode, store._fold, what="The tabs"
        )
        return store

    async def add(self, tab: Tab) -> None:
        await self._journal.append(TabSaved(tab))

    async def change(self, tab: str, **fields: object) -> None:
        """Nothing happens if the tab is gone or says so already."""
        before = self.tabs.get(tab)
        if before is not None and (after := msgspec.structs.replace(before, **fields)) != before:
            await self._journal.append(TabSaved(after))

    async def stop(self, tab: str, run: str) -> None:
        await self._journal.append(RunStopped(tab, run))

    async def close(self, tab: str) -> None:
        await self._journal.append(TabClosed(tab))

    async def set_plain(self, tab: str) -> None:
        await self._journal.append(TabSettings(tab))

    def _fold(self, entry: TabEntry) -> None:
        match entry:
            case TabSaved(tab):
                self.tabs[tab.id] = tab
            case TabClosed(tab_id):
                self.tabs.pop(tab_id, None)
                self.stopped.pop(tab_id, None)
            case RunStopped(tab_id, run):
                self.stopped[tab_id] = run
            case TabSettings(plain):
                self.plain = plain
