"""Finding model servers on this machine."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import anyio
import msgspec

from newel.agent.errors import ProviderError
from newel.providers.openai_chat import OpenAIChat

KNOWN = (("Ollama", 11434), ("LM Studio", 1234), ("llama.cpp", 8080), ("vLLM", 8000))
"""Who listens where, unless told otherwise."""


class LocalServer(msgspec.Struct, frozen=True):
    """``models`` may be empty: a server without one still runs."""

    name: str
    base_url: str
    models: list[str]


async def discover(
    timeout: float = 0.3,  # noqa: ASYNC109 — each probe's share, not a deadline for the whole
    *,
    servers: Sequence[tuple[str, int]] = KNOWN,
) -> list[LocalServer]:
    """The servers that answer ``/v1/models`` on 127.0.0.1 within ``timeout`` seconds, in the given order."""
    importlib.import_module("httpcore2")  # now, so that loading it does not count against the probes' time
    found: dict[int, LocalServer] = {}

    async def probe(name: str, port: int) -> None:
        base_url = f"http://127.0.0.1:{port}/v1"
        provider = OpenAIChat(base_url=base_url, api_key=None)
        try:
            with anyio.move_on_after(timeout):
                found[port] = LocalServer(name, base_url, await provider.models())
        except ProviderError:
            pass  # nobody there, or somebody else
        finally:
            await provider.aclose()

    async with anyio.create_task_group() as group:
        for name, port in servers:
            group.start_soon(probe, name, port)
    return [found[port] for _, port in servers if port in found]
