"""A session as a document: the parts that all export formats show."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    CustomMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    Wire,
)
from newel.session.reader import SessionData
from newel.text.json import as_list, as_str
from newel.text.sanitize import plain_line

_SUMMARY = 100


class ProseBlock(Wire, frozen=True):
    """Text of the user or the model, in Markdown."""

    text: str


class DetailsSection(Wire, frozen=True):
    """Preformatted text; ``info`` is its language."""

    label: str
    text: str
    info: str = ""


class DetailsBlock(Wire, frozen=True):
    """A block that is collapsed at first. ``mark`` is empty, or a problem in a word or two."""

    summary: str
    sections: list[DetailsSection]
    mark: str = ""


Part = ProseBlock | DetailsBlock | ImageContent


class Turn(Wire, frozen=True):
    """A message as a document shows it. ``who`` is one of ``user``, ``assistant``, ``note``."""

    who: str
    timestamp: str
    parts: Sequence[Part]
    model: str = ""


def title(data: SessionData) -> str:
    """The session's name, or else the user's first message, on one line."""
    texts = (message.text for message in data.messages if isinstance(message, UserMessage))
    return data.name or plain_line(next(texts, "")) or "Session"


def facts(data: SessionData) -> list[str]:
    """When, where and with which models, each on one line."""
    models = dict.fromkeys(
        message.model for message in data.messages if isinstance(message, AssistantMessage) and message.model
    )
    metadata = data.metadata
    return [
        plain_line(fact)
        for fact in (metadata.timestamp, metadata.cwd, ", ".join(models), metadata.id)
        if fact
    ]


def turns(messages: Sequence[AppMessage]) -> Iterator[Turn]:
    """The messages in order, the result of each tool call together with the call."""
    for place, message in enumerate(messages):
        match message:
            case UserMessage():
                who = "note" if message.is_notice else "user"
                yield Turn(who, message.timestamp, list(_user_parts(message)))
            case AssistantMessage():
                answers = _answers(messages, place)
                yield Turn("assistant", message.timestamp, list(_parts(message, answers)), message.model)
            case ToolResultMessage():
                if not _has_call(messages, place, message.tool_call_id):
                    parts = [DetailsBlock(message.tool_name, _output(message)), *message.images]
                    yield Turn("note", message.timestamp, parts)
            case CustomMessage():
                yield Turn("note", message.timestamp, [_custom_block(message)])


def _answers(messages: Sequence[AppMessage], place: int) -> dict[str, ToolResultMessage]:
    answers: dict[str, ToolResultMessage] = {}
    for after in range(place + 1, len(messages)):
        message = messages[after]
        if isinstance(message, ToolResultMessage):
            answers.setdefault(message.tool_call_id, message)
        elif not isinstance(message, CustomMessage):
            break
    return answers


def _has_call(messages: Sequence[AppMessage], place: int, call_id: str) -> bool:
    for before in range(place - 1, -1, -1):
        match messages[before]:
            case AssistantMessage() as message:
                return any(call.id == call_id for call in message.tool_calls)
            case UserMessage():
                return False
            case _:
                continue
    return False


def _user_parts(message: UserMessage) -> Iterator[Part]:
    content = [TextContent(message.content)] if isinstance(message.content, str) else message.content
    for piece in content:
        yield ProseBlock(piece.text) if isinstance(piece, TextContent) else piece
    for attachment in message.attachments:
        if attachment.type == "image":
            yield ImageContent(attachment.content, attachment.mime_type)
        else:
            sections = (
                [DetailsSection("Text", attachment.extracted_text)] if attachment.extracted_text else []
            )
            yield DetailsBlock(f"{attachment.file_name} ({attachment.size:,} bytes)", sections)


def _parts(message: AssistantMessage, answers: dict[str, ToolResultMessage]) -> Iterator[Part]:
    for piece in message.content:
        match piece:
            case TextContent():
                yield ProseBlock(piece.text)
            case ThinkingContent():
                if piece.thinking:  # else only a signature
                    yield DetailsBlock("Thinking", [DetailsSection("", piece.thinking)])
            case ToolCall():
                yield from _call(piece, answers.get(piece.id))
    if message.error_message:
        yield DetailsBlock("Error", [DetailsSection("", message.error_message)], mark=message.stop_reason)


def _call(call: ToolCall, answer: ToolResultMessage | None) -> Iterator[Part]:
    first = next((value for value in call.arguments.values() if isinstance(value, str)), "")
    sections = [DetailsSection("Arguments", _json(call.arguments), "json")]
    mark = "no result" if answer is None else "failed" if answer.is_error else ""
    if answer is not None:
        sections += [*_activity(answer), *_output(answer)]
    yield DetailsBlock(plain_line(f"{call.name} {first}", _SUMMARY), sections, mark)
    if answer is not None:
        yield from answer.images


def _output(result: ToolResultMessage) -> list[DetailsSection]:
    diff: Any = result.details.get("diff")
    sections = [DetailsSection("Output", result.output)]
    return [*sections, DetailsSection("Diff", diff, "diff")] if isinstance(diff, str) and diff else sections


def _activity(result: ToolResultMessage) -> list[DetailsSection]:
    """What a subagent did, and where to look at all of it."""
    lines = [as_str(line) for line in as_list(result.details.get("log"))]
    session = as_str(result.details.get("session"))
    more = [f"newel export {session}"] if lines and session else []
    return [DetailsSection("Subagent", "\n".join(lines + more))] if lines else []


def _custom_block(message: CustomMessage) -> DetailsBlock:
    summary: Any = message.data.get("summary")
    if isinstance(summary, str):
        return DetailsBlock(message.name, [DetailsSection("Summary", summary)])
    return DetailsBlock(message.name, [DetailsSection("Data", _json(message.data), "json")])


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


_LINE_END = re.compile(r"\r\n|\r|\n")
_FENCE = re.compile(r"([ \t]*)(`{3,}(?=[^`]*$)|~{3,})[ \t]*([\w+#.-]*).*")


class MarkdownBlock(Wire, frozen=True):
    """A block of a text: prose, or the content of a code fence; ``info`` is the language after the fence."""

    text: str
    code: bool = False
    info: str = ""


def split_blocks(text: str) -> Iterator[MarkdownBlock]:
    """Split Markdown at its code fences, including indented ones, so that no line of prose looks like a fence."""
    held: list[str] = []
    indent, fence, info = "", "", ""
    for line in _LINE_END.split(text):
        if fence:
            if re.fullmatch(rf"[ \t]*{fence[0]}{{{len(fence)},}}[ \t]*", line):
                yield MarkdownBlock("\n".join(held), code=True, info=info)
                fence, held = "", []
            else:
                held.append(line.removeprefix(indent))
        elif opening := _FENCE.fullmatch(line):
            if held:
                yield MarkdownBlock("\n".join(held))
            indent, fence, info = opening.groups()
            held = []
        else:
            held.append(line)
    if held or fence:
        yield MarkdownBlock("\n".join(held), code=bool(fence), info=info if fence else "")
