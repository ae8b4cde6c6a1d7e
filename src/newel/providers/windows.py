"""How much a model can read at once, asked where it may be known."""

from __future__ import annotations

from newel.agent.errors import ProviderError
from newel.providers.model_server import ModelServer


async def find_window(server: ModelServer, model: str) -> int | None:
    """The size of a model's context in tokens, None if nobody knows: a server that fails to answer knows nothing."""
    try:
        return await server.window(model)
    except ProviderError:
        return None
