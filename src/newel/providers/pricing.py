"""The cost of a response: by the user's own prices, else by the price list in ``genai-prices``. Nothing is
downloaded.

Loading the list takes half a second and much memory, so it is deferred to the first response that may cost
anything; those from this machine or a private network do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from newel.agent.messages import AssistantMessage, Usage
from newel.agent.ports import ModelRequest, OnDelta, Provider
from newel.providers.http.urls import is_private

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation


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


class PriceQuery(msgspec.Struct, frozen=True):
    """A way to look up a model: with its server's address, with its vendor, or by name alone."""

    model: str
    vendor: str | None = None
    base_url: str | None = None


class PriceList:
    """A ``newel.agent.ports.Price``. Looks up each model once; a model that is not listed costs None."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._listed: dict[str, PriceQuery | None] = {}

    def __call__(self, message: AssistantMessage) -> float | None:
        """The cost; None if the price or the usage is unknown. Never raises."""
        if not message.usage.total:
            return None
        if message.model not in self._listed:
            self._listed[message.model] = self._find(message.model)
        listed = self._listed[message.model]
        return None if listed is None else _cost(message.usage, listed)

    def knows(self, model: str) -> bool:
        """Whether a model is listed. Never raises."""
        return self._find(model) is not None

    def window(self, model: str) -> int | None:
        """The context size of a listed model in tokens; None if unknown. Never raises."""
        query = self._find(model)
        priced = _calculate(Usage(), query) if query else None
        return priced.model.context_window if priced else None

    def _find(self, model: str) -> PriceQuery | None:
        prices = (
            query for query in self._queries(model) if _cost(Usage(input=1, output=1), query) is not None
        )
        return next(prices, None)

    def _queries(self, model: str) -> Iterator[PriceQuery]:
        """Ways to look up the model, the most reliable first. Gateways put the vendor before a slash."""
        yield PriceQuery(model, base_url=self._base_url)
        vendor, slash, rest = model.partition("/")
        if slash:
            yield PriceQuery(rest, vendor)
            yield PriceQuery(model, "openrouter")
        yield PriceQuery(model)
        if slash:
            yield PriceQuery(model.rpartition("/")[2])


def _cost(usage: Usage, query: PriceQuery) -> float | None:
    priced = _calculate(usage, query)
    return float(priced.total_price) if priced else None


def _calculate(usage: Usage, query: PriceQuery) -> PriceCalculation | None:
    import genai_prices

    counted = genai_prices.Usage(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
    )
    try:
        if query.base_url:
            return genai_prices.calc_price(counted, query.model, provider_api_url=query.base_url)
        return genai_prices.calc_price(counted, query.model, provider_id=query.vendor)
    except (LookupError, ValueError):
        return None
