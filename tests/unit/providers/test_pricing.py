"""If these fail, the cost of a run is wrong, or local models appear to cost money."""

from __future__ import annotations

import subprocess
import sys

import pytest

from newel.agent.messages import AssistantMessage, Usage
from newel.providers.pricing import PriceList, price_list_for


def used(model: str, usage: Usage | None = None) -> AssistantMessage:
    return AssistantMessage([], model=model, usage=usage or Usage(input=1_000_000, output=1_000_000))


@pytest.mark.parametrize(
    ("model", "base_url", "same_as"),
    [
        ("gpt-4o", "https://api.openai.com/v1", "gpt-4o"),
        ("openai/gpt-4o", "https://llm.example", "gpt-4o"),
        ("azure/gpt-4o", "https://llm.example", "gpt-4o"),
        ("openrouter/openai/gpt-4o", "https://llm.example", "gpt-4o"),
        ("gpt-4o-2024-08-06", "https://llm.example", "gpt-4o"),
        ("azure/gpt-5-1", "https://llm.example", "gpt-5.1"),
        ("deepseek/deepseek-chat", "https://llm.example", "deepseek-chat"),
    ],
)
def test_a_model_is_found_under_the_names_of_gateways(model: str, base_url: str, same_as: str) -> None:
    """Otherwise the cost limit would not hold behind a gateway."""
    cost = PriceList(base_url)(used(model))
    assert cost is not None
    assert cost > 0
    assert cost == PriceList("https://llm.example")(used(same_as))


def test_cached_input_is_cheaper_and_counts_once() -> None:
    """Otherwise a long session would seem to cost many times what it does."""
    price = PriceList("https://api.openai.com/v1")
    plain = price(used("gpt-4o", Usage(input=1_000_000)))
    cached = price(used("gpt-4o", Usage(input=1_000_000, cache_read=1_000_000)))
    assert plain is not None
    assert cached is not None
    assert 0 < cached < plain


@pytest.mark.parametrize("model", ["my-own-finetune", "", "a/b/c", "qwen2.5-coder:1.5b"])
def test_an_unknown_model_has_no_cost(model: str) -> None:
    """Otherwise an invented price would end runs or hide what they cost."""
    price = PriceList("https://llm.example/v1")
    assert price(used(model)) is None
    assert price(used(model)) is None


def test_without_usage_there_is_no_cost() -> None:
    """Otherwise a server that counts no tokens would look free."""
    assert PriceList("https://api.openai.com/v1")(used("gpt-4o", Usage())) is None


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000/v1",
        "http://localhost",
        "http://[::1]:1",
        "http://192.168.1.9",
        "http://gpu",
        "http://box.lan",
    ],
)
def test_a_private_server_is_never_priced(url: str) -> None:
    """Otherwise a local model would cost what another one of its name does."""
    assert price_list_for(base_url=url) is None
    assert price_list_for(base_url="https://api.openai.com/v1") is not None


def test_importing_the_providers_loads_nothing_heavy() -> None:
    """Otherwise every start of the program would pay for what a run may never need."""
    code = (
        "import sys, newel.providers.openai.chat, newel.providers.retry, newel.providers.pricing,"
        "newel.providers.proxy, tests.scripted_provider, newel.providers.discovery;"
        "print(sorted({'httpx2', 'newel.providers.catalog.model_catalog', 'json_repair', 'ssl', 'email'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
