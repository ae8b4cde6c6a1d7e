"""If these fail, some history of messages and file damage loses recorded messages."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    Attachment,
    CustomMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from newel.session.manager import SessionManager
from newel.session.message_tree import TreeEntry
from newel.session.reader import read_session

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ["\u2028 \u2029 \x85", "\r\n", "a\nb", "\0", '{"type":"message"}', "é😀"]
)
numbers = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)
text_contents = st.builds(TextContent, texts)
images = st.builds(ImageContent, texts, texts)
calls = st.builds(ToolCall, texts, texts, json_objects, st.none() | texts)
usages = st.builds(Usage, *[st.integers(0, 2**40)] * 4)
attachments = st.builds(
    Attachment, st.sampled_from(["image", "document"]), texts, texts, st.integers(0, 2**40), texts
)
users = st.builds(
    UserMessage, texts | st.lists(text_contents | images, max_size=2), st.lists(attachments, max_size=1)
)
thoughts = st.builds(ThinkingContent, texts, st.none() | texts)


def assistants(
    content: st.SearchStrategy[TextContent | ThinkingContent | ToolCall],
) -> st.SearchStrategy[AppMessage]:
    return st.builds(
        AssistantMessage,
        st.lists(content, max_size=3),
        model=texts,
        usage=usages,
        cost=st.none() | st.floats(0, 1e6),
        stop_reason=st.sampled_from(["stop", "length", "toolUse", "error", "aborted"]),
        error_message=st.none() | texts,
    )


results = st.builds(
    ToolResultMessage, texts, texts, texts, st.booleans(), st.lists(images, max_size=1), json_objects
)
customs = st.builds(CustomMessage, texts, json_objects)
talk = users | assistants(text_contents | thoughts) | customs


@st.composite
def conversations(draw: st.DrawFn) -> list[AppMessage]:
    """Valid conversations: each call of a tool is followed by its result."""
    said: list[AppMessage] = []
    for message in draw(st.lists(talk | assistants(text_contents | calls), min_size=1, max_size=4)):
        if not isinstance(message, AssistantMessage):
            said.append(message)
            continue
        content = [
            msgspec.structs.replace(part, id=f"{part.id}-{place}") if isinstance(part, ToolCall) else part
            for place, part in enumerate(message.content)
        ]
        said.append(msgspec.structs.replace(message, content=content))
        said += [
            msgspec.structs.replace(draw(results), tool_call_id=part.id, tool_name=part.name)
            for part in content
            if isinstance(part, ToolCall)
        ]
    return said


def write(folder: Path, said: list[AppMessage]) -> Path:
    with SessionManager(directory=folder, cwd="/src/shop") as session:
        for message in said:
            session.append_message(message)
        path = session.get_file_path()
    assert path is not None
    return path


def resume(folder: Path, path: Path) -> tuple[list[AppMessage], list[str]]:
    with SessionManager(directory=folder, cwd="/src/shop", session=str(path)) as session:
        return session.get_messages(), session.damage


@given(conversations())
def test_messages_are_read_back_exactly(said: list[AppMessage]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), said)
        stored = read_session(path)
        assert (stored.history.active(), stored.damage) == (said, [])


@given(st.lists(talk, min_size=1, max_size=4), st.data())
def test_a_file_cut_at_any_byte_keeps_every_whole_line_and_can_be_continued(
    said: list[AppMessage], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), said)
        content = path.read_bytes()
        first = content.index(b"\n") + 1
        cut = data.draw(st.integers(first, len(content)), label="cut")
        path.write_bytes(content[:cut])
        whole = content[:cut].count(b"\n") - 1
        unended = content[cut : cut + 1] == b"\n"  # only the line end is missing
        loaded, damage = resume(Path(folder), path)
        assert loaded == said[: whole + unended]
        assert bool(damage) == (content[cut - 1 : cut] != b"\n" and not unended)

        more = UserMessage("and then")
        with SessionManager(directory=Path(folder), cwd="/src/shop", session=str(path)) as session:
            session.append_message(more)
        assert resume(Path(folder), path) == ([*loaded, more], [])


garbage = st.binary(min_size=1, max_size=40).filter(
    lambda junk: b"\n" not in junk and junk.strip(b"\r\t \v\f")
)


@given(st.lists(talk, min_size=1, max_size=4), st.lists(garbage, min_size=1, max_size=3), st.data())
def test_garbage_between_lines_hides_nothing_and_is_reported(
    said: list[AppMessage], junk: list[bytes], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), said)
        lines = path.read_bytes().split(b"\n")[:-1]
        for piece in junk:
            lines.insert(data.draw(st.integers(1, len(lines)), label="place"), piece)
        path.write_bytes(b"\n".join(lines) + b"\n")
        loaded, damage = resume(Path(folder), path)
        assert loaded == said
        assert len(damage) == len(junk)


@given(st.lists(st.integers(-1, 5), max_size=12))
def test_branches_are_the_same_after_reading(steps: list[int]) -> None:
    """Each step branches from the message of that number (-1: the start) and adds a message."""
    with tempfile.TemporaryDirectory() as folder, SessionManager(directory=Path(folder), cwd="/x") as session:
        said = [UserMessage("begin")]
        session.append_message(said[0])
        for number, step in enumerate(steps):
            session.branch(said[step % len(said)].id if step >= 0 else None)
            said.append(UserMessage(f"step {number}"))
            session.append_message(said[-1])
        path = session.get_file_path()
        assert path is not None
        stored = read_session(path)
        assert stored.history.active() == session.get_messages()
        assert _tree(stored.history.entries()) == _tree(session.get_tree())


def _tree(entries: Iterable[TreeEntry]) -> list[tuple[AppMessage, str | None, bool]]:
    return [(entry.message, entry.parent_id, entry.active) for entry in entries]
