"""The tabs, kept: the fold of the journal of one job that no worker carries out and that never ends."""

from __future__ import annotations

import anyio
import msgspec

from newel.agent.messages import Wire
from newel.jobs.engine import Engine, EngineError, Lease
from newel.jobs.tabs import Tab

KIND = QUEUE = "board"


class TabKept(Wire, frozen=True, tag_field="type", tag="tab_kept"):
    """A tab is new, or something lasting of it has changed."""

    tab: Tab


class TabClosed(Wire, frozen=True, tag_field="type", tag="tab_closed"):
    tab: str


class Settings(Wire, frozen=True, tag_field="type", tag="settings"):
    """What belongs to no tab: ``plain`` is the chat of those who know no tabs."""

    plain: str


_decoder = msgspec.json.Decoder(TabKept | TabClosed | Settings)


class TabStore:
    """Tabs in their order, by id. Each method returns when the change is durable."""

    def __init__(self, engine: Engine, lease: Lease) -> None:
        self._engine = engine
        self._lease = lease
        self._seq = 0
        self._lock = anyio.Lock()
        self.tabs: dict[str, Tab] = {}
        self.plain: str | None = None

    @classmethod
    async def open(cls, engine: Engine) -> TabStore:
        """Raises ``EngineError``."""
        await engine.submit(KIND, b"{}", queue=QUEUE, key=KIND)
        leases = await engine.claim(1, "board", queues=[QUEUE])
        if not leases:
            raise EngineError("The tabs are open in another workbench of this folder.")
        store = cls(engine, leases[0])
        while page := await engine.read(store._lease.job, store._seq):
            for entry in page:
                store._fold(_decoder.decode(entry.data))
            store._seq = page[-1].seq
        return store

    async def add(self, tab: Tab) -> None:
        await self._append(TabKept(tab))

    async def change(self, tab: str, **fields: object) -> None:
        """Nothing happens if the tab is gone or says so already."""
        before = self.tabs.get(tab)
        if before is not None and (after := msgspec.structs.replace(before, **fields)) != before:
            await self._append(TabKept(after))

    async def close(self, tab: str) -> None:
        await self._append(TabClosed(tab))

    async def set_plain(self, tab: str) -> None:
        await self._append(Settings(tab))

    async def _append(self, entry: TabKept | TabClosed | Settings) -> None:
        # A caller that goes away must not leave the journal and its number apart.
        with anyio.CancelScope(shield=True):
            async with self._lock:
                self._seq = await self._engine.append(
                    self._lease, [msgspec.json.encode(entry)], expect_seq=self._seq
                )
                self._fold(entry)

    def _fold(self, entry: TabKept | TabClosed | Settings) -> None:
        match entry:
            case TabKept(tab):
                self.tabs[tab.id] = tab
            case TabClosed(tab_id):
                self.tabs.pop(tab_id, None)
            case Settings(plain):
                self.plain = plain
