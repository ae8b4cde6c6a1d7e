"""The tabs, kept."""

from __future__ import annotations

import msgspec

from newel.agent.messages import Wire
from newel.jobs.engine import Engine
from newel.jobs.standing import StandingJournal
from newel.jobs.tabs import Tab

KIND = "board"


class TabKept(Wire, frozen=True, tag_field="type", tag="tab_kept"):
    """A tab is new, or something lasting of it has changed."""

    tab: Tab


class TabClosed(Wire, frozen=True, tag_field="type", tag="tab_closed"):
    tab: str


class Settings(Wire, frozen=True, tag_field="type", tag="settings"):
    """What belongs to no tab: ``plain`` is the chat of those who know no tabs."""

    plain: str


TabEntry = TabKept | TabClosed | Settings
_decoder = msgspec.json.Decoder(TabEntry)


class TabStore:
    """Tabs in their order, by id. Each method returns when the change is durable."""

    _journal: StandingJournal[TabEntry]

    def __init__(self) -> None:
        self.tabs: dict[str, Tab] = {}
        self.plain: str | None = None

    @classmethod
    async def open(cls, engine: Engine) -> TabStore:
        """Raises ``EngineError``."""
        store = cls()
        store._journal = await StandingJournal[TabEntry].open(
            engine, KIND, _decoder.decode, store._fold, what="The tabs"
        )
        return store

    async def add(self, tab: Tab) -> None:
        await self._journal.append(TabKept(tab))

    async def change(self, tab: str, **fields: object) -> None:
        """Nothing happens if the tab is gone or says so already."""
        before = self.tabs.get(tab)
        if before is not None and (after := msgspec.structs.replace(before, **fields)) != before:
            await self._journal.append(TabKept(after))

    async def close(self, tab: str) -> None:
        await self._journal.append(TabClosed(tab))

    async def set_plain(self, tab: str) -> None:
        await self._journal.append(Settings(tab))

    def _fold(self, entry: TabEntry) -> None:
        match entry:
            case TabKept(tab):
                self.tabs[tab.id] = tab
            case TabClosed(tab_id):
                self.tabs.pop(tab_id, None)
            case Settings(plain):
                self.plain = plain
