"""The host that a workbench works on, where that is not this machine: how the way there is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Literal, Protocol

from newel.agent.messages import Wire


class HostState(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """``folder`` is the project's, there. A host that is ``slow`` has not answered for some seconds, and is waited for. While
    the connection is ``lost`` Newel tries to get it back; one that ``failed`` is tried again when somebody asks for something
    there. ``reason`` says why it is so. ``latency`` is how many milliseconds a request takes, None as long as that is not known.
    """

    user: str
    host: str
    folder: str
    state: Literal["up", "slow", "lost", "failed"] = "up"
    reason: str = ""
    latency: int | None = None


class HostMonitor(Protocol):
    """The way to a host, as the people know it who work there."""

    @property
    def state(self) -> HostState: ...

    async def keep(self, tell: Callable[[], None], is_watched: Callable[[], bool]) -> None:
        """Until cancelled: ``tell`` of each change of the state, get a lost connection back, and measure while somebody looks."""
        ...

    def patience(self) -> AbstractContextManager[None]:
        """What is done within for a person who waits is given up when the host is not there. Raises ``HostUnreachable``."""
        ...
