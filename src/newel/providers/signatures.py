"""Signatures of tool calls, with the name of the API that they are from: a server may speak several."""

from __future__ import annotations


def name_signature(api: str, signature: str) -> str | None:
    """The value for ``ToolCall.signature``; None for an empty signature."""
    return f"{api}:{signature}" if signature else None


def own_signature(api: str, named: str | None) -> str | None:
    """The signature in a ``ToolCall.signature``; None if it is another API's."""
    prefix = f"{api}:"
    return named.removeprefix(prefix) if named and named.startswith(prefix) else None
