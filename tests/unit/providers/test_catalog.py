"""If these fail, the cost of a run is wrong, or a model is taken for another one."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import genai_prices
import msgspec
import pytest
from genai_prices import types
from genai_prices.data_snapshot import get_snapshot
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from newel.agent.messages import Usage
from newel.providers.catalog import model_catalog
from newel.providers.catalog.model_catalog import CatalogModel, load_catalog
from newel.providers.pricing import PriceList
from tests.properties import examples

CENT = 0.01
FILE = Path(model_catalog.__file__).with_name(model_catalog.FILE)
SOURCES: dict[str, str] = msgspec.json.decode(FILE.read_bytes())["sources"]
oracle = pytest.mark.skipif(
    version("genai-prices") != SOURCES["genai-prices"],
    reason="the catalogue was made from another version of genai-prices; make it again",
)

GPT = "https://api.openai.com/v1"
CLAUDE = "https://api.anthropic.com"
ROUTER = "https://openrouter.ai/api/v1"
PLACES = [
    (GPT, "gpt-4o"),
    (GPT, "gpt-4o-2024-08-06"),
    (GPT, "gpt-5-mini"),
    (GPT, "o3-mini"),
    (GPT, "ft:gpt-4o-mini:me"),
    (GPT, "no-such-model"),
    (CLAUDE, "claude-sonnet-4-5-20250929"),
    (CLAUDE, "claude-opus-4-5"),
    (CLAUDE, "Claude-3-5-Haiku-20241022"),
    ("https://generativelanguage.googleapis.com/v1beta", "gemini-2.5-pro"),
    ("https://generativelanguage.googleapis.com/v1beta", "gemini-2.5-flash-preview-tts"),
    ("https://us-east5-aiplatform.googleapis.com/v1", "claude-sonnet-4-5@20250929"),
    ("https://me.openai.azure.com/openai", "gpt-4o-mini"),
    ("https://me.services.ai.azure.com/models", "DeepSeek-R1"),
    ("https://bedrock-runtime.us-east-1.amazonaws.com", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("https://api.deepseek.com/v1", "deepseek-reasoner"),
    ("https://api.mistral.ai/v1", "codestral-latest"),
    ("https://api.mistral.ai/v1", "devstral-medium-2507"),
    ("https://api.groq.com/openai/v1", "llama-3.3-70b-versatile"),
    ("https://api.x.ai/v1", "grok-4"),
    ("https://api.cohere.com/compatibility/v1", "command-a-03-2025"),
    ("https://api.minimaxi.com/v1", "MiniMax-M2"),
    ("https://api.moonshot.cn/v1", "kimi-k2-turbo-preview"),
    ("https://api.z.ai/api/paas/v4", "glm-4.6"),
    ("https://open.bigmodel.cn/api/paas/v4", "glm-4.5"),
    ("https://api.together.xyz/v1", "meta-llama/Llama-3.3-70B-Instruct-Turbo"),
    ("https://api.fireworks.ai/inference/v1", "accounts/fireworks/models/deepseek-v3"),
    ("https://router.huggingface.co/together/v1", "deepseek-ai/DeepSeek-R1"),
    ("https://api.cerebras.ai/v1", "gpt-oss-120b"),
    ("https://api.perplexity.ai", "sonar-pro"),
    ("https://api.githubcopilot.com", "claude-sonnet-4.5"),
    (ROUTER, "anthropic/claude-sonnet-4.5"),
    (ROUTER, "openai/gpt-5.2-20251211"),
    (ROUTER, "qwen/qwen3-coder:free"),
    (ROUTER, "openrouter/auto"),
]
"""Real addresses with names in their servers' lists."""
GATEWAY = [
    "openai/gpt-4o",
    "azure/gpt-4o",
    "bedrock/anthropic.claude-3-5-sonnet-20241022-v2:0",
    "vertex_ai/gemini-2.5-pro",
    "openrouter/openai/gpt-4o",
    "together_ai/moonshotai/Kimi-K2-Instruct",
    "litellm/gpt-4o",
    "litellm/openai/gpt-4o",
    "xai/grok-4",
    "gpt-4o",
    "claude-opus-4-5",
    "gemini-2.5-flash",
    "mistral-large-latest",
    "deepseek-chat",
    "kimi-k2",
    "unknown/unknown",
    "local-model",
    "",
    "/",
    "a/b/c",
]


def their_lookup(model: str, base_url: str) -> str | None:
    """The ID of a model by the package, looked up in the documented order."""
    vendor, slash, rest = model.partition("/")
    queries: list[tuple[str, str | None, str | None]] = [(model, None, base_url)]
    if slash:
        queries += [(rest, vendor, None), (model, "openrouter", None)]
    queries.append((model, None, None))
    if slash:
        queries.append((model.rpartition("/")[2], None, None))
    for name, provider, url in queries:
        try:
            return get_snapshot().find_provider_model(name, None, provider, url)[1].id
        except LookupError:
            continue
    return None


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    counts = st.integers(0, 2_000_000)
    total = draw(counts)
    read = draw(st.integers(0, total))
    return Usage(
        input=total,
        output=draw(counts),
        cache_read=read,
        cache_write=draw(st.integers(0, total - read)),
    )


TIMES = st.datetimes(datetime(2023, 1, 1), datetime(2032, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 — bounds are naive


Models = list[tuple[types.Provider, types.ModelInfo, CatalogModel]]


def models() -> Models:
    """Each model of the catalogue, with its vendor and itself in the package."""
    catalog = load_catalog()
    vendors = {vendor.id: vendor for vendor in catalog.vendors}
    return [
        (provider, info, model)
        for provider in get_snapshot().providers
        if provider.id in vendors
        for info, model in zip(provider.models, catalog.models(vendors[provider.id]), strict=True)
    ]


def is_free(info: types.ModelInfo) -> bool:
    prices = info.prices if isinstance(info.prices, types.ModelPrice) else info.prices[0].prices
    return not any(vars(prices).values())


def wrong_costs(
    models: Models, usage: Usage, at: datetime
) -> dict[tuple[str, str], tuple[float | None, float]]:
    """The models whose cost at a time is not the oracle's, with both."""
    counted = genai_prices.Usage(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
    )
    wrong: dict[tuple[str, str], tuple[float | None, float]] = {}
    for provider, info, model in models:
        ours = model.cost(usage, at.timestamp())
        expected = float(info.calc_price(counted, provider, genai_request_timestamp=at).total_price)
        if ours is None and expected == 0 and not is_free(info):
            continue  # a price in minutes or pages
        if ours is None or abs(ours - expected) >= CENT / 1_000:
            wrong[provider.id, model.id] = (ours, expected)
    return wrong


@pytest.mark.slow  # thousands of models, which change with the catalogue only
@oracle
@settings(
    max_examples=examples(25), phases=[Phase.generate]
)  # to look for the smallest usage that is wrong would take minutes
@given(usages(), TIMES)
def test_every_models_cost_is_that_of_the_oracle(usage: Usage, at: datetime) -> None:
    """Otherwise users pay more than Newel shows."""
    assert wrong_costs(models(), usage, at) == {}


@oracle
def test_tiers_begin_where_those_of_the_oracle_do() -> None:
    """Otherwise a request of a round size, such as 200,000 tokens, has the wrong price."""
    tiered = [each for each in models() if any(isinstance(prices.input, list) for prices in each[2].prices)]
    edges = {
        int(edge)
        for _, _, model in tiered
        for prices in model.prices
        for edge in (prices.input[1::2] if isinstance(prices.input, list) else [])
    }
    assert len(edges) > 5
    now = datetime.now(UTC)
    for count in [*edges, *(edge + 1 for edge in edges)]:
        assert wrong_costs(tiered, Usage(input=count, output=100_000, cache_read=count // 2), now) == {}


@pytest.mark.slow  # like the one above
@oracle
def test_prices_change_when_those_of_the_oracle_do() -> None:
    """Otherwise the first day of a new price, or the first minute of a cheap hour, is wrong."""
    changing = [each for each in models() if len(each[2].prices) > 1]
    every = [prices for _, _, model in changing for prices in model.prices]
    edges = {datetime.fromisoformat(f"{each.since}T00:00:00Z") for each in every if each.since}
    hours = {hour for each in every for hour in (each.start, each.end) if hour}
    assert len(edges) > 20
    assert len(hours) > 3
    usage = Usage(input=1_000_000, output=1_000_000, cache_read=300_000, cache_write=300_000)
    for edge in edges | {datetime.fromisoformat(f"2026-01-15T{hour}Z") for hour in hours}:
        assert wrong_costs(changing, usage, edge) == {}
        assert wrong_costs(changing, usage, edge - timedelta(seconds=1)) == {}


@pytest.mark.slow  # like the one above
@oracle
def test_every_model_is_found_under_its_id_as_by_the_oracle() -> None:
    """Otherwise a model has the price, and the context, of another one of its vendor."""
    catalog = load_catalog()
    vendors = {vendor.id: vendor for vendor in catalog.vendors}
    wrong: list[tuple[str, str]] = []
    for provider, info, model in models():
        found = catalog.model_of(vendors[provider.id], model.id)
        expected = provider.find_model(info.id, all_providers=get_snapshot().providers)
        if info.id != model.id or (found and found.id) != (expected and expected.id):
            wrong.append((provider.id, model.id))
    assert wrong == []


@oracle
@pytest.mark.parametrize(
    ("base_url", "model"), [*PLACES, *(("https://llm.example/v1", name) for name in GATEWAY)]
)
def test_a_model_is_the_one_that_the_oracle_finds(base_url: str, model: str) -> None:
    """Otherwise a gateway's names have the prices of other models."""
    found = PriceList(base_url).find(model)
    assert (found and found.id) == their_lookup(model, base_url)


def test_the_catalogue_is_of_the_pinned_version() -> None:
    """Otherwise the tests above would be skipped from then on. Run scripts/model_catalog.py after scripts/pin.py."""
    pyproject = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    pins = pyproject["tool"]["uv"]["constraint-dependencies"]
    assert f"genai-prices=={SOURCES['genai-prices']}" in pins


def test_a_price_in_pages_or_minutes_is_unknown() -> None:
    """Otherwise such a model would look free, and a cost limit would not hold."""
    prices = PriceList("https://api.openai.com/v1")
    assert prices.find("whisper-1") is not None
    assert not prices.knows("whisper-1")


def test_more_cached_than_input_tokens_still_cost() -> None:
    """Otherwise a server that counts cached tokens apart would look free, or its costs would be negative."""
    model = PriceList("https://api.openai.com/v1").find("gpt-4o")
    assert model is not None
    cost = model.cost(Usage(input=10, cache_read=1_000_000))
    assert cost == model.cost(Usage(input=1_000_000, cache_read=1_000_000))


def test_the_catalogue_is_small() -> None:
    """Otherwise it would be larger than the program that it is a part of."""
    assert FILE.stat().st_size < 300_000


def test_the_first_price_costs_little_memory_and_loads_no_package() -> None:
    """Otherwise each conversation would pay for prices with half a second and tens of megabytes, as it did once."""
    code = (
        "import sys, tracemalloc; from newel.providers.pricing import PriceList; import newel.text.json;"
        "before = set(sys.modules); tracemalloc.start();"
        "assert PriceList('https://openrouter.ai/api/v1').knows('anthropic/claude-sonnet-4.5');"
        "print(tracemalloc.get_traced_memory()[1], *(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    peak, *loaded = done.stdout.split()
    assert int(peak) < 4 * 2**20
    assert {name.partition(".")[0] for name in loaded} <= {"newel", *sys.stdlib_module_names}
