"""Fixtures: servers and clients that are closed after each test."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Generator
from typing import Any

import pytest

from newel.providers.gemini.client import Gemini
from newel.providers.openai.chat import OpenAIChat
from tests.integration.providers import gemini_wire
from tests.integration.providers.raw import Connect, Handler, RawServer, Serve


@pytest.fixture
def serve() -> Generator[Serve]:
    """``serve(answer, answer, …)`` starts a server; with ``tls``, one that speaks TLS."""
    servers: list[RawServer] = []

    def start(*answers: bytes | Handler, tls: ssl.SSLContext | None = None) -> RawServer:
        servers.append(RawServer(list(answers), tls))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
async def connect() -> AsyncGenerator[Connect]:
    """``connect(url, …)`` makes a provider that is closed after the test."""
    made: list[OpenAIChat] = []

    def start(base_url: str, *, api_key: str | None = "sk-test-key", **options: Any) -> OpenAIChat:
        made.append(OpenAIChat(base_url=base_url, api_key=api_key, **options))
        return made[-1]

    yield start
    for provider in made:
        await provider.aclose()


@pytest.fixture
async def gemini() -> AsyncGenerator[gemini_wire.Connect]:
    """``gemini(url, …)`` makes a client that is closed after the test."""
    made: list[Gemini] = []

    def connect(base_url: str, **options: Any) -> Gemini:
        made.append(Gemini(base_url=base_url, api_key="test-key", **options))
        return made[-1]

    yield connect
    for client in made:
        await client.aclose()
