"""What every test has: one event loop backend, and no way out to a paid API."""

import os

import pytest

for name in [name for name in os.environ if name.startswith(("LLM_", "OPENAI_", "NEWEL_", "ANTHROPIC_"))]:
    del os.environ[name]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
