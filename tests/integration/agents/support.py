"""Responses of a model that is asked for a verdict."""

from __future__ import annotations

from typing import Any

from tests.support import scenario


def verdict(satisfied: bool, *, missing: str = "", **step: Any) -> dict[str, Any]:
    """A step that answers with a verdict."""
    arguments = {"satisfied": satisfied, "why": "as the results show", "missing": missing}
    call = {"function": {"name": "verdict", "arguments": arguments}}
    return {"response": {"tool_calls": [call]}} | step


def after(tool_calls: int, satisfied: bool, *, missing: str = "", **step: Any) -> dict[str, Any]:
    """The verdict after a number of tool calls."""
    return scenario(f"After {tool_calls} tool call", verdict(satisfied, missing=missing, **step))
