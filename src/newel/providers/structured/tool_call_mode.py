"""Which models call tools by their protocol, and which answer under a schema: data, decided by a model's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from newel.agent.ports import ToolCallMode
from newel.text.json import regex

if TYPE_CHECKING:
    from newel.providers.model_server import ModelServer

SMALL: Final = 9.0
"""Billions of parameters. Models up to this size that are not listed below often write broken calls, or none."""

CAPABLE: Final = (("gpt-oss", 0.0), ("qwen3", 4.0), ("devstral", 0.0), ("ministral", 8.0), ("granite4", 3.0))
"""Families of local models that were trained to call tools, each from a size in billions of parameters on."""

_SIZE: Final = r"(?<![\w.])(\d{1,4}(?:\.\d{1,2})?)([bm])(?![a-z0-9])"


def suitable_mode(model: str, server: ModelServer) -> ToolCallMode:
    """Return how a model should call tools: under a schema if it is small, local, and not known to call them well."""
    size = parameter_count(model)
    if size is None or size > SMALL or not (server.supports_schema and server.is_local):
        return "native"
    name = model.lower().replace("-", "").replace(" ", "")
    is_capable = any(family.replace("-", "") in name and size >= least for family, least in CAPABLE)
    return "native" if is_capable else "schema"


def parameter_count(model: str) -> float | None:
    """Return the size that a model's name tells, in billions of parameters; None if it tells none."""
    match = regex(_SIZE).search(model.rpartition("/")[2].lower())
    if match is None:
        return None
    return float(match[1]) / (1000 if match[2] == "m" else 1)
