"""Public facts about models: prices, sizes and abilities. The snapshot in ``models.json`` is made by
``scripts/model_catalog.py``; nothing is downloaded.

A lookup decodes only the models of the vendors that it needs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Literal

import msgspec

from newel.agent.messages import Usage
from newel.text.json import regex

FILE = "models.json"
COMPACT_DATE = r"-(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=-|:|$)"

Price = float | list[float]
"""US dollars per million tokens. A list is tiered: the basic price, then pairs of a number of input tokens and the
price of all tokens of a response that had more; the numbers rise."""

Rule = str | list[str]
"""A condition for a lower-case text. Its first character is the test: ``=`` equality, ``^`` the beginning, ``$`` the
end, ``*`` a part, ``/`` a regular expression. All conditions of a list must hold."""

Feature = Literal["tools", "thinking", "images"]
LETTERS: Final[dict[Feature, str]] = {"tools": "t", "thinking": "r", "images": "i"}


def is_match(rules: Sequence[Rule], text: str) -> bool:
    """Whether any rule holds."""
    return any(
        _holds(rule, text) if isinstance(rule, str) else all(_holds(each, text) for each in rule)
        for rule in rules
    )


def _holds(rule: str, text: str) -> bool:
    test, value = rule[0], rule[1:]
    match test:
        case "=":
            return text == value
        case "^":
            return text.startswith(value)
        case "$":
            return text.endswith(value)
        case "*":
            return value in text
        case _:
            return regex(value).search(text) is not None


class Prices(msgspec.Struct, frozen=True, array_like=True):
    """Prices of a model; None means that these tokens cost as much as other input, or nothing if there is no such price.

    ``request`` is in dollars per thousand requests. The prices are valid from the day ``since``, and daily from
    ``start`` until before ``end``, which may be on the next day; dates and times are in UTC, as in ISO 8601.
    """

    input: Price | None = None
    output: Price | None = None
    cache_read: Price | None = None
    cache_write: Price | None = None
    request: float | None = None
    since: str | None = None
    start: str | None = None
    end: str | None = None

    def is_valid_at(self, day: str, hour: str) -> bool:
        """Whether the prices are valid on a date at a time of day."""
        if self.since is not None and day < self.since:
            return False
        if self.start is None or self.end is None:
            return True
        if self.end < self.start:
            return hour >= self.start or hour < self.end
        return self.start <= hour < self.end

    def cost(self, usage: Usage) -> float:
        """The cost of a response in US dollars."""
        read = usage.cache_read if self.cache_read is not None else 0
        write = usage.cache_write if self.cache_write is not None else 0
        tokens = [
            (self.input, max(usage.input - read - write, 0)),
            (self.output, usage.output),
            (self.cache_read, read),
            (self.cache_write, write),
        ]
        dollars = sum(count * _price(price, usage.input) for price, count in tokens)
        return dollars / 1_000_000 + (self.request or 0) / 1_000


def _price(price: Price | None, input_tokens: int) -> float:
    """The price of a token in a response with this input."""
    if price is None:
        return 0
    if not isinstance(price, list):
        return price
    reached = [price[i + 1] for i in range(1, len(price) - 1, 2) if input_tokens > price[i]]
    return reached[-1] if reached else price[0]


class CatalogModel(msgspec.Struct, frozen=True, array_like=True):
    """A model of a vendor; sizes are in tokens, None if unknown.

    ``rules`` are the names that users and servers give it, besides its ``id``: without rules it has that name alone. The last
    valid one of ``prices`` counts, else the first; without prices they are unknown. ``features`` has a letter of ``LETTERS`` for
    each known feature, in upper case if the model has it.
    """

    id: str
    rules: list[Rule] = []
    prices: list[Prices] = []
    context_window: int | None = None
    max_output: int | None = None
    features: str = ""

    def is_called(self, name: str) -> bool:
        """Whether a name in lower case is this model's."""
        return is_match(self.rules, name) if self.rules else name == self.id.lower()

    def has(self, feature: Feature) -> bool | None:
        """Whether the model has a feature; None if unknown."""
        letter = LETTERS[feature]
        if letter.upper() in self.features:
            return True
        return False if letter in self.features else None

    @property
    def writes_text(self) -> bool:
        """Whether output has a price, or all is free: embeddings have none."""
        prices = self.prices_at()
        return prices is not None and (prices.output is not None or prices.input is None)

    def prices_at(self, seconds: float | None = None) -> Prices | None:
        """The prices at a time since the epoch, by default now; None if unknown."""
        if len(self.prices) < 2:
            return self.prices[0] if self.prices else None
        day, _, hour = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds)).partition(" ")
        valid = (prices for prices in reversed(self.prices) if prices.is_valid_at(day, hour))
        return next(valid, self.prices[0])

    def cost(self, usage: Usage, seconds: float | None = None) -> float | None:
        """The cost of a response at a time in US dollars; None if the prices are unknown."""
        prices = self.prices_at(seconds)
        return None if prices is None else prices.cost(usage)


class Vendor(msgspec.Struct, frozen=True, omit_defaults=True):
    """A vendor of models, which may have those of others, too.

    ``addresses`` are rules for URLs, ``names`` for its name at gateways besides ``id``, and ``makes`` for names of models
    that are its own wherever they run. It also has the models of the vendors ``resells``.
    """

    id: str
    addresses: list[Rule]
    names: list[Rule] = []
    makes: list[Rule] = []
    resells: list[str] = []
    models: msgspec.Raw = msgspec.Raw(b"[]")


class CatalogFile(msgspec.Struct, frozen=True):
    """The file: ``sources`` are the versions of the packages that it was made from."""

    sources: dict[str, str]
    vendors: list[Vendor]


class Catalog:
    """Looks up models in a snapshot. Raises ``msgspec.DecodeError`` if it is invalid."""

    def __init__(self, data: bytes) -> None:
        self.vendors = msgspec.json.decode(data, type=CatalogFile).vendors
        self._models: dict[str, list[CatalogModel]] = {}

    def models(self, vendor: Vendor) -> list[CatalogModel]:
        """The models of a vendor, without those of other vendors."""
        if vendor.id not in self._models:
            self._models[vendor.id] = msgspec.json.decode(vendor.models, type=list[CatalogModel])
        return self._models[vendor.id]

    def vendor_at(self, base_url: str) -> Vendor | None:
        """The vendor of a server."""
        return next((vendor for vendor in self.vendors if is_match(vendor.addresses, base_url)), None)

    def models_at(self, base_url: str) -> list[CatalogModel]:
        """The models of a server's vendor; none if it is unknown."""
        vendor = self.vendor_at(base_url)
        return self.models(vendor) if vendor else []

    def vendor_called(self, name: str) -> Vendor | None:
        """The vendor with a name, as gateways write it before a model's."""
        name = name.lower().strip()
        exact = (vendor for vendor in self.vendors if vendor.id == name)
        return next(exact, None) or next((each for each in self.vendors if is_match(each.names, name)), None)

    def maker(self, model: str) -> Vendor | None:
        """The vendor whose models have such names."""
        model = model.lower()
        return next((vendor for vendor in self.vendors if is_match(vendor.makes, model)), None)

    def model_of(self, vendor: Vendor, name: str) -> CatalogModel | None:
        """The model that a vendor has under a name. Gateways write dates in names without dashes."""
        name = name.lower()
        if model := self._model_called(vendor, name):
            return model
        dashed = regex(COMPACT_DATE).sub(r"-\1-\2-\3", name)
        return None if dashed == name else self._model_called(vendor, dashed)

    def find(self, model: str, base_url: str | None = None) -> CatalogModel | None:
        """The model with a name in a server's list; one without prices only if there is no other."""
        unpriced = None
        for vendor, name in self._places(model, base_url):
            found = self.model_of(vendor, name) if vendor else None
            if found and found.prices:
                return found
            unpriced = unpriced or found
        return unpriced

    def _places(self, model: str, base_url: str | None) -> Iterator[tuple[Vendor | None, str]]:
        """Vendors that may have the model, and its name there; the most probable first. Gateways put the vendor before a slash."""
        if base_url is not None:
            yield self.vendor_at(base_url), model
        model = model.removeprefix("litellm/")
        vendor, slash, rest = model.partition("/")
        if slash:
            yield self.vendor_called(vendor), rest
            yield self.vendor_called("openrouter"), model
        yield self.maker(model), model
        if slash:
            last = model.rpartition("/")[2]
            yield self.maker(last), last

    def _model_called(self, vendor: Vendor, name: str) -> CatalogModel | None:
        places = [vendor, *(each for id_ in vendor.resells for each in self.vendors if each.id == id_)]
        called = (model for place in places for model in self.models(place) if model.is_called(name))
        return next(called, None)


@cache
def load_catalog() -> Catalog:
    """The catalogue of this version of Newel."""
    return Catalog(Path(__file__).with_name(FILE).read_bytes())
