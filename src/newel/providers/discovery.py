"""Finding model servers on this machine."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import aclosing, suppress

import anyio
import msgspec

from newel.agent.errors import ProviderError
from newel.concurrency import task_group
from newel.providers.listeners import is_accepted, name_of_user, owners
from newel.providers.ollama.client import Ollama
from newel.providers.openai.chat import OpenAIChat

KNOWN = (("Ollama", 11434), ("LM Studio", 1234), ("llama.cpp", 8080), ("vLLM", 8000))
"""Who listens where, unless told otherwise."""

SERVICES = frozenset({"ollama"})
"""Accounts that an installer makes for a model server. No ordinary user can become one of them."""


class LocalServer(msgspec.Struct, frozen=True):
    """``base_url`` determines the API; ``models`` may be empty: a server without models still runs. ``is_owned``:
    the system reports that this user, root or a known service listens there; otherwise the owner is unknown.
    """

    name: str
    base_url: str
    models: list[str]
    is_owned: bool = True

    @property
    def port(self) -> int:
        return int(self.base_url.removesuffix("/v1").rpartition(":")[2])

    @property
    def address(self) -> str:
        """The port where it was found, as a URL: the user decides on this."""
        return address_of_port(self.port)


def address_of_port(port: int) -> str:
    return f"http://127.0.0.1:{port}"


async def discover(
    timeout: float = 1.0,  # noqa: ASYNC109 — each probe's share, not a deadline for the whole
    *,
    servers: Sequence[tuple[str, int]] = KNOWN,
) -> list[LocalServer]:
    """The servers on 127.0.0.1 that answer within ``timeout`` seconds as Ollama does, wherever it listens, or to
    ``/v1/models``, in the given order. Ports where another user listens are not asked: see ``strangers``.
    """
    importlib.import_module("httpcore2")  # now, so that loading it does not count against the probes' time
    servers_by_port: dict[int, LocalServer] = {}
    listening = owners([port for _, port in servers])

    async def probe(name: str, port: int) -> None:
        with anyio.move_on_after(timeout):
            server = await _ollama(port) or await _any(name, port)
            if server is not None:
                servers_by_port[port] = msgspec.structs.replace(server, is_owned=port in listening)

    async with task_group() as group:
        for name, port in servers:
            if all(is_accepted(uid, SERVICES) for uid in listening.get(port, ())):
                group.start_soon(probe, name, port)
    return [servers_by_port[port] for _, port in servers if port in servers_by_port]


def strangers() -> list[tuple[int, str]]:
    """The ports where another user listens, each with that user's name."""
    return [
        (port, name_of_user(uid))
        for port, uids in owners([port for _, port in KNOWN]).items()
        for uid in sorted(uids)
        if not is_accepted(uid, SERVICES)
    ]


async def _ollama(port: int) -> LocalServer | None:
    # Others answer Ollama's questions for its models, too, but not the one for its version.
    with suppress(ProviderError):
        async with aclosing(Ollama(address_of_port(port))) as server:
            await server.version()
            return LocalServer("Ollama", f"ollama://127.0.0.1:{port}", await server.models())
    return None


async def _any(name: str, port: int) -> LocalServer | None:
    base_url = f"{address_of_port(port)}/v1"
    with suppress(ProviderError):  # no server, or another program
        async with aclosing(OpenAIChat(base_url=base_url, api_key=None)) as server:
            return LocalServer(name, base_url, await server.models())
    return None
