"""The model that agents ask: of a server that is set, of one on this machine, or of the host where they work."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from newel.agent.errors import ConfigError, ProviderError
from newel.agent.ports import Model, Provider
from newel.config.settings import ONLY_DOTENV, EndpointSettings, ModelFacts, Settings
from newel.providers.model_server import ModelServer
from newel.storage.sqlite import connect
from newel.text.sanitize import redact_url, sanitize

if TYPE_CHECKING:
    from newel.app.host_programs import HostPrograms
    from newel.config.hosts import HostModel
    from newel.config.jexida import Through
    from newel.providers.ollama.cli import OllamaCli
    from newel.providers.ollama.remote import RemoteOllama
    from newel.workspace.execution_host import ExecutionHost

NAME_A_SERVER = """\
For any OpenAI-compatible server:
  export LLM_BASE_URL=https://HOST/v1
  export LLM_AUTH_TOKEN=KEY LLM_DEFAULT_MODEL=NAME"""

NOTHING_CONFIGURED = f"""\
No model is configured, and no server was found on this machine
(Ollama 11434, LM Studio 1234, llama.cpp 8080, vLLM 8000).
{NAME_A_SERVER}
For OpenAI:
  export OPENAI_API_KEY=KEY OPENAI_MODEL=NAME
To try Newel without a model:
  newel demo"""

UNUSED = f"""\
No model is configured.
{{found}}
{NAME_A_SERVER}"""

MOST_NAMES = 8


class NoModelConfigured(ConfigError, code="nothing_found"):
    """There is no server to ask. ``looked`` says what was looked for, without the commands that only a terminal takes."""

    def __init__(self, words: str, looked: str = "") -> None:
        super().__init__(words)
        self.looked = looked or words


class NoModelOnHost(NoModelConfigured, code="nothing_there"):
    """A host has none."""


class ResolvedModel(msgspec.Struct, frozen=True, kw_only=True):
    """``provider`` asks ``server``, again where that is worth it. ``name`` is the model's, ``small_name`` that of one for
    summaries, where the settings name one of this server. ``where`` describes the model's location; it is empty for a server
    that was configured. ``is_on_host`` is whether that is the host where agents work.
    """

    server: ModelServer
    provider: Provider
    name: str
    facts: Mapping[str, ModelFacts]
    small_name: str | None = None
    where: str = ""
    is_on_host: bool = False

    def describe(self, name: str) -> Model:
        """What is known of one of the server's models."""
        facts = self.facts.get(name, ModelFacts())
        return Model(name, self.server.name, facts.context_window, facts.max_output)

    async def check_cost(self, model: Model) -> None:
        """Raises ``ConfigError`` if a limit of cost would limit nothing, because nobody knows what the model, or the one for
        summaries, costs.
        """
        for name in dict.fromkeys([model.id, self.small_name or model.id]):
            facts = self.facts.get(name)
            if (facts and facts.rates) or await self.server.is_priced(name):
                continue
            raise ConfigError(
                f"The price of the model {name} of {model.provider} is unknown, so --max-cost cannot be enforced. "
                f'Set [models."{name}"] input_price and output_price (US dollars for a million tokens) in toml, '
                "or leave the limit out."
            )

    @property
    def model(self) -> Model:
        return self.describe(self.name)

    @property
    def small(self) -> Model:
        return self.describe(self.small_name or self.name)


@asynccontextmanager
async def open_model(settings: Settings, ground: ExecutionHost) -> AsyncGenerator[ResolvedModel]:
    """What the settings choose for work on a ground. Raises ``ConfigError`` and ``ProviderError``."""
    async with AsyncExitStack() as stack:
        if settings.host_model is not None and ground.programs is not None:
            yield await _of_host(settings, settings.host_model, ground.programs, stack)
        else:
            yield await _of_settings(settings, stack)


async def _of_settings(settings: Settings, stack: AsyncExitStack) -> ResolvedModel:
    endpoint = await find_endpoint(settings)
    server = connect(endpoint.base_url, endpoint.api_key)
    stack.push_async_callback(server.aclose)
    return ResolvedModel(
        server=server,
        provider=_asking(server, settings),
        name=await find_model(settings, endpoint, server),
        facts=settings.models,
        small_name=settings.small_model,
        where=f"of {endpoint.found_as}" if endpoint.found_as else "",
    )


async def _of_host(
    settings: Settings, wanted: HostModel, there: HostPrograms, stack: AsyncExitStack
) -> ResolvedModel:
    """The small model of the settings is one of the server's that they name, so that it is not asked for here."""
    server = server_on(there, wanted.through, wanted.port)
    stack.push_async_callback(server.aclose)
    try:
        name = model_on(await server.models(), wanted, there.place)
    except (ProviderError, NoModelOnHost) as error:
        if wanted.is_asked_for:
            raise
        try:
            return await _of_settings(settings, stack)
        except NoModelConfigured as nothing:
            lacking = f"{there.place} has no model to ask. {error}\n"
            raise NoModelConfigured(f"{lacking}{nothing}", f"{lacking}{nothing.looked}") from error
    return ResolvedModel(
        server=server,
        provider=_asking(server, settings),
        name=name,
        facts=settings.models,
        where=f"on {there.host} ({server.way})",
        is_on_host=True,
    )


def _asking(server: ModelServer, settings: Settings) -> Provider:
    """The server, asked again where that is worth it, its answers priced as the settings say."""
    from newel.providers.pricing import PricingProvider
    from newel.providers.retry import Retrying

    rates = {name: facts.rates for name, facts in settings.models.items() if facts.rates is not None}
    provider: Provider = Retrying(server, settings.patience)
    return PricingProvider(provider, rates) if rates else provider


def server_on(there: HostPrograms, through: Through, port: int) -> RemoteOllama | OllamaCli:
    """The client of a host's Ollama, which uses the connection that is there."""
    from newel.providers.ollama.cli import OllamaCli
    from newel.providers.ollama.remote import RemoteOllama

    return OllamaCli(there) if through == "run" else RemoteOllama(there.tunnel, there, port=port)


def model_on(names: list[str], wanted: HostModel, place: str) -> str:
    """The model that is wanted, else the only one of a host. Raises ``NoModelOnHost`` if it has none, and ``ConfigError`` if it
    is not clear which.
    """
    if not names:
        raise NoModelOnHost(f"Ollama on {place} has no model. Get one there: ollama pull llama3.2")
    if wanted.name is None and len(names) > 1:
        raise ConfigError(
            "No model is chosen. Use --model, or write [remote.model] name = … into toml. "
            f"Ollama on {place} has: {_listed(names)}."
        )
    return wanted.name or names[0]


async def find_endpoint(settings: Settings) -> EndpointSettings:
    """What is configured, else the first local server that answers and that the user trusts. Raises ``NoModelConfigured``."""
    if settings.endpoint is not None:
        return settings.endpoint
    from newel.app.trusting import trust_command
    from newel.workspace.disk.file_kinds import look

    found = await look(settings.home)
    if found.endpoint is not None:
        return found.endpoint
    nothing = [UNUSED.format(found=found.words) if found.words else NOTHING_CONFIGURED]
    if lonely := [name for name in ("LLM_AUTH_TOKEN", "LLM_DEFAULT_MODEL") if os.environ.get(name)]:
        verb = "is" if len(lonely) == 1 else "are"
        nothing.append(f"{' and '.join(lonely)} {verb} set, but LLM_BASE_URL is not.")
    if settings.ignored and settings.ignored.address:
        nothing.append(
            f"To use the server that the .env of this folder names:\n  {trust_command(settings.ignored)}"
        )
    raise NoModelConfigured("\n".join(nothing), found.facts or _looked_for())


def _looked_for() -> str:
    from newel.providers.discovery import KNOWN

    *names, last = (f"{name} (port {port})" for name, port in KNOWN)
    return f"Newel looked for {', '.join(names)} and {last} on this machine. None of them answers."


async def find_model(settings: Settings, endpoint: EndpointSettings, server: ModelServer) -> str:
    """The model that is configured, else the only one that the server has, or a local server's first."""
    if settings.model:
        return settings.model
    names = await server.models()
    if len(names) == 1 or (names and endpoint.found_as):
        return names[0]
    offer = _listed(names) if names else "it names none"
    raise ConfigError(
        f"No model is chosen. Set LLM_DEFAULT_MODEL or use --model. {redact_url(endpoint.base_url)} has: {offer}."
    )


def warn_of_strangers(settings: Settings) -> None:
    """Tell a person which server of a project is not used, or that one which they may not know of makes calls need their
    approval.
    """
    if words := notice_of_strangers(settings):
        print(f"newel: {words}", file=sys.stderr)  # noqa: T201 — a person must know


def notice_of_strangers(settings: Settings) -> str:
    """See ``warn_of_strangers``; empty if there is nothing to tell."""
    if settings.ignored is not None:
        from newel.app.trusting import has_undecided_server, ignored_message

        return ignored_message(settings.ignored) if has_undecided_server(settings) else ""
    if settings.origins.get("approve") == ONLY_DOTENV and settings.endpoint:
        shown = redact_url(settings.endpoint.base_url)
        words = f"only the .env of this folder names the server {shown}, so calls need your approval"
        return f"{sanitize(words)} (--approve auto lifts that)"
    return ""


def _listed(names: list[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (" …" if len(names) > MOST_NAMES else "")
