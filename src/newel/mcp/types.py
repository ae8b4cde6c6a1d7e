"""Tools and servers for the rest of the program: descriptions, states, names offered to models."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, NamedTuple

import msgspec

from newel.agent.messages import AssistantMessage, Message, Wire

ServerState = Literal["starting", "active", "broken", "untrusted", "disabled"]

MAX_NAME_LENGTH: Final = 64
"""Characters of a name that all chat APIs accept."""
_HASH_LENGTH: Final = 8


class ToolInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as its server describes it. ``parameters`` is its JSON Schema, unchanged; ``reads`` is the server's claim that
    the tool is read-only.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    reads: bool = False


class ToolStatus(Wire, frozen=True, kw_only=True):
    """One tool of a server; ``name`` is the server's own, without the ``server__`` before it."""

    name: str
    description: str = ""
    enabled: bool = True


class ServerStatus(Wire, frozen=True, kw_only=True):
    """``origin`` is the file that configures the server, ``target`` the exact command line or the URL (with secrets
    masked in the user's own), ``folder`` its working folder, ``env`` the names of the variables that the server
    gets or that its configuration refers to. ``reason`` says why a server is broken or waiting; ``stderr``
    contains the last lines that it printed there.
    """

    name: str
    state: ServerState
    origin: str
    target: str
    folder: str = ""
    env: list[str] = []
    reason: str = ""
    stderr: str = ""
    tools: list[ToolStatus] = []


def offered_name(server: str, tool: str) -> str:
    """Return ``server__tool``, of letters, digits, ``_`` and ``-``.

    It depends on these two names only, not on other servers: a resumed conversation calls the same tool. Where characters
    were replaced or cut off, or the boundary between the names is ambiguous, part of a hash makes the name unique.
    """
    plain = f"{server}__{tool}"
    name = re.sub(r"[^A-Za-z0-9_-]", "_", plain)
    clear = name == plain and len(name) <= MAX_NAME_LENGTH and "__" not in server and not server.endswith("_")
    if clear and not tool.startswith("_"):
        return name
    digest = hashlib.sha256(f"{server}\0{tool}".encode(errors="surrogatepass")).hexdigest()[:_HASH_LENGTH]
    return f"{name[: MAX_NAME_LENGTH - _HASH_LENGTH - 1]}_{digest}"


class ElicitRequest(Wire, frozen=True, kw_only=True):
    """A server's question to the user: a form (``schema``, a JSON Schema object with plain fields), or a page to
    open (``url``). All texts are the server's.
    """

    server: str
    message: str
    schema: dict[str, Any] | None = None
    url: str | None = None


class ElicitAnswer(Wire, frozen=True, kw_only=True):
    """``accept`` with the form's values as ``content``; ``decline`` refuses, ``cancel`` is no answer."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


Elicit = Callable[[ElicitRequest], Awaitable[ElicitAnswer]]
"""Ask the user who made the call. Cancelled if the call ends first."""


class SampleRequest(Wire, frozen=True, kw_only=True):
    """A server's request for a response of the model; ``max_tokens`` limits it."""

    server: str
    messages: list[Message]
    max_tokens: int
    system_prompt: str = ""
    temperature: float | None = None
    stop_sequences: list[str] = []


Sample = Callable[[SampleRequest], Awaitable[AssistantMessage]]
"""Ask the model. The server is told of a ``NewelError``."""

Reach = Callable[[str, str], Awaitable[bool]]
"""Whether a tool server, by its name, may reach a server of the network, by a name such as ``example.org:8443``."""


class Caller(NamedTuple):
    """How the agent that makes a call answers what the server wants meanwhile."""

    elicit: Elicit | None
    sample: Sample | None
    reach: Reach | None
