"""What the remote agent needs of its host and of its model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from newel.agent.ports import Provider
from newel.workspace.port import Completed, OnOutput

if TYPE_CHECKING:
    from newel.review.project import ProjectReview


class CommandHost(Protocol):
    """A host that is connected to when it is first needed, and again when the connection was lost."""

    @property
    def name(self) -> str:
        """``user@host``, for people."""
        ...

    @property
    def directory(self) -> str:
        """Where commands run; empty as long as no connection has told it."""
        ...

    @property
    def state(self) -> str:
        """How the connection stands, in a word or two."""
        ...

    @property
    def latency(self) -> float | None:
        """Milliseconds that the last request took to go there and back, None if there was none."""
        ...

    def watch(self, watcher: Callable[[], None], /) -> None:
        """Be told when the state has changed."""
        ...

    async def connect(self) -> None:
        """Be connected. Raises ``WorkspaceError``, with words for what can be done."""
        ...

    async def project_name(self) -> str:
        """What the project is called by which conversations are found: the folder that is meant, however it was written, or
        where none was, the host. Of a folder only the host can tell: raises ``WorkspaceError``.
        """
        ...

    async def run(self, command: str, /, *, on_output: OnOutput | None = None) -> Completed:
        """Run a shell command, as ``Workspace.run`` does. Raises ``WorkspaceError``."""
        ...

    async def project(self) -> ProjectReview | None:
        """The ledger of what the model's commands change there; None where that is not recorded. Raises ``WorkspaceError`` and
        ``LedgerError``.
        """
        ...

    async def shell(self) -> Sequence[str]:
        """The command line that opens an interactive shell there on this terminal. Raises ``WorkspaceError``."""
        ...


Tell = Callable[[str], Awaitable[None]]
Pull = Callable[[str, Tell], Awaitable[None]]


class ModelBackend(Protocol):
    """A way to models."""

    @property
    def words(self) -> str:
        """Which way is in use, for people; before the first request, which one is meant."""
        ...

    @property
    def provider(self) -> Provider: ...

    @property
    def pull(self) -> Pull | None:
        """Has the host download a model, and tells what it does, in words; None where there is nothing to download to.
        Raises ``ProviderError``.
        """
        ...

    async def models(self) -> list[str]:
        """The names of the models that are there. Raises ``ProviderError`` and ``WorkspaceError``."""
        ...

    async def check(self, model: str, /) -> None:
        """Raises ``ModelMissing`` for a model that would have to be downloaded, and what ``models`` does. A model of which nothing
        can be known before it is asked passes.
        """
        ...
