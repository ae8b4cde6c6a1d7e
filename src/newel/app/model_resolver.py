"""Resolves the model: of a configured server, of a server on this machine, or of the agents' host."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import msgspec

from newel.agent.errors import ConfigError, ProviderError
from newel.agent.ports import AgentMode, Model, Provider, ToolCallMode
from newel.app.extensions import open_server
from newel.config.settings import EndpointSettings, ModelFacts, Settings
from newel.providers.families import FAMILIES, Api
from newel.providers.http.urls import is_loopback
from newel.providers.model_server import ModelServer, find_window
from newel.providers.retry import RetryLimits
from newel.providers.structured.tool_call_mode import suitable_mode
from newel.text.sanitize import redact_url

if TYPE_CHECKING:
    from newel.config.hosts import HostModel
    from newel.config.jexida import Through
    from newel.providers.listed_models import ModelDetails
    from newel.providers.ollama.cli import OllamaCli
    from newel.providers.ollama.remote import RemoteOllama
    from newel.workspace.execution_host import ExecutionHost
    from newel.workspace.ssh.connection import SshConnection

_VENDOR_KEYS = ", ".join(family.variables["api_key"] for family in FAMILIES if family.base_url)
NAME_A_SERVER = """\
For any OpenAI-compatible server:
  export LLM_BASE_URL=https://HOST/v1
  export LLM_AUTH_TOKEN=KEY LLM_DEFAULT_MODEL=NAME"""

NOTHING_CONFIGURED = f"""\
No model is configured, and no server was found on this machine
(Ollama 11434, LM Studio 1234, llama.cpp 8080, vLLM 8000).
To choose a server, its key and a model, step by step:
  newel setup
{NAME_A_SERVER}
For a vendor's model, set its key and use --model NAME:
  {_VENDOR_KEYS}
To download a model that runs on this machine:
  newel models pull
To try Newel without a model:
  newel demo"""

UNUSED = f"""\
No model is configured.
{{message}}
{NAME_A_SERVER}"""

MOST_NAMES = 8


class NoModelConfigured(ConfigError, code="nothing_found"):
    """There is no server. ``summary`` is the message without shell commands, for the page."""

    def __init__(self, message: str, summary: str = "") -> None:
        super().__init__(message)
        self.summary = summary or message


class NoModelChosen(ConfigError):
    """The user has to choose one of the server's models, ``names``."""

    def __init__(self, message: str, names: Sequence[str]) -> None:
        super().__init__(message)
        self.names = names


class NoModelOnHost(NoModelConfigured, code="nothing_there"):
    """The host has no model."""


class ResolvedModel(msgspec.Struct, frozen=True, kw_only=True):
    """The model of agents that work in the mode ``agent_mode``. ``provider`` sends requests to ``server``, and retries them.
    ``name`` is the model's, ``small_name`` that of the model for summaries, if configured. ``where`` describes the model's
    location; it is empty for a configured server. ``is_on_host`` means that the model runs on the agents' host; then ``base_url``, the
    server's address, is empty. ``tool_calls`` tells how a model calls tools.
    """

    server: ModelServer
    provider: Provider
    name: str
    facts: Mapping[str, ModelFacts]
    agent_mode: AgentMode = "remote"
    small_name: str | None = None
    where: str = ""
    base_url: str = ""
    is_on_host: bool = False
    tool_calls: Callable[[str], ToolCallMode] = lambda _: "native"

    def describe(self, name: str) -> Model:
        """One of the server's models, with its configured properties. Aliases in the settings are expanded."""
        name = real_name(self.facts, name)
        facts = self.facts.get(name, ModelFacts())
        return Model(name, self.server.name, facts.context_window, facts.max_output, self.tool_calls(name))

    async def list_models(self) -> list[str]:
        """The names of the server's models. Raises ``ProviderError``."""
        return await self.server.models()

    async def list_details(self) -> list[ModelDetails]:
        """The server's models with sizes, prices and abilities. Raises ``ProviderError``."""
        from newel.config.model_details import find_details

        return await find_details(await self.server.list_models(), self.base_url, self.facts)

    async def find_window(self, name: str) -> int | None:
        """The size of a model's context in tokens, None if unknown."""
        return await find_window(self.server, name)

    async def check_cost(self, model: Model) -> None:
        """Raises ``ConfigError`` if a cost limit cannot be enforced, because the price of the model, or of the one for
        summaries, is unknown.
        """
        for name in dict.fromkeys([model.id, self.small.id if self.small_name else model.id]):
            facts = self.facts.get(name)
            if (facts and facts.rates) or await self.server.is_priced(name):
                continue
            raise ConfigError(
                f"The price of the model {name} of {model.provider} is unknown, so --max-cost cannot be enforced. "
                f'Set [models."{name}"] input_price and output_price (US dollars for a million tokens) in config.toml, '
                "or leave the limit out."
            )

    @property
    def model(self) -> Model:
        return self.describe(self.name)

    @property
    def small(self) -> Model:
        return self.describe(self.small_name or self.name)


class OpenServers:
    """The model servers in use, one for each address: two processes must not load the same model file. ``stack`` closes them."""

    def __init__(self, settings: Settings, stack: AsyncExitStack) -> None:
        self.stack = stack
        self._settings = settings
        self._servers: dict[tuple[str, str | None, Api | None], ModelServer] = {}

    def at(self, endpoint: EndpointSettings) -> ModelServer:
        """The server of an endpoint. Raises ``ConfigError`` for an invalid one."""
        key = endpoint.base_url, endpoint.api_key, endpoint.api
        if key not in self._servers:
            server = self._servers[key] = self._open(endpoint)
            self.stack.push_async_callback(server.aclose)
        return self._servers[key]

    def _open(self, endpoint: EndpointSettings) -> ModelServer:
        server = open_server(self._settings, endpoint)
        if not self._settings.replicas or endpoint != self._settings.endpoint:
            return server
        from newel.providers.replicas import ReplicatedServer

        others = [msgspec.structs.replace(endpoint, base_url=url) for url in self._settings.replicas]
        return ReplicatedServer([server, *(open_server(self._settings, other) for other in others)])


async def open_remote(settings: Settings, host: ExecutionHost, servers: OpenServers) -> ResolvedModel:
    """The model of the agents' host, or the configured one. Raises ``ConfigError`` and
    ``ProviderError``.
    """
    if settings.host_model is not None and host.connection is not None:
        return await _host_model(settings, settings.host_model, host.connection, servers)
    return await _configured_model(settings, servers)


async def _configured_model(settings: Settings, servers: OpenServers) -> ResolvedModel:
    endpoint = await find_endpoint(settings)
    return await _connect(settings, endpoint, settings.model, servers, small_name=settings.small_model)


async def open_local(settings: Settings, mode: AgentMode, servers: OpenServers) -> ResolvedModel:
    """The model on this machine: that of ``[local]``, the configured one if it is here, or one that is found. Raises
    ``ConfigError`` for another address: nothing leaves this machine.
    """
    local, endpoint = settings.local, settings.endpoint
    name = local.model
    if local.base_url:
        endpoint = EndpointSettings(local.base_url, "[local] in config.toml", local.api_key)
    elif endpoint is None or not is_loopback(endpoint.base_url):
        endpoint = await _find_local_endpoint(settings, mode)
    else:
        name = name or settings.model
    if not is_loopback(endpoint.base_url):
        raise not_local(mode, f"{redact_url(endpoint.base_url)} ({endpoint.origin})")
    found = await _connect(settings, endpoint, name, servers)
    return msgspec.structs.replace(found, agent_mode="local")


async def _find_local_endpoint(settings: Settings, mode: AgentMode) -> EndpointSettings:
    try:
        return await find_endpoint(msgspec.structs.replace(settings, endpoint=None))
    except NoModelConfigured as error:
        raise NoModelConfigured(
            f"agent_mode is {mode}, but there is no model on this machine. {error.summary} "
            "Start one, or set [local] base_url in config.toml."
        ) from error


def not_local(mode: AgentMode, address: str) -> ConfigError:
    return ConfigError(
        f"agent_mode is {mode}, but {address} is not on this machine. "
        "Set [local] base_url in config.toml to a server here."
    )


async def _connect(
    settings: Settings,
    endpoint: EndpointSettings,
    name: str | None,
    servers: OpenServers,
    *,
    small_name: str | None = None,
) -> ResolvedModel:
    """A server and its model, as ``find_model`` chooses it."""
    server = servers.at(endpoint)
    resolved = resolved_model(server, settings, await find_model(settings, name, endpoint, server))
    return msgspec.structs.replace(
        resolved,
        small_name=small_name and await find_model(settings, small_name, endpoint, server),
        where=f"of {endpoint.found_as}" if endpoint.found_as else "",
        base_url=endpoint.base_url,
    )


async def _host_model(
    settings: Settings, requested: HostModel, connection: SshConnection, servers: OpenServers
) -> ResolvedModel:
    """Without a small model: the configured one belongs to the configured server."""
    server = server_on(connection, requested.through, requested.port)
    servers.stack.push_async_callback(server.aclose)
    try:
        name = model_on(await server.models(), requested, connection.place)
    except (ProviderError, NoModelOnHost) as error:
        if requested.is_requested:
            raise
        try:
            return await _configured_model(settings, servers)
        except NoModelConfigured as unconfigured:
            reason = f"{connection.place} has no usable model. {error}\n"
            message, summary = f"{reason}{unconfigured}", f"{reason}{unconfigured.summary}"
            raise NoModelConfigured(message, summary) from error
    resolved = resolved_model(server, settings, name)
    return msgspec.structs.replace(resolved, where=f"on {connection.host} ({server.way})", is_on_host=True)


def tool_call_mode(settings: Settings, name: str, server: ModelServer) -> tuple[ToolCallMode, str]:
    """How a model calls tools, and why. Raises ``ConfigError`` if the server cannot do what the command line requests."""
    facts = settings.models.get(name)
    if settings.tool_calls == "schema" and not server.supports_schema:
        raise ConfigError(
            f"--tool-calls schema does not work with {server.name}: Newel cannot hold its answers to a JSON Schema. Omit the option, "
            "or use chat completions, Ollama or a model file."
        )
    if settings.tool_calls:
        return settings.tool_calls, "command line"
    if facts and facts.tool_calls and (facts.tool_calls == "native" or server.supports_schema):
        return facts.tool_calls, f'[models."{name}"] in config.toml'
    return suitable_mode(name, server), "by its name and server"


def resolved_model(server: ModelServer, settings: Settings, name: str) -> ResolvedModel:
    """A model of a server. Raises ``ConfigError``."""
    tool_call_mode(settings, name, server)  # an impossible request fails now
    return ResolvedModel(
        server=server,
        provider=provider_of(server, settings, settings.retry),
        name=name,
        facts=settings.models,
        tool_calls=lambda name: tool_call_mode(settings, name, server)[0],
    )


def provider_of(server: ModelServer, settings: Settings, limits: RetryLimits) -> Provider:
    """The server with retries, with the prices of the settings, and with steps for models that call tools badly."""
    from newel.providers.pricing import PricingProvider
    from newel.providers.retry import Retrying
    from newel.providers.structured.provider import StructuredProvider

    rates = {name: facts.rates for name, facts in settings.models.items() if facts.rates is not None}
    provider: Provider = Retrying(server, limits)
    if rates:
        provider = PricingProvider(provider, rates)
    return StructuredProvider(provider) if server.supports_schema else provider


def server_on(connection: SshConnection, through: Through, port: int) -> RemoteOllama | OllamaCli:
    """The client of a host's Ollama, over an open connection."""
    from newel.providers.ollama.cli import OllamaCli
    from newel.providers.ollama.remote import RemoteOllama

    return (
        OllamaCli(connection) if through == "run" else RemoteOllama(connection.tunnel, connection, port=port)
    )


def model_on(names: list[str], requested: HostModel, place: str) -> str:
    """The requested model, else the only one of a host. Raises ``NoModelOnHost`` if it has none, and ``ConfigError`` if it has
    several.
    """
    if not names:
        raise NoModelOnHost(f"Ollama on {place} has no model. Get one there: ollama pull llama3.2")
    if requested.name is None and len(names) > 1:
        raise ConfigError(
            "No model is chosen. Use --model, or write [remote.model] name = … into config.toml. "
            f"Ollama on {place} has: {_join_models(names)}."
        )
    return requested.name or names[0]


async def find_endpoint(settings: Settings) -> EndpointSettings:
    """The configured server, else the first local one that answers and that the user trusts. Raises ``NoModelConfigured``."""
    if settings.endpoint is not None:
        return settings.endpoint
    from newel.app.local_server import discover_servers
    from newel.app.trusting import trust_command

    discovered = await discover_servers(settings.home)
    if discovered.endpoint is not None:
        return discovered.endpoint
    lines = [UNUSED.format(message=discovered.message) if discovered.message else NOTHING_CONFIGURED]
    if unused := [name for name in ("LLM_AUTH_TOKEN", "LLM_DEFAULT_MODEL") if os.environ.get(name)]:
        verb = "is" if len(unused) == 1 else "are"
        lines.append(f"{' and '.join(unused)} {verb} set, but LLM_BASE_URL is not.")
    if settings.ignored and settings.ignored.address:
        lines.append(
            f"To use the server that the .env of this folder names:\n  {trust_command(settings.ignored)}"
        )
    raise NoModelConfigured("\n".join(lines), discovered.page_message or _looked_for())


def _looked_for() -> str:
    from newel.providers.discovery import KNOWN

    *names, last = (f"{name} (port {port})" for name, port in KNOWN)
    return f"Newel looked for {', '.join(names)} and {last} on this machine. None of them answers."


async def find_model(
    settings: Settings, name: str | None, endpoint: EndpointSettings, server: ModelServer
) -> str:
    """The model that a name or alias means; without one the server's only model, or the first of a local server. Raises
    ``ConfigError`` if the user has to choose.
    """
    if name:
        return await _expanded(settings, name, endpoint, server)
    names = await server.models()
    if default := default_model(endpoint, names):
        return default
    offer = _join_models(names) if names else "no models"
    raise NoModelChosen(
        f"No model is chosen. Set LLM_DEFAULT_MODEL or use --model. {redact_url(endpoint.base_url)} has: {offer}.",
        names,
    )


def default_model(endpoint: EndpointSettings, names: Sequence[str]) -> str | None:
    """The model of a server with these models if none is configured; None if the user must choose."""
    return names[0] if len(names) == 1 or (names and endpoint.found_as) else None


def real_name(facts: Mapping[str, ModelFacts], name: str) -> str:
    """The name of a model, by the aliases in the settings."""
    return facts[name].alias_of or name if name in facts else name


def expanded_name(facts: Mapping[str, ModelFacts], name: str, listed: Sequence[str]) -> str:
    """The name of a model, by the aliases in the settings, else by the built-in ones among models that are listed."""
    from newel.providers.catalog.aliases import expand_alias

    return real_name(facts, name) if name in facts else expand_alias(name, listed)


async def _expanded(settings: Settings, name: str, endpoint: EndpointSettings, server: ModelServer) -> str:
    """``expanded_name`` among the server's models, which are listed only for a built-in alias."""
    from newel.providers.catalog.aliases import ALIASES

    names: list[str] = []
    if name in ALIASES and name not in settings.models:
        try:
            names = await server.models()
        except ProviderError:  # it may have no list
            from newel.providers.catalog.model_catalog import load_catalog

            names = [model.id for model in load_catalog().models_at(endpoint.base_url)]
    return expanded_name(settings.models, name, names)


def _join_models(names: list[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (" …" if len(names) > MOST_NAMES else "")
