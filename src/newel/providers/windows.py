"""How much a model can read at once, asked where it may be known."""

from __future__ import annotations

import anyio.to_thread

from newel.agent.errors import ProviderError
from newel.providers.openai_chat import OpenAIChat
from newel.providers.pricing import PriceList
from newel.providers.urls import is_private


async def find_window(client: OpenAIChat, model: str) -> int | None:
    """The size of a model's context in tokens: what its server says, else, for a server elsewhere, what the
    price list knows of a model of that name. None if neither does; a server that fails to answer knows nothing.
    """
    try:
        told = await client.window(model)
    except ProviderError:
        told = None
    if told or is_private(client.base_url):
        return told
    return await anyio.to_thread.run_sync(PriceList(client.base_url).window, model, abandon_on_cancel=True)
