"""Finding model servers on this machine."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import aclosing, suppress

import anyio
import msgspec

from newel.agent.errors import ProviderError
from newel.providers.ollama import Ollama
from newel.providers.openai_chat import OpenAIChat

KNOWN = (("Ollama", 11434), ("LM Studio", 1234), ("llama.cpp", 8080), ("vLLM", 8000))
"""Who listens where, unless told otherwise."""


class LocalServer(msgspec.Struct, frozen=True):
    """``base_url`` says by which API it is asked; ``models`` may be empty: a server without one still runs."""

    name: str
    base_url: str
    models: list[str]


async def discover(
    timeout: float = 0.3,  # noqa: ASYNC109 — each probe's share, not a deadline for the whole
    *,
    servers: Sequence[tuple[str, int]] = KNOWN,
) -> list[LocalServer]:
    """The servers on 127.0.0.1 that answer within ``timeout`` seconds as Ollama does, wherever it listens, or to
    ``/v1/models``, in the given order.
    """
    importlib.import_module("httpcore2")  # now, so that loading it does not count against the probes' time
    found: dict[int, LocalServer] = {}

    async def probe(name: str, port: int) -> None:
        with anyio.move_on_after(timeout):
            server = await _ollama(port) or await _any(name, port)
            if server is not None:
                found[port] = server

    async with anyio.create_task_group() as group:
        for name, port in servers:
            group.start_soon(probe, name, port)
    return [found[port] for _, port in servers if port in found]


async def _ollama(port: int) -> LocalServer | None:
    # Others answer Ollama's questions for its models, too, but not the one for its version.
    with suppress(ProviderError):
        async with aclosing(Ollama(f"http://127.0.0.1:{port}")) as server:
            await server.version()
            return LocalServer("Ollama", f"ollama://127.0.0.1:{port}", await server.models())
    return None


async def _any(name: str, port: int) -> LocalServer | None:
    base_url = f"http://127.0.0.1:{port}/v1"
    with suppress(ProviderError):  # nobody there, or somebody else
        async with aclosing(OpenAIChat(base_url=base_url, api_key=None)) as server:
            return LocalServer(name, base_url, await server.models())
    return None
