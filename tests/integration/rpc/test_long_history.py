"""If these fail, a long conversation that is opened again has lost its beginning, counts it wrongly, or shows it to the model again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from newel.agent.messages import AppMessage
from tests.compacted_session import TURNS, conversation, write
from tests.integration.rpc.conftest import Program
from tests.support import Newel

Open = Callable[..., Program]
WHOLE = conversation()


@pytest.fixture
def path(newel: Newel) -> Path:
    found = write(newel.home / ".newel" / "sessions", newel.project).get_file_path()
    assert found is not None
    return found


def ids(messages: list[Any]) -> list[str]:
    return [message["id"] for message in messages]


def said_to(newel: Newel) -> str:
    """What the model got with its last request."""
    return json.dumps(newel.requests[-1]["messages"], ensure_ascii=False)


def test_the_whole_conversation_is_there_and_is_counted(open_rpc: Open, path: Path) -> None:
    rpc = open_rpc("--continue")
    found = rpc.ask("messages")["data"]
    assert msgspec.convert(found["messages"], list[AppMessage]) == [
        msgspec.structs.replace(message, timestamp=each["timestamp"])
        for message, each in zip(WHOLE, found["messages"], strict=True)
    ]
    assert found["total"] == len(WHOLE)
    last = rpc.ask("messages", limit=len(WHOLE) - 3)["data"]["messages"]
    assert ids(last) == [message.id for message in WHOLE[3:]]
    stats = rpc.ask("stats")["data"]
    counts = ("userMessages", "assistantMessages", "toolCalls", "failedToolCalls", "compactions")
    assert [stats.get(count) for count in counts] == [TURNS, 2 * TURNS, TURNS, 1, 2]
    assert stats["usage"]["input"] == 2 * sum(1_000 * turn for turn in range(1, TURNS + 1)) + 2 * 7
    assert stats["usage"]["output"] == 2 * TURNS * 10 + 2 * 3
    assert stats["cost"] == TURNS * 0.25 + 2 * 0.5
    assert stats["context"] == TURNS * 1_000 + 10
    assert rpc.ask("state")["data"]["messageCount"] == len(WHOLE)
    exported = rpc.ask("export")["data"]["text"]
    for message in WHOLE:
        assert getattr(message, "output", "") in exported
        assert getattr(message, "text", "") in exported


def test_the_model_sees_the_summary_and_what_follows(newel: Newel, open_rpc: Open, path: Path) -> None:
    rpc = open_rpc("--continue")
    rpc.ask("prompt", text="hello there")
    rpc.event("agent_end")
    said = said_to(newel)
    for words in ("summary before turn 7", "answer 6", "prompt 7", "result 9", "hello there"):
        assert words in said, words
    for words in ("summary before turn 4", "result 6", "prompt 6", "answer 5"):
        assert words not in said, words
    assert rpc.ask("stats")["data"]["userMessages"] == TURNS + 1


def test_the_next_summary_still_has_the_first_request(newel: Newel, open_rpc: Open, path: Path) -> None:
    rpc = open_rpc("--continue")
    summary = rpc.ask("compact")["data"]["summary"]
    assert f"# The user's first request\n{getattr(WHOLE[0], 'text', '')}" in summary
    assert "prompt 9" in summary


@pytest.mark.parametrize("turn", [2, 5, 8])
def test_a_copy_up_to_any_message_begins_as_the_conversation_did(
    newel: Newel, open_rpc: Open, path: Path, turn: int
) -> None:
    """The second one is before the last compaction, the first one before both."""
    rpc = open_rpc("--continue")
    rpc.ask("fork", messageId=f"prompt-{turn}", before=True)
    end = [message.id for message in WHOLE].index(f"prompt-{turn}")
    found = rpc.ask("messages")["data"]["messages"]
    assert ids(found) == [message.id for message in WHOLE[:end]]
    rpc.ask("prompt", text="hello there")
    rpc.event("agent_end")
    said = said_to(newel)
    assert f"result {turn - 1}" in said
    assert ("summary before turn 4" in said, "summary before turn 7" in said) == (turn == 5, turn == 8)
    assert f"prompt {turn}" not in said


def test_a_file_that_is_removed_meanwhile_is_still_read(open_rpc: Open, path: Path) -> None:
    rpc = open_rpc("--continue")
    assert rpc.ask("state")["success"]
    path.unlink()
    assert ids(rpc.ask("messages")["data"]["messages"]) == [message.id for message in WHOLE]


def test_a_file_that_another_program_overwrote_is_an_error_and_the_conversation_goes_on(
    newel: Newel, open_rpc: Open, path: Path
) -> None:
    rpc = open_rpc("--continue")
    assert rpc.ask("state")["success"]
    with path.open("r+b") as stream:
        stream.write(b"x" * (path.stat().st_size // 3))
    refused = rpc.ask("messages")
    assert not refused["success"]
    assert f"{path} was changed by another program" in refused["error"]["message"]
    rpc.ask("prompt", text="hello there")
    assert rpc.event("agent_end")["reason"] == "done"
    assert "summary before turn 7" in said_to(newel)
    assert rpc.ask("messages", limit=2)["data"]["total"] == len(WHOLE) + 2
    summary = rpc.ask("compact")["data"]["summary"]
    assert "hello there" in summary
