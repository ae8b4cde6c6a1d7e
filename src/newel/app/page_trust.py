"""The question about what a project brings, for the page: the same as a conversation in the terminal asks at its start."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import msgspec

from newel.app.project_trust import TOO_LONG, PendingTrust, trust_question, undecided
from newel.text.sanitize import escape_line
from newel.web.api.trust import TrustItem, TrustQuestion

if TYPE_CHECKING:
    from newel.config.settings import Settings
    from newel.workbench.workbench import ToolServers


class PageTrust:
    """Fulfils ``newel.web.api.trust.TrustDesk``. The MCP servers are those of ``servers``, as they would start."""

    def __init__(self, settings: Settings, servers: ToolServers) -> None:
        self._settings = settings
        self._servers = servers
        self._deciding = anyio.Lock()

    async def ask(self) -> TrustQuestion:
        return self._question(await self._undecided())

    async def decide(self, digest: str, *, trusted: bool) -> bool:
        async with self._deciding:
            items = await self._undecided()
            if not digest or digest != self._question(items).digest:
                return False
            await anyio.to_thread.run_sync(_decide, items, trusted)
        for status in self._servers.statuses():
            if status.state == "untrusted":
                await self._servers.restart(status.name)
        return True

    async def _undecided(self) -> list[PendingTrust]:
        if self._settings.host is not None:
            return []  # a project on a host brings nothing that this is about
        return await anyio.to_thread.run_sync(undecided, self._settings, self._servers.configs)

    def _question(self, items: Sequence[PendingTrust]) -> TrustQuestion:
        folder = self._settings.cwd
        if items and trust_question(folder, items) is None:
            return TrustQuestion(problem=TOO_LONG.format(folder=escape_line(str(folder))))
        return TrustQuestion(
            items=[TrustItem(title=item.lines[0], lines=item.lines[1:]) for item in items],
            digest=_digest(items) if items else "",
        )


def _digest(items: Sequence[PendingTrust]) -> str:
    """SHA-256 of what is shown, and of what it is bound to, such as the content of scripts."""
    return hashlib.sha256(msgspec.json.encode([[item.lines, item.key] for item in items])).hexdigest()


def _decide(items: Sequence[PendingTrust], trusted: bool) -> None:
    for item in items:
        item.decide(trusted)
