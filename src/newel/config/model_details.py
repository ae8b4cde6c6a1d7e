"""Sizes, prices and abilities of a server's models: from the user's settings, else from the server, else from the model catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import anyio
import anyio.to_thread

from newel.config.settings import ModelFacts
from newel.providers.catalog.model_catalog import CatalogModel, Price
from newel.providers.http.urls import ollama_http_url
from newel.providers.listed_models import ListedModel, ModelDetails
from newel.providers.pricing import price_list_for


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
        tools=public.has("tools") if listed.tools is None else listed.tools,
        thinking=public.has("thinking") if listed.thinking is None else listed.thinking,
        images=public.has("images") if listed.images is None else listed.images,
        input_price=input_price,
        output_price=output_price,
        has_tiers=tiers,
    )


def _basic(price: Price | None) -> float:
    return price[0] if isinstance(price, list) else price or 0
