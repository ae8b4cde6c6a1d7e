"""The ways to the model of a host: the one that Ollama offers there, or an API that this machine reaches."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from newel.providers.answer_or_shell import SCHEMA
from newel.providers.ollama_run import OllamaRun
from newel.providers.ollama_there import OllamaThere
from newel.providers.retry import Retrying
from newel.terminal.words import clause

if TYPE_CHECKING:
    from newel.agent.messages import AssistantMessage
    from newel.agent.ports import ModelRequest, OnDelta, Provider
    from newel.app.remote_host import RemoteHost
    from newel.config import Settings
    from newel.config_jexida import ModelChoice
    from newel.terminal.jexida.ports import Tell

RUN: Final = "ollama run"


class HostModel:
    """A ``ModelPath`` to a model on the host, and the ``Provider`` behind it. Where the host cannot be reached nothing is tried
    again: why that is has been said already.
    """

    def __init__(self, host: RemoteHost, model: str, there: OllamaThere | OllamaRun) -> None:
        self.model = model
        self._host = host
        self._there = there
        self._retrying = Retrying(there)

    @property
    def provider(self) -> Provider:
        return self

    async def pull(self, tell: Tell) -> None:
        """Have the host download the model. Raises ``ProviderError``."""
        await self._there.pull(self.model, tell)

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """See ``Provider``. Raises ``WorkspaceError`` too."""
        await self._host.connection()
        return await self._retrying.complete(request, on_delta)

    @property
    def words(self) -> str:
        if isinstance(self._there, OllamaRun):
            return RUN
        if self._there.way is None:
            return "not asked yet"
        return f"{self._there.way} ({clause(self._there.reason)})" if self._there.reason else self._there.way


class ApiModel:
    """A ``ModelPath`` to a server that this machine reaches by itself; its key stays here."""

    pull = None

    def __init__(self, model: str, provider: Provider, server: str) -> None:
        self.model = model
        self.provider = provider
        self.words = f"API of {server}"


@asynccontextmanager
async def host_model(host: RemoteHost, choice: ModelChoice) -> AsyncGenerator[HostModel]:
    """The model of the host that the settings choose."""
    if choice.through == "run":
        yield HostModel(host, choice.name, OllamaRun(host, schema=SCHEMA))
        return
    async with aclosing(OllamaThere(partial(host.tunnel, choice.port), host, schema=SCHEMA)) as there:
        yield HostModel(host, choice.name, there)


@asynccontextmanager
async def api_model(settings: Settings, model: str | None) -> AsyncGenerator[ApiModel]:
    """The model of Newel's own settings. Raises ``ConfigError`` and ``ProviderError``."""
    from newel.app.parts import connect, find_endpoint, find_model

    endpoint = await find_endpoint(settings)
    async with aclosing(connect(endpoint)) as client:
        name = model or await find_model(settings, endpoint, client)
        yield ApiModel(name, Retrying(client), client.name)
