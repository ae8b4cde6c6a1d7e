"""Where agents work: a folder of this machine, or one on a host."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from newel.config import Settings
    from newel.workspace.process import Limits
    from newel.workspace.watching import WatchedWorkspace


class Ground(Protocol):
    """``name`` is the project's, by which its sessions, journals and ledger are found; ``system`` tells a model what it
    works on.
    """

    @property
    def name(self) -> str: ...

    @property
    def system(self) -> str: ...

    def workspace(self, folder: str, limits: Limits) -> WatchedWorkspace:
        """The workspace of a folder: the project's own by its ``name``, or another one by its path."""
        ...


@asynccontextmanager
async def open_ground(settings: Settings) -> AsyncGenerator[Ground]:
    """The ground that the settings name, with its connection. Raises ``WorkspaceError``."""
    yield LocalGround(str(settings.cwd))


class LocalGround:
    """A folder of this machine, and whatever other folder is asked for."""

    def __init__(self, folder: str) -> None:
        self.name = folder

    @property
    def system(self) -> str:
        import os

        here = os.uname()
        return f"{here.sysname} {here.release}"

    def workspace(self, folder: str, limits: Limits) -> WatchedWorkspace:
        from newel.workspace.local import LocalWorkspace

        return LocalWorkspace(folder, limits=limits)
