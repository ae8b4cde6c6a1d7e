"""Sessions of codex: ``~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl``.

A line has a ``timestamp``, a ``type`` and a ``payload``; the conversation is in those of the type ``response_item``, in order. Early
versions wrote these items without anything around them. A line ``compacted`` replaces what came before by a summary, and an event
``thread_rolled_back`` takes back the user's last turns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

from newel.agent.errors import SessionError
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

_TYPES: Final = frozenset(
    {
        "session_meta",
        "response_item",
        "compacted",
        "turn_context",
        "event_msg",
        "world_state",
        "inter_agent_communication",
    }
)

_OF_ITS_OWN: Final = re.compile(
    r"\s*(?:<(?:environment_context|user_instructions|permissions instructions|turn_aborted|skills?|collaboration_mode|"
    r"subagent_notification|user_shell_command|model_switch|app-context)\b|# AGENTS\.md instructions)"
)
"""How texts begin that codex puts into the user's mouth."""

_CALLS: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
_RESULTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})
_SHELLS: Final = frozenset({"shell", "container.exec", "local_shell", "shell_command", "exec_command"})
_DATA_URL: Final = re.compile(r"data:(image/[\w.+-]+);base64,(.*)", re.DOTALL)


def is_codex(entry: Entry) -> bool:
    """Whether an entry may be the first of a session of codex."""
    if text_of(entry, "type") in _TYPES:
        return isinstance(entry.get("payload"), dict)
    return "type" not in entry and isinstance(entry.get("id"), str) and "timestamp" in entry


def import_codex(source: Path, directory: Path) -> ImportedSession:
    """Import a session file of codex into the sessions' ``directory``. It keeps its id. Raises ``SessionError``."""
    damage, left_out = Damage(), OmissionCounts()
    found = read_entries(source, damage)
    if not found or not is_codex(found[0][1]):
        raise SessionError(
            f"{source} is not a session file of codex: its first line is not a session header."
        )
    header: Entry = found[0][1].get("payload") or found[0][1]
    rollout = _Rollout(damage, left_out)
    for number, entry in found:
        rollout.add(number, entry)
    cwd = text_of(header, "cwd") or rollout.cwd
    config = {
        "importedFrom": f"codex:{source.name}",
        "provider": text_of(header, "model_provider") or "openai",
    }
    metadata = make_metadata(
        text_of(header, "id"),
        time_of(header),
        cwd,
        config | ({"model": rollout.model} if rollout.model else {}),
    )
    path = write_session(directory, metadata, message_lines(rollout.messages()), source)
    return ImportedSession(path, metadata.id, [*damage.report(), *left_out.report()])


class _Rollout:
    """The messages so far; what a model writes up to a result is one answer."""

    def __init__(self, damage: Damage, left_out: OmissionCounts) -> None:
        self.model = ""
        self.cwd = ""
        self._damage = damage
        self._left_out = left_out
        self._messages: list[AppMessage] = []
        self._answer: list[TextContent | ThinkingContent | ToolCall] = []
        self._answer_at = ("", "")
        self._names: dict[str, str] = {}

    def messages(self) -> list[AppMessage]:
        self._end_answer()
        return self._messages

    def add(self, number: int, entry: Entry) -> None:
        kind = entry.get("type")
        payload: Any = entry.get("payload", entry)
        try:
            match kind:
                case "compacted":
                    self._compact(number, payload, entry)
                case "turn_context":
                    self.model = text_of(payload, "model") or self.model
                    self.cwd = self.cwd or text_of(payload, "cwd")
                case "event_msg" if payload.get("type") == "thread_rolled_back":
                    self._roll_back(int(payload["num_turns"]))
                case "session_meta" | "event_msg" | "world_state" | None:
                    pass
                case "response_item":
                    self._add_item(number, payload, entry)
                case _ if "payload" not in entry:
                    self._add_item(number, entry, entry)
                case _:
                    self._damage.add(f"line {number:,}: the type {plain_line(str(kind))!r} is unknown")
        except ODD:
            self._damage.add(
                f"line {number:,}: an entry of the type {plain_line(str(kind))!r} has an unknown form"
            )

    def _add_item(self, number: int, item: Entry, entry: Entry) -> None:
        kind = item["type"]
        if kind == "message":
            self._add_message(number, item, entry)
        elif kind == "reasoning":
            parts: list[Entry] = [*(item.get("summary") or []), *(item.get("content") or [])]
            if text := "\n\n".join(str(part["text"]) for part in parts if part.get("text")):
                self._write(number, entry, ThinkingContent(text))
        elif kind in _CALLS:
            call = _call(item, number)
            self._names[call.id] = call.name
            self._write(number, entry, call)
        elif kind in _RESULTS:
            self._add_result(number, item, entry)
        elif kind != "ghost_snapshot":
            self._left_out.add(f"items of the type {plain_line(str(kind))!r}")

    def _add_message(self, number: int, item: Entry, entry: Entry) -> None:
        content = list(self._parts(item["content"]))
        if item["role"] == "assistant":
            for part in content:
                if isinstance(part, TextContent) and part.text:
                    self._write(number, entry, part)
            return
        is_own = item["role"] != "user" or any(
            isinstance(part, TextContent) and _OF_ITS_OWN.match(part.text) for part in content
        )
        if is_own:
            self._left_out.add("messages of codex itself")
        elif content:
            self._end_answer()
            self._messages.append(
                UserMessage(content=plain(content), id=f"line-{number}", timestamp=time_of(entry))
            )

    def _add_result(self, number: int, item: Entry, entry: Entry) -> None:
        self._end_answer()
        call_id = str(item["call_id"])
        output: Any = item["output"]
        if isinstance(output, dict):
            output = cast("Entry", output).get("content", output)
        is_error = False
        if isinstance(output, str):
            output, is_error = _unwrapped(output)
        parts = [TextContent(output)] if isinstance(output, str) else list(self._parts(output))
        self._messages.append(
            ToolResultMessage(
                tool_call_id=call_id,
                tool_name=self._names.get(call_id, ""),
                output="\n".join(part.text for part in parts if isinstance(part, TextContent)),
                images=[part for part in parts if isinstance(part, ImageContent)],
                is_error=is_error,
                id=f"line-{number}",
                timestamp=time_of(entry),
            )
        )

    def _parts(self, content: Any) -> Iterator[TextContent | ImageContent]:
        if isinstance(content, str):
            yield TextContent(content)
            return
        for part in cast("list[Entry]", content):
            image = _DATA_URL.fullmatch(text_of(part, "image_url"))
            if part["type"] in {"input_text", "output_text", "text"}:
                yield TextContent(str(part["text"]))
            elif part["type"] == "input_image" and image is not None:
                yield ImageContent(data=image[2], mime_type=image[1])
            else:
                self._left_out.add(f"parts of the type {plain_line(str(part['type']))!r}")

    def _write(self, number: int, entry: Entry, part: TextContent | ThinkingContent | ToolCall) -> None:
        if not self._answer:
            self._answer_at = f"line-{number}", time_of(entry)
        self._answer.append(part)

    def _end_answer(self) -> None:
        if not self._answer:
            return
        calls = any(isinstance(part, ToolCall) for part in self._answer)
        self._messages.append(
            AssistantMessage(
                content=self._answer,
                model=self.model,
                provider="openai",
                stop_reason="toolUse" if calls else "stop",
                id=self._answer_at[0],
                timestamp=self._answer_at[1],
            )
        )
        self._answer = []

    def _compact(self, number: int, payload: Entry, entry: Entry) -> None:
        self._end_answer()
        summary = text_of(payload, "message")
        if not summary:
            self._damage.add(
                f"line {number:,}: the summary of what came before is encrypted, so all of that is kept"
            )
            return
        data = {"summary": summary, "firstKept": None, "tokensBefore": 0}
        self._messages.append(CustomMessage(COMPACTION, data, f"line-{number}", time_of(entry)))

    def _roll_back(self, turns: int) -> None:
        self._end_answer()
        prompts = [place for place, message in enumerate(self._messages) if isinstance(message, UserMessage)]
        if turns > 0 and prompts:
            start = prompts[-min(turns, len(prompts))]
            for _ in self._messages[start:]:
                self._left_out.add("messages that were undone")
            del self._messages[start:]


def _call(item: Entry, number: int) -> ToolCall:
    """A call; one of a shell is one of bash."""
    call_id = text_of(item, "call_id") or text_of(item, "id") or f"call-{number}"
    if item["type"] == "local_shell_call":
        return own_call(call_id, "bash", {"command": _command(item["action"]["command"])})
    name = text_of(item, "name")
    if item["type"] == "custom_tool_call":
        return own_call(call_id, name, {"input": item["input"]})
    arguments: Any = json.loads(item["arguments"] or "{}")
    if name in _SHELLS:
        given = cast("Entry", arguments)
        return own_call(call_id, "bash", {"command": _command(given.get("command", given.get("cmd", "")))})
    return own_call(call_id, name, arguments)


def _command(command: Any) -> str:
    """The text of a command; ``bash -lc TEXT`` is its last word."""
    if isinstance(command, str):
        return command
    import shlex

    words = [str(word) for word in cast("list[Any]", command)]
    is_script = len(words) == 3 and re.fullmatch(r".*?(?:ba|z|)sh", words[0]) and words[1] in {"-lc", "-c"}
    return words[2] if is_script else shlex.join(words)


def _unwrapped(output: str) -> tuple[str, bool]:
    """The output of a command in an object of early versions, and whether it failed."""
    if output.startswith('{"output":'):
        try:
            whole: Entry = json.loads(output)
            return str(whole["output"]), bool(whole["metadata"]["exit_code"])
        except ODD:
            pass
    return output, False
