"""Sizes, prices and abilities of a server's models: from the user's settings, else from the server, else from the model catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import anyio
import anyio.to_thread
import msgspec

from newel.config.settings import ModelFacts
from newel.providers.api_client import ListedModel
from newel.providers.catalog.model_catalog import CatalogModel, Price
from newel.providers.http.urls import ollama_http_url
from newel.providers.pricing import price_list_for
from newel.text.format import short_number


class ModelDetails(msgspec.Struct, frozen=True, rename="camel"):
    """A model; sizes are in tokens, prices in US dollars per million tokens, those of the lowest tier. None is unknown."""

    name: str
    context_window: int | None = None
    max_output: int | None = None
    input_price: float | None = None
    output_price: float | None = None
    has_tiers: bool = False
    tools: bool | None = None
    thinking: bool | None = None
    images: bool | None = None

    @property
    def price(self) -> str:
        """``$3 / $15``: input and output; ``+`` if large inputs cost more. Empty if unknown."""
        if self.input_price is None:
            return ""
        return f"${self.input_price:g} / ${self.output_price:g}{'+' if self.has_tiers else ''}"

    @property
    def summary(self) -> str:
        """The known details on one line: ``200k · $3 / $15 per M · thinking``."""
        size = short_number(self.context_window) if self.context_window else ""
        price = f"{self.price} per M" if self.price else ""
        return " · ".join(filter(None, (size, price, "thinking" if self.thinking else "")))


async def find_details(
    listed: Sequence[ListedModel], base_url: str, facts: Mapping[str, ModelFacts]
) -> list[ModelDetails]:
    """``collect_details`` in a thread: for the six hundred names of a large gateway the catalogue takes 0.2 s."""
    return await anyio.to_thread.run_sync(collect_details, listed, base_url, facts, abandon_on_cancel=True)


def collect_details(
    listed: Sequence[ListedModel], base_url: str, facts: Mapping[str, ModelFacts]
) -> list[ModelDetails]:
    """The details of the models that a server lists; ``base_url`` is its address, empty on another host. Reads the catalogue,
    except for Ollama and private servers, whose models have no public prices.
    """
    is_public = base_url and not ollama_http_url(base_url)
    prices = price_list_for(base_url) if is_public else None
    return [
        merge_details(model, prices.find(model.name) if prices else None, facts.get(model.name, ModelFacts()))
        for model in listed
    ]


def merge_details(listed: ListedModel, catalogued: CatalogModel | None, facts: ModelFacts) -> ModelDetails:
    """The details of one model, each from the first source that has it."""
    public = catalogued or CatalogModel("")
    prices = public.prices_at()
    input_price, output_price, tiers = None, None, False
    if facts.rates is not None:
        input_price, output_price = facts.rates.input, facts.rates.output
    elif prices is not None:
        input_price, output_price = _basic(prices.input), _basic(prices.output)
        tiers = isinstance(prices.input, list) or isinstance(prices.output, list)
    return ModelDetails(
        listed.name,
        facts.context_window or listed.context_window or public.context_window,
        facts.max_output or listed.max_output or public.max_output,
        input_price,
        output_price,
        has_tiers=tiers,
        tools=public.has("tools") if listed.tools is None else listed.tools,
        thinking=public.has("thinking") if listed.thinking is None else listed.thinking,
        images=public.has("images") if listed.images is None else listed.images,
    )


def _basic(price: Price | None) -> float:
    return price[0] if isinstance(price, list) else price or 0
