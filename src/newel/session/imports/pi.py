"""Sessions of pi (its file versions 1 to 3) as Newel sessions.

A pi file is a header line and entries that form a tree by ``id`` and ``parentId``; the conversation continues after the last
entry. Each entry becomes one message with the entry's id, so that branches and references survive. Entries that pi's model did
not see become custom messages.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec

from newel.agent.errors import SessionError
from newel.agent.messages import AppMessage, CustomMessage
from newel.agent.transform import COMPACTION
from newel.session.file_format import BranchLine, Line, MessageLine, NameLine, SessionMetadata
from newel.session.imports.common import (
    ODD,
    Entry,
    ImportedSession,
    make_metadata,
    read_entries,
    text_of,
    time_of,
    write_session,
)
from newel.session.message_tree import MessageTree
from newel.session.reader import Damage
from newel.text.sanitize import plain_line

_OWN = frozenset({"type", "id", "parentId", "timestamp"})
_THINKING_FIELDS = frozenset({"reasoning_content", "reasoning", "reasoning_text"})
_BRANCH = "A summary of an abandoned branch of this conversation:"
_COMPACTED = "Summary of the conversation so far:"


def import_pi(source: Path, directory: Path) -> ImportedSession:
    """Import a pi session file into the sessions' ``directory``. The session keeps pi's id, so that a second import is refused.
    Raises ``SessionError``.
    """
    damage = Damage()
    entries = [entry for _, entry in read_entries(source, damage)]
    if not entries or entries[0].get("type") != "session":
        raise SessionError(f"{source} is not a session file of pi: its first line is not a session header.")
    header = entries.pop(0)
    if _version(header) < 2:
        _link(entries)
    lines = list(_lines(entries, damage))
    metadata = _metadata(header, entries, source)
    path = write_session(directory, metadata, lines, source)
    return ImportedSession(path, metadata.id, damage.report())


# -- the file -------------------------------------------------------------------------------------


def _version(header: Entry) -> int:
    version = header.get("version")
    if version is None:
        return 1
    if isinstance(version, int) and version <= 3:
        return version
    raise SessionError(f"This is version {version} of pi's session files; versions 1 to 3 can be imported.")


def _link(entries: list[Entry]) -> None:
    """Link the entries of version 1, a plain sequence, by ids as in later versions."""
    for number, entry in enumerate(entries, 1):
        entry["id"] = f"entry-{number}"
        entry["parentId"] = f"entry-{number - 1}" if number > 1 else None
        if entry.get("type") == "compaction":  # counts the header as number 0
            entry["firstKeptEntryId"] = f"entry-{entry.get('firstKeptEntryIndex')}"


def _metadata(header: Entry, entries: list[Entry], source: Path) -> SessionMetadata:
    session_id = text_of(header, "id")
    config: dict[str, Any] = {"importedFrom": f"pi:{source.name}"}
    config |= {
        name: header[field]
        for name, field in (("provider", "provider"), ("model", "modelId"), ("thinking", "thinkingLevel"))
        if isinstance(header.get(field), str)
    }
    for entry in entries:
        if entry.get("type") == "model_change":
            config |= {"provider": text_of(entry, "provider"), "model": text_of(entry, "modelId")}
        elif entry.get("type") == "thinking_level_change":
            config["thinking"] = text_of(entry, "thinkingLevel")
    return make_metadata(session_id, time_of(header), text_of(header, "cwd"), config)


# -- the tree -------------------------------------------------------------------------------------


def _lines(entries: list[Entry], damage: Damage) -> Iterator[Line]:
    history = MessageTree()
    leaf: str | None = None
    for entry in entries:
        entry_id = text_of(entry, "id")
        if not entry_id or history.get(entry_id):
            kind = plain_line(text_of(entry, "type"))
            damage.add(f"an entry of the type {kind!r} has no id of its own, and is left out")
            continue
        parent = text_of(entry, "parentId") or None
        if parent is not None and history.get(parent) is None:
            damage.add(
                f"entry {plain_line(entry_id)}: the entry that it continues is missing, so it starts a new branch"
            )
            parent = None
        if parent != leaf:
            yield BranchLine(parent)
            history.move(parent)
        leaf = entry_id
        for message in history.repair(_message(entry)):
            history.add(message)
            yield MessageLine(message)
        if entry.get("type") == "session_info":
            yield NameLine(plain_line(text_of(entry, "name")))


def _message(entry: Entry) -> AppMessage:
    fields = {"id": text_of(entry, "id"), "timestamp": time_of(entry)}
    with contextlib.suppress(*ODD):
        converted = _convert_entry(entry)
        if converted is not None:
            return msgspec.convert({**converted, **fields}, cast("type[AppMessage]", AppMessage))
    # Not part of the conversation, or not of the shape that it should have: kept as it is. The prefix keeps
    # the name from meaning anything to Newel.
    rest = {key: value for key, value in entry.items() if key not in _OWN}
    return CustomMessage(f"pi:{text_of(entry, 'type')}", rest, fields["id"], fields["timestamp"])


def _convert_entry(entry: Entry) -> Entry | None:
    """The fields of Newel's message; None for what is not part of the conversation. Raises ``KeyError``,
    ``TypeError``, ``AttributeError`` or ``ValueError`` for what has not the shape of pi's entries.
    """
    match entry["type"]:
        case "message":
            return _convert_message(entry["message"])
        case "custom_message":
            return {"role": "user", "content": entry["content"]}
        case "branch_summary":
            return _quote_summary(_BRANCH, entry["summary"])
        case "compaction":
            data = {
                "summary": entry["summary"],
                "firstKept": entry.get("firstKeptEntryId"),
                "tokensBefore": entry.get("tokensBefore", 0),
            }
            return {"role": "custom", "name": COMPACTION, "data": data}
        case _:
            return None


def _convert_message(message: Entry) -> Entry | None:
    match message["role"]:
        case "user" | "custom" | "hookMessage":
            return {"role": "user", "content": message["content"]}
        case "assistant":
            return _assistant(message)
        case "toolResult":
            return _result(message)
        case "branchSummary":
            return _quote_summary(_BRANCH, message["summary"])
        case "compactionSummary":
            return _quote_summary(_COMPACTED, message["summary"])
        case "bashExecution" if not message.get("excludeFromContext"):
            code = message.get("exitCode")
            return _quote_summary(
                f"I ran `{message['command']}` (exit code {code}). Its output:", message["output"]
            )
        case _:
            return None


def _quote_summary(what: str, text: str) -> Entry:
    return {"role": "user", "content": f"{what}\n\n{text}"}


def _assistant(message: Entry) -> Entry:
    usage: Entry = message.get("usage") or {}
    cached = {"cacheRead": int(usage.get("cacheRead", 0)), "cacheWrite": int(usage.get("cacheWrite", 0))}
    cost: Entry = usage["cost"] if isinstance(usage.get("cost"), dict) else {}
    return {
        "role": "assistant",
        "content": [
            _thought(block) if block["type"] == "thinking" else block for block in message["content"]
        ],
        "model": message.get("model", ""),
        "provider": message.get("provider", ""),
        # pi counts the cached part of a prompt apart from its input.
        "usage": {
            "input": int(usage.get("input", 0)) + sum(cached.values()),
            "output": int(usage.get("output", 0)),
            **cached,
        },
        "cost": cost.get("total"),
        "stopReason": message.get("stopReason", "stop"),
        "errorMessage": message.get("errorMessage"),
    }


def _thought(block: Entry) -> Entry:
    """Pi's signature is, for some services, the name of the wire field that the thinking came in."""
    signature = block.get("thinkingSignature")
    name = "field" if signature in _THINKING_FIELDS else "signature"
    return {"type": "thinking", "thinking": block["thinking"], name: signature}


def _result(message: Entry) -> Entry:
    content: list[Entry] = message["content"]
    details = message.get("details")
    return {
        "role": "toolResult",
        "toolCallId": message["toolCallId"],
        "toolName": message["toolName"],
        "output": "\n".join(block["text"] for block in content if block["type"] == "text"),
        "isError": message.get("isError", False),
        "images": [block for block in content if block["type"] == "image"],
        "details": details if isinstance(details, dict) else {},
    }
