"""If these fail, the facts in a server's list of models are lost, or a broken list is taken for facts."""

from __future__ import annotations

from typing import Any

import pytest

from newel.providers.listed_models import ListedModel
from newel.providers.openai.model_list import listed_model


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"id": "plain", "object": "model"}, ListedModel("plain")),
        ({"name": "of-google"}, ListedModel("of-google")),
        (
            {
                "id": "openrouter",
                "context_length": 200_000,
                "top_provider": {"context_length": 200_000, "max_completion_tokens": 64_000},
                "supported_parameters": ["tools", "reasoning"],
                "architecture": {"input_modalities": ["text"]},
            },
            ListedModel("openrouter", 200_000, 64_000, tools=True, thinking=True, images=False),
        ),
        (
            {"id": "groq", "context_window": 131_072, "max_completion_tokens": 8_192},
            ListedModel("groq", 131_072, 8_192),
        ),
        (
            {
                "id": "mistral",
                "max_context_length": 32_768,
                "capabilities": {"function_calling": True, "vision": False},
            },
            ListedModel("mistral", 32_768, tools=True, images=False),
        ),
        (
            {"id": "fireworks", "supports_tools": True, "supports_image_input": True},
            ListedModel("fireworks", tools=True, images=True),
        ),
        ({"id": "llama.cpp", "meta": {"n_ctx": 4_096}}, ListedModel("llama.cpp", 4_096)),
    ],
)
def test_the_facts_of_each_server_are_read(entry: dict[str, Any], expected: ListedModel) -> None:
    assert listed_model(entry) == expected


@pytest.mark.parametrize("junk", [None, True, -1, 10**30, "many", [], {}, [{}], {"x": 1}])
def test_facts_of_a_wrong_type_are_unknown(junk: object) -> None:
    entry = dict.fromkeys(
        [
            "context_length",
            "max_completion_tokens",
            "top_provider",
            "architecture",
            "capabilities",
            "meta",
        ],
        junk,
    )
    assert listed_model({"id": "m", **entry}) == ListedModel("m")
