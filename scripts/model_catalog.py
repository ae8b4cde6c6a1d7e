"""Make the snapshot of public facts about models, ``src/newel/providers/catalog/models.json``.

    ./run python scripts/model_catalog.py            make it
    ./run python scripts/model_catalog.py --check    exit 1 if a new one would differ

Names, prices and context sizes are those of ``genai-prices`` as installed; output limits and abilities, and sizes missing
there, are those of the newest ``litellm``, whose wheel pip downloads. Only facts are taken, no descriptions.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import msgspec
from genai_prices import types
from genai_prices.data_snapshot import get_snapshot

from newel.providers.catalog.model_catalog import (
    FILE,
    LETTERS,
    Catalog,
    CatalogModel,
    Feature,
    Price,
    Prices,
    Rule,
    Vendor,
)

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "src/newel/providers/catalog" / FILE
FACTS = "litellm/model_prices_and_context_window_backup.json"
PRICES = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok", "requests_kcount")
FEATURES: dict[Feature, str] = {
    "tools": "supports_function_calling",
    "thinking": "supports_reasoning",
    "images": "supports_vision",
}
NO_AGENTS = {"elevenlabs", "voyageai"}
"""Vendors without a model that writes text."""
NAMES = {
    "aws": ("bedrock",),
    "cohere": ("cohere", "cohere_chat"),
    "fireworks": ("fireworks_ai",),
    "github-copilot": ("github_copilot",),
    "google": ("gemini", "vertex_ai"),
    "moonshotai": ("moonshot",),
    "together": ("together_ai",),
    "x-ai": ("xai",),
    "zhipuai": ("bigmodel",),
}
"""The vendors that have other names in the second source; those of models may go on after a dash or underscore."""


def main() -> int:
    fresh = snapshot()
    if "--check" in sys.argv[1:]:
        same = TARGET.exists() and TARGET.read_bytes() == fresh
        print("up to date" if same else "not up to date: ./run python scripts/model_catalog.py")
        return 0 if same else 1
    TARGET.write_bytes(fresh)
    print(f"{TARGET.relative_to(ROOT)}: {len(fresh):,} bytes")
    return 0


def snapshot() -> bytes:
    """The file's content: a line for each model, so that two versions can be compared."""
    release, facts = second_source()
    sources = {"genai-prices": version("genai-prices"), "litellm": release}
    vendors = [vendor_of(provider) for provider in get_snapshot().providers if provider.id not in NO_AGENTS]
    plain = Catalog(encoded(sources, vendors))
    return encoded(sources, [with_facts(vendor, plain, facts) for vendor in vendors])


def encoded(sources: dict[str, str], vendors: Sequence[Vendor]) -> bytes:
    lines = ",\n".join(msgspec.json.encode(vendor).decode() for vendor in vendors)
    return f'{{"sources":{json.dumps(sources)},"vendors":[\n{lines}\n]}}\n'.encode()


def raw(models: Sequence[CatalogModel]) -> msgspec.Raw:
    lines = ",\n".join(short(model) for model in models)
    return msgspec.Raw(f"[\n{lines}\n]".encode())


def short(model: CatalogModel) -> str:
    """The JSON of a model, without defaults at the ends of its lists."""
    fields = trimmed(msgspec.to_builtins(model))
    while fields[-1] == []:
        fields.pop()
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def trimmed(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, list):
        return value
    values = [trimmed(each) for each in cast("list[Any]", value)]
    while values and values[-1] in (None, ""):
        values.pop()
    return values


# -- the first source -----------------------------------------------------------------------------


def vendor_of(provider: types.Provider) -> Vendor:
    return Vendor(
        id=provider.id,
        addresses=[address_rule(provider.api_pattern)],
        names=rules_of(provider.provider_match) if provider.provider_match else [],
        makes=rules_of(provider.model_match) if provider.model_match else [],
        resells=provider.fallback_model_providers or [],
        models=raw([model_of(model) for model in provider.models]),
    )


def model_of(model: types.ModelInfo) -> CatalogModel:
    rules = rules_of(model.match)
    conditional = (
        [types.ConditionalPrice(prices=model.prices)]
        if isinstance(model.prices, types.ModelPrice)
        else model.prices
    )
    return CatalogModel(
        id=model.id,
        rules=[] if rules == [f"={model.id.lower()}"] else rules,
        prices=[prices_of(each) for each in conditional if has_tokens(each.prices)],
        context_window=model.context_window,
    )


def has_tokens(prices: types.ModelPrice) -> bool:
    """Whether a model is free, or priced by tokens: the price of one that counts pages or minutes is unknown."""
    named = {name for name, value in vars(prices).items() if value is not None}
    return not named or not named.isdisjoint(PRICES)


def prices_of(conditional: types.ConditionalPrice) -> Prices:
    since = start = end = None
    match conditional.constraint:
        case types.StartDateConstraint(start_date=date):
            since = date.isoformat()
        case types.TimeOfDateConstraint(start_time=first, end_time=last):
            if first.utcoffset() or last.utcoffset():
                raise ValueError(f"not in UTC: {conditional}")
            start, end = f"{first:%H:%M:%S}", f"{last:%H:%M:%S}"
        case None:
            pass
    values = [price_of(getattr(conditional.prices, name)) for name in PRICES]
    return Prices(*values, since=since, start=start, end=end)  # pyright: ignore[reportArgumentType] — the last has no tiers


def price_of(price: Decimal | types.TieredPrices | None) -> Price | None:
    if not isinstance(price, types.TieredPrices):
        return None if price is None else float(price)
    tiers = [float(number) for tier in price.tiers for number in (tier.start, tier.price)]
    return [float(price.base), *tiers]


def rules_of(clause: object) -> list[Rule]:
    """A clause as alternatives."""
    match clause:
        case types.ClauseOr(or_=clauses):
            return [rule for each in clauses for rule in rules_of(each)]
        case types.ClauseAnd(and_=clauses):
            return [[condition(each) for each in clauses]]
        case _:
            return [condition(clause)]


def condition(clause: object) -> str:
    match clause:
        case types.ClauseEquals(equals=text):
            return f"={text.lower()}"
        case types.ClauseStartsWith(starts_with=text):
            return f"^{text.lower()}"
        case types.ClauseEndsWith(ends_with=text):
            return f"${text.lower()}"
        case types.ClauseContains(contains=text):
            return f"*{text.lower()}"
        case types.ClauseRegex(regex=text):
            return f"/{text}"
        case _:
            raise TypeError(f"a clause that rules cannot express: {clause}")


def address_rule(pattern: str) -> Rule:
    """A pattern of addresses as a rule. Compiling an expression takes time, so a text that it requires is looked for before."""
    if is_plain(pattern):
        return f"^{plain(pattern)}"
    pieces = re.split(r"\(.*?\)+[?*+]?|\[.*?\][?*+]?", pattern)
    required = max(map(plain, filter(is_plain, pieces)), key=len)
    return [f"*{required}", f"/^(?:{pattern})"]


def is_plain(pattern: str) -> bool:
    """Whether an expression is a text with escaped dots."""
    return re.fullmatch(r"(?:[\w/:-]|\\\.)*", pattern) is not None


def plain(pattern: str) -> str:
    return pattern.replace("\\.", ".")


# -- the second source ----------------------------------------------------------------------------


def second_source() -> tuple[str, dict[str, dict[str, Any]]]:
    """The version of the package, and its facts by name."""
    with tempfile.TemporaryDirectory() as folder:
        pip = ["uvx", "--quiet", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        subprocess.run([*pip, "--dest", folder, "litellm"], check=True)
        [wheel] = Path(folder).glob("litellm-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            return wheel.name.split("-")[1], json.loads(archive.read(FACTS))


def with_facts(vendor: Vendor, catalog: Catalog, facts: dict[str, dict[str, Any]]) -> Vendor:
    """The vendor with the facts of the second source about its models."""
    known: dict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for name, entry in entries_of(vendor, facts):
        own = (model for model in catalog.models(vendor) if model.is_called(name.lower()))
        if model := next(own, None):
            known[model.id].append((name, entry))
    models = [complete(model, known[model.id]) for model in catalog.models(vendor)]
    return msgspec.structs.replace(vendor, models=raw(models))


def entries_of(vendor: Vendor, facts: dict[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The vendor's entries, each with its model's name there."""
    names = NAMES.get(vendor.id, (vendor.id,))
    for key, entry in sorted(facts.items()):
        provider = str(entry.get("litellm_provider"))
        if any(provider == name or provider.startswith((f"{name}_", f"{name}-")) for name in names):
            prefix, slash, rest = key.partition("/")
            yield (rest if slash and prefix in names else key), entry


def complete(model: CatalogModel, known: list[tuple[str, dict[str, Any]]]) -> CatalogModel:
    """The model with facts: those under its very name, else those in which all entries agree."""
    exact = [entry for name, entry in known if name.lower() == model.id.lower()]
    entries = exact or [entry for _, entry in known]

    def agreed(name: str, kind: type) -> Any:
        values = [entry.get(name) for entry in entries]
        same = values and all(value == values[0] for value in values)
        return values[0] if same and type(values[0]) is kind else None

    letters = ""
    for feature, name in FEATURES.items():
        if (value := agreed(name, bool)) is not None:
            letters += LETTERS[feature].upper() if value else LETTERS[feature]
    window = model.context_window or agreed("max_input_tokens", int)
    limit = agreed("max_output_tokens", int)
    if limit and window and limit >= window:
        limit = None  # such a limit is the context again
    return msgspec.structs.replace(model, context_window=window, max_output=limit, features=letters)


if __name__ == "__main__":
    sys.exit(main())
