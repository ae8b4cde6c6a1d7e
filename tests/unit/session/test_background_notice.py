"""If these fail, the model waits for a command that has ended, or is told the same end again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    CustomMessage,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from newel.session.background_notice import ended_notice
from newel.session.history import History
from newel.session.manager import SessionManager
from newel.session.reader import read_session


def result(tool: str = "bash", **details: Any) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id="c1", tool_name=tool, output="", is_error=False, details=details)


def told(messages: list[AppMessage]) -> str:
    message = ended_notice(History().followed_by(messages), lambda _: None)
    return message.text if message else ""


STARTED = result(background="b1a2", command="npm run dev")


def test_a_command_of_an_earlier_process_has_ended_with_it() -> None:
    assert told([STARTED]) == "The background command b1a2 has ended, because Newel did: npm run dev"


def test_an_end_is_told_once() -> None:
    other = result(background="b3f4", command="make")
    notice = ended_notice(History().followed_by([STARTED, other]), lambda _: None)
    assert notice is not None
    assert told([STARTED, other, notice]) == ""
    assert told([STARTED, notice, STARTED]) != ""  # the conversation went back, and it began again


def test_what_a_call_has_told_is_not_told_again() -> None:
    assert told([STARTED, result("bash_output", backgroundEnded="b1a2")]) == ""
    assert told([STARTED, result("bash_output", state="running")]) != ""


def test_a_command_from_before_a_compaction_is_told(tmp_path: Path) -> None:
    with SessionManager(directory=tmp_path, cwd="/x") as session:
        call = ToolCall("c1", "bash", {"command": "npm run dev"})
        session.extend([AssistantMessage([call]), STARTED, CustomMessage("compaction", {"firstKept": ""})])
        path = session.get_file_path()
    assert path is not None
    earlier, seen = read_session(path).history.parts()
    assert [type(message) for message in earlier] == [AssistantMessage, ToolResultMessage]
    notice = ended_notice(earlier.followed_by(seen), lambda _: None)
    assert notice is not None
    assert "b1a2" in notice.text


def test_hostile_details_do_no_harm() -> None:
    hostile: list[Any] = [1, None, [], "b1+b2", "x" * 100, "../../etc"]
    for background in hostile:
        assert told([result(background=background)]) == ""
    assert told([result(background="b1a2", command={"a": "\x1b[2J"})]).isprintable()
    assert told([UserMessage(content="", id="ended_b1a2_0"), STARTED]) != ""
