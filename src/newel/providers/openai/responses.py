"""Client of servers that speak OpenAI's Responses API, exactly or nearly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from newel.agent.ports import ModelRequest
from newel.providers.api_client import ApiClient, ClientOptions
from newel.providers.openai.chat import bearer
from newel.providers.openai.responses_encoder import ResponsesCompat, ResponsesEncoder

if TYPE_CHECKING:
    from newel.providers.listed_models import ListedModel
    from newel.providers.response_reader import Accumulator


class OpenAIResponses(ApiClient[ResponsesCompat]):
    """A ``ModelServer`` that speaks the Responses API. ``base_url`` is the URL before ``/responses``; for the rest see
    ``ApiClient``.

    The server stores nothing: reasoning goes back to it encrypted. Servers may reject most options, and earlier reasoning.
    """

    way = "/responses"
    api = "a server of the Responses API"

    def __init__(
        self, *, base_url: str, api_key: str | None, name: str = "openai", **options: Unpack[ClientOptions]
    ) -> None:
        secret = (api_key or "").strip()
        super().__init__(
            base_url=base_url,
            secret=secret,
            name=name,
            key_headers=bearer(secret),
            compat=ResponsesCompat(),
            **options,
        )
        self._encoder = ResponsesEncoder(name)

    def _encode(self, request: ModelRequest, compat: ResponsesCompat) -> bytes:
        return self._encoder.body(request, compat)

    def _accumulator(self, request: ModelRequest) -> Accumulator:
        from newel.providers.openai.responses_stream import ResponsesAccumulator

        return ResponsesAccumulator(request.tools, self._endpoint(self.way, request.model.id))

    def _listed(self, fields: dict[str, Any]) -> ListedModel | None:
        from newel.providers.openai.model_list import listed_model

        return listed_model(fields)
