"""A server of OpenAI's two APIs: chat completions and Responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack

from newel.agent.errors import ProviderError
from newel.agent.events import Retry
from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest, OnDelta
from newel.providers.api_client import ApiClient, ClientOptions
from newel.providers.http.urls import is_private
from newel.providers.openai.encoder import is_for_responses

if TYPE_CHECKING:
    from newel.providers.listed_models import ListedModel

Api = Literal["chat", "responses"]


class OpenAI:
    """A ``ModelServer`` that asks each model by the API that the server offers for it: first by ``prefer``, and by the other from the
    first rejection on that says so, which a ``Retry`` without delay reports. For the rest see ``ApiClient``.
    """

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str | None,
        name: str = "openai",
        prefer: Api = "chat",
        **options: Unpack[ClientOptions],
    ) -> None:
        self.name = name
        self.is_local = is_private(base_url)
        self._base_url = base_url
        self._api_key = api_key
        self._options = options
        self._preferred: Api = prefer
        self._apis: dict[str, Api] = {}
        """The API of each model that has changed it."""
        self._clients: dict[Api, ApiClient[Any]] = {}
        self._latest = self._client(prefer)

    @property
    def way(self) -> str | None:
        """The path of the latest request, or of the next one if there was none."""
        return self._latest.way

    @property
    def supports_schema(self) -> bool:
        """Whether models are asked by chat completions; the other API is for large ones."""
        return self._preferred == "chat"

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """Ask the model; see ``Provider.complete``."""
        model = request.model.id
        api = self._apis.get(model, self._preferred)
        self._latest = self._client(api)
        try:
            return await self._latest.complete(request, on_delta)
        except ProviderError as error:
            if model in self._apis or not _is_for_other_api(error, api):
                raise
            rejection = error
        other: Api = "responses" if api == "chat" else "chat"
        self._latest = self._client(other)
        reason = f"the server rejected the request; retrying with {self._latest.way}"
        await on_delta(Retry(attempt=1, max_attempts=1, delay=0.0, reason=reason))
        self._apis[model] = other
        from newel.providers.errors import EndpointMissing

        try:
            return await self._latest.complete(request, on_delta)
        except EndpointMissing:
            del self._apis[model]  # neither path is there: the address is wrong, not the API
            self._latest = self._client(api)
            raise rejection from None

    async def models(self) -> list[str]:
        """Return the names of the server's models, in its order. Raises ``ProviderError``."""
        return await self._client(self._preferred).models()

    async def list_models(self) -> list[ListedModel]:
        """Return the server's models, in its order. Raises ``ProviderError``."""
        return await self._client(self._preferred).list_models()

    async def window(self, model: str) -> int | None:
        """Return the size of a model's context in tokens. Raises ``ProviderError``."""
        return await self._client(self._preferred).window(model)

    async def is_priced(self, model: str) -> bool:
        """Return whether the cost of a model's responses is known. Never raises."""
        return await self._client(self._preferred).is_priced(model)

    async def aclose(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            await client.aclose()

    def _client(self, api: Api) -> ApiClient[Any]:
        if api not in self._clients:
            self._clients[api] = self._connect(api)
        return self._clients[api]

    def _connect(self, api: Api) -> ApiClient[Any]:
        if api == "chat":
            from newel.providers.openai.chat import OpenAIChat as Client
        else:
            from newel.providers.openai.responses import OpenAIResponses as Client
        return Client(base_url=self._base_url, api_key=self._api_key, name=self.name, **self._options)


def _is_for_other_api(error: ProviderError, api: Api) -> bool:
    """Whether a rejection by one API means that the other one is to be asked."""
    from newel.providers.errors import EndpointMissing

    return isinstance(error, EndpointMissing) or (api == "chat" and is_for_responses(error))
