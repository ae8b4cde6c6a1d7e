"""Requests of a server during a call: input from the user (elicitation), or a response of the model (sampling)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from newel.agent.messages import AssistantMessage, Message, Wire


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
