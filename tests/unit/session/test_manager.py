"""If these fail, a conversation cannot be found, resumed, named or branched."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from newel.agent.errors import SessionError
from newel.agent.messages import (
    INTERRUPTED,
    AppMessage,
    AssistantMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from newel.session.file_format import QueuedLine
from newel.session.listing import list_sessions
from newel.session.manager import SessionManager

Open = Callable[..., SessionManager]


def said(session: SessionManager, *texts: str) -> list[AppMessage]:
    messages: list[AppMessage] = [UserMessage(text) for text in texts]
    for message in messages:
        session.append_message(message)
    return messages


def calling(*ids: str) -> AssistantMessage:
    calls: list[TextContent | ToolCall] = [ToolCall(call_id, "bash", {"command": "make"}) for call_id in ids]
    return AssistantMessage([*calls], stop_reason="toolUse")


def result(call_id: str) -> ToolResultMessage:
    return ToolResultMessage(call_id, "bash", "done", is_error=False)


def test_the_file_has_the_documented_place_and_format(opened: Open, directory: Path) -> None:
    """Other programs read these files; they rely on folder, name and lines."""
    session = opened()
    session.start_session({"model": "qwen"})
    message = said(session, "hello")[0]
    path = session.get_file_path()
    assert path is not None
    assert path.parent == directory / "--src-shop--"
    stamp, _, rest = path.name.partition("_")
    assert rest == f"{session.get_id()}.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0]["timestamp"].replace(":", "-").replace(".", "-") == stamp
    assert lines[0] == {
        "type": "metadata",
        "id": session.get_id(),
        "timestamp": lines[0]["timestamp"],
        "cwd": "/src/shop",
        "config": {"model": "qwen"},
    }
    assert [line["type"] for line in lines[1:]] == ["message"]
    assert lines[1]["message"].items() >= {"role": "user", "content": "hello", "id": message.id}.items()


def test_sessions_are_private(opened: Open, directory: Path) -> None:
    session = opened()
    said(session, "hello")
    path = session.get_file_path()
    assert path is not None
    files = [*path.parent.iterdir()]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert [folder.stat().st_mode & 0o777 for folder in (path.parent, directory)] == [0o700, 0o700]


def test_no_key_is_ever_written(opened: Open) -> None:
    session = opened()
    session.start_session(
        {
            "model": "m",
            "maxTokens": 100,
            "api_key": "sk-1",
            "baseUrl": "https://me:hunter2@host/v1",
            "headers": {"Authorization": "Bearer sk-2"},
        }
    )
    said(session, "hello")
    data = session.get_data()
    assert data is not None
    assert data.metadata.config == {
        "model": "m",
        "maxTokens": 100,
        "baseUrl": "https://host/v1",
        "headers": {},
    }


def test_an_empty_session_leaves_no_file(opened: Open, directory: Path) -> None:
    session = opened()
    session.start_session({})
    session.set_name("named, but silent")
    assert (session.has_data(), session.get_data()) == (False, None)
    session.close()
    assert not directory.exists()


def test_continue_opens_the_latest_session_of_this_project(opened: Open) -> None:
    """/src/sh-op and /src/sh/op share a folder; their conversations must not mix."""
    here, there = opened(cwd="/src/sh-op"), opened(cwd="/src/sh/op")
    mine = said(here, "mine")
    said(there, "theirs")
    here.close()
    there.close()
    again = opened(cwd="/src/sh-op", continue_=True)
    assert (again.get_messages(), again.get_id(), again.is_started()) == (mine, here.get_id(), True)


def test_continue_without_an_earlier_session_starts_one(opened: Open) -> None:
    session = opened(continue_=True)
    assert (session.has_data(), session.is_started()) == (False, False)


def test_a_session_opens_by_id_by_id_prefix_and_by_path(opened: Open) -> None:
    first = opened(cwd="/elsewhere")
    messages = said(first, "hello")
    first.close()
    for word in (first.get_id(), first.get_id()[:8], str(first.get_file_path())):
        session = opened(session=word)
        assert session.get_messages() == messages
        session.close()


def test_an_unknown_or_ambiguous_session_is_refused_with_a_message(opened: Open) -> None:
    for _ in range(17):  # two of them start with the same digit
        session = opened()
        said(session, "hello")
        session.close()
    with pytest.raises(SessionError, match="has an id that starts with 'nothing'"):
        opened(session="nothing")
    with pytest.raises(SessionError, match="does not exist"):
        opened(session="/nowhere/at/all.jsonl")
    with pytest.raises(SessionError, match="id is empty"):
        opened(session="")
    refusals: list[str] = []
    for digit in "0123456789abcdef":
        try:
            opened(session=digit).close()
        except SessionError as error:
            refusals.append(str(error))
    assert any("Give more of the id" in refusal for refusal in refusals)


def test_an_ephemeral_session_works_without_a_file(opened: Open, directory: Path) -> None:
    session = opened(ephemeral=True)
    session.start_session({"model": "m"})
    first, second = said(session, "one", "two")
    session.set_name("scratch")
    session.branch(first.id)
    assert session.get_messages() == [first]
    third = said(session, "three")
    assert session.get_messages() == [first, *third]
    assert [entry.message for entry in session.get_tree()] == [first, second, *third]
    assert (session.get_file_path(), session.get_name(), directory.exists()) == (None, "scratch", False)


def test_a_new_session_leaves_the_previous_one_unchanged(opened: Open) -> None:
    session = opened()
    session.start_session({})
    before = said(session, "before")
    old = session.get_id()
    session.start_session({})
    said(session, "after")
    assert session.get_id() != old
    assert opened(session=old).get_messages() == before


def test_a_message_appended_twice_is_stored_once(opened: Open) -> None:
    """After a crash, the messages of a run may be appended again."""
    session = opened()
    messages = said(session, "once")
    session.append_message(messages[0])
    session.close()
    assert opened(continue_=True).get_messages() == messages


def test_a_name_given_before_the_first_message_is_stored(opened: Open) -> None:
    session = opened()
    session.set_name("a  name\n\x1b[31mwith colour")
    session.start_session({})
    said(session, "hello")
    session.close()
    again = opened(continue_=True)
    assert again.get_name() == "a name [31mwith colour"
    again.set_name("")
    again.close()
    assert opened(continue_=True).get_name() is None


def test_a_name_given_while_the_first_message_waits_is_stored(opened: Open) -> None:
    """The file is there by then, as what waits is kept in it."""
    session = opened()
    session.start_session({})
    session.queue(QueuedLine("1", "hello"))
    session.set_name("stairs")
    said(session, "hello")
    session.close()
    assert opened(continue_=True).get_name() == "stairs"


def test_a_branch_continues_from_its_message_and_keeps_the_later_ones(opened: Open) -> None:
    session = opened()
    one, two, three = said(session, "one", "two", "three")
    session.branch(one.id)
    assert session.get_messages() == [one]
    four = said(session, "four")[0]
    session.close()

    again = opened(continue_=True)
    assert again.get_messages() == [one, four]
    tree = [(entry.message, entry.parent_id, entry.active) for entry in again.get_tree()]
    assert tree == [(one, None, True), (two, one.id, False), (three, two.id, False), (four, one.id, True)]
    again.branch(None)
    assert again.get_messages() == []
    five = said(again, "five")
    again.close()
    assert opened(continue_=True).get_messages() == five


def test_looking_back_without_writing_changes_nothing(opened: Open, directory: Path) -> None:
    """Otherwise the session is listed as empty, though all of it is there."""
    session = opened()
    messages = said(session, "one", "two")
    session.branch(None)
    assert session.get_messages() == []
    session.set_name("kept")
    session.close()
    assert [(each.messages, each.first_text) for each in list_sessions(directory)] == [(2, "one")]
    assert opened(continue_=True).get_messages() == messages


def test_a_branch_from_a_tool_call_includes_its_results(opened: Open) -> None:
    """Without them, the model would be told that finished work has an unknown outcome."""
    session = opened()
    question = said(session, "make it")
    call, first, second = calling("a", "b"), result("a"), result("b")
    for message in (call, first, second, UserMessage("thanks")):
        session.append_message(message)
    whole = [*question, call, first, second]
    session.branch(call.id)
    assert session.get_messages() == whole
    session.branch(first.id)
    assert session.get_messages() == whole


def test_a_branch_from_an_unknown_message_is_refused(opened: Open) -> None:
    session = opened()
    messages = said(session, "hello")
    with pytest.raises(SessionError, match="There is no message 'nonsense'"):
        session.branch("nonsense")
    assert session.get_messages() == messages


def test_calls_left_open_by_a_crash_are_answered_and_not_run_again(opened: Open) -> None:
    session = opened()
    question = said(session, "make it")
    call, first = calling("a", "b"), result("a")
    session.append_message(call)
    session.append_message(first)
    session.close()

    again = opened(continue_=True)
    messages = again.get_messages()
    assert messages[:-1] == [*question, call, first]
    last = messages[-1]
    assert isinstance(last, ToolResultMessage)
    assert (last.tool_call_id, last.output, last.is_error) == ("b", INTERRUPTED, True)
    again.close()
    assert opened(continue_=True).get_messages() == messages


def test_a_closed_session_refuses_messages(opened: Open) -> None:
    session = opened()
    messages = said(session, "hello")
    session.close()
    session.close()
    with pytest.raises(SessionError, match="closed"):
        session.append_message(UserMessage("too late"))
    assert session.get_messages() == messages


def test_a_message_that_is_not_json_is_refused_and_the_session_stays_usable(opened: Open) -> None:
    session = opened()
    messages = said(session, "hello")
    with pytest.raises(SessionError, match="cannot be saved"):
        session.append_message(ToolResultMessage("a", "x", "", is_error=False, details={"bad": object()}))
    messages += said(session, "still here")
    session.close()
    assert opened(continue_=True).get_messages() == messages


def test_half_a_surrogate_pair_does_not_lose_the_message(opened: Open) -> None:
    """A file name that is not UTF-8 has such characters, which cannot be sent to a model."""
    session = opened()
    said(session, "file \udcff.txt", "pair \ud83d\ude00")
    session.close()
    again = opened(continue_=True)
    assert [message.text for message in again.get_messages() if isinstance(message, UserMessage)] == [
        "file \ufffd.txt",
        "pair 😀",
    ]
    assert again.damage == []


def test_a_project_with_a_very_long_path_has_sessions(opened: Open) -> None:
    cwd = "/" + "/".join(["a-long-folder-name"] * 20)
    session = opened(cwd=cwd)
    messages = said(session, "hello")
    session.close()
    assert opened(cwd=cwd, continue_=True).get_messages() == messages
    assert not opened(cwd=cwd + "/other", continue_=True).has_data()


def waiting(session: SessionManager) -> list[str]:
    return [line.text for line in session.queued()]


def test_what_is_queued_waits_until_its_message_is_saved_or_it_is_given_up(opened: Open) -> None:
    session = opened()
    session.start_session({})
    session.queue(QueuedLine("1", "sent"), QueuedLine("2", "given up"), QueuedLine("3", "left"))
    session.append_message(UserMessage("sent", id="1"))
    session.queue(instead_of=["2", "unknown"])
    assert waiting(session) == ["left"]
    session.close()
    again = opened(continue_=True)
    assert waiting(again) == ["left"]
    assert again.damage == []
    again.queue(QueuedLine("4", "instead"), instead_of=["3"])
    again.close()
    assert waiting(opened(continue_=True)) == ["instead"]


def test_a_conversation_of_which_only_the_queue_is_known_can_be_continued(
    opened: Open, directory: Path
) -> None:
    session = opened()
    session.start_session({})
    session.queue(QueuedLine("1", "first"))
    session.close()
    again = opened(continue_=True)
    assert waiting(again) == ["first"]
    again.append_message(UserMessage("first", id="1"))
    again.close()
    empty = opened()
    empty.start_session({})
    empty.queue(QueuedLine("1", "given up"))
    empty.queue(instead_of=["1"])
    empty.close()
    assert len(list(directory.rglob("*.jsonl"))) == 1  # --continue must not open an empty one
