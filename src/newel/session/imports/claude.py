"""Sessions of Claude Code: ``~/.claude/projects/<folder>/<session>.jsonl``.

A file has an entry for each block of an answer, each prompt, each result of a tool, and much else. Entries are linked by ``uuid`` and
``parentUuid``; the conversation is what leads to the last of them. Those of one answer share the id of its message, and the results of
its calls hang on different ones of them, so that both are gathered whatever their links say. What subagents did is in entries of their own
(``isSidechain``), and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from newel.agent.errors import SessionError
from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    CustomMessage,
    ImageContent,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from newel.agent.transform import COMPACTION
from newel.session.imports.common import (
    ODD,
    Entry,
    ImportedSession,
    OmissionCounts,
    make_metadata,
    message_lines,
    own_call,
    plain,
    read_entries,
    text_of,
    time_of,
    write_session,
)
from newel.session.reader import Damage
from newel.text.sanitize import plain_line

_KINDS: Final = frozenset({"user", "assistant", "system", "summary", "attachment", "progress"})

_KNOWN: Final = _KINDS | {
    "file-history-snapshot",
    "queue-operation",
    "custom-title",
    "ai-title",
    "agent-name",
    "agent-color",
    "last-prompt",
    "permission-mode",
    "mode",
    "pr-link",
    "tag",
    "worktree-state",
}
"""Types of entries, most of which are no part of the conversation."""

_OF_ITS_OWN: Final = (
    "<command-name>",
    "<command-message>",
    "<local-command-",
    "<system-reminder>",
    "<task-notification>",
    "Caveat: The messages below were generated",
)
"""How texts begin that Claude Code puts into the user's mouth."""

_COMMAND: Final = re.compile(r"<command-name>(.*?)</command-name>", re.DOTALL)
_ARGUMENTS: Final = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)

_STOPS: Final[dict[str, StopReason]] = {"tool_use": "toolUse", "max_tokens": "length"}


class _NumberedEntry(NamedTuple):
    number: int
    entry: Entry


def is_claude(entry: Entry) -> bool:
    """Whether an entry may be one of Claude Code's."""
    return text_of(entry, "type") in _KNOWN and "payload" not in entry and "message_id" not in entry


def import_claude(source: Path, directory: Path) -> ImportedSession:
    """Import a session file of Claude Code into the sessions' ``directory``. It keeps its id. Raises ``SessionError``."""
    damage, left_out = Damage(), OmissionCounts()
    found = [_NumberedEntry(number, entry) for number, entry in read_entries(source, damage)]
    if not any(isinstance(each.entry.get("sessionId"), str) for each in found):
        raise SessionError(f"{source} is not a session file of Claude Code: no line of it names a session.")
    conversation = _Conversation(found, damage, left_out)
    messages = list(conversation.messages())
    talk = [each.entry for each in conversation.entries]
    folders = [text_of(entry, "cwd") for entry in talk if entry.get("cwd")]
    session_ids = [text_of(entry, "sessionId") for entry in talk if entry.get("sessionId")]
    models = [
        message.model for message in messages if isinstance(message, AssistantMessage) and message.model
    ]
    config = {"importedFrom": f"claude:{source.name}", "provider": "anthropic"}
    metadata = make_metadata(
        session_ids[-1] if session_ids else "",
        time_of(talk[0]) if talk else "",
        folders[0] if folders else "",
        config | ({"model": models[-1]} if models else {}),
    )
    lines = message_lines(messages, _title(found, conversation.ids))
    path = write_session(directory, metadata, lines, source)
    return ImportedSession(path, metadata.id, [*damage.report(), *left_out.report()])


def _title(found: list[_NumberedEntry], ids: set[str]) -> str:
    """What the user called it; else Claude's summary of this conversation: files have those of others, too."""
    title = ""
    for _, entry in found:
        if entry.get("type") == "custom-title":
            title = text_of(entry, "customTitle")
        elif entry.get("type") == "summary" and not title and text_of(entry, "leafUuid") in ids:
            title = text_of(entry, "summary")
    return title


class Commands:
    """The user's own commands, such as ``/fix 12``. One is followed by its prompt, in an entry that is marked as Claude Code's."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._with_prompt: set[str] = set()

    def add(self, entry: Entry) -> None:
        """The next entry of the file."""
        if text := _command(entry):
            self._texts[text_of(entry, "uuid")] = text
        elif self.of_prompt(entry):
            self._with_prompt.add(text_of(entry, "parentUuid"))

    def of_prompt(self, entry: Entry) -> str:
        """The command whose prompt the entry is; empty if it is none."""
        if not entry.get("isMeta") or not isinstance(entry.get("message"), dict) or _is_of_its_own(entry):
            return ""
        return self._texts.get(text_of(entry, "parentUuid"), "")

    def has_prompt(self, entry: Entry) -> bool:
        """Whether the entry is a command whose prompt follows."""
        return text_of(entry, "uuid") in self._with_prompt


def _command(entry: Entry) -> str:
    if entry.get("type") != "user" or not isinstance(entry.get("message"), dict):
        return ""
    text = "\n".join(str(block.get("text", "")) for block in _blocks(entry) if block.get("type") == "text")
    name, arguments = _COMMAND.search(text), _ARGUMENTS.search(text)
    if name is None or not text.lstrip().startswith("<command-"):
        return ""
    return f"/{name[1].strip().removeprefix('/')} {arguments[1].strip() if arguments else ''}".rstrip()


class _Conversation:
    """The entries that lead to the last one, and those that belong to them. ``ids`` are their ids."""

    def __init__(self, found: list[_NumberedEntry], damage: Damage, left_out: OmissionCounts) -> None:
        self._damage = damage
        self._left_out = left_out
        self._commands = Commands()
        for _, entry in found:
            self._commands.add(entry)
        talk = [each for each in found if self._is_talk(each)]
        self.ids = self._chain(found, talk)
        answers = {_answer_id(entry) for _, entry in talk if text_of(entry, "uuid") in self.ids}
        answers.discard("")
        self.entries = [each for each in talk if self._belongs(each.entry, answers)]
        calls = {call for each in self.entries for call in _call_ids(each.entry)}
        chosen = {id(each.entry) for each in self.entries}
        self.entries = [
            each for each in talk if id(each.entry) in chosen or calls.intersection(_result_ids(each.entry))
        ]
        for _ in range(len(talk) - len(self.entries)):
            left_out.add("entries of abandoned branches")
        self._blocks: dict[str, list[Entry]] = {}
        for _, entry in self.entries:
            if answer := _answer_id(entry):
                self._blocks.setdefault(answer, []).append(entry)

    def messages(self) -> Iterator[AppMessage]:
        done: set[str] = set()
        names: dict[str, str] = {}
        for number, entry in self.entries:
            try:
                if not (answer := _answer_id(entry)):
                    yield from self._of_user(entry, names)
                elif answer not in done:
                    done.add(answer)
                    message = self._answer(self._blocks[answer])
                    names |= {call.id: call.name for call in message.tool_calls}
                    if message.content:
                        yield message
            except ODD:
                kind = plain_line(text_of(entry, "type"))
                self._damage.add(f"line {number:,}: an entry of the type {kind!r} has an unknown form")

    def _is_talk(self, found: _NumberedEntry) -> bool:
        entry = found.entry
        kind = text_of(entry, "type")
        if kind not in _KNOWN:
            self._damage.add(f"line {found.number:,}: the type {plain_line(kind)!r} is unknown")
        if kind not in {"user", "assistant"} or not isinstance(entry.get("message"), dict):
            return False
        if entry.get("isSidechain"):
            self._left_out.add("messages of subagents")
        elif self._commands.of_prompt(entry):
            return True
        elif self._commands.has_prompt(entry):
            return False
        elif entry.get("isMeta") or entry.get("isApiErrorMessage") or _is_of_its_own(entry):
            self._left_out.add("messages of Claude Code itself")
        else:
            return True
        return False

    def _chain(self, found: list[_NumberedEntry], talk: list[_NumberedEntry]) -> set[str]:
        """The ids from the last entry to the first, past entries of any type; where the link is lost, from the entry before."""
        places: dict[str, int] = {}
        for place, (_, entry) in enumerate(found):
            if (entry_id := text_of(entry, "uuid")) and not entry.get("isSidechain"):
                places.setdefault(entry_id, place)
        ids: set[str] = set()
        at = text_of(talk[-1].entry, "uuid") if talk else ""
        while at in places and at not in ids:
            ids.add(at)
            place = places[at]
            number, entry = found[place]
            before = text_of(entry, "parentUuid") or text_of(entry, "logicalParentUuid")
            if before and before not in places:
                self._damage.add(f"line {number:,}: the entry that it continues is missing")
                earlier = (text_of(found[each].entry, "uuid") for each in range(place - 1, -1, -1))
                before = next((each for each in earlier if each in places and each not in ids), "")
            at = before
        return ids

    def _belongs(self, entry: Entry, answers: set[str]) -> bool:
        return text_of(entry, "uuid") in self.ids or _answer_id(entry) in answers

    def _answer(self, entries: list[Entry]) -> AssistantMessage:
        """The answer whose blocks are in these entries."""
        content: list[TextContent | ThinkingContent | ToolCall] = []
        for entry in entries:
            for block in _blocks(entry):
                match block["type"]:
                    case "text" if block["text"]:
                        content.append(TextContent(str(block["text"])))
                    case "thinking" if block["thinking"]:
                        # Its signature is for its own model, at its own server.
                        content.append(ThinkingContent(str(block["thinking"])))
                    case "tool_use":
                        content.append(own_call(str(block["id"]), str(block["name"]), block["input"]))
                    case "text" | "thinking" | "redacted_thinking":
                        pass
                    case other:
                        self._left_out.add(f"blocks of the type {plain_line(str(other))!r}")
        last: Entry = entries[-1]["message"]
        return AssistantMessage(
            content=content,
            model=text_of(last, "model"),
            provider="anthropic",
            usage=_usage(last.get("usage")),
            stop_reason="toolUse"
            if any(isinstance(part, ToolCall) for part in content)
            else _STOPS.get(text_of(last, "stop_reason"), "stop"),
            id=text_of(entries[0], "uuid") or text_of(last, "id"),
            timestamp=time_of(entries[0]),
        )

    def _of_user(self, entry: Entry, names: dict[str, str]) -> Iterator[AppMessage]:
        """A prompt, the results of calls, or the summary with which a compacted conversation goes on."""
        entry_id, time = text_of(entry, "uuid"), time_of(entry)
        content: list[TextContent | ImageContent] = []
        blocks = _blocks(entry)
        if entry.get("isCompactSummary"):
            summary = "\n\n".join(str(block["text"]) for block in blocks if block["type"] == "text")
            yield CustomMessage(
                COMPACTION, {"summary": summary, "firstKept": None, "tokensBefore": 0}, entry_id, time
            )
            return
        for place, block in enumerate(blocks):
            if block["type"] == "tool_result":
                call = str(block["tool_use_id"])
                texts = self._parts(block.get("content") or [])
                yield ToolResultMessage(
                    tool_call_id=call,
                    tool_name=names.get(call, ""),
                    output="\n".join(part.text for part in texts if isinstance(part, TextContent)),
                    images=[part for part in texts if isinstance(part, ImageContent)],
                    is_error=bool(block.get("is_error")),
                    id=f"{entry_id}-{place}",
                    timestamp=time,
                )
            else:
                content += self._parts([block])
        if command := self._commands.of_prompt(entry):
            content.insert(0, TextContent(command))
        if content:
            yield UserMessage(content=plain(content), id=entry_id, timestamp=time)

    def _parts(self, blocks: Any) -> list[TextContent | ImageContent]:
        if isinstance(blocks, str):
            return [TextContent(blocks)]
        parts: list[TextContent | ImageContent] = []
        for block in cast("list[Entry]", blocks):
            source: Entry = block.get("source") or {}
            if block["type"] == "text":
                parts.append(TextContent(str(block["text"])))
            elif block["type"] == "image" and source.get("type") == "base64":
                parts.append(ImageContent(data=str(source["data"]), mime_type=str(source["media_type"])))
            else:
                self._left_out.add(f"blocks of the type {plain_line(str(block['type']))!r}")
        return parts


def _blocks(entry: Entry) -> list[Entry]:
    content: Any = entry["message"].get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    blocks = cast("list[Any]", content) if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict)]


def _answer_id(entry: Entry) -> str:
    """What the entries of one answer share; empty for a user's."""
    if entry.get("type") != "assistant":
        return ""
    return text_of(entry["message"], "id") or text_of(entry, "uuid")


def _call_ids(entry: Entry) -> list[str]:
    if entry.get("type") != "assistant":
        return []
    return [str(block.get("id")) for block in _blocks(entry) if block.get("type") == "tool_use"]


def _result_ids(entry: Entry) -> list[str]:
    if entry.get("type") != "user":
        return []
    return [str(block.get("tool_use_id")) for block in _blocks(entry) if block.get("type") == "tool_result"]


def _is_of_its_own(entry: Entry) -> bool:
    if entry.get("type") != "user":
        return False
    texts = [str(block.get("text", "")) for block in _blocks(entry) if block.get("type") == "text"]
    return (
        bool(texts)
        and len(texts) == len(_blocks(entry))
        and all(text.lstrip().startswith(_OF_ITS_OWN) for text in texts)
    )


def _usage(usage: Any) -> Usage:
    """Claude Code counts the cached part of a prompt apart from its input."""
    if not isinstance(usage, dict):
        return Usage()
    counts = cast("Entry", usage)
    fields = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
    whole, read, written, output = (
        count if type(count := counts.get(name)) is int and count >= 0 else 0 for name in fields
    )
    return Usage(input=whole + read + written, output=output, cache_read=read, cache_write=written)
