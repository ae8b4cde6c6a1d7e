"""If these fail, a conversation with a Gemini model breaks, or loses its reasoning."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mock_llm_server import MockServer
from mock_llm_server import serve as mock
from newel.agent.events import Retry, TextDelta, ThinkingDelta, ToolCallDelta
from newel.agent.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from newel.agent.ports import Model
from newel.providers.listed_models import ListedModel
from newel.tools import coding_tools
from newel.workspace.local import LocalWorkspace
from tests.integration.providers.gemini_wire import Connect, answer, bash, chunk, error, script
from tests.integration.providers.raw import Serve, ask, http

pytestmark = pytest.mark.anyio

MODEL = Model("gemini-3-flash")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def result(
    call: ToolCall, output: str = "a.py", *, is_error: bool = False, images: Sequence[ImageContent] = ()
) -> ToolResultMessage:
    return ToolResultMessage(call.id, call.name, output, is_error=is_error, images=list(images))


def bodies(server: MockServer) -> list[dict[str, Any]]:
    return [request["body"] for request in server.requests if request["method"] == "POST"]


# -- conversations ---------------------------------------------------------------------------------


async def test_calls_results_and_an_answer(gemini: Connect) -> None:
    """Otherwise the main job does not even work against a correct server."""
    steps = script(
        {
            "response": {
                "reasoning": "Look first.",
                "content": "I look.",
                "tool_calls": [bash("ls"), bash("pwd")],
            }
        },
        {"response": {"tool_calls": [bash("cat a.py")]}},
        {"response": {"content": "Found {{ tool_result }}."}},
        {"response": {"content": "Bye."}},
    )
    async with mock(steps, strict=True) as server:
        client = gemini(server.url)
        history: list[Message] = [UserMessage("What is here?")]
        options: dict[str, Any] = {"model": MODEL, "thinking": "low"}
        asked, seen = await ask(client, messages=history, **options)
        assert asked.content[0] == ThinkingContent("Look first.", field="gemini")
        assert asked.text == "I look."
        assert [call.arguments for call in asked.tool_calls] == [{"command": "ls"}, {"command": "pwd"}]
        assert [bool(call.signature) for call in asked.tool_calls] == [True, False]
        assert "".join(d.delta for d in seen if isinstance(d, ThinkingDelta)) == "Look first."
        assert "".join(d.delta for d in seen if isinstance(d, TextDelta)) == "I look."
        assert [(d.index, d.name) for d in seen if isinstance(d, ToolCallDelta)] == [(0, "bash"), (1, "bash")]
        assert (asked.provider, asked.model, asked.stop_reason) == ("gemini", MODEL.id, "toolUse")
        history += [asked, *(result(call) for call in asked.tool_calls)]
        second, _ = await ask(client, messages=history, **options)
        history += [second, *(result(call) for call in second.tool_calls)]
        answer, _ = await ask(client, messages=history, **options)
        assert (answer.text, answer.stop_reason) == ("Found a.py.", "stop")
        assert answer.usage.input > 0
        history += [answer, UserMessage("Thanks")]
        await ask(client, messages=history, **options)
        signed = bodies(server)[-1]["contents"][-2]["parts"]
        assert [sorted(part) for part in signed] == [["text", "thoughtSignature"]]
        assert server.requests[0]["path"] == f"/v1beta/models/{MODEL.id}:streamGenerateContent"


async def test_a_server_without_streaming_answers_too(gemini: Connect) -> None:
    """Otherwise a proxy that cannot stream cannot be used."""
    fault = {"kind": "status", "status": 400, "body": {"error": {"message": "Streaming is not supported."}}}
    step = {"response": {"reasoning": "Hm.", "content": "Yes.", "tool_calls": [bash("ls")]}}
    async with mock(script(step | {"fault": fault | {"times": 1}}), strict=True) as server:
        client = gemini(server.url)
        message, seen = await ask(client, model=MODEL)
        assert (message.text, message.tool_calls[0].arguments) == ("Yes.", {"command": "ls"})
        assert message.tool_calls[0].signature
        assert isinstance(seen[0], Retry)
        assert [request["path"].rpartition(":")[2] for request in server.requests] == [
            *("streamGenerateContent", "generateContent")
        ]


async def test_a_history_of_another_model_is_accepted(gemini: Connect) -> None:
    """Otherwise a change of the model in the middle of a task ends the task."""
    call, other = ToolCall("toolu_1", "bash", {"command": "ls"}, signature="x"), ToolCall("t2", "bash", {})
    foreign = AssistantMessage(
        [ThinkingContent("Hm", field="anthropic", signature="abc"), TextContent("I look."), call, other],
        model="claude",
        provider="anthropic",
    )
    messages = [UserMessage("Look"), foreign, result(call), result(other, is_error=True)]
    async with mock(script({"response": {"content": "Done."}}), strict=True) as server:
        client = gemini(server.url)
        message, _ = await ask(client, messages=messages, model=MODEL)
        assert message.text
        assert bodies(server)[0]["contents"][1:] == [
            {
                "role": "model",
                "parts": [
                    {"text": "I look."},
                    {
                        "functionCall": {"id": "toolu_1", "name": "bash", "args": {"command": "ls"}},
                        "thoughtSignature": "skip_thought_signature_validator",
                    },
                    {"functionCall": {"id": "t2", "name": "bash", "args": {}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "toolu_1", "name": "bash", "response": {"output": "a.py"}}},
                    {"functionResponse": {"id": "t2", "name": "bash", "response": {"error": "a.py"}}},
                ],
            },
        ]


async def test_reasoning_of_another_version_is_left_out(gemini: Connect) -> None:
    """Otherwise the server refuses the signature of another model, in every later request."""
    content: list[TextContent | ThinkingContent | ToolCall] = [
        TextContent("Hi"),
        ThinkingContent("", field="gemini", signature="YWJj"),
    ]
    own = AssistantMessage(content, model=MODEL.id, provider="gemini")
    others = [replace(own, model="gemini-3-pro"), replace(own, provider="proxy")]
    async with mock(script({"response": {"content": "Hi."}})) as server:
        client = gemini(server.url)
        messages = [UserMessage("a"), own, UserMessage("b"), others[0], UserMessage("c"), others[1]]
        await ask(client, messages=[*messages, UserMessage("d")], model=MODEL)
        answers = [each["parts"] for each in bodies(server)[0]["contents"] if each["role"] == "model"]
        assert answers == [[{"text": "Hi", "thoughtSignature": "YWJj"}], [{"text": "Hi"}], [{"text": "Hi"}]]


async def test_images_of_the_user_and_of_results_arrive(gemini: Connect) -> None:
    """Otherwise the model would guess what a picture shows."""
    image = ImageContent(PIXEL, "image/png")
    call = ToolCall("c1", "read", {})
    messages = [
        UserMessage([TextContent("See"), image, ImageContent("x", "image/gif")]),
        AssistantMessage([call], model="m", provider="p"),
        result(call, "read", images=[image, ImageContent("x", "image/bmp")]),
    ]
    async with mock(script({"response": {"content": "I see."}}), strict=True) as server:
        await ask(gemini(server.url), messages=messages, model=MODEL)
        user, _, answer = (content["parts"] for content in bodies(server)[0]["contents"])
    pixel = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    assert user[:2] == [{"text": "See"}, pixel]
    assert user[2]["text"].startswith("[Image omitted: its type 'image/gif' is not image/png, image/jpeg")
    assert answer[1:] == [pixel]
    assert "read\n[Image omitted: its type 'image/bmp'" in answer[0]["functionResponse"]["response"]["output"]


async def test_each_request_begins_with_the_one_before(gemini: Connect, serve: Serve) -> None:
    """Otherwise each step pays for the whole conversation, because no cache knows its beginning."""
    server = serve(answer({"text": "Yes."}))
    client = gemini(server.url)
    history: list[Message] = [UserMessage("Start")]
    for step in range(50):
        await ask(client, messages=history, model=MODEL, thinking="low")
        model, provider = (MODEL.id, "gemini") if step % 3 else ("x", "y")
        calls = [ToolCall(f"c{step}-{n}", "bash", {"n": n}, signature="gemini:YWJj") for n in range(2)]
        history += [
            AssistantMessage([TextContent("Go"), *calls], model=model, provider=provider),
            *(result(call) for call in calls),
        ]
        if step % 5 == 0:
            history.append(UserMessage("And then?"))
    sent = [body for _, body in server.requests]
    assert all(after.startswith(before.removesuffix(b"]}")) for before, after in pairwise(sent))
    assert len({len(body) for body in sent}) == 50


@pytest.mark.parametrize("older", [False, True])
async def test_the_schemas_of_all_tools_are_accepted(gemini: Connect, tmp_path: Path, *, older: bool) -> None:
    """Otherwise one keyword in one schema fails every request; older servers know only the ones of OpenAPI."""
    message = "Invalid JSON payload received. Unknown name \"parametersJsonSchema\" at 'tools[0]'."
    fault = {"kind": "status", "status": 400, "body": {"error": {"message": message}}, "times": 1}
    step = {"response": {"content": "Yes."}} | ({"fault": fault} if older else {})
    tools = [tool.spec for tool in coding_tools(LocalWorkspace(str(tmp_path)))]
    async with mock(script(step), strict=True) as server:
        answered, _ = await ask(gemini(server.url), model=MODEL, tools=tools)
        assert answered.text == "Yes."
        declarations = bodies(server)[-1]["tools"][0]["functionDeclarations"]
    field = "parameters" if older else "parametersJsonSchema"
    assert [each["name"] for each in declarations] == ["read", "bash", "edit", "write"]
    assert all(each[field]["properties"] for each in declarations)


# -- thinking --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "level", "config"),
    [
        ("gemini-3-flash", "high", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ("gemini-3-flash", "off", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3-pro-preview", "medium", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ("gemini-3.1-pro-preview", "off", {"thinkingLevel": "LOW"}),
        ("gemini-2.5-flash", "low", {"includeThoughts": True, "thinkingBudget": 2048}),
        ("gemini-2.5-flash", "off", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", "off", {"thinkingBudget": 128}),
        ("gemini-2.0-flash", "high", None),
        ("models/gemini-2.5-flash", "off", {"thinkingBudget": 0}),
    ],
)
async def test_thinking_is_set_as_the_model_wants_it(
    gemini: Connect, model: str, level: str, config: dict[str, Any] | None
) -> None:
    """Otherwise the first request with a model fails, or it thinks more than the user pays for."""
    async with mock(script({"response": {"content": "Yes."}}), strict=True) as server:
        message, seen = await ask(gemini(server.url), model=Model(model), thinking=level)
        assert message.text == "Yes."
        assert not any(isinstance(delta, Retry) for delta in seen)
        assert bodies(server)[0].get("generationConfig", {}).get("thinkingConfig") == config


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        (
            "gemini-4-flash",
            [{"thinkingLevel": "MINIMAL"}, {"thinkingLevel": "LOW"}, {"thinkingLevel": "LOW"}],
        ),
        ("gemini-2.5-tiny", [{"thinkingBudget": 512}, {"thinkingBudget": 512}, None]),
    ],
)
async def test_settings_of_unknown_models_are_found_by_trying(
    gemini: Connect, serve: Serve, model: str, settings: list[dict[str, Any] | None]
) -> None:
    """Otherwise each new model, or each that was renamed, fails until Newel is updated."""
    refusal = error(400, "Thinking level MINIMAL is not supported for this model.", "INVALID_ARGUMENT")
    server = serve(refusal, refusal, answer({"text": "Yes."}))
    client = gemini(server.url)
    for _ in range(2):
        message, _ = await ask(client, model=Model(model), thinking="minimal")
        assert message.text == "Yes."
    configs = [server.sent(at).get("generationConfig", {}).get("thinkingConfig") for at in range(4)]
    assert [config and {**config, "includeThoughts": True} for config in configs] == [
        setting and {"includeThoughts": True, **setting} for setting in [*settings, settings[-1]]
    ]


async def test_a_stream_sent_as_an_array_is_read(gemini: Connect, serve: Serve) -> None:
    """Otherwise a proxy that drops the query makes each answer unreadable."""
    chunks = [chunk({"text": "Ye"}), chunk({"text": "s."}, finish="STOP")]
    server = serve(http(json.dumps(chunks).encode()))
    message, _ = await ask(gemini(server.url), model=MODEL)
    assert message.text == "Yes."


# -- addresses and models --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base_url", "requested"),
    [
        ("", "/v1beta/models/m%3Fx:streamGenerateContent?alt=sse"),
        ("/v1beta/", "/v1beta/models/m%3Fx:streamGenerateContent?alt=sse"),
        ("/v1", "/v1/models/m%3Fx:streamGenerateContent?alt=sse"),
        ("/proxy?team=7", "/proxy/v1beta/models/m%3Fx:streamGenerateContent?alt=sse&team=7"),
    ],
)
async def test_the_address_may_lack_the_version_and_have_a_query(
    gemini: Connect, serve: Serve, base_url: str, requested: str
) -> None:
    """Otherwise the address on Google's own pages, or that of a gateway, does not work."""
    server = serve(answer({"text": "Yes."}))
    await ask(gemini(f"http://127.0.0.1:{server.port}{base_url}"), model=Model("m?x"))
    head = server.requests[0][0].decode()
    assert head.splitlines()[0] == f"POST {requested} HTTP/1.1"
    assert "x-goog-api-key: test-key" in head


async def test_tuned_models_have_their_own_path(gemini: Connect, serve: Serve) -> None:
    """Otherwise a user's own model is not found."""
    server = serve(answer({"text": "Yes."}))
    await ask(gemini(server.url), model=Model("tunedModels/mine"))
    assert server.requests[0][0].startswith(b"POST /v1/tunedModels/mine:streamGenerateContent?alt=sse")


async def test_models_that_can_answer_are_listed_with_their_sizes(gemini: Connect, serve: Serve) -> None:
    """Otherwise the user chooses among models that cannot chat, and compaction does not know the window."""
    sizes = {"inputTokenLimit": 1000, "outputTokenLimit": 100}
    models = [
        {"name": "models/gemini-3-flash", "supportedGenerationMethods": ["generateContent"]} | sizes,
        {"name": "models/embedding", "supportedGenerationMethods": ["embedContent"]} | sizes,
        {"name": "models/proxied"},
        {"name": 7},
        None,
    ]
    server = serve(http(json.dumps({"models": models}).encode()))
    client = gemini(f"http://127.0.0.1:{server.port}?team=7")
    assert await client.list_models() == [ListedModel("gemini-3-flash", 1000, 100), ListedModel("proxied")]
    assert await client.window("gemini-3-flash") == 1000
    assert server.requests[0][0].startswith(b"GET /v1beta/models?pageSize=1000&team=7 HTTP/1.1")


async def test_the_models_of_the_mock_server_are_listed(gemini: Connect) -> None:
    async with mock() as server:
        assert "mock-model" in await gemini(server.url).models()
