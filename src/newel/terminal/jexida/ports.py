"""The ports of ``jexida``: a host and a model backend."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from newel.agent.ports import Provider
from newel.workspace.port import CommandResult, OnOutput

if TYPE_CHECKING:
    from newel.review.project import ProjectReview


class CommandHost(Protocol):
    """A host that connects on first use, and again after the connection was lost."""

    @property
    def name(self) -> str:
        """``user@host``, for display."""
        ...

    @property
    def directory(self) -> str:
        """The folder where commands run; empty until a connection has reported it."""
        ...

    @property
    def state(self) -> str:
        """The state of the connection, in a word or two."""
        ...

    @property
    def latency(self) -> float | None:
        """Round-trip time of the last request in milliseconds; None if there was none."""
        ...

    def watch(self, watcher: Callable[[], None], /) -> None:
        """Call ``watcher`` when the state has changed."""
        ...

    async def connect(self) -> None:
        """Connect. Raises ``WorkspaceError``, whose message says what to do."""
        ...

    async def project_name(self) -> str:
        """The name under which sessions are found: the resolved folder, or without one, the host. Only the host can
        resolve a folder: raises ``WorkspaceError``.
        """
        ...

    async def run(self, command: str, /, *, on_output: OnOutput | None = None) -> CommandResult:
        """Run a shell command, as ``Workspace.run`` does. Raises ``WorkspaceError``."""
        ...

    async def project(self) -> ProjectReview | None:
        """The ledger of changes by the model's commands; None if they are not recorded. Raises ``WorkspaceError`` and
        ``LedgerError``.
        """
        ...

    async def shell(self) -> Sequence[str]:
        """The local command line that opens an interactive shell on the host. Raises ``WorkspaceError``."""
        ...


OnProgress = Callable[[str], Awaitable[None]]
Pull = Callable[[str, OnProgress], Awaitable[None]]


class ModelBackend(Protocol):
    """A way to reach models."""

    @property
    def description(self) -> str:
        """How the model is reached, for display; before the first request, how it will be."""
        ...

    @property
    def provider(self) -> Provider: ...

    @property
    def pull(self) -> Pull | None:
        """Downloads a model to the host and reports the progress as text; None if the backend cannot. Raises
        ``ProviderError``.
        """
        ...

    async def models(self) -> list[str]:
        """The names of the available models. Raises ``ProviderError`` and ``WorkspaceError``."""
        ...

    async def check(self, model: str, /) -> None:
        """Raises ``ModelMissing`` for a model that must be downloaded first, and what ``models`` raises. A model that cannot
        be checked passes.
        """
        ...
