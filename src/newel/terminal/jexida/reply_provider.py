"""Between the heart's messages and the protocol in which a reply is an answer or a command to run."""

from __future__ import annotations

import msgspec

from newel.agent.events import Delta, Retry, TextDelta, ThinkingDelta, ToolCallDelta
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
from newel.agent.ports import ModelRequest, OnDelta, Provider
from newel.terminal.jexida.json_stream import AnswerStream
from newel.terminal.jexida.protocol import AnswerReply, ShellReply, read, render
from newel.terminal.jexida.shell_tool import TOOL
from newel.text.format import describe_call


class AnswerOrShell:
    """A ``Provider`` whose model has no tools of its own: it writes JSON, and a command becomes a call of ``TOOL``.

    What the model is shown of the conversation is in that protocol too; results are the user's messages, which every
    model knows. Of an answer the deltas carry the text, of a command nothing.
    """

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        stream = AnswerStream()

        async def pass_on(delta: Delta | Retry) -> None:
            nonlocal stream
            match delta:
                case TextDelta():
                    if text := stream.feed(delta.delta):
                        await on_delta(TextDelta(text))
                case Retry():
                    stream = AnswerStream()
                    await on_delta(delta)
                case ThinkingDelta():
                    await on_delta(delta)
                case ToolCallDelta():  # no tools were offered
                    pass

        written = [_written(message) for message in request.messages]
        asked = msgspec.structs.replace(request, messages=written, tools=[])
        answer = await self.provider.complete(asked, pass_on)
        content = _content(answer, stream.shown)
        said = "".join(part.text for part in content if isinstance(part, TextContent))
        if said.startswith(stream.shown) and said != stream.shown:
            await on_delta(TextDelta(said[len(stream.shown) :]))
        thoughts = [part for part in answer.content if isinstance(part, ThinkingContent)]
        return msgspec.structs.replace(answer, content=[*thoughts, *content])


def _content(answer: AssistantMessage, shown: str) -> list[TextContent | ToolCall]:
    match read(answer.text):
        case AnswerReply(text=text):
            return [TextContent(text)] if text else []
        case ShellReply() as shell:
            call = ToolCall(
                id=new_id(),
                name=TOOL,
                arguments={"command": shell.command, "reason": shell.reason},
            )
            return [TextContent(shown), call] if shown else [call]


def _written(message: Message) -> Message:
    """A message as the protocol has it; other tools than its own were another agent's, earlier in the conversation."""
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
