"""Model servers, whichever API they speak: the port, and the client that a server's address selects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, assert_never

from newel.agent.errors import ProviderError
from newel.agent.ports import Provider
from newel.providers.families import Api, find_api, key_variable
from newel.providers.http.urls import model_file_path, ollama_http_url, server_name

if TYPE_CHECKING:
    from newel.providers.api_client import ClientOptions

if TYPE_CHECKING:
    from newel.providers.listed_models import ListedModel


class ModelServer(Provider, Protocol):
    """A ``Provider`` that lists and describes its models."""

    @property
    def name(self) -> str:
        """The server's name in sessions and messages."""
        ...

    @property
    def way(self) -> str | None:
        """The path of the API, or the program, by which models are asked. None while unknown."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, on the agents' host, or in a private network."""
        ...

    @property
    def supports_schema(self) -> bool:
        """Whether it can hold an answer to a request's ``response_schema``."""
        ...

    async def models(self) -> list[str]:
        """Return the names of its models, in its order. Raises ``ProviderError``."""
        ...

    async def list_models(self) -> list[ListedModel]:
        """Return its models with the facts that it reports, in its order. Raises ``ProviderError``."""
        ...

    async def window(self, model: str) -> int | None:
        """Return the size of a model's context in tokens, None if unknown. Raises ``ProviderError``."""
        ...

    async def is_priced(self, model: str) -> bool:
        """Return whether the cost of a model's responses is known, zero included. Never raises."""
        ...

    async def aclose(self) -> None:
        """Close the connections. The next request opens new ones."""
        ...


def connect(base_url: str, api_key: str | None, api: Api | None = None) -> ModelServer:
    """Return a client for ``ollama://host`` (``ollama+https://`` with TLS), for ``llamacpp:/path/model.gguf``, a model file on this
    machine, or for a base URL of the API: the given one, else the one that the address tells, else chat completions.

    Raises ``ConfigError`` for an invalid address or key.
    """
    name = server_name(base_url)
    if path := model_file_path(base_url):
        from newel.providers.llamacpp.client import LlamaCpp

        return LlamaCpp(Path(path), name=name)
    if url := ollama_http_url(base_url):
        from newel.providers.ollama.client import Ollama

        return Ollama(url, api_key=api_key, name=name)
    from newel.providers.pricing import price_list_for

    prices = price_list_for(base_url)
    options: ClientOptions = {
        "price": prices,
        "is_listed": prices.knows if prices else None,
        "listed_window": prices.window if prices else None,
        "key_variable": key_variable(base_url),
    }
    spoken = api or find_api(base_url) or "chat"
    match spoken:
        case "anthropic":
            from newel.providers.anthropic.client import AnthropicMessages

            return AnthropicMessages(base_url=base_url, api_key=api_key, name=name, **options)
        case "gemini":
            from newel.providers.gemini.client import Gemini

            return Gemini(base_url=base_url, api_key=api_key, name=name, **options)
        case "chat" | "responses":
            from newel.providers.openai.server import OpenAI

            return OpenAI(base_url=base_url, api_key=api_key, name=name, prefer=spoken, **options)
        case _:
            assert_never(spoken)


async def find_window(server: ModelServer, model: str) -> int | None:
    """Return the size of a model's context in tokens; None if unknown, or if the server fails to answer."""
    try:
        return await server.window(model)
    except ProviderError:
        return None
