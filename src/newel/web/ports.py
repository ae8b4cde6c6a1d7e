"""What the server needs of the workbench behind it; ``newel.workbench.board`` is it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from newel.agent.messages import AppMessage, UserMessage
from newel.jobs.engine import Engine
from newel.mcp.types import ServerStatus
from newel.runs.event_hub import EventHub
from newel.runs.host_status import HostState
from newel.runs.models import Contract, ModelStatus, QueuedMessage, Tab, TabQuestion, TabTotals
from newel.session.listing import SessionSummary
from newel.workbench.board import Frame, TabChange

if TYPE_CHECKING:
    from newel.review_jobs.service import ReviewService

Desk = Callable[[], AbstractAsyncContextManager["ReviewService"]]
"""Gives the review desk, as soon as it is open, for one request."""


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the page says of the program at the other end. ``project`` is the folder it works in, ``notice`` what the user should
    know of the start.
    """

    newel: str
    project: str
    approve: str
    ephemeral: bool
    notice: str = ""


class WorkbenchPort(Protocol):
    """Tabs, what is said in them, the runs that answer, and the MCP servers.

    Each method raises ``NewelError`` with words for a user where it cannot do what it was asked; when it returns, what it
    did is as durable as it will ever be.
    """

    @property
    def engine(self) -> Engine: ...

    @property
    def feed(self) -> EventHub: ...

    @property
    def tabs(self) -> list[Tab]: ...

    def tab(self, tab: str) -> Tab:
        """A tab by its id."""
        ...

    def watch(self, callback: Callable[[TabChange], None]) -> Callable[[], None]:
        """Call ``callback`` with every change; the returned function ends that."""
        ...

    def follow(self, tab: str, run: str | None = None, after: int = 0) -> AsyncGenerator[Frame]:
        """All that happens in a tab, until it is closed."""
        ...

    def questions(self, tab: str) -> list[TabQuestion]: ...

    async def totals(self, tab: str) -> TabTotals: ...

    async def history(self, tab: str, before: str, limit: int) -> tuple[list[AppMessage], bool]: ...

    async def open_chat(self, *, session: str | None = None, model: str | None = None) -> Tab: ...

    async def open_agent(self) -> Tab: ...

    async def close(self, tab: str) -> None: ...

    async def rename(self, tab: str, title: str) -> None: ...

    async def set_model(self, tab: str, model: str) -> None: ...

    async def send(self, tab: str, message: UserMessage, *, before: str | None = None) -> str: ...

    async def queue(self, tab: str) -> list[QueuedMessage]: ...

    async def withdraw(self, tab: str, message: str) -> None: ...

    async def send_now(self, tab: str, message: str) -> None: ...

    async def retry(self, tab: str) -> str: ...

    async def start(self, tab: str, contract: Contract) -> str: ...

    async def stop(self, tab: str, *, now: bool = False) -> None: ...

    def answer(self, tab: str, question: str, answer: dict[str, Any]) -> None: ...

    @property
    def model(self) -> ModelStatus: ...

    async def use_server(self, base_url: str, api_key: str | None, model: str | None) -> list[str]:
        """Ask the model server at an address from now on; the names of its models where one has to be chosen first."""
        ...

    async def sessions(self) -> list[SessionSummary]: ...

    async def models(self) -> list[str]: ...

    @property
    def host(self) -> HostState | None:
        """The host that is worked on, and the way there; None on this machine."""
        ...

    # -- MCP servers ------------------------------------------------------------------------------

    def statuses(self) -> list[ServerStatus]: ...

    async def set_server(
        self, server: str, *, enabled: bool | None = None, trusted: bool | None = None
    ) -> None: ...

    async def set_tool(self, server: str, tool: str, *, enabled: bool) -> None: ...

    async def restart_server(self, server: str) -> None: ...

    # -- the chat of those who know no tabs -------------------------------------------------------

    async def plain_chat(self) -> Tab: ...

    async def clear_plain_chat(self) -> None: ...
