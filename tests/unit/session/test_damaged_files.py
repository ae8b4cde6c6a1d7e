"""If these fail, a damaged session loses intact messages, hides the damage, or cannot be continued."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from newel.agent.errors import SessionError
from newel.agent.messages import (
    INTERRUPTED,
    AppMessage,
    AssistantMessage,
    CustomMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    open_calls,
)
from newel.session.file_format import MessageLine, encode_line
from newel.session.manager import SessionManager
from newel.session.reader import read_session

Open = Callable[..., SessionManager]

METADATA = b'{"type":"metadata","id":"s1","timestamp":"2025-10-12T10:00:00Z","cwd":"/src/shop","config":{}}\n'


def file_of(directory: Path, *lines: bytes) -> Path:
    path = directory / "--src-shop--" / "2025-10-12T10-00-00-000Z_s1.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))
    return path


def line(text: str, message_id: str = "") -> bytes:
    """The same bytes at each call, whatever the time: some tests compare them."""
    return encode_line(
        MessageLine(UserMessage(text, id=message_id or text, timestamp="2025-10-12T10:00:01Z"))
    )


def raw_line(message: dict[str, Any]) -> bytes:
    return json.dumps({"type": "message", "message": message}).encode() + b"\n"


ONE = line("one")


def texts(messages: list[AppMessage]) -> list[str]:
    return [message.text for message in messages if isinstance(message, UserMessage)]


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (b"\0" * 5000 + b"\n", ["line 3: cannot be read"]),
        (b"garbage\xff\xfe\n", ["line 3: cannot be read"]),
        (b'{"type":"message","message":{"role":"user"}}\n', ["line 3: cannot be read"]),
        (b"[" * 100_000 + b"\n", ["line 3: cannot be read"]),
        (b'"text"\n{}\n5\n', ["line 3: ", "line 4: ", "line 5: "]),
        (
            b'{"type":"branch","from":"lost"}\n',
            ["line 3: ignored: it branches from a message that does not exist"],
        ),
        (ONE, ["line 3: skipped: it repeats an earlier message"]),
        (
            raw_line({"role": "custom", "name": "compaction", "data": {"usage": {}, "cost": "a lot"}}),
            ["line 3: cannot be read"],
        ),
        (b"\n\r\n \t\n", []),
        (b'{"type":"from-the-future","x":[1]}\n', []),
    ],
    ids=["nuls", "bytes", "shape", "depth", "values", "branch", "repeated", "cost", "blank", "unknown-type"],
)
def test_a_broken_line_hides_no_other(directory: Path, broken: bytes, found: list[str]) -> None:
    stored = read_session(file_of(directory, METADATA, ONE, broken, line("two")))
    assert texts(stored.history.active()) == ["one", "two"]
    assert [report[: len(start)] for report, start in zip(stored.damage, found, strict=True)] == found


def test_repairable_lines_are_repaired(directory: Path) -> None:
    """NULs before a line come from a power failure, a byte order mark from an editor."""
    path = file_of(
        directory,
        b"\xef\xbb\xbf" + METADATA,
        b"\0\0\0" + line("after NULs"),
        line("windows").replace(b"\n", b"\r\n"),
        line("half", "x").replace(b"half", rb"half \ud83d pair"),
        line("bytes", "y").replace(b"bytes", b"b\xffytes"),
        line("separators \u2028 \u2029 \x85"),
    )
    stored = read_session(path)
    assert texts(stored.history.active()) == [
        "after NULs",
        "windows",
        "half \ufffd pair",
        "b\ufffdytes",
        "separators \u2028 \u2029 \x85",
    ]
    assert stored.metadata.cwd == "/src/shop"
    assert [report.partition(":")[0] for report in stored.damage] == ["line 1", "line 2", "line 4", "line 5"]


def test_without_metadata_the_file_name_identifies_the_session(directory: Path, opened: Open) -> None:
    file_of(directory, line("one"))
    session = opened(continue_=True)
    data = session.get_data()
    assert data is not None
    assert (data.metadata.id, data.metadata.timestamp, texts(data.messages)) == (
        "s1",
        "2025-10-12T10:00:00.000Z",
        ["one"],
    )
    assert session.damage == ["line 1: metadata is missing; id and time are taken from the file's name"]


def test_two_messages_with_one_id_are_both_kept(directory: Path) -> None:
    stored = read_session(file_of(directory, METADATA, line("one", "x"), line("other", "x")))
    messages = stored.history.active()
    assert texts(messages) == ["one", "other"]
    assert len({message.id for message in messages}) == 2
    assert len(stored.damage) == 1


def test_foreign_messages_without_ids_get_the_same_id_at_each_reading(directory: Path) -> None:
    """The specification's own examples have no ids; branches and other files refer to them."""
    path = file_of(
        directory,
        METADATA,
        raw_line({"role": "user", "content": "Fix the bug"}),
        raw_line(
            {
                "role": "assistant",
                "content": [{"type": "toolCall", "id": "c", "name": "read", "arguments": {}}],
            }
        ),
        raw_line({"role": "toolResult", "toolCallId": "c", "output": "x"}),
        raw_line({"role": "artifact", "filename": "test.ts"}),
    )
    stored = read_session(path)
    messages = stored.history.active()
    assert stored.damage == []
    assert messages == read_session(path).history.active()
    assert [type(message) for message in messages] == [
        UserMessage,
        AssistantMessage,
        ToolResultMessage,
        CustomMessage,
    ]
    last = messages[-1]
    assert isinstance(last, CustomMessage)
    assert (last.name, last.data) == ("artifact", {"filename": "test.ts"})


def test_the_history_is_valid_where_a_line_was_lost(directory: Path) -> None:
    """A provider refuses a call without a result and a result without a call: the session would be unusable."""
    call = AssistantMessage([TextContent("I make it"), ToolCall("c", "bash", {})], stop_reason="toolUse")
    answer = ToolResultMessage("c", "bash", "made", is_error=False)
    lost = b'{"type":"mess\n'
    without_result = file_of(
        directory, METADATA, line("one"), encode_line(MessageLine(call)), lost, line("two")
    )
    messages = read_session(without_result).history.active()
    assert messages == read_session(without_result).history.active()
    assert open_calls(messages[:3]) == open_calls(messages) == []
    assert isinstance(messages[2], ToolResultMessage)
    assert (messages[2].tool_call_id, messages[2].output) == ("c", INTERRUPTED)

    without_call = file_of(
        directory, METADATA, line("one"), lost, encode_line(MessageLine(answer)), line("two")
    )
    messages = read_session(without_call).history.active()
    assert [type(message) for message in messages] == [UserMessage, CustomMessage, UserMessage]
    assert isinstance(messages[1], CustomMessage)
    assert messages[1].data["output"] == "made"


def test_a_torn_end_is_saved_beside_the_file_and_removed_only_for_writing(
    directory: Path, opened: Open
) -> None:
    whole = METADATA + line("one")
    path = file_of(directory, whole, line("two")[:-9])
    torn = path.with_name(path.name + ".torn")

    assert read_session(path).damage == [f"line 3: cut off after {len(line('two')) - 9} bytes"]
    session = opened(continue_=True)
    assert not torn.exists()
    session.append_message(UserMessage("three"))
    session.close()

    assert torn.read_bytes() == line("two")[:-9] + b"\n"
    assert torn.stat().st_mode & 0o777 == 0o600
    stored = read_session(path)
    assert (texts(stored.history.active()), stored.damage) == (["one", "three"], [])


def test_a_torn_end_that_cannot_be_saved_beside_the_file_stays_in_it(directory: Path, opened: Open) -> None:
    whole = METADATA + line("one") + line("two")[:-9]
    path = file_of(directory, whole)
    path.with_name(path.name + ".torn").mkdir()
    session = opened(continue_=True)
    with pytest.raises(SessionError, match="Is a directory"):
        session.append_message(UserMessage("three"))
    session.close()
    assert path.read_bytes() == whole


def test_a_50_mb_line_loads(directory: Path) -> None:
    big = "x" * 50_000_000
    path = file_of(directory, METADATA, line(big, "big"), line("after"))
    assert texts(read_session(path).history.active()) == [big, "after"]


@pytest.mark.slow  # a hundred thousand lines
def test_a_hundred_thousand_broken_lines_make_a_short_report(directory: Path) -> None:
    stored = read_session(file_of(directory, METADATA, b"?\n" * 100_000, line("one")))
    assert texts(stored.history.active()) == ["one"]
    assert len(stored.damage) == 101
    assert stored.damage[-1] == "99,900 more"


def test_a_report_of_damage_shows_no_control_characters(directory: Path) -> None:
    stored = read_session(
        file_of(directory, METADATA, raw_line({"role": "user", "content": [{"type": "\x1b]52;c;evil\x07"}]}))
    )
    assert len(stored.damage) == 1
    assert stored.damage[0].isprintable()


@pytest.mark.parametrize("lost", ["call", "result"])
def test_a_lost_line_leaves_a_history_that_every_model_accepts(tmp_path: Path, lost: str) -> None:
    """Otherwise no request with this session would ever be answered again."""
    call = ToolCall("c1", "bash", {"command": "ls"})
    said = [
        UserMessage("go"),
        AssistantMessage([call]),
        ToolResultMessage("c1", "bash", "done", is_error=False),
        AssistantMessage([TextContent("Done.")]),
    ]
    with SessionManager(directory=tmp_path, cwd="/p") as session:
        session.start_session({})
        for message in said:
            session.append_message(message)
        path = session.get_file_path()
    assert path is not None
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[2 if lost == "call" else 3]
    path.write_bytes(b"".join(lines))
    with SessionManager(directory=tmp_path, cwd="/p", continue_=True) as session:
        kinds = [type(message) for message in session.get_messages()]
        assert session.damage
    assert kinds == (
        [UserMessage, CustomMessage, AssistantMessage]
        if lost == "call"
        else [UserMessage, AssistantMessage, ToolResultMessage, AssistantMessage]
    )
