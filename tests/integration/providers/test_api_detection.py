"""If these fail, a server is asked over the wrong API, and a local model loses part of the conversation."""

from __future__ import annotations

import json
import socket
from collections.abc import Generator
from contextlib import aclosing

import pytest

from newel.agent.errors import ConfigError, ProviderError, RequestRejected
from newel.agent.ports import Model
from newel.providers.discovery import LocalServer, discover
from newel.providers.http.urls import chat_completions_url, ollama_http_url
from newel.providers.model_server import connect
from tests.integration.providers.raw import Serve, ask, http
from tests.standins.ollama_server import OllamaServer

pytestmark = pytest.mark.anyio


@pytest.fixture
def ollama() -> Generator[OllamaServer]:
    made = OllamaServer(script=[{"trigger": "Hi", "answer": "Hello."}])
    yield made
    made.close()


@pytest.mark.parametrize(
    ("named", "reached"),
    [
        ("ollama://box", "http://box:11434"),
        ("OLLAMA://box:7/", "http://box:7"),
        ("ollama://[::1]", "http://[::1]:11434"),
        ("ollama://me:secret@box/v1", "http://me:secret@box:11434"),
        ("ollama://box:11434/api", "http://box:11434"),
        ("ollama+https://gate.example/models?team=a", "https://gate.example/models?team=a"),
        ("http://box:11434/v1", None),
        ("https://api.openai.com/v1", None),
    ],
)
def test_addresses_of_ollama_are_understood_in_all_usual_forms(named: str, reached: str | None) -> None:
    assert ollama_http_url(named) == reached


def test_the_v1_path_of_ollama_precedes_the_query_of_its_address() -> None:
    assert chat_completions_url("ollama://box?team=a") == "http://box:11434/v1?team=a"


@pytest.mark.parametrize(
    "named", ["ollama://", "ollama://:7", "ollama://me:secret@box:x", "ollama://me:secret?x@box"]
)
def test_an_impossible_address_is_refused_without_its_password(named: str) -> None:
    with pytest.raises(ConfigError, match="Use one like ollama://") as refused:
        ollama_http_url(named)
    assert "secret" not in str(refused.value)


async def test_ollama_is_asked_by_its_own_api_and_others_by_theirs(
    ollama: OllamaServer, serve: Serve
) -> None:
    async with aclosing(connect(f"ollama://127.0.0.1:{ollama.port}", None)) as server:
        assert (server.name, server.way) == ("127.0.0.1", "/api/chat")
        message, _ = await ask(server, model=Model("phi3"), tools=[])
        assert (message.text, message.provider) == ("Hello.", "127.0.0.1")
    async with aclosing(connect(serve(http(b'{"data": [{"id": "a"}]}')).url, None)) as server:
        assert server.way == "/chat/completions"
        assert await server.models() == ["a"]


async def test_the_key_is_sent_to_ollama_and_is_in_no_error(serve: Serve) -> None:
    refused = serve(http(json.dumps({"error": "no sk-mine here"}).encode(), "401 Unauthorized"))
    async with aclosing(connect(f"ollama://127.0.0.1:{refused.port}", "sk-mine")) as server:
        with pytest.raises(RequestRejected, match="rejected the API key") as error:
            await server.models()
    assert b"Authorization: Bearer sk-mine" in refused.requests[0][0]
    assert "sk-mine" not in str(error.value)


async def test_a_local_ollama_is_detected_and_an_imitation_is_not(ollama: OllamaServer, serve: Serve) -> None:
    listed = http(b'{"data": [{"id": "a"}], "models": [{"name": "a"}]}')
    other = serve(listed)  # answers everything
    with socket.create_server(("127.0.0.1", 0)) as unused:
        nobody = unused.getsockname()[1]
    ports = [("LM Studio", ollama.port), ("Ollama", other.port), ("vLLM", nobody)]
    assert await discover(2.0, servers=ports) == [
        LocalServer("Ollama", f"ollama://127.0.0.1:{ollama.port}", ["phi3:latest", "llama3.2:latest"]),
        LocalServer("Ollama", other.url, ["a"]),
    ]


async def test_a_server_that_is_not_ollama_is_reported(serve: Serve) -> None:
    async with aclosing(connect(f"ollama://127.0.0.1:{serve(http(b'<html>Hello')).port}", None)) as server:
        with pytest.raises(ProviderError, match="did not answer like Ollama"):
            await server.models()
