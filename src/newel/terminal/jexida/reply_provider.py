"""Provider adapter: converts messages to and from the protocol of answers and shell commands."""

from __future__ import annotations

import msgspec

from newel.agent.events import ModelRouted, Retry, TextDelta, ThinkingDelta, ToolCallDelta
from newel.agent.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    new_id,
)
from newel.agent.ports import ModelRequest, OnDelta, Provider, ProviderEvent
from newel.terminal.jexida.json_stream import AnswerStream
from newel.terminal.jexida.protocol import AnswerReply, ShellReply, read, render
from newel.terminal.jexida.shell_tool import TOOL
from newel.text.format import describe_call


class AnswerOrShell:
    """A ``Provider`` whose model has no tools of its own: it writes JSON, and a command becomes a call of ``TOOL``.

    Its history is rendered in the same protocol; results become user messages, which every model understands. Deltas carry
    the text of an answer, and nothing of a command.
    """

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        stream = AnswerStream()

        async def pass_on(delta: ProviderEvent) -> None:
            nonlocal stream
            match delta:
                case TextDelta():
                    if text := stream.feed(delta.delta):
                        await on_delta(TextDelta(text))
                case Retry():
                    stream = AnswerStream()
                    await on_delta(delta)
                case ThinkingDelta() | ModelRouted():
                    await on_delta(delta)
                case ToolCallDelta():  # no tools were offered
                    pass

        messages = [_render_message(message) for message in request.messages]
        rendered = msgspec.structs.replace(request, messages=messages, tools=[])
        answer = await self.provider.complete(rendered, pass_on)
        content = _content(answer, stream.shown)
        spoken = "".join(part.text for part in content if isinstance(part, TextContent))
        if spoken.startswith(stream.shown) and spoken != stream.shown:
            await on_delta(TextDelta(spoken[len(stream.shown) :]))
        thoughts = [part for part in answer.content if isinstance(part, ThinkingContent)]
        return msgspec.structs.replace(answer, content=[*thoughts, *content])


def _content(answer: AssistantMessage, visible: str) -> list[TextContent | ToolCall]:
    match read(answer.text):
        case AnswerReply(text=text):
            return [TextContent(text)] if text else []
        case ShellReply() as shell:
            call = ToolCall(
                id=new_id(),
                name=TOOL,
                arguments={"command": shell.command, "reason": shell.reason},
            )
            return [TextContent(visible), call] if visible else [call]


def _render_message(message: Message) -> Message:
    """Render a message in the protocol. Calls of other tools were made by another agent, earlier in the session."""
    match message:
        case ToolResultMessage():
            return UserMessage(content=message.output, id=message.id, timestamp=message.timestamp)
        case AssistantMessage():
            calls = [_shell(call) for call in message.tool_calls if call.name == TOOL]
            others = [f"[{describe_call(call.name, call.arguments)}]" for call in message.tool_calls]
            reply = calls[0] if calls else AnswerReply("\n".join(filter(None, [message.text, *others])))
            return msgspec.structs.replace(message, content=[TextContent(render(reply))])
        case UserMessage():
            return message


def _shell(call: ToolCall) -> ShellReply:
    return ShellReply(str(call.arguments.get("command", "")), str(call.arguments.get("reason", "")))
