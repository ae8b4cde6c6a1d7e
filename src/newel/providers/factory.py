"""The client of a model server: which kind it is shows in its address, and nowhere else."""

from __future__ import annotations

from newel.providers.http.urls import name_of, of_ollama
from newel.providers.model_server import ModelServer


def connect(base_url: str, api_key: str | None) -> ModelServer:
    """A client for ``ollama://host`` (``ollama+https://`` with TLS), or for the base URL of chat completions. Raises
    ``ConfigError`` for an address or a key that cannot be.
    """
    name = name_of(base_url)
    if url := of_ollama(base_url):
        from newel.providers.ollama.client import Ollama

        return Ollama(url, api_key=api_key, name=name)
    from newel.providers.openai.chat import OpenAIChat
    from newel.providers.pricing import pricer

    prices = pricer(base_url=base_url)
    return OpenAIChat(
        base_url=base_url,
        api_key=api_key,
        name=name,
        price=prices,
        is_listed=prices.knows if prices else None,
        listed_window=prices.window if prices else None,
    )
