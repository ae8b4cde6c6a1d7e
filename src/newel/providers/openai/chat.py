"""Client of servers that speak OpenAI's chat completions, exactly or nearly."""

from __future__ import annotations

from typing import Any, Unpack

from newel.agent.ports import ModelRequest
from newel.providers.api_client import Accumulator, ApiClient, ClientOptions, ListedModel
from newel.providers.openai.encoder import Encoder, ServerCompat
from newel.text.json import as_dict, as_str

WINDOW_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")
"""The size of a model's context in the lists of vLLM, OpenRouter, Groq and LM Studio."""


class OpenAIChat(ApiClient[ServerCompat]):
    """A ``ModelServer`` that speaks chat completions. ``base_url`` is the URL before ``/chat/completions``; for the rest see
    ``ApiClient``.

    Servers may reject streaming, ``stream_options``, ``reasoning_effort``, and the name of the output limit.
    """

    way = "/chat/completions"

    def __init__(
        self, *, base_url: str, api_key: str | None, name: str = "openai", **options: Unpack[ClientOptions]
    ) -> None:
        secret = (api_key or "").strip()
        super().__init__(
            base_url=base_url,
            secret=secret,
            name=name,
            key_headers=bearer(secret),
            compat=ServerCompat(),
            **options,
        )
        self._encoder = Encoder()

    def _encode(self, request: ModelRequest, compat: ServerCompat) -> bytes:
        return self._encoder.body(request, compat)

    def _accumulator(self, request: ModelRequest) -> Accumulator:
        from newel.providers.openai.stream import ResponseAccumulator

        return ResponseAccumulator(request.tools)

    def _listed(self, fields: dict[str, Any]) -> ListedModel | None:
        return read_listed(fields)


def bearer(secret: str) -> dict[str, str]:
    """Return the headers that carry a key, if there is one."""
    return {"Authorization": f"Bearer {secret}"} if secret else {}


def read_listed(fields: dict[str, Any]) -> ListedModel:
    """Return a model of a server's list."""
    sizes = [fields.get(name) for name in WINDOW_FIELDS] + [as_dict(fields.get("meta")).get("n_ctx")]
    size = next((size for size in sizes if isinstance(size, int) and size > 0), None)
    return ListedModel(as_str(fields.get("id")) or as_str(fields.get("name")), size)
