"""If these fail, a model on this machine answers wrongly, blocks the next request, or outlives Newel.

They run a real, tiny model (see ``tests.real_model``): the assertions are about state and form, never about its words.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import msgspec
import pytest

from newel.agent.errors import ContextOverflow, ProviderError, RequestRejected, ServerFailed
from newel.agent.events import TextDelta
from newel.agent.messages import AssistantMessage, ImageContent, TextContent, UserMessage
from newel.agent.ports import Model, ModelRequest, ProviderEvent
from newel.providers.llamacpp.client import LlamaCpp
from newel.providers.model_server import connect
from newel.providers.structured.provider import StructuredProvider
from newel.tools import coding_tools
from newel.workspace.local import LocalWorkspace
from tests import model_owner
from tests.gguf_file import LLAMA, gguf
from tests.processes import children, ends, is_alive
from tests.real_model import require_model

pytestmark = [pytest.mark.anyio, pytest.mark.realmodel, pytest.mark.timeout(180)]

CONTEXT = 8_192
LONG = 6_000
"""Tokens of an answer that takes a processor minutes."""

ENDLESS = {"type": "array", "items": {"type": "integer"}, "minItems": 1_900}
"""Answers of this form are never short, whatever the model would say. llama.cpp refuses longer repetitions."""

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def path() -> Path:
    return require_model()


@pytest.fixture(scope="module")
async def server(path: Path) -> AsyncGenerator[LlamaCpp]:
    """One for all tests, as the model takes seconds to load. One that was closed, or whose process died, loads it again."""
    server = LlamaCpp(path, context=CONTEXT)
    yield server
    await server.aclose()


def request(server: LlamaCpp, *messages: UserMessage | AssistantMessage, limit: int = 8) -> ModelRequest:
    model = Model(server.path.name, context_window=CONTEXT, max_output=limit)
    return ModelRequest(model, "You are a helpful assistant.", list(messages))


async def ask(server: LlamaCpp, text: str, *, limit: int = 8) -> AssistantMessage:
    return await server.complete(request(server, UserMessage(text), limit=limit), ignore)


def endless(server: LlamaCpp, text: str = "Count.") -> ModelRequest:
    """A request whose answer takes far longer than the test."""
    wanted = request(server, UserMessage(text), limit=LONG)
    return msgspec.structs.replace(wanted, response_schema=ENDLESS)


async def ignore(_: ProviderEvent) -> None:
    """Nothing is shown."""


async def post(server: LlamaCpp, path: str, payload: object, key: str | None = None) -> tuple[int, Any]:
    """A request to the process itself; returns the status and the decoded answer."""
    assert server.process is not None
    own_key = server.process.options.key
    headers = {
        "Content-Type": "application/json",
        "Authorization": f"Bearer {own_key if key is None else key}",
    }
    message = urllib.request.Request(  # noqa: S310 — the address is our own
        server.process.url + path, json.dumps(payload).encode(), headers
    )

    def send() -> tuple[int, Any]:
        try:
            with urllib.request.urlopen(message) as answer:  # noqa: S310 — likewise
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    return await anyio.to_thread.run_sync(send)


async def test_deltas_arrive_one_by_one(server: LlamaCpp) -> None:
    """Otherwise the user looks at an empty screen until the answer is complete."""
    pieces: list[str] = []
    times: list[float] = []

    async def on_delta(delta: ProviderEvent) -> None:
        assert isinstance(delta, TextDelta)
        pieces.append(delta.delta)
        times.append(time.monotonic())

    message = await server.complete(request(server, UserMessage("Tell me a story."), limit=40), on_delta)
    assert len(pieces) > 5
    assert "".join(pieces) == message.text
    assert len({round(at, 3) for at in times}) > 5
    assert message.stop_reason in {"stop", "length"}
    assert (message.provider, message.model, message.cost) == ("llamacpp", server.path.name, 0.0)
    assert message.usage.input > 10
    assert 0 < message.usage.output <= 40


async def test_the_models_own_chat_template_is_applied(server: LlamaCpp) -> None:
    """Otherwise the model completes the text instead of answering it."""
    await ask(server, "Hi", limit=1)
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    status, answer = await post(server, "/apply-template", {"messages": messages})
    assert status == 200
    assert "<|im_start|>system\nBe kind.<|im_end|>" in answer["prompt"]
    assert answer["prompt"].endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")


async def test_an_answer_bound_to_a_schema_is_always_valid(server: LlamaCpp) -> None:
    """Otherwise programs cannot rely on a small model's JSON."""
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 20},
            "kind": {"enum": ["file", "folder"]},
            "sizes": {
                "type": "array",
                "items": {"type": "integer", "minimum": 0, "maximum": 99},
                "maxItems": 3,
            },
        },
        "required": ["name", "kind", "sizes"],
        "additionalProperties": False,
    }
    await ask(server, "Hi", limit=1)
    for seed in range(5):
        payload = {
            "messages": [{"role": "user", "content": "Describe the file README.md. Do not write JSON."}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "entry", "schema": schema}},
            "temperature": 1.5,
            "seed": seed,
            "max_tokens": 300,
        }
        status, answer = await post(server, "/v1/chat/completions", payload)
        assert status == 200
        assert answer["choices"][0]["finish_reason"] == "stop"
        jsonschema.validate(json.loads(answer["choices"][0]["message"]["content"]), schema)


async def test_every_step_of_a_small_model_is_a_valid_call_or_an_answer(server: LlamaCpp) -> None:
    """A model of 135 million parameters that is offered tools natively writes nothing that could run."""
    tools = {tool.spec.name: tool.spec for tool in coding_tools(LocalWorkspace("/"))}
    wanted = msgspec.structs.replace(
        request(server, UserMessage("Rename the file a.txt to b.txt."), limit=250), tools=list(tools.values())
    )
    wanted = msgspec.structs.replace(wanted, model=msgspec.structs.replace(wanted.model, tool_calls="schema"))
    for _ in range(2):
        message = await StructuredProvider(server).complete(wanted, ignore)
        for call in message.tool_calls:
            if call.problem is None:
                jsonschema.validate(call.arguments, tools[call.name].parameters)
                assert call.arguments.keys() >= set(tools[call.name].essential)
        assert message.tool_calls or message.text or message.stop_reason == "length"


@pytest.mark.parametrize("phase", ["reading", "writing"])
async def test_a_cancelled_request_frees_the_model(server: LlamaCpp, phase: str) -> None:
    """Otherwise the model finishes an answer that nobody reads, while the user waits for the next one."""
    await ask(server, "Hi", limit=1)
    text = "Count to a thousand." + (" one two three" * 500 if phase == "reading" else "")
    scope = anyio.CancelScope()

    async def on_delta(_: ProviderEvent) -> None:
        assert phase == "writing"
        scope.cancel()

    with scope:
        if phase == "reading":
            scope.deadline = anyio.current_time() + 0.3
        await server.complete(endless(server, text), on_delta)
    assert scope.cancelled_caught
    began = time.monotonic()
    await ask(server, "Hi", limit=1)
    # Without the cancellation it would wait for the whole answer: for minutes.
    assert time.monotonic() - began < 20


async def test_a_conversation_beyond_the_context_is_an_overflow(server: LlamaCpp) -> None:
    """Otherwise it is not compacted, and the agent stops."""
    with pytest.raises(ContextOverflow, match="too long"):
        await ask(server, "word " * CONTEXT)
    assert await ask(server, "Hi")


async def test_the_beginning_of_a_conversation_is_read_once(server: LlamaCpp) -> None:
    """Otherwise each step of an agent takes longer than the one before."""
    first = UserMessage("Remember these words: " + "red green blue " * 60)
    answer = await server.complete(request(server, first), ignore)
    assert answer.usage.cache_read < 50
    second = await server.complete(request(server, first, answer, UserMessage("Which?")), ignore)
    assert second.usage.cache_read > 150


async def test_requests_at_the_same_time_are_both_answered(server: LlamaCpp) -> None:
    """Otherwise a summary or a second agent breaks the first, or the model is loaded twice."""
    answers: list[AssistantMessage] = []
    processes: set[object] = set()

    async def one(text: str) -> None:
        answers.append(await ask(server, text))
        processes.add(server.process)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one, "Hi")
        tasks.start_soon(one, "Hello")
    assert len(answers) == 2
    assert all(answer.usage.output > 0 for answer in answers)
    assert len(processes) == 1
    assert len(children(os.getpid(), "server_main")) == 1


async def test_many_requests_in_a_row_are_all_answered(server: LlamaCpp) -> None:
    """llama.cpp closes some connections after a stream; the next request must not be sent on one of those."""
    for _ in range(40):
        await ask(server, "Hi", limit=1)


async def test_only_newel_can_ask_the_model(server: LlamaCpp) -> None:
    """Otherwise every program and every user of this machine can."""
    await ask(server, "Hi", limit=1)
    payload = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    assert (await post(server, "/v1/chat/completions", payload))[0] == 200
    for key in ("", "wrong"):
        assert (await post(server, "/v1/chat/completions", payload, key))[0] == 401
        assert (await post(server, "/completion", {"prompt": "Hi"}, key))[0] == 401


async def test_the_window_is_that_of_the_server(path: Path) -> None:
    """Otherwise conversations are compacted too early or too late."""
    server = LlamaCpp(path, context=1_000)
    before = await server.window(path.name)
    await ask(server, "Hi", limit=1)
    assert before == await server.window(path.name) == 1_024
    assert await server.models() == [path.name]
    await server.aclose()
    assert await LlamaCpp(path).window(path.name) == 8_192


async def test_a_process_that_died_is_reported_and_replaced(server: LlamaCpp) -> None:
    """Otherwise the agent waits for an answer that never comes, or fails for good."""
    pid = 0

    async def on_delta(_: ProviderEvent) -> None:
        nonlocal pid
        if not pid:
            assert server.process is not None
            pid = server.process.pid
            os.kill(pid, signal.SIGKILL)

    with pytest.raises(ServerFailed, match="was killed, as the system does when memory runs out"):
        await server.complete(endless(server), on_delta)
    assert server.process is None
    assert (await ask(server, "Hi")).usage.output
    assert server.process is not None


async def test_all_requests_of_a_process_that_died_fail(server: LlamaCpp) -> None:
    """Otherwise one of two agents hangs or crashes."""
    await ask(server, "Hi", limit=1)
    failed: list[ProviderError] = []

    async def one() -> None:
        with pytest.raises(ProviderError) as raised:
            await server.complete(endless(server), ignore)
        failed.append(raised.value)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        tasks.start_soon(one)
        await anyio.sleep(0.5)
        assert server.process is not None
        os.kill(server.process.pid, signal.SIGKILL)
    assert [type(error) for error in failed] == [ServerFailed, ServerFailed]


async def test_closing_during_a_request_fails_it(server: LlamaCpp) -> None:
    """The user ends Newel while the model writes."""
    await ask(server, "Hi", limit=1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(ask_and_fail, server))
        await anyio.sleep(0.5)
        await server.aclose()
    assert server.process is None


async def ask_and_fail(server: LlamaCpp) -> None:
    with pytest.raises(ProviderError):
        await server.complete(endless(server), ignore)


async def test_closing_ends_the_process(server: LlamaCpp) -> None:
    """Otherwise each conversation leaves a model in memory."""
    await ask(server, "Hi", limit=1)
    assert server.process is not None
    pid = server.process.pid
    await server.aclose()
    assert not is_alive(pid)
    assert server.process is None
    await ask(server, "Hi", limit=1)  # and the next request starts another one
    assert server.process is not None


def test_the_process_ends_with_a_killed_newel(path: Path) -> None:
    """Otherwise the model stays in memory until the next restart of the machine."""
    command = [sys.executable, model_owner.__file__, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        while parent.stdout.readline() not in {"TextDelta\n", ""}:
            pass
        (pid,) = children(parent.pid, "server_main")
        parent.kill()
    assert ends(pid)


async def test_images_are_refused_and_not_retried(server: LlamaCpp) -> None:
    """llama.cpp reports them as a failure of its own, which would be repeated ten times."""
    message = UserMessage([TextContent("What is this?"), ImageContent(PIXEL, "image/png")])
    with pytest.raises(RequestRejected, match="does not read images"):
        await server.complete(request(server, message), ignore)


async def test_what_only_the_loader_notices_is_reported_with_its_reason(tmp_path: Path) -> None:
    require_model()
    path = tmp_path / "new.gguf"
    path.write_bytes(gguf({**LLAMA, "general.architecture": "none-such"}))
    server = LlamaCpp(path)
    with pytest.raises(RequestRejected, match=r"new\.gguf cannot be loaded: .*none-such"):
        await ask(server, "Hi")
    await server.aclose()


async def test_an_address_selects_the_file(path: Path) -> None:
    server = connect(f"llamacpp:{path}", None)
    assert isinstance(server, LlamaCpp)
    assert await server.models() == [path.name]
    assert server.name == "llamacpp"
    await server.aclose()


def test_newel_answers_with_a_model_file_and_nothing_else_is_printed(path: Path, tmp_path: Path) -> None:
    """Otherwise llama.cpp's log runs through the conversation."""
    before = children(os.getpid(), "server_main")
    settings = tmp_path / ".newel" / "config.toml"
    settings.parent.mkdir()
    settings.write_text(f'[models."{path.name}"]\nmax_output = 60\n')
    newel = Path(sys.executable).with_name("newel")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LLM_BASE_URL": f"llamacpp:{path}"}
    done = subprocess.run(
        [newel, "--quiet", "--approve", "read-only", "--max-turns", "2", "Say hello."],
        cwd=tmp_path,
        env=environ | {"TERM": "dumb"},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    # What so small a model makes of it is chance: an answer, calls without end, or an answer without end.
    assert done.returncode in {0, 1}
    assert done.stdout.strip() if done.returncode == 0 else done.stderr.strip()
    assert not re.search(r"\b(srv|slot|llama_\w+|ggml_\w+|load_\w+)\b", done.stderr + done.stdout)
    assert children(os.getpid(), "server_main") == before
