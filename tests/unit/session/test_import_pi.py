"""If these fail, importing a pi user's conversations loses messages, branches or summaries."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.agent.errors import SessionError
from newel.agent.messages import (
    INTERRUPTED,
    AppMessage,
    AssistantMessage,
    CustomMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from newel.agent.transform import Transformer
from newel.session.imports.pi import import_pi
from newel.session.manager import SessionManager
from newel.session.reader import read_session

Open = Callable[..., SessionManager]
Entry = dict[str, Any]

TIME = "2025-10-12T10:00:01.000Z"
HEADER: Entry = {"type": "session", "version": 3, "id": "0199-abc", "timestamp": TIME, "cwd": "/src/shop"}


def pi_file(folder: Path, *entries: Entry | bytes) -> Path:
    path = folder / "pi.jsonl"
    lines = [entry if isinstance(entry, bytes) else json.dumps(entry).encode() for entry in entries]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def entry(kind: str, entry_id: str, parent: str | None, **fields: object) -> Entry:
    return {"type": kind, "id": entry_id, "parentId": parent, "timestamp": TIME, **fields}


def user(entry_id: str, parent: str | None, content: object) -> Entry:
    return entry("message", entry_id, parent, message={"role": "user", "content": content, "timestamp": 1})


def imported(folder: Path, *entries: Entry | bytes) -> list[AppMessage]:
    return read_session(import_pi(pi_file(folder, *entries), folder / "sessions").path).history.active()


ASSISTANT: Entry = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "hmm", "thinkingSignature": "reasoning_content"},
        {"type": "thinking", "thinking": "deep", "thinkingSignature": "c2lnbmVk"},
        {"type": "text", "text": "I look.", "textSignature": "x"},
        {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a.py"}},
    ],
    "api": "openai-completions",
    "provider": "openai",
    "model": "gpt-4o",
    "usage": {
        "input": 10,
        "output": 5,
        "cacheRead": 30,
        "cacheWrite": 2,
        "totalTokens": 47,
        "cost": {"total": 0.25},
    },
    "stopReason": "toolUse",
    "timestamp": 1,
}
RESULT: Entry = {
    "role": "toolResult",
    "toolCallId": "c1",
    "toolName": "read",
    "content": [{"type": "text", "text": "one"}, {"type": "image", "data": "QUJD", "mimeType": "image/png"}],
    "details": {"lines": 1},
    "isError": False,
    "timestamp": 1,
}


def test_a_conversation_is_imported_completely(tmp_path: Path, opened: Open, directory: Path) -> None:
    source = pi_file(
        tmp_path,
        HEADER,
        entry("model_change", "e0", None, provider="openai", modelId="gpt-4o"),
        user("e1", "e0", [{"type": "text", "text": "look"}]),
        entry("message", "e2", "e1", message=ASSISTANT),
        entry("message", "e3", "e2", message=RESULT),
        entry("session_info", "e4", "e3", name="My session"),
    )
    before = source.read_bytes()
    done = import_pi(source, directory)
    assert (done.id, done.damage, source.read_bytes()) == ("0199-abc", [], before)
    assert done.path == directory / "--src-shop--" / "2025-10-12T10-00-01-000Z_0199-abc.jsonl"

    session = opened(continue_=True)
    data = session.get_data()
    assert data is not None
    assert (data.name, session.damage) == ("My session", [])
    assert data.metadata.config == {"importedFrom": "pi:pi.jsonl", "provider": "openai", "model": "gpt-4o"}
    assert data.messages == [
        CustomMessage("pi:model_change", {"provider": "openai", "modelId": "gpt-4o"}, "e0", TIME),
        UserMessage([TextContent("look")], id="e1", timestamp=TIME),
        AssistantMessage(
            [
                ThinkingContent("hmm", field="reasoning_content"),
                ThinkingContent("deep", signature="c2lnbmVk"),
                TextContent("I look."),
                ToolCall("c1", "read", {"path": "a.py"}),
            ],
            model="gpt-4o",
            provider="openai",
            usage=Usage(input=42, output=5, cache_read=30, cache_write=2),
            cost=0.25,
            stop_reason="toolUse",
            id="e2",
            timestamp=TIME,
        ),
        ToolResultMessage(
            "c1",
            "read",
            "one",
            False,
            [ImageContent("QUJD", "image/png")],
            {"lines": 1},
            id="e3",
            timestamp=TIME,
        ),
        CustomMessage("pi:session_info", {"name": "My session"}, "e4", TIME),
    ]


def test_branches_survive_and_the_last_entry_is_active(tmp_path: Path) -> None:
    source = pi_file(
        tmp_path,
        HEADER,
        user("a", None, "a"),
        user("b", "a", "b"),
        user("c", "a", "c"),
        user("d", "b", "d"),
        user("e", None, "e"),
        user("f", "c", "f"),
    )
    history = read_session(import_pi(source, tmp_path / "sessions").path).history
    tree = {item.message.id: (item.parent_id, item.active) for item in history.entries()}
    assert tree == {
        "a": (None, True),
        "b": ("a", False),
        "c": ("a", True),
        "d": ("b", False),
        "e": (None, False),
        "f": ("c", True),
    }


def test_a_compaction_hides_the_same_messages_from_the_model(tmp_path: Path) -> None:
    messages = imported(
        tmp_path,
        HEADER,
        user("a", None, "old"),
        user("b", "a", "kept"),
        entry("compaction", "c", "b", summary="S", firstKeptEntryId="b", tokensBefore=5000),
        user("d", "c", "new"),
    )
    assert messages[2] == CustomMessage(
        "compaction", {"summary": "S", "firstKept": "b", "tokensBefore": 5000}, "c", TIME
    )
    seen = [message.text for message in Transformer()(messages) if isinstance(message, UserMessage)]
    assert [text.rpartition("\n")[2] for text in seen] == ["S", "kept", "new"]


def test_the_model_sees_the_same_messages_as_pis(tmp_path: Path) -> None:
    """Commands of the user, notes of extensions and summaries of branches are part of the conversation."""
    bash = {"role": "bashExecution", "command": "ls", "output": "a.py", "exitCode": 0, "timestamp": 1}
    messages = imported(
        tmp_path,
        HEADER,
        entry("message", "a", None, message=bash),
        entry("message", "b", "a", message={**bash, "excludeFromContext": True}),
        entry("custom_message", "c", "b", customType="x", content="injected", display=False),
        entry("branch_summary", "d", "c", fromId="b", summary="left it"),
        entry(
            "message",
            "e",
            "d",
            message={"role": "custom", "customType": "x", "content": "note", "timestamp": 1},
        ),
        entry("custom", "f", "e", customType="x", data={"count": 42}),
        entry("label", "g", "f", targetId="a", label="here"),
        entry("message", "h", "g", message={"role": "from the future"}),
    )
    seen = [message.text for message in Transformer()(messages) if isinstance(message, UserMessage)]
    assert [text.rpartition("\n")[2] for text in seen] == ["a.py", "injected", "left it", "note"]
    assert "`ls`" in seen[0]
    hidden = {message.id: message.name for message in messages if isinstance(message, CustomMessage)}
    assert hidden == {"b": "pi:message", "f": "pi:custom", "g": "pi:label", "h": "pi:message"}


def test_the_first_two_versions_can_be_imported(tmp_path: Path) -> None:
    plain = {"timestamp": TIME}
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
    first = imported(
        tmp_path / "1",
        {key: value for key, value in HEADER.items() if key != "version"},
        {"type": "message", **plain, "message": {"role": "user", "content": "old", "timestamp": 1}},
        {"type": "message", **plain, "message": {"role": "user", "content": "kept", "timestamp": 1}},
        {"type": "compaction", **plain, "summary": "S", "firstKeptEntryIndex": 2, "tokensBefore": 1},
    )
    assert [message.text for message in first if isinstance(message, UserMessage)] == ["old", "kept"]
    assert isinstance(first[2], CustomMessage)
    assert first[2].data["firstKept"] == first[1].id

    hook = {"role": "hookMessage", "customType": "x", "content": "injected", "timestamp": 1}
    second = imported(tmp_path / "2", {**HEADER, "version": 2}, entry("message", "a", None, message=hook))
    assert [message.text for message in second if isinstance(message, UserMessage)] == ["injected"]


def test_a_call_without_a_result_gets_one(tmp_path: Path) -> None:
    """Pi stores aborted calls without results; a provider refuses such a history."""
    messages = imported(
        tmp_path,
        HEADER,
        user("a", None, "go"),
        entry("message", "b", "a", message={**ASSISTANT, "stopReason": "aborted"}),
        user("c", "b", "never mind"),
    )
    assert [type(message) for message in messages] == [
        UserMessage,
        AssistantMessage,
        ToolResultMessage,
        UserMessage,
    ]
    assert isinstance(messages[2], ToolResultMessage)
    assert (messages[2].tool_call_id, messages[2].output) == ("c1", INTERRUPTED)


def test_damage_costs_only_the_damaged_lines_and_is_reported(tmp_path: Path) -> None:
    source = pi_file(
        tmp_path,
        HEADER,
        user("a", None, "one"),
        b"\0\0garbage",
        b"[1]",
        user("c", "b", "its parent is lost"),
        user("c", "c", "its id is taken"),
        user("d", "c", "two"),
        b'{"type":"mess',
    )
    done = import_pi(source, tmp_path / "sessions")
    messages = read_session(done.path).history.active()
    assert [message.text for message in messages if isinstance(message, UserMessage)] == [
        "its parent is lost",
        "two",
    ]
    assert len(done.damage) == 5


def test_a_second_import_and_foreign_files_are_refused(tmp_path: Path) -> None:
    source = pi_file(tmp_path, HEADER, user("a", None, "one"))
    import_pi(source, tmp_path / "sessions")
    with pytest.raises(SessionError, match="already imported"):
        import_pi(source, tmp_path / "sessions")
    for content, reason in (
        ({"type": "metadata"}, "is not a session file of pi"),
        ({**HEADER, "version": 4}, "version 4"),
        (HEADER, "has no messages"),
        (b"\0" * 100, "is not a session file of pi"),
    ):
        with pytest.raises(SessionError, match=reason):
            import_pi(pi_file(tmp_path, content), tmp_path / "sessions")
    with pytest.raises(SessionError, match="cannot be read"):
        import_pi(tmp_path / "nothing.jsonl", tmp_path / "sessions")


def test_a_pipe_and_a_device_are_refused_at_once(tmp_path: Path) -> None:
    """Otherwise `newel import` hangs on a pipe without a writer, and reads `/dev/zero` until memory is full."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for source in (pipe, Path("/dev/zero")):
        with pytest.raises(SessionError, match="not a regular file"):
            import_pi(source, tmp_path / "sessions")


def test_a_hostile_header_chooses_no_path(tmp_path: Path) -> None:
    header = {**HEADER, "id": "../../evil", "timestamp": "../../evil", "cwd": "/../../\ud800\0evil"}
    done = import_pi(pi_file(tmp_path, header, user("a", None, "one")), tmp_path / "sessions")
    assert done.path.parent.parent == tmp_path / "sessions"
    assert ".." not in done.path.name


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
mangled = st.sampled_from(
    [user("a", None, "x"), entry("message", "b", "a", message=ASSISTANT), entry("compaction", "c", "b")]
)


@given(mangled, st.data())
def test_an_entry_of_any_shape_is_kept(base: Entry, data: st.DataObject) -> None:
    """Pi's extensions may write anything; one odd entry must not cost the session."""
    message = base.get("message", {})
    key = data.draw(st.sampled_from([*(("message", name) for name in message), *((name,) for name in base)]))
    value = data.draw(json_values)
    odd = {**base, "message": {**message, key[-1]: value}} if len(key) == 2 else {**base, key[0]: value}
    with tempfile.TemporaryDirectory() as folder:
        done = import_pi(
            pi_file(Path(folder), HEADER, user("z", None, "first"), odd), Path(folder) / "sessions"
        )
        stored = read_session(done.path)
        assert stored.damage == []
        assert len(stored.history) + len(done.damage) >= 2
