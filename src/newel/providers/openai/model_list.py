"""Entries in the lists of models of servers that speak chat completions. The list has no standard beyond the names."""

from __future__ import annotations

from typing import Any

from newel.providers.listed_models import ListedModel
from newel.text.json import as_count, as_dict, as_str

WINDOW_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")
"""The size of a model's context in the lists of vLLM, OpenRouter, Groq and LM Studio."""


def listed_model(fields: dict[str, Any]) -> ListedModel:
    """A model with the facts that the list has.

    Besides the sizes, these are OpenRouter's ``supported_parameters`` and ``architecture``, Mistral's ``capabilities``, and
    ``supports_…`` of Fireworks.
    """
    top = as_dict(fields.get("top_provider"))
    sizes = [*(fields.get(name) for name in WINDOW_FIELDS), as_dict(fields.get("meta")).get("n_ctx")]
    limits = [fields.get("max_completion_tokens"), top.get("max_completion_tokens")]
    parameters = fields.get("supported_parameters")
    inputs = as_dict(fields.get("architecture")).get("input_modalities")
    can = as_dict(fields.get("capabilities"))
    return ListedModel(
        as_str(fields.get("id")) or as_str(fields.get("name")),
        _size(sizes),
        _size(limits),
        tools=_first(
            _contains(parameters, "tools"), can.get("function_calling"), fields.get("supports_tools")
        ),
        thinking=_first(_contains(parameters, "reasoning"), can.get("reasoning")),
        images=_first(_contains(inputs, "image"), can.get("vision"), fields.get("supports_image_input")),
    )


def _size(values: list[Any]) -> int | None:
    """The first number of tokens."""
    return next((size for value in values if (size := as_count(value))), None)


def _contains(values: object, value: str) -> bool | None:
    return value in values if isinstance(values, list) else None


def _first(*facts: object) -> bool | None:
    """The first known fact."""
    return next((fact for fact in facts if isinstance(fact, bool)), None)
