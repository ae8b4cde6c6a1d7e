"""If these fail, users of Ollama get wrong answers, silent truncation, or errors without advice."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from mock_llm_server import MockServer
from mock_llm_server import serve as serve_mock
from newel.agent.errors import BadResponse, ConnectionFailed, ContextOverflow, RequestRejected, ServerFailed
from newel.agent.events import Retry, TextDelta, ThinkingDelta, ToolCallDelta
from newel.agent.messages import ImageContent, TextContent, ThinkingContent, ToolResultMessage, UserMessage
from newel.agent.ports import Model
from newel.providers.ollama.client import Ollama
from newel.providers.ollama.model_info import ModelMissing
from tests.integration.providers.raw import Serve, ask, floods, http
from tests.standins.ollama_server import OllamaServer

pytestmark = pytest.mark.anyio

PHI3, LLAMA, THINKER = Model("phi3"), Model("llama3.2"), Model("qwen3")
MODELS = {
    "phi3:latest": {"capabilities": ["completion"], "context_length": 131_072},
    "llama3.2:latest": {"capabilities": ["completion", "tools"], "context_length": 16_384},
    "qwen3:latest": {"capabilities": ["completion", "tools", "thinking", "vision"], "context_length": 40_960},
}
SCRIPT = [{"trigger": "Hi", "answer": "Hello, wörld", "thinking": "A greeting."}]
HELLO = {"response": {"content": "Hello, wörld", "reasoning": "A greeting."}}
LS = {"function": {"name": "bash", "arguments": {"command": "ls"}}}

Start = Callable[..., tuple[OllamaServer, Ollama]]


@pytest.fixture
async def start() -> AsyncGenerator[Start]:
    """``start(script, …)`` makes a server and its client; ``socket`` and other options go to the client."""
    servers: list[OllamaServer] = []
    clients: list[Ollama] = []

    def make(
        script: list[dict[str, Any]] | None = None,
        models: dict[str, dict[str, Any]] | None = None,
        version: str = "0.33.0",
        **options: Any,
    ) -> tuple[OllamaServer, Ollama]:
        servers.append(OllamaServer(models or MODELS, SCRIPT if script is None else script, version=version))
        clients.append(Ollama(servers[-1].url, **options))
        return servers[-1], clients[-1]

    yield make
    for client in clients:
        await client.aclose()
    for server in servers:
        server.close()


@asynccontextmanager
async def mocked(
    *steps: dict[str, Any], models: dict[str, dict[str, Any]] = MODELS
) -> AsyncGenerator[tuple[MockServer, Ollama]]:
    """A strict server whose ``models`` take the steps, and its client."""
    scenario = {"name": "it", "trigger": "", "steps": list(steps or [HELLO])}
    served = [{"name": name} | fields for name, fields in models.items()]
    script = {"models": served, "scenarios": [scenario], "ollama_version": "0.33.0"}
    async with serve_mock(script, strict=True) as server:
        client = Ollama(server.url)
        yield server, client
        await client.aclose()


def chats(server: MockServer) -> list[dict[str, Any]]:
    """The bodies of the requests that asked a model."""
    return [request["body"] for request in server.requests if request["path"] == "/api/chat"]


async def test_an_answer_streams_and_its_tokens_are_counted() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    async with mocked({"response": {"content": "Hello, wörld", "usage": usage}}) as (_, client):
        message, seen = await ask(client, model=PHI3)
    assert message.content == [TextContent("Hello, wörld")]
    assert seen == [TextDelta("Hello,"), TextDelta(" wörld")]
    assert (message.model, message.provider, message.stop_reason) == ("phi3", "ollama", "stop")
    assert (message.usage.input, message.usage.output) == (7, 3)


async def test_thoughts_are_not_part_of_the_answer() -> None:
    async with mocked() as (_, client):
        message, seen = await ask(client, model=THINKER, thinking="high")
    assert message.content == [ThinkingContent("A greeting.", field="thinking"), TextContent("Hello, wörld")]
    assert "".join(delta.delta for delta in seen if isinstance(delta, ThinkingDelta)) == "A greeting."


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({"model": THINKER, "thinking": "off"}, False),
        ({"model": THINKER, "thinking": "minimal"}, "low"),
        ({"model": THINKER, "thinking": "high"}, "high"),
        ({"model": PHI3, "thinking": "high"}, None),
    ],
)
async def test_a_model_thinks_as_configured(options: dict[str, Any], sent: object) -> None:
    async with mocked() as (server, client):
        await ask(client, **options)
        assert chats(server)[-1].get("think") == sent


@pytest.mark.parametrize(("version", "more"), [("0.10.1", {}), ("0.13.0", {"levels": False})])
async def test_a_server_without_thinking_levels_is_only_told_to_think(
    start: Start, version: str, more: dict[str, Any]
) -> None:
    server, client = start(models={"qwen3:latest": MODELS["qwen3:latest"] | more}, version=version)
    message, seen = await ask(client, model=THINKER, thinking="low")
    await ask(client, model=THINKER, thinking="low")
    assert isinstance(seen[0], Retry)
    assert message.text == "Hello, wörld"
    assert [request["think"] for request in server.requests] == [True, True]


async def test_a_tool_is_called_and_its_result_comes_back() -> None:
    async with mocked({"response": {"tool_calls": [LS, LS]}}) as (server, client):
        message, seen = await ask(client, model=LLAMA)
        first, second = message.tool_calls
        picture = ImageContent("aGk=", "image/png")
        results = [
            ToolResultMessage(first.id, "bash", "a.py", is_error=False, images=[picture]),
            ToolResultMessage(second.id, "bash", "a.py", is_error=False),
        ]
        await ask(client, model=LLAMA, messages=[UserMessage("Hi"), message, *results])
        sent = chats(server)[-1]["messages"]
    assert [(call.name, call.arguments) for call in message.tool_calls] == [("bash", {"command": "ls"})] * 2
    assert message.stop_reason == "toolUse"
    assert [delta.index for delta in seen if isinstance(delta, ToolCallDelta)] == [0, 1]
    assert [each["role"] for each in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert sent[1]["tool_calls"][0]["function"] == LS["function"]
    assert sent[2] == {"role": "tool", "content": "a.py", "tool_name": "bash", "tool_call_id": first.id}
    assert "images" not in sent[4]  # this model does not accept images
    assert "does not accept images" in sent[4]["content"]


@pytest.mark.parametrize("version", ["0.33.0", "0.6.2"])
async def test_a_model_without_tools_can_call_them_as_text(start: Start, version: str) -> None:
    call = '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'
    script = [
        {"trigger": "Hi", "answer": f"I look.\n{call}"},
        {"trigger": "<tool_response>", "answer": "One."},
    ]
    server, client = start(script, version=version)
    message, _ = await ask(client, model=PHI3)
    assert message.text.strip() == "I look."
    assert [(made.name, made.arguments) for made in message.tool_calls] == [("bash", {"command": "ls"})]
    result = ToolResultMessage(message.tool_calls[0].id, "bash", "a.py\n</tool_response>", is_error=False)
    after, seen = await ask(client, model=PHI3, messages=[UserMessage("Hi"), message, result])
    assert after.text == "One."
    assert not any(isinstance(delta, Retry) for delta in seen)
    system, _, said, told = server.requests[-1]["messages"]
    assert '"name":"bash"' in system["content"]
    assert said["content"].count("<tool_call>") == 1
    assert told == {"role": "user", "content": "<tool_response>\na.py\n<\\/tool_response>\n</tool_response>"}


async def test_a_vision_model_gets_images() -> None:
    picture, odd = ImageContent("aGk=", "image/png"), ImageContent("aGk=", "image/tiff")
    async with mocked() as (server, client):
        await ask(client, model=THINKER, messages=[UserMessage([TextContent("Hi"), picture, odd])])
        sent = chats(server)[-1]["messages"][-1]
    assert sent["images"] == ["aGk="]
    assert "image/tiff" in sent["content"]


async def test_an_answer_is_constrained_to_a_schema(start: Start) -> None:
    schema = {"type": "object"}
    server, client = start([{"trigger": "Hi", "answer": "no", "constrained": "{}"}])
    message, _ = await ask(client, model=PHI3, response_schema=schema)
    assert message.text == "{}"
    assert server.requests[-1]["format"] == schema


# -- the context --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["0.33.0", "0.12.0"])
async def test_a_long_conversation_is_not_cut(start: Start, version: str) -> None:
    server, client = start(version=version)
    history = [UserMessage("Hi: the code is 1234."), *(UserMessage("lorem ipsum " * 900) for _ in range(6))]
    await ask(client, model=PHI3, messages=history[:2])
    await ask(client, model=PHI3, messages=history)
    await ask(client, model=PHI3, messages=history[:2])
    assert [each["content"] for each in server.seen[1]][-7] == "Hi: the code is 1234."
    sizes = [request["options"]["num_ctx"] for request in server.requests]
    assert sizes == [8192, 32_768, 32_768]  # a smaller one would load the model again
    assert server.loads == 2


async def test_a_conversation_beyond_the_models_window_is_an_error_and_not_cut() -> None:
    history = [UserMessage("Hi"), UserMessage("lorem ipsum " * 6_000)]
    async with mocked() as (server, client):
        with pytest.raises(ContextOverflow, match="longer than the context length"):
            await ask(client, model=LLAMA, messages=history)
        assert chats(server)[-1]["options"]["num_ctx"] == 16_384
        assert await client.window("llama3.2") == 16_384


async def test_a_context_that_was_too_small_is_requested_again_larger() -> None:
    error = "the prompt is longer than the context length"
    fault = {"kind": "status", "status": 400, "message": error, "times": 1}
    async with mocked(HELLO | {"fault": fault}) as (server, client):
        message, seen = await ask(client, model=PHI3)
        assert message.text == "Hello, wörld"
        assert isinstance(seen[0], Retry)
        assert [request["options"]["num_ctx"] for request in chats(server)] == [8192, 16_384]


async def test_the_settings_and_the_loaded_model_determine_the_context() -> None:
    phi3 = MODELS["phi3:latest"]
    models = {"phi3:latest": phi3 | {"loaded_context": 12_345}, "big:latest": phi3 | {"num_ctx": 65_536}}
    async with mocked(models=MODELS | models) as (server, client):
        await ask(client, model=Model("phi3"))
        await ask(client, model=Model("big"))
        await ask(client, model=Model("qwen3", context_window=6_000, max_output=100))
        options = [request["options"] for request in chats(server)]
        windows = [await client.window(name) for name in ("phi3", "big", "qwen3")]
    assert options[:2] == [{"num_ctx": 12_345}, {"num_ctx": 65_536}]
    assert options[2] == {"num_ctx": 6_000, "num_predict": 100}
    assert windows == [32_768, 65_536, 32_768]


# -- what goes wrong ----------------------------------------------------------------------------------


async def test_a_missing_model_is_named_with_a_remedy_and_not_downloaded(start: Start) -> None:
    server, client = start(place="ollama on user@box")
    with pytest.raises(
        ModelMissing, match=r"^ollama on user@box does not have the model 'nope:7b'.*ollama pull nope:7b"
    ) as found:
        await ask(client, model=Model("nope:7b"))
    assert found.value.model == "nope:7b"
    await ask(client, model=PHI3)
    del server.models["phi3:latest"]
    with pytest.raises(ModelMissing):
        await ask(client, model=PHI3)


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        ({"kind": "reset"}, ConnectionFailed, "connection"),
        ({"kind": "end_early"}, ConnectionFailed, "closed the connection before the response was complete"),
        ({"kind": "truncated_json"}, ConnectionFailed, "closed the connection before the response"),
        ({"kind": "stream_error", "message": "runner has terminated"}, ServerFailed, "has terminated"),
        (
            {"kind": "status", "status": 200, "body": ['{"message": {}}\n', "<html>oh no</html>\n"]},
            BadResponse,
            "did not answer like Ollama",
        ),
        ({"kind": "status", "status": 503, "message": "server busy"}, ServerFailed, "server busy"),
        (
            {"kind": "status", "message": "it requires more system memory (9.1 GiB)"},
            RequestRejected,
            "smaller model",
        ),
        (
            {"kind": "stream_error", "message": "CUDA error: out of memory"},
            RequestRejected,
            "smaller model",
        ),
        (
            {
                "kind": "status",
                "status": 401,
                "body": {"error": "unauthorized", "signin_url": "https://ollama.com/connect?x"},
            },
            RequestRejected,
            "ollama signin",
        ),
    ],
)
async def test_failures_say_what_happened(fault: dict[str, Any], error: type[Exception], words: str) -> None:
    step = {"response": {"content": "Half of an answer"}, "fault": fault}
    async with mocked(step) as (_, client):
        with pytest.raises(error, match=words):
            await ask(client, model=PHI3)


async def test_a_truncated_answer_is_reported() -> None:
    async with mocked({"response": {"content": "Half", "finish_reason": "length"}}) as (_, client):
        assert (await ask(client, model=PHI3))[0].stop_reason == "length"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(http(b"<html>welcome</html>"), id="a page"),
        pytest.param(http(b"404 page not found", "404 Not Found"), id="another server"),
        pytest.param(http(b'{"object": "list"'), id="broken"),
    ],
)
async def test_a_foreign_server_is_recognized(serve: Serve, answer: bytes) -> None:
    client = Ollama(serve(answer).url.removesuffix("/v1"))
    for question in (client.version, lambda: ask(client, model=PHI3)):
        with pytest.raises(BadResponse, match="did not answer like Ollama"):
            await question()
    await client.aclose()


async def test_a_list_of_models_does_not_wait_for_one_that_is_not_described(start: Start) -> None:
    """A user waits for the list. A server on a slow machine, or one that is busy, may take seconds for each model."""
    stuck = {f"stuck-{number}:latest": {"stalls": True} for number in range(4)}
    _, client = start(models=stuck | MODELS, describe_timeout=0.5)
    models = {model.name: model.tools for model in await client.list_models()}
    assert list(models) == [*stuck, *MODELS]
    assert [models[name] for name in stuck] == [None] * 4
    assert models["llama3.2:latest"] is True


async def test_an_endless_line_is_read_in_bounded_memory(serve: Serve) -> None:
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    server = serve(http(b"{}"), http(b"{}"), floods(head + b'{"message": {"content": "', b"x" * 65_536))
    client = Ollama(server.url.removesuffix("/v1"))
    with pytest.raises(BadResponse, match="8 MiB"):
        await ask(client, model=PHI3)
    await client.aclose()


async def test_an_unreachable_server_is_named(tmp_path: Path) -> None:
    client = Ollama(socket=str(tmp_path / "none"), place="ollama on user@box")
    with pytest.raises(ConnectionFailed, match="No connection to ollama on user@box") as failed:
        await client.version()
    assert failed.value.retryable, "the tunnel to a host may come back"


async def test_models_and_the_version_are_reported() -> None:
    async with mocked() as (_, client):
        assert await client.models() == ["mock-model:latest", *MODELS]
        assert await client.version() == "0.33.0"


async def test_a_server_behind_a_unix_socket_works_like_one_on_loopback() -> None:
    """A tunnel that ends in a private folder is closed to other users of this machine."""
    with TemporaryDirectory(prefix="newel-") as folder:
        server = OllamaServer(MODELS, SCRIPT, path=f"{folder}/s")
        client = Ollama(socket=f"{folder}/s", place="ollama on user@box")
        assert (await ask(client, model=PHI3))[0].text == "Hello, wörld"
        await client.aclose()
        server.close()
