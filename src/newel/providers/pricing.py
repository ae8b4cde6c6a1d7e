"""What a response costs, from the price list that ``genai-prices`` carries; nothing is fetched.

Loading the list takes half a second and much memory, so it waits for the first response that may cost
anything: those from one's own machine or network do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from newel.agent.messages import AssistantMessage, Usage
from newel.providers.urls import is_private

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation


def pricer(*, base_url: str) -> PriceList | None:
    """What the responses of one server cost; None for a private server."""
    return None if is_private(base_url) else PriceList(base_url)


class Query(NamedTuple):
    """How a model is named to the list: with the address of its server, or with its vendor, or alone."""

    model: str
    vendor: str | None = None
    base_url: str | None = None


class PriceList:
    """A ``newel.agent.ports.Price``. How a model is listed is looked up once; a model that is not listed costs None."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._listed: dict[str, Query | None] = {}

    def __call__(self, message: AssistantMessage) -> float | None:
        """The cost; None if the price or the usage is not known. Never raises."""
        if not message.usage.total:
            return None
        if message.model not in self._listed:
            self._listed[message.model] = self._find(message.model)
        listed = self._listed[message.model]
        return None if listed is None else _cost(message.usage, listed)

    def window(self, model: str) -> int | None:
        """The size of a listed model's context in tokens; None if it is not known. Never raises."""
        query = self._find(model)
        priced = _calculate(Usage(), query) if query else None
        return priced.model.context_window if priced else None

    def _find(self, model: str) -> Query | None:
        known = (
            query for query in self._queries(model) if _cost(Usage(input=1, output=1), query) is not None
        )
        return next(known, None)

    def _queries(self, model: str) -> Iterator[Query]:
        """Ways to name the model to the list, the surest first. Gateways put the vendor before a slash."""
        yield Query(model, base_url=self._base_url)
        vendor, slash, rest = model.partition("/")
        if slash:
            yield Query(rest, vendor)
            yield Query(model, "openrouter")
        yield Query(model)
        if slash:
            yield Query(model.rpartition("/")[2])


def _cost(usage: Usage, query: Query) -> float | None:
    priced = _calculate(usage, query)
    return float(priced.total_price) if priced else None


def _calculate(usage: Usage, query: Query) -> PriceCalculation | None:
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
