"""Fixtures of the editor's protocol."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """The protocol's SDK is for asyncio."""
    return "asyncio"
