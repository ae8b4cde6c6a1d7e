"""If these fail, a short name runs another model than its user expects, at another price."""

from __future__ import annotations

import pytest

from newel.providers.catalog.aliases import ALIASES, expand_alias
from newel.providers.catalog.model_catalog import load_catalog


@pytest.mark.parametrize(
    ("alias", "listed", "expected"),
    [
        ("opus", ["claude-opus-4-1-20250805", "claude-opus-4-5-20251101"], "claude-opus-4-5-20251101"),
        ("opus", ["claude-opus-4-20250514", "claude-opus-4-1"], "claude-opus-4-1"),
        ("sonnet", ["claude-sonnet-4-5-20250929", "claude-sonnet-4-5"], "claude-sonnet-4-5"),
        ("sonnet", ["openai/gpt-5", "anthropic/claude-sonnet-4.5"], "anthropic/claude-sonnet-4.5"),
        ("haiku", ["claude-haiku-9", "claude-haiku-10"], "claude-haiku-10"),
        (
            "flash",
            ["gemini-2.5-flash", "gemini-3-flash-preview", "gemini-2.5-flash-lite"],
            "gemini-2.5-flash",
        ),
        ("flash", ["models/gemini-2.0-flash"], "models/gemini-2.0-flash"),
        ("flash", ["gemini-3.9-flash", "gemini-3.10-flash"], "gemini-3.10-flash"),
        ("gpt", ["gpt-5"], "gpt"),
        ("sonnet", ["claude-3-5-sonnet-20241022"], "sonnet"),
        ("opus", ["my-opus", "x\x1bclaude-opus-5"], "opus"),
        ("opus", ["opus", "claude-opus-5"], "opus"),
        ("claude-opus-4-5", ["claude-opus-5"], "claude-opus-4-5"),
    ],
)
def test_an_alias_is_the_newest_finished_model_of_its_family(
    alias: str, listed: list[str], expected: str
) -> None:
    assert expand_alias(alias, listed) == expected


@pytest.mark.parametrize("alias", ALIASES)
def test_every_alias_has_a_family_in_the_catalogue(alias: str) -> None:
    """Otherwise it would never stand for anything."""
    catalog = load_catalog()
    names = [model.id for vendor in catalog.vendors for model in catalog.models(vendor)]
    assert expand_alias(alias, names) in names
