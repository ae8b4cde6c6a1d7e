"""A model on a host, through Ollama's API over a tunnel, or else through ``ollama run`` there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal

from newel.agent.errors import ConnectionFailed, HostUnreachable, ProviderError, WorkspaceError
from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest, OnDelta
from newel.providers.http.urls import OLLAMA_PORT
from newel.providers.ollama.cli import OllamaCli, ProgramRunner
from newel.providers.ollama.client import Ollama
from newel.providers.ollama.model_info import is_cloud_model

if TYPE_CHECKING:
    from newel.providers.listed_models import ListedModel

Way = Literal["forwarded /api/chat", "ollama run"]


class RemoteOllama:
    """A ``ModelServer``. ``tunnel`` returns the path of a Unix socket that leads to the host's ``port``, and opens
    the tunnel if necessary. If it or the server behind it fails, the program on the host of ``programs`` is used,
    unless the host itself is unreachable. ``ModelMissing`` is that of ``Ollama``.

    The way is chosen before the first request, and again after a connection or the program has failed.
    """

    name: str = "ollama"
    is_local = True
    supports_schema = True

    def __init__(
        self,
        tunnel: Callable[[int], Awaitable[str]],
        programs: ProgramRunner,
        *,
        port: int = OLLAMA_PORT,
    ) -> None:
        self.way: Way | None = None
        """The server in use; None before the first request, and while it is being chosen."""
        self.reason = ""
        """Why it is not the API."""
        self._tunnel = tunnel
        self._port = port
        self._place = f"Ollama on {programs.place}"
        self._run = OllamaCli(programs, name=self.name)
        self._api: Ollama | None = None
        self._api_has_answered = False
        self._socket = ""

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """Ask the model; see ``Provider.complete``."""
        provider = await self._chosen()
        if provider is self._run and request.tools and self._api_has_answered:
            self.way = None
            raise ConnectionFailed(self.reason)  # it is being restarted, and only the API offers tools
        try:
            return await provider.complete(request, on_delta)
        except ProviderError as error:
            if provider is self._run or isinstance(error, ConnectionFailed):
                self.way = None
            raise

    async def models(self) -> list[str]:
        """The names of the host's models. Raises ``ProviderError``."""
        return await (await self._chosen()).models()

    async def list_models(self) -> list[ListedModel]:
        """The host's models with the facts that it reports. Raises ``ProviderError``."""
        return await (await self._chosen()).list_models()

    async def is_priced(self, model: str) -> bool:
        """Local models are free; the prices of cloud models are unknown."""
        return not is_cloud_model(model)

    async def window(self, model: str) -> int | None:
        """The size of a model's context in tokens. Raises ``ProviderError``."""
        return await (await self._chosen()).window(model)

    async def pull(self, model: str, tell: Callable[[str], Awaitable[None]]) -> None:
        """Download a model on the host; ``tell`` gets progress messages. Raises ``ProviderError``."""
        await (await self._chosen()).pull(model, tell)

    async def aclose(self) -> None:
        """Close the connections; the tunnel belongs to the caller."""
        if self._api is not None:
            await self._api.aclose()

    async def _chosen(self) -> Ollama | OllamaCli:
        if self.way == "ollama run":
            return self._run
        try:
            api = await self._tunnelled_api()
            if self.way is None:
                await api.version()
        except HostUnreachable as error:  # it was waited for already
            raise ProviderError(str(error)) from error
        except (ProviderError, WorkspaceError) as error:
            self.way, self.reason = "ollama run", str(error)
            self._run.reason = f"on port {self._port}: {error}"
            return self._run
        self.way, self.reason = "forwarded /api/chat", ""
        self._api_has_answered = True
        return api

    async def _tunnelled_api(self) -> Ollama:
        """The API behind the current tunnel."""
        socket = await self._tunnel(self._port)
        if self._api is None or socket != self._socket:
            earlier, self._socket = self._api, socket
            self._api = Ollama(socket=socket, place=self._place, name=self.name)
            if earlier is not None:
                await earlier.aclose()  # last: another request must not connect anew meanwhile
        return self._api
