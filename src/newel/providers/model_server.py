"""What the program needs of a model server, whichever API it is asked by."""

from __future__ import annotations

from typing import Protocol

from newel.agent.ports import Provider


class ModelServer(Provider, Protocol):
    """A ``Provider`` that can tell of its models."""

    @property
    def name(self) -> str:
        """The server, as sessions and messages name it."""
        ...

    @property
    def way(self) -> str | None:
        """How its models are asked: the path of an API, or a program. None while that is not known."""
        ...

    async def models(self) -> list[str]:
        """The names of its models, in its order. Raises ``ProviderError``."""
        ...

    async def window(self, model: str) -> int | None:
        """The size of a model's context in tokens, None if it is not known. Raises ``ProviderError``."""
        ...

    async def is_priced(self, model: str) -> bool:
        """Whether it is known what the answers of a model cost, if anything. Never raises."""
        ...

    async def aclose(self) -> None:
        """Close the connections. The next request opens new ones."""
        ...
