"""The models of an application, by the mode in which its agents work."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import msgspec

from newel.agent.errors import ConfigError
from newel.agent.ports import AgentMode
from newel.app.model_resolver import (
    OpenServers,
    ResolvedModel,
    not_local,
    open_local,
    open_remote,
    provider_of,
)
from newel.config.settings import Settings
from newel.providers.http.urls import is_loopback
from newel.providers.retry import RetryLimits
from newel.providers.routing import LocalRoute, Place, Route, RoutingProvider
from newel.text.sanitize import redact_url

if TYPE_CHECKING:
    from newel.workspace.execution_host import ExecutionHost

LOCAL_LIMITS = RetryLimits(attempts=2, connections=1)
"""For a local model that another one replaces if it fails."""


class AgentModels:
    """The local and the remote model. Each is resolved once, when an agent first works with it: before, nothing is sent to its
    server. ``provider`` asks them both, and ``mode`` is the one in the settings. ``stack`` closes the servers.
    """

    def __init__(self, settings: Settings, host: ExecutionHost, stack: AsyncExitStack) -> None:
        self.mode: AgentMode = settings.agent_mode
        self.provider = RoutingProvider(self._route, settings.agent_mode, settings.routing)
        self._settings = settings
        self._host = host
        self._servers = OpenServers(settings, stack)
        self._opened: dict[Place, ResolvedModel] = {}
        self._first: LocalRoute | None = None
        self._opening = anyio.Lock()

    async def find(self, mode: AgentMode) -> ResolvedModel:
        """The model of agents in a mode, whose requests must name the mode. Raises ``ConfigError`` and ``ProviderError``; later,
        it can be tried again.
        """
        place: Place = "local" if mode == "local" else "remote"
        model = await self._open(place, mode)
        where = model.where
        if mode == "hybrid_auto":
            first = await self._local_first(model)
            where = f"or first {first.model.id} on this machine"
        return msgspec.structs.replace(model, provider=self.provider, agent_mode=mode, where=where)

    def check_address(self, base_url: str) -> None:
        """Raises ``ConfigError`` if the configured mode does not allow a server at this address."""
        if self.mode == "local" and not is_loopback(base_url):
            raise not_local(self.mode, redact_url(base_url))

    def use(self, model: ResolvedModel) -> None:
        """Use another model instead of the configured one."""
        self._opened["local" if self.mode == "local" else "remote"] = model
        self._first = None

    async def _route(self, mode: AgentMode) -> Route:
        if mode == "local":
            return Route((await self._open("local", mode)).provider)
        remote = await self._open("remote", mode)
        first = await self._local_first(remote) if mode == "hybrid_auto" else None
        return Route(remote.provider, first)

    async def _open(self, place: Place, mode: AgentMode) -> ResolvedModel:
        async with self._opening:
            if place not in self._opened:
                self._opened[place] = (
                    await open_local(self._settings, mode, self._servers)
                    if place == "local"
                    else await open_remote(self._settings, self._host, self._servers)
                )
            return self._opened[place]

    async def _local_first(self, remote: ResolvedModel) -> LocalRoute:
        local = await self._open("local", "hybrid_auto")
        if local.server.name == remote.server.name and local.name == remote.name:
            raise ConfigError(
                f"agent_mode is hybrid_auto, but both models are {local.name} of {local.server.name}. Set another one under [local] in "
                "config.toml, or configure a remote server."
            )
        if self._first is None:
            window = local.model.context_window or await local.find_window(local.name)
            model = msgspec.structs.replace(local.model, context_window=window)
            self._first = LocalRoute(provider_of(local.server, self._settings, LOCAL_LIMITS), model)
        return self._first


@asynccontextmanager
async def open_models(settings: Settings, host: ExecutionHost) -> AsyncGenerator[AgentModels]:
    """The models for work on a host, none of which is resolved yet."""
    async with AsyncExitStack() as stack:
        yield AgentModels(settings, host, stack)
