"""The whole transcript of a conversation, unfolded: its sections, and how each is painted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from newel.agent.formatting import pluralize
from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    CustomMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from newel.agent.transform import COMPACTION
from newel.terminal.renderers.base import COMPACTED
from newel.text.format import PROMPT, TOLD, describe_call, one_line
from newel.text.json import as_list, as_str
from newel.text.sanitize import escape_invisible, sanitize

if TYPE_CHECKING:
    from newel.terminal.renderers.styles import Styles

MAX_UNFOLDED: Final = 100_000
"""Characters of one input or output of a call that are shown."""

Kind = Literal["user", "answer", "thinking", "call", "failed call", "note", "exact"]


class Section(msgspec.Struct, frozen=True):
    """A part of a transcript, not inert. ``exact`` is text with diffs whose hidden characters are written out."""

    kind: Kind
    text: str

    def plain(self) -> str:
        """The text, inert."""
        return (escape_invisible if self.kind == "exact" else sanitize)(self.text)

    def may_have(self, words: str) -> bool:
        """Whether the words may be in the painted text. Markdown has more characters than what is painted of it."""
        return self.kind == "answer" or words.lower() in self.plain().expandtabs(4).lower()


def transcript_of(messages: Sequence[AppMessage]) -> list[Section]:
    results = {
        message.tool_call_id: message for message in messages if isinstance(message, ToolResultMessage)
    }
    sections: list[Section] = []
    for message in messages:
        match message:
            case UserMessage():
                names = [f"  + {one_line(attachment.file_name)}" for attachment in message.attachments]
                kind, told = ("note", f"{TOLD} ") if message.is_notice else ("user", "")
                sections.append(Section(kind, "\n".join([told + message.text, *names])))
                sections += [Section("call", attachment.only_text) for attachment in message.attachments]
            case AssistantMessage():
                sections += _answer(message, results)
            case CustomMessage(name=name, data=data) if name == COMPACTION:
                summary = data.get("summary")
                sections.append(Section("note", f"{COMPACTED}\n{summary}" if summary else COMPACTED))
            case _:
                pass
    return [section for section in sections if section.text.strip()]


def _answer(message: AssistantMessage, results: dict[str, ToolResultMessage]) -> list[Section]:
    sections: list[Section] = []
    for part in message.content:
        match part:
            case ThinkingContent(thinking=text):
                sections.append(Section("thinking", text))
            case TextContent(text=text):
                sections.append(Section("answer", text))
            case ToolCall():
                result = results.get(part.id)
                failed = result is not None and (result.is_error or bool(result.details.get("exitCode")))
                sections.append(Section("failed call" if failed else "call", unfold(part, result)))
    if message.error_message:
        sections.append(Section("note", message.error_message))
    return sections


def unfold(call: ToolCall, result: ToolResultMessage | None) -> str:
    """A call's whole input and output, as text."""
    parts = [describe_call(call.name, call.arguments)]
    for name, value in call.arguments.items():
        text = str(value)
        parts.append(f"{name}:\n{_indent(text)}" if "\n" in text else f"{name}: {text}")
    if result is None:
        parts.append("No result yet.")
    else:
        diff = result.details.get("diff")
        parts += [_indent(diff)] if isinstance(diff, str) and diff else []
        parts += _activity(result) if call.name == "task" else []
        parts.append(f"result{' (failed)' if result.is_error else ''}:\n{_indent(result.output)}")
    return "\n".join(parts)


def _activity(result: ToolResultMessage) -> list[str]:
    """What a subagent did, and how to look at all of it."""
    activity = "\n".join(as_str(line) for line in as_list(result.details.get("log")))
    session = one_line(as_str(result.details.get("session")), 40)
    parts = [f"activity:\n{_indent(activity)}"] if activity else []
    return [*parts, f"session: {session}"] if session else parts


def _indent(text: str) -> str:
    more = len(text) - MAX_UNFOLDED
    if more > 0:
        text = f"{text[:MAX_UNFOLDED]}\n… {pluralize(more, 'more character')}"
    return "\n".join(f"    {line}" for line in text.rstrip("\n").split("\n"))


def paint_section(section: Section, styles: Styles, width: int) -> list[str]:
    """The lines of a section with colours, none wider than ``width``."""
    from rich.text import Text

    from newel.terminal.renderers.diff_styles import with_diff
    from newel.terminal.renderers.palette import DIM, ERROR, MARK, SUCCESS, TOOL, USER

    match section.kind:
        case "user":
            text = section.plain().rstrip().replace("\n", "\n  ")
            what = Text().append(f"{PROMPT} ", style=MARK).append(text, style=USER)
        case "answer":
            return styles.wrapped_markdown(section.text, width).split("\n")
        case "thinking" | "note":
            what = Text(section.plain().strip(), style=DIM)
        case "exact":
            what = with_diff(section.text, secondary="", wraps=True)
        case "call" | "failed call":
            head, _, rest = section.plain().partition("\n")
            what = (
                Text()
                .append("● ", style=SUCCESS if section.kind == "call" else ERROR)
                .append(head, style=TOOL)
            )
            what.append("\n").append_text(with_diff(rest))
    what.expand_tabs(4)
    what.no_wrap, what.overflow = False, "fold"
    return styles.paint(what, width).split("\n")
