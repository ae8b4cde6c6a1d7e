"""The cost of a response: by the user's own prices, else by the catalogue of models.

The catalogue is loaded for the first response that may cost anything; those from this machine or a private network do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from newel.agent.messages import AssistantMessage, Usage
from newel.agent.ports import ModelRequest, OnDelta, Provider
from newel.providers.http.urls import is_private

if TYPE_CHECKING:
    from newel.providers.catalog.model_catalog import CatalogModel


class Rates(msgspec.Struct, frozen=True):
    """A user's prices in US dollars per million tokens. Cached input costs as much as other input, unless set."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def cost(self, usage: Usage) -> float:
        """The cost of a response."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        plain = max(usage.input - usage.cache_read - usage.cache_write, 0)
        dollars = plain * self.input + usage.cache_read * read + usage.cache_write * write
        return (dollars + usage.output * self.output) / 1_000_000


class PricingProvider:
    """A ``Provider`` that computes the cost of responses by ``rates``, a mapping from models; responses of other
    models keep their own cost.
    """

    def __init__(self, provider: Provider, rates: Mapping[str, Rates]) -> None:
        self._provider = provider
        self._rates = rates

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        message = await self._provider.complete(request, on_delta)
        rates = self._rates.get(request.model.id)
        if rates is None or not message.usage.total:
            return message
        return msgspec.structs.replace(message, cost=rates.cost(message.usage))


def price_list_for(base_url: str) -> PriceList | None:
    """The price list for the responses of a server; None for a private server."""
    return None if is_private(base_url) else PriceList(base_url)


class PriceList:
    """A ``newel.agent.ports.Price``. Looks up each model once; a model that is not listed costs None."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._found: dict[str, CatalogModel | None] = {}

    def __call__(self, message: AssistantMessage) -> float | None:
        """The cost; None if the price or the usage is unknown. Never raises."""
        model = self.find(message.model) if message.usage.total else None
        return model.cost(message.usage) if model else None

    def knows(self, model: str) -> bool:
        """Whether the price of a model is listed. Never raises."""
        found = self.find(model)
        return found is not None and found.prices_at() is not None

    def window(self, model: str) -> int | None:
        """The context size of a listed model in tokens; None if unknown. Never raises."""
        found = self.find(model)
        return found.context_window if found else None

    def find(self, model: str) -> CatalogModel | None:
        """The listed model; None if it is not listed. Never raises."""
        if model not in self._found:
            from newel.providers.catalog.model_catalog import load_catalog

            self._found[model] = load_catalog().find(model, self._base_url)
        return self._found[model]
