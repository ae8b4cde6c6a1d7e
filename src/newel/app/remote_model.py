"""The ways to the model of a host: Ollama's API through the connection, ``ollama run`` there, or an API of this machine."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from newel.agent.errors import ProviderError, WorkspaceError
from newel.providers.answer_or_shell import SCHEMA
from newel.providers.ollama import Ollama
from newel.providers.ollama_run import OllamaRun
from newel.providers.retry import Retrying

if TYPE_CHECKING:
    from newel.agent.messages import AssistantMessage
    from newel.agent.ports import ModelRequest, OnDelta, Provider
    from newel.app.remote_host import RemoteHost
    from newel.config import Settings
    from newel.config_jexida import Through

PORT: Final = 11434
"""Where Ollama listens on its host, unless it was told otherwise."""

RUN: Final = "ollama run"
FORWARD: Final = "forwarded /api/chat"


class HostModel:
    """A ``ModelPath``, and the ``Provider`` behind it: the way is chosen when the model is first asked."""

    def __init__(self, host: RemoteHost, model: str, through: Through) -> None:
        self.model = model
        self.words = {"auto": f"{FORWARD}, or {RUN}", "forward": FORWARD}.get(through, RUN)
        self._host = host
        self._through = through
        self._api: Ollama | None = None
        self._chosen: Provider | None = None

    @property
    def provider(self) -> Provider:
        return self

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """See ``Provider``."""
        if self._chosen is None:
            self._chosen = Retrying(await self._choose())
        return await self._chosen.complete(request, on_delta)

    async def aclose(self) -> None:
        if self._api is not None:
            await self._api.aclose()

    async def _choose(self) -> Provider:
        """Raises ``ProviderError`` if the API is wanted and does not answer."""
        if self._through == "run":
            return self._run("")
        try:
            self._api = api = Ollama(
                socket=await self._host.forwarded(PORT), place=self._host.name, schema=SCHEMA
            )
            version = await api.version()
        except (ProviderError, WorkspaceError) as error:
            if self._through == "forward":
                raise
            return self._run(f" (its API does not answer: {error})")
        self.words = f"{FORWARD} · Ollama {version}"
        return api

    def _run(self, why: str) -> Provider:
        self.words = f"{RUN}{why}"
        return OllamaRun(self._host, schema=SCHEMA)


class ApiModel:
    """A ``ModelPath`` to a server that this machine reaches by itself; its key stays here."""

    words = "API"

    def __init__(self, model: str, provider: Provider, words: str) -> None:
        self.model = model
        self.provider = provider
        self.words = words


@asynccontextmanager
async def api_model(settings: Settings, model: str | None) -> AsyncGenerator[ApiModel]:
    """The model of Newel's own settings. Raises ``ConfigError`` and ``ProviderError``."""
    from newel.app.parts import connect, find_endpoint, find_model

    endpoint = await find_endpoint(settings)
    client = connect(endpoint)
    try:
        name = model or await find_model(settings, endpoint, client)
        yield ApiModel(name, Retrying(client), f"API · {client.name}")
    finally:
        await client.aclose()


@asynccontextmanager
async def host_model(host: RemoteHost, model: str, through: Through) -> AsyncGenerator[HostModel]:
    """The model of the host."""
    path = HostModel(host, model, through)
    try:
        yield path
    finally:
        await path.aclose()
