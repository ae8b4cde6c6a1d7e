"""Client of servers that speak OpenAI's chat completions, exactly or nearly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from newel.agent.ports import ModelRequest
from newel.providers.api_client import ApiClient, ClientOptions
from newel.providers.openai.encoder import Encoder, ServerCompat

if TYPE_CHECKING:
    from newel.providers.listed_models import ListedModel
    from newel.providers.response_reader import Accumulator


class OpenAIChat(ApiClient[ServerCompat]):
    """A ``ModelServer`` that speaks chat completions. ``base_url`` is the URL before ``/chat/completions``; for the rest see
    ``ApiClient``.

    Servers may reject streaming, ``stream_options``, ``reasoning_effort``, and the name of the output limit.
    """

    way = "/chat/completions"
    supports_schema = True

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
        self._base_url = base_url
        self._key_headers = bearer(secret)

    async def window(self, model: str) -> int | None:
        """Return the size of a model's context in tokens: on this machine that of the model as it is loaded, which may be smaller
        than the list says; see ``ApiClient.window``.
        """
        if self.is_local:
            from newel.providers.openai.window_probe import probe_window

            if size := await probe_window(self._base_url, model, self._key_headers):
                return size
        return await super().window(model)

    def _encode(self, request: ModelRequest, compat: ServerCompat) -> bytes:
        return self._encoder.body(request, compat)

    def _accumulator(self, request: ModelRequest) -> Accumulator:
        from newel.providers.openai.stream import ResponseAccumulator

        return ResponseAccumulator(request.tools)

    def _listed(self, fields: dict[str, Any]) -> ListedModel | None:
        from newel.providers.openai.model_list import listed_model

        return listed_model(fields)


def bearer(secret: str) -> dict[str, str]:
    """Return the headers that carry a key, if there is one."""
    return {"Authorization": f"Bearer {secret}"} if secret else {}
