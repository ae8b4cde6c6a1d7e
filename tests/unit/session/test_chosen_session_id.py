"""If these fail, the workbench's tabs lose their sessions."""

from __future__ import annotations

from pathlib import Path

from newel.agent.messages import AssistantMessage, ToolCall, UserMessage
from newel.session.manager import SessionManager


def test_a_session_with_a_chosen_id_is_found_under_it(tmp_path: Path) -> None:
    for words in ("first", "second"):
        with SessionManager(directory=tmp_path, cwd="/src/shop", own_id="a" * 32) as session:
            session.append_message(UserMessage(content=words))
            said = session.get_messages()
    assert [message.text for message in said if isinstance(message, UserMessage)] == ["first", "second"]
    assert len(list(tmp_path.rglob("*.jsonl"))) == 1


def test_an_id_prefix_is_not_the_id(tmp_path: Path) -> None:
    with SessionManager(directory=tmp_path, cwd="/src/shop", own_id="abcd") as session:
        session.append_message(UserMessage(content="mine"))
    with SessionManager(directory=tmp_path, cwd="/src/shop", own_id="ab") as other:
        assert other.get_messages() == []


def test_an_open_call_stays_open_for_the_run_that_resumes_it(tmp_path: Path) -> None:
    call = AssistantMessage(content=[ToolCall("c1", "read", {"file_path": "a"})])
    with SessionManager(directory=tmp_path, cwd="/src/shop", own_id="x") as session:
        session.append_message(UserMessage(content="read it"))
        session.append_message(call)
    with SessionManager(directory=tmp_path, cwd="/src/shop", own_id="x", settle=False) as session:
        assert session.get_messages()[-1] == call


def test_a_tab_whose_session_was_never_written_creates_it(tmp_path: Path) -> None:
    """A process that dies between creating the file and its first write leaves an empty one; the tab must open again."""
    folder = tmp_path / "--src-shop--"
    folder.mkdir()
    (folder / "2026-01-01T00-00-00-000Z_tab1.jsonl").touch()
    for words in ("one", "two"):
        with SessionManager(directory=tmp_path, cwd="/src/shop", own_id="tab1") as session:
            session.append_message(UserMessage(words))
    with SessionManager(directory=tmp_path, cwd="/src/shop", own_id="tab1") as session:
        assert [message.text for message in session.get_messages() if isinstance(message, UserMessage)] == [
            "one",
            "two",
        ]
        assert session.damage == []
