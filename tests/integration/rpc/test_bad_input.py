"""If these fail, a defect in the program that drives Newel ends the session, or goes unnoticed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.rpc.conftest import Program

Open = Callable[..., Program]

BAD: list[tuple[str, Any, str | None, str]] = [
    ("junk", None, None, "JSON is malformed"),
    ("[]", None, None, "Expected `object`"),
    ("{}", None, None, "missing required field `type`"),
    ("\x00\x01", None, None, "JSON is malformed"),
    ("[" * 5000, None, None, "Invalid command"),
    ('{"type":"state","id":1', None, None, "it ends too early"),
    ('{"id":1,"type":"nope"}', 1, "nope", "There is no command 'nope'"),
    ('{"id":1,"type":7}', 1, None, "Invalid command"),
    ('{"id":"a","type":"state","more":1}', "a", "state", "unknown field `more`"),
    ('{"id":"a","type":"prompt"}', "a", "prompt", "missing required field `text`"),
    ('{"id":"a","type":"prompt","text":7}', "a", "prompt", "got `int` - at `$.text`"),
    ('{"id":"a","type":"prompt","text":" \\n"}', "a", "prompt", "The text is empty"),
    ('{"id":"a","type":"steer","text":" "}', "a", "steer", "The text is empty"),
    ('{"id":"a","type":"model","model":" "}', "a", "model", "name of the model is empty"),
    ('{"id":"a","type":"thinking","level":"much"}', "a", "thinking", "Invalid enum value"),
    ('{"id":"a","type":"decide","verdict":"keep"}', "a", "decide", "Name hunks or files"),
    ('{"id":"a","type":"sessions","limit":0}', "a", "sessions", "`int` >= 1"),
    ('{"id":true,"type":"state"}', None, "state", "at `$.id`"),
    ('{"id":{},"type":"state"}', None, "state", "at `$.id`"),
    ('{"id":[1],"type":"state"}', None, "state", "at `$.id`"),
    (f'{{"id":"{"x" * 257}","type":"state"}}', None, "state", "at `$.id`"),
    ('{"id":"a","type":"prompt","text":"\\ud800"}', None, None, "a lone surrogate"),
    ('{"id":"a","type":"message","content":"of JSON mode"}', "a", "message", "There is no command"),
]


def test_each_bad_line_is_answered_and_the_session_goes_on(open_rpc: Open) -> None:
    program = open_rpc()
    for line, request_id, name, words in BAD:
        program.write(line)
        response = program.event("response")
        assert (response["success"], response["error"]["code"]) == (False, "bad_request"), line
        assert (response["id"], response["command"]) == (request_id, name), line
        assert words in response["error"]["message"], response
        assert len(response["error"]["message"]) < 1000
    assert program.ask("prompt", text="hello there")["success"] is True
    assert program.end() == 0


def test_a_line_of_100_mb_is_skipped_and_answered(open_rpc: Open) -> None:
    """Neither does it fill the memory, nor is a part of it taken for a command."""
    program = open_rpc()
    program.write('{"type":"prompt","text":"' + "x" * 100_000_000 + '"}')
    response = program.event("response")
    assert (response["id"], response["command"]) == (None, None)
    assert "more than 67,108,864 bytes" in response["error"]["message"]
    assert program.ask("state")["data"]["messageCount"] == 0
    assert peak_kb(program.process.pid) < 400_000


def peak_kb(pid: int) -> int:
    """The largest size of a process's memory so far. 0 where it is not known."""
    from tests.processes import read_proc

    lines = [line for line in read_proc(pid, "status").splitlines() if line.startswith("VmHWM")]
    return int(lines[0].split()[1]) if lines else 0


def test_empty_lines_and_a_byte_order_mark_are_ignored(open_rpc: Open) -> None:
    program = open_rpc()
    program.write('\ufeff{"type":"state","id":1}\n\n   \n{"type":"state","id":2}\r')
    assert program.end() == 0
    assert [line["id"] for line in program.lines] == [1, 2]


@pytest.mark.parametrize("wrong", [{"content": "not base64"}, {"mimeType": "image/svg+xml"}, {"size": -1}])
def test_an_unreadable_attachment_is_refused(open_rpc: Open, wrong: dict[str, Any]) -> None:
    """Once in the conversation, it would fail every later request."""
    image = {
        "type": "image", "fileName": "a.png", "mimeType": "image/png", "size": 8, "content": "iVBORw0KGgo=",
    }  # fmt: skip
    program = open_rpc()
    response = program.ask("prompt", text="hello there", attachments=[image | wrong])
    assert response["error"]["code"] == "bad_request"
    assert "'a.png' cannot be used" in response["error"]["message"]
    assert program.ask("prompt", text="hello there", attachments=[image])["success"] is True


def test_commands_that_come_all_at_once_are_answered_in_order(open_rpc: Open) -> None:
    program = open_rpc()
    lines = [json.dumps({"type": "state", "id": number}) for number in range(2_000)]
    program.write("\n".join(lines))
    assert program.end() == 0
    assert [line["id"] for line in program.lines] == list(range(2_000))
