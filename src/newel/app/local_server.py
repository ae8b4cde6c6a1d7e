"""Discovery of model servers on this machine: found by their ports, used only if the user agreed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from newel.config.endpoint import EndpointSettings
from newel.config.trust import ServerTrust
from newel.providers.http.urls import ollama_http_url
from newel.text.sanitize import escape_line

if TYPE_CHECKING:
    from newel.providers.discovery import LocalServer

MOST_NAMES = 3
WIDTH = 80


class DiscoveredServer(msgspec.Struct, frozen=True, kw_only=True):
    """``endpoint`` is the first server that the user agreed to, ``undecided`` are those that the user was never asked about.
    ``message`` says why none is used and what to do in a terminal, ``page_message`` what to do in the page.
    """

    endpoint: EndpointSettings | None
    undecided: list[LocalServer]
    message: str = ""
    page_message: str = ""


async def discover_servers(home: Path) -> DiscoveredServer:
    """Scan the known ports for servers."""
    from newel.providers.discovery import discover, strangers

    servers = await discover()
    trust = ServerTrust(home)
    decisions = (
        {server.address: trust.is_trusted("", server.address) for server in servers} if servers else {}
    )
    trusted = next((server for server in servers if decisions[server.address]), None)
    if trusted is not None:
        return DiscoveredServer(endpoint=endpoint_of(trusted), undecided=[])
    undecided = [server for server in servers if decisions[server.address] is None]
    terminal: list[str] = []
    page: list[str] = []
    for server in servers:
        reason = _not_used_error(server, declined=decisions[server.address] is False)
        terminal.append(f"{reason} To use it:\n  newel trust {server.address}")
        page.append(f"{reason} To use it, enter {server.base_url}.")
    for port, user in strangers():
        reason, address = _stranger(port, user), f"http://127.0.0.1:{port}/v1"
        terminal.append(f"{reason} To use it anyway: export LLM_BASE_URL={address}")
        page.append(f"{reason} To use it anyway, enter {address}.")
    return DiscoveredServer(
        endpoint=None, undecided=undecided, message="\n".join(terminal), page_message="\n".join(page)
    )


def endpoint_of(server: LocalServer) -> EndpointSettings:
    """The settings of a discovered server. Only Ollama's API identifies the program."""
    place = server.address.removeprefix("http://")
    found_as = f"Ollama at {place}" if _is_ollama(server) else f"the server at {place}, {server.name}'s port"
    return EndpointSettings(server.base_url, f"{server.name}, found on this machine", found_as=found_as)


def describe(server: LocalServer) -> str:
    """The program, its address and its models, as many as fit, on one line."""
    program = "Ollama" if _is_ollama(server) else f"{_program(server)} on {server.name}'s port"
    place = f"{program} answers at {server.address}"
    models = [escape_line(name, 40) for name in server.models[:MOST_NAMES]]
    line = f"{place} (no model)"
    for count in range(len(models), 0, -1):
        more = " …" if len(server.models) > count else ""
        line = f"{place} ({', '.join(models[:count])}{more})"
        if len(line) < WIDTH:
            break
    return line


def _program(server: LocalServer) -> str:
    from newel.providers.listeners import program_on

    name = program_on(server.port)
    return f"The program {escape_line(name, 40)}" if name else "A server"


def _is_ollama(server: LocalServer) -> bool:
    return ollama_http_url(server.base_url) is not None


def _not_used_error(server: LocalServer, *, declined: bool) -> str:
    reason = "You declined to use it." if declined else "You have not used it with Newel yet."
    unknown = "" if server.is_owned else " This system does not say which user runs it."
    return f"{describe(server)}.\n{reason}{unknown}"


def _stranger(port: int, user: str) -> str:
    return f"Port {port} of this machine belongs to another user ({user}), so Newel does not contact it."
