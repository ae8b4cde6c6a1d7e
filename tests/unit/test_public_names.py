"""If these fail, a documented public name is missing, or importing Newel is slow."""

# pyright: reportUnnecessaryTypeIgnoreComment=error

from __future__ import annotations

import subprocess
import sys

import pytest

import newel


@pytest.mark.parametrize("name", newel.__all__)
def test_each_public_name_exists_and_is_documented(name: str) -> None:
    assert getattr(newel, name).__name__ == name
    assert newel.__doc__ is not None
    assert name in newel.__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    """Type checkers say so, too, or the comment below would be an error."""
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        repr(newel.nonsense)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]


@pytest.mark.parametrize("start", ["import newel", "import newel.cli.main", "import newel.app.terminal"])
def test_importing_newel_loads_nothing_heavy(start: str) -> None:
    """Each start of the command would pay for it."""
    heavy = [
        "anyio",
        "httpx2",
        "rich",
        "prompt_toolkit",
        "newel.providers.catalog.model_catalog",
        "pydantic",
        "PIL",
        "json_repair",
        "asyncio",
        "fastapi",
        "uvicorn",
        "mcp",
        "sqlite3",
    ]
    code = f"{start}; import sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
