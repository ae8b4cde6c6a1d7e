"""What a server may ask of us while it works: something of the user (elicitation), or of the model (sampling)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from newel.agent.messages import AssistantMessage, Message, Wire


class ElicitRequest(Wire, frozen=True, kw_only=True):
    """A question of a server's to the user: a form (``schema``: a JSON Schema object of plain fields), or a
    page to open (``url``). All of it is the server's text.
    """

    server: str
    message: str
    schema: dict[str, Any] | None = None
    url: str | None = None


class ElicitAnswer(Wire, frozen=True, kw_only=True):
    """``accept`` with the form's values as ``content``; ``decline`` is a no, ``cancel`` no answer at all."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


Elicit = Callable[[ElicitRequest], Awaitable[ElicitAnswer]]
"""Puts the question to whoever made the call. Cancelled when the call ends before the answer."""


class SampleRequest(Wire, frozen=True, kw_only=True):
    """A server's wish for an answer of the model's; ``max_tokens`` bounds the answer."""

    server: str
    messages: list[Message]
    max_tokens: int
    system_prompt: str = ""
    temperature: float | None = None
    stop_sequences: list[str] = []


Sample = Callable[[SampleRequest], Awaitable[AssistantMessage]]
"""Asks the model. A ``NewelError`` that it raises is told to the server."""
