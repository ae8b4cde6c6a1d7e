"""The ways to the model of a host: the one that Ollama offers there, or an API that this machine reaches."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from newel.providers.ollama.cli import OllamaCli
from newel.providers.ollama.remote import RemoteOllama
from newel.providers.retry import Retrying
from newel.terminal.jexida.protocol import SCHEMA
from newel.text.format import as_clause

if TYPE_CHECKING:
    from newel.agent.messages import AssistantMessage
    from newel.agent.ports import ModelRequest, OnDelta, Provider
    from newel.config.jexida import ModelChoice
    from newel.config.settings import Settings
    from newel.providers.model_server import ModelServer
    from newel.terminal.jexida.ports import ModelBackend, OnProgress
    from newel.terminal.jexida.remote_host import RemoteHost


class RemoteModels:
    """A ``ModelBackend`` to the models of the host, and the ``Provider`` behind it. Where the host cannot be reached nothing is
    tried again: why that is has been said already.
    """

    def __init__(self, host: RemoteHost, there: RemoteOllama | OllamaCli) -> None:
        self._host = host
        self._there = there
        self._retrying = Retrying(there)

    @property
    def provider(self) -> Provider:
        return self

    async def pull(self, model: str, on_progress: OnProgress) -> None:
        """Have the host download a model. Raises ``ProviderError``."""
        await self._there.pull(model, on_progress)

    async def models(self) -> list[str]:
        """The names of the host's models. Raises ``ProviderError`` and ``WorkspaceError``."""
        await self._host.connection()
        return await self._there.models()

    async def check(self, model: str) -> None:
        """Raises ``ModelMissing`` for a model that the host does not have, and what ``models`` does."""
        await self._host.connection()
        await self._there.window(model)  # only a model that is there has one

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """See ``Provider``. Raises ``WorkspaceError`` too."""
        await self._host.connection()
        return await self._retrying.complete(request, on_delta)

    @property
    def description(self) -> str:
        if self._there.way is None:
            return "not asked yet"
        return (
            f"{self._there.way} ({as_clause(self._there.reason)})" if self._there.reason else self._there.way
        )


class ApiModels:
    """A ``ModelBackend`` to a server that this machine reaches by itself; its key stays here."""

    pull = None

    def __init__(self, client: ModelServer) -> None:
        self.provider = Retrying(client)
        self.description = f"API of {client.name}"
        self.models = client.models

    async def check(self, model: str) -> None:
        """Servers know models that they do not list: what is wrong with a name is said when it is asked."""


@asynccontextmanager
async def host_model(host: RemoteHost, choice: ModelChoice) -> AsyncGenerator[tuple[str, ModelBackend]]:
    """The model of the host that the settings choose, and the way to it."""
    if choice.through == "run":
        yield choice.name, RemoteModels(host, OllamaCli(host, schema=SCHEMA))
        return
    async with aclosing(RemoteOllama(host.tunnel, host, port=choice.port, schema=SCHEMA)) as there:
        yield choice.name, RemoteModels(host, there)


@asynccontextmanager
async def api_model(settings: Settings, model: str | None) -> AsyncGenerator[tuple[str, ModelBackend]]:
    """The model of Newel's own settings, and the way to it. Raises ``ConfigError`` and ``ProviderError``."""
    from newel.app.model_resolver import connect, find_endpoint, find_model

    endpoint = await find_endpoint(settings)
    async with aclosing(connect(endpoint.base_url, endpoint.api_key)) as client:
        name = model or await find_model(settings, endpoint, client)
        yield name, ApiModels(client)
