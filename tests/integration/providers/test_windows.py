"""If these fail, a long conversation silently loses its beginning, as its context size is unknown."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from newel.providers.model_server import find_window
from newel.providers.openai.chat import OpenAIChat
from newel.providers.pricing import PriceList


@asynccontextmanager
async def listing(
    *models: dict[str, Any], status: str = "200 OK", beside: dict[str, Any] | None = None
) -> AsyncGenerator[OpenAIChat]:
    """A client of a server with these models, and other documents ``beside`` their list."""
    documents = {"/v1/models": {"object": "list", "data": models}, **(beside or {})}

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            document = documents.get((await stream.receive()).split()[1].decode())
            body = json.dumps(document).encode()
            head = f"HTTP/1.1 {status if document else '404 Not Found'}\r\nContent-Type: application/json\r\n"
            await stream.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    client = OpenAIChat(base_url=f"http://127.0.0.1:{port}/v1", api_key=None)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield client
        await client.aclose()
        group.cancel_scope.cancel()


@pytest.mark.anyio
@pytest.mark.parametrize(
    "told",
    [{"max_model_len": 8192}, {"context_length": 8192}, {"context_window": 8192}, {"meta": {"n_ctx": 8192}}],
)
async def test_the_servers_window_is_used(told: dict[str, Any]) -> None:
    async with listing({"id": "other", "context_window": 1}, {"id": "mine", **told}) as client:
        assert await find_window(client, "mine") == 8192


@pytest.mark.anyio
@pytest.mark.parametrize(
    "beside",
    [
        {"/props": {"default_generation_settings": {"n_ctx": 4096}}},
        {
            "/api/v0/models": {
                "data": [{"id": "mine", "max_context_length": 9, "loaded_context_length": 4096}]
            }
        },
        {
            "/api/ps": {
                "models": [
                    {"name": "other", "context_length": 1},
                    {"name": "mine:latest", "context_length": 4096},
                ]
            }
        },
    ],
    ids=["llama.cpp", "LM Studio", "Ollama"],
)
async def test_the_window_of_the_loaded_model_counts(beside: dict[str, Any]) -> None:
    """LM Studio and Ollama drop the beginning of a longer conversation, and report no error."""
    async with listing({"id": "mine", "max_context_length": 131_072}, beside=beside) as client:
        assert await find_window(client, "mine") == 4096


@pytest.mark.anyio
@pytest.mark.parametrize(
    "odd", [[], "x", {"default_generation_settings": 5}, {"models": [None, {"name": "mine"}]}]
)
async def test_documents_of_other_programs_are_no_window(odd: Any) -> None:
    beside = dict.fromkeys(["/props", "/api/v0/models", "/api/ps"], odd)
    async with listing({"id": "mine", "context_window": 8192}, beside=beside) as client:
        assert await find_window(client, "mine") == 8192


def test_the_window_of_a_known_model_is_in_the_price_list() -> None:
    assert PriceList("https://api.openai.com/v1").window("gpt-4o") == 128_000


@pytest.mark.anyio
async def test_an_unknown_window_is_none() -> None:
    async with listing(status="500 No") as client:
        assert await find_window(client, "a-model-of-my-own") is None
