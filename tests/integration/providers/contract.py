"""The providers that the contract tests compare, and what their APIs lack."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from mock_llm_server import MockServer, serve
from newel.agent.ports import Model
from newel.providers.anthropic.client import AnthropicMessages
from newel.providers.gemini.client import Gemini
from newel.providers.model_server import ModelServer
from newel.providers.ollama.client import Ollama
from newel.providers.openai.chat import OpenAIChat
from newel.providers.openai.responses import OpenAIResponses

MODEL = Model("mock-model")
OTHER_MODEL = Model("mock-model-2")
NAME = "localhost"
"""The name of every client: providers are named after their hosts, whatever the API."""

SERVED = [{"name": model.id, "loaded_context": 65_536} for model in (MODEL, OTHER_MODEL)]
"""Ollama loads a model again, without its cache, to give it a larger context. This one is large enough for all tests."""


class ContractProvider(msgspec.Struct, frozen=True):
    """A provider: ``connect`` makes its client for a server's URL, with a timeout in seconds and a name.

    ``overflow`` and ``unknown_model`` are the API's words for a conversation that is too long and for a model that the server
    does not have. ``lacks`` are the features that the API does not have, or that most of its servers refuse, by the names of
    their tests.
    """

    name: str
    connect: Callable[[str, float, str], ModelServer]
    overflow: str
    unknown_model: str
    lacks: frozenset[str] = frozenset()

    def has(self, feature: str) -> bool:
        return feature not in self.lacks


PROVIDERS = (
    ContractProvider(
        "Chat completions",
        lambda url, timeout, name: OpenAIChat(
            base_url=f"{url}/v1", api_key="sk-test", timeout=timeout, name=name
        ),
        overflow="This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        unknown_model="The model `mock-model` does not exist or you do not have access to it.",
        lacks=frozenset({"thoughts go back"}),
    ),
    ContractProvider(
        "Responses",
        lambda url, timeout, name: OpenAIResponses(
            base_url=f"{url}/v1", api_key="sk-test", timeout=timeout, name=name
        ),
        overflow="Your input exceeds the context window of this model. Please adjust your input and try again.",
        unknown_model="The model `mock-model` does not exist or you do not have access to it.",
    ),
    ContractProvider(
        "Anthropic",
        lambda url, timeout, name: AnthropicMessages(
            base_url=url, api_key="sk-test", timeout=timeout, name=name
        ),
        overflow="prompt is too long: 201000 tokens > 200000 maximum",
        unknown_model="model: mock-model",
    ),
    ContractProvider(
        "Gemini",
        lambda url, timeout, name: Gemini(base_url=url, api_key="sk-test", timeout=timeout, name=name),
        overflow="The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        unknown_model="models/mock-model is not found for API version v1beta, or is not supported for generateContent.",
        lacks=frozenset({"thoughts go back", "malformed arguments"}),
    ),
    ContractProvider(
        "Ollama",
        lambda url, timeout, name: Ollama(url, timeout=timeout, name=name),
        overflow="the prompt is longer than the context length currently available to the model",
        unknown_model="model 'mock-model' not found",
        lacks=frozenset({"cached tokens"}),
    ),
)


class Connected(msgspec.Struct):
    """A strict server and the provider's client."""

    server: MockServer
    client: ModelServer

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of the requests that asked the model, as received."""
        pairs = zip(self.server.requests, self.server.bodies, strict=True)
        return [body for request, body in pairs if "scenario" in request]


@asynccontextmanager
async def connected(
    provider: ContractProvider, *steps: dict[str, Any], patience: float = 10.0, loop: bool = False
) -> AsyncGenerator[Connected]:
    """Run a strict server whose model takes ``steps``, whatever it is asked, and connect the provider to it. ``patience`` is in
    seconds without a byte.
    """
    scenario = {"name": "it", "trigger": "", "steps": list(steps), "loop": loop}
    async with serve({"models": SERVED, "scenarios": [scenario]}, strict=True) as server:
        client = provider.connect(server.url, patience, NAME)
        try:
            yield Connected(server, client)
        finally:
            await client.aclose()
