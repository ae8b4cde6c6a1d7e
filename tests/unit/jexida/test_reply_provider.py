"""If these fail, a command that nobody meant is proposed, or the model forgets how it is to reply."""

from __future__ import annotations

import pytest

from newel.agent.events import TextDelta
from newel.agent.messages import (
    AssistantMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from newel.agent.ports import Model, ModelRequest, ProviderEvent
from newel.terminal.jexida.protocol import AnswerReply, ShellReply, render
from newel.terminal.jexida.reply_provider import AnswerOrShell
from tests.scripted_provider import ScriptedProvider

HISTORY = [
    UserMessage(content="How full is the disk?"),
    AssistantMessage(content=[ToolCall("1", "bash", {"command": "df -h", "reason": "To look."})]),
    ToolResultMessage(
        tool_call_id="1", tool_name="bash", output="Command: df -h\nExit code: 0", is_error=False
    ),
    AssistantMessage(
        content=[TextContent("Half full."), ToolCall("2", "read", {"file_path": "/etc/fstab"})],
    ),
    ToolResultMessage(tool_call_id="2", tool_name="read", output="none", is_error=False),
    UserMessage(content="Thanks"),
]


async def ask(answer: AssistantMessage) -> tuple[AssistantMessage, str, ModelRequest]:
    script = ScriptedProvider([answer])
    seen: list[str] = []

    async def on_delta(delta: ProviderEvent) -> None:
        if isinstance(delta, TextDelta):
            seen.append(delta.delta)

    request = ModelRequest(Model("phi3"), "system", list(HISTORY))
    return await AnswerOrShell(script).complete(request, on_delta), "".join(seen), script.requests[0]


def says(text: str, **more: object) -> AssistantMessage:
    return AssistantMessage(content=[ThinkingContent("hm"), TextContent(text)], **more)  # pyright: ignore[reportArgumentType]


@pytest.mark.anyio
async def test_the_model_gets_its_protocol_and_results_as_text() -> None:
    _, _, request = await ask(says("ok"))
    assert [(type(message).__name__, getattr(message, "text", "")) for message in request.messages] == [
        ("UserMessage", "How full is the disk?"),
        ("AssistantMessage", '{"type":"shell","command":"df -h","reason":"To look."}'),
        ("UserMessage", "Command: df -h\nExit code: 0"),
        ("AssistantMessage", '{"type":"answer","text":"Half full.\\n[read /etc/fstab]"}'),
        ("UserMessage", "none"),
        ("UserMessage", "Thanks"),
    ]
    assert request.tools == []


@pytest.mark.anyio
async def test_an_answer_is_its_text_without_thoughts() -> None:
    message, seen, _ = await ask(says(render(AnswerReply("Half full."))))
    assert message.content == [ThinkingContent("hm"), TextContent("Half full.")]
    assert seen == "Half full."


@pytest.mark.anyio
async def test_a_reply_that_is_not_json_is_an_answer() -> None:
    message, seen, _ = await ask(says("Use:\n```\nls\n```"))
    assert message.text == seen == "Use:\n```\nls\n```"


@pytest.mark.anyio
async def test_a_command_is_a_call_and_never_shown_as_text() -> None:
    message, seen, _ = await ask(says(render(ShellReply("df -h", "To look."))))
    (call,) = message.tool_calls
    assert (call.name, call.arguments) == ("bash", {"command": "df -h", "reason": "To look."})
    assert call.problem is None
    assert seen == message.text == ""


@pytest.mark.anyio
@pytest.mark.parametrize(
    "cut",
    [
        '{"type":"shell","command":"rm -rf /tmp/x',
        '{"type":"shell","command":"rm -rf /tmp/x"',
        '{"shell": "rm -rf /tmp/x',
    ],
)
async def test_a_command_in_a_truncated_reply_is_shown_and_not_proposed(cut: str) -> None:
    message, seen, _ = await ask(says(cut, stop_reason="length"))
    assert (message.tool_calls, message.text, seen) == ([], cut, cut)
