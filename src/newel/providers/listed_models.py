"""Models as a server lists them, and as they are shown to the user who chooses one."""

from __future__ import annotations

import msgspec

from newel.text.format import short_number


class ListedModel(msgspec.Struct, frozen=True, rename="camel"):
    """A model in a server's list; sizes are in tokens. None if the list does not say."""

    name: str
    context_window: int | None = None
    max_output: int | None = None
    tools: bool | None = None
    thinking: bool | None = None
    images: bool | None = None


class ModelDetails(ListedModel, frozen=True, rename="camel"):
    """A model; sizes are in tokens, prices in US dollars per million tokens, those of the lowest tier. None is unknown."""

    input_price: float | None = None
    output_price: float | None = None
    has_tiers: bool = False

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
