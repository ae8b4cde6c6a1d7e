"""If these fail, an old conversation fills the memory, or is another one when it is read again."""

from __future__ import annotations

import tempfile
import tracemalloc
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.agent.errors import SessionError
from newel.agent.messages import AppMessage, AssistantMessage, CustomMessage, TextContent, Usage, UserMessage
from newel.agent.transform import Transformer
from newel.session.manager import SessionManager
from newel.session.reader import read_session
from newel.session.totals import totals
from tests.compacted_session import conversation, write


class Step(msgspec.Struct, frozen=True):
    """Go back to an earlier message (-1: to the start, None: go on), and add a message, or a compaction that keeps the messages from one
    on.
    """

    back: int | None
    kept: int | None


numbers = st.none() | st.integers(-1, 8)


@given(st.lists(st.builds(Step, numbers, numbers), max_size=14))
def test_the_parts_of_any_conversation_are_the_whole_and_the_model_sees_the_same(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder, SessionManager(directory=Path(folder), cwd="/x") as session:
        said: list[AppMessage] = [UserMessage("begin")]
        session.append_message(said[0])
        for number, step in enumerate(steps):
            if step.back is not None:
                session.branch(said[step.back % len(said)].id if step.back >= 0 else None)
            if step.kept is None:
                said.append(
                    AssistantMessage(
                        [TextContent(f"step {number}")], usage=Usage(input=number + 1), cost=float(number)
                    )
                )
            else:
                kept = said[step.kept % len(said)].id if step.kept >= 0 else "unknown"
                said.append(CustomMessage("compaction", {"summary": f"sum {number}", "firstKept": kept}))
            session.append_message(said[-1])
        whole = session.get_messages()
        path = session.get_file_path()
        assert path is not None
        tree = read_session(path).history
    earlier, seen = tree.parts()
    assert [*earlier, *seen] == tree.active() == whole
    assert Transformer()(seen) == Transformer()(whole)
    assert totals(seen, earlier.totals) == totals(whole) == tree.history().totals
    assert [tree.get(message.id) for message in said] == said


def test_what_was_summarized_is_not_in_memory(tmp_path: Path) -> None:
    """As text in memory it would take 40 MB."""
    with SessionManager(directory=tmp_path, cwd="/x") as session:
        for turn in range(100):
            session.append_message(UserMessage(f"{turn}" + "x" * 100_000 + "\N{PARTY POPPER}"))
            if turn % 10 == 9:
                session.append_message(CustomMessage("compaction", {"summary": "", "firstKept": ""}))
        path = session.get_file_path()
    assert path is not None
    tracemalloc.start()
    try:
        stored = read_session(path)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(stored.history) == 110
    assert held < 2_000_000


def test_an_incomplete_line_of_another_program_is_the_same_each_time(tmp_path: Path) -> None:
    """It has no time, and its attachment no id: each reading would make new ones."""
    path = write(tmp_path, Path("/x")).get_file_path()
    assert path is not None
    attachment = '{"type":"document","fileName":"a","mimeType":"text/plain","size":1,"content":""}'
    bare = '{"type":"message","message":{"role":"user","content":"bare","id":"bare","attachments":[%s]}}'
    metadata, _, rest = path.read_text().partition("\n")
    path.write_text("\n".join([metadata, bare % attachment, rest]))
    tree = read_session(path).history
    assert tree.get("bare") == tree.get("bare") == tree.active()[0]
    assert tree.parts()[0][0].timestamp == read_session(path).metadata.timestamp


def test_a_branch_that_cannot_be_read_any_more_is_not_taken(tmp_path: Path) -> None:
    path = write(tmp_path, Path("/x")).get_file_path()
    assert path is not None
    with SessionManager(directory=tmp_path, cwd="/x", session=str(path)) as session:
        seen = session.get_parts()[1]
        with path.open("r+b") as stream:
            stream.write(b" " * (path.stat().st_size // 3))
        with pytest.raises(SessionError, match="was changed by another program"):
            session.branch("answer-2")
        assert session.get_parts()[1] == seen
        session.append_message(UserMessage("it goes on"))
        assert session.get_parts()[1][:-1] == seen
        assert len(session.get_tree()) == len(conversation()) + 1
