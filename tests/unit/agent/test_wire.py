"""If these fail, stored messages cannot be read again, or programs that read the events break."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import newel.agent
from newel.agent.errors import NewelError
from newel.agent.events import (
    AgentEnd,
    AgentEvent,
    MessageEnd,
    MessageUpdate,
    TextDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
)
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
from newel.agent.transform import COMPACTION, Transformer

text = st.text(st.characters(exclude_categories=["Cs"]))
json_value = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(text, children, max_size=3),
    max_leaves=5,
)
json_object = st.dictionaries(text, json_value, max_size=3)
image = st.builds(ImageContent, data=text, mime_type=text)
attachment = st.builds(
    Attachment,
    type=st.sampled_from(["image", "document"]),
    file_name=text,
    mime_type=text,
    size=st.integers(0, 2**40),
    content=text,
    extracted_text=st.none() | text,
    preview=st.none() | text,
)
usage = st.builds(Usage, *[st.integers(0, 2**40)] * 4)
message = st.one_of(
    st.builds(
        UserMessage,
        content=text | st.lists(st.builds(TextContent, text) | image),
        attachments=st.lists(attachment, max_size=2),
    ),
    st.builds(
        AssistantMessage,
        content=st.lists(
            st.builds(TextContent, text)
            | st.builds(ThinkingContent, thinking=text)
            | st.builds(ToolCall, id=text, name=text, arguments=json_object, problem=st.none() | text)
        ),
        usage=usage,
        cost=st.none() | st.floats(0, 1e6),
    ),
    st.builds(
        ToolResultMessage,
        tool_call_id=text,
        tool_name=text,
        output=text,
        is_error=st.booleans(),
        images=st.lists(image, max_size=2),
        details=json_object,
    ),
    st.builds(CustomMessage, name=text, data=json_object),
)


@given(message)
def test_every_message_survives_a_file(message: AppMessage) -> None:
    event = MessageEnd(message=message)
    decoded: AgentEvent = msgspec.json.decode(msgspec.json.encode(event), type=AgentEvent)  # type: ignore[arg-type]
    assert decoded == event


def wire(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def test_events_have_their_specified_wire_names() -> None:
    start = wire(ToolExecutionStart(tool_call_id="c1", tool_name="bash", args={"command": "ls"}))
    assert start | {"timestamp": ""} == {
        "type": "tool_execution_start",
        "toolCallId": "c1",
        "toolName": "bash",
        "args": {"command": "ls"},
        "timestamp": "",
    }
    end = wire(ToolExecutionEnd(tool_call_id="c1", tool_name="bash", result="x", is_error=False, duration=3))
    assert (end["toolCallId"], end["isError"], end["result"]) == ("c1", False, "x")
    update = wire(MessageUpdate(message_id="m1", assistant_message_event=TextDelta("Hi")))
    assert update["assistantMessageEvent"] == {"type": "text_delta", "delta": "Hi"}
    assert wire(AgentEnd(reason="done"))["type"] == "agent_end"


def test_messages_have_their_specified_wire_names() -> None:
    result = wire(ToolResultMessage(tool_call_id="c1", tool_name="bash", output="x", is_error=False))
    assert {
        "role": "toolResult",
        "toolCallId": "c1",
        "output": "x",
        "isError": False,
    }.items() <= result.items()
    assistant = wire(
        AssistantMessage(content=[ToolCall("c1", "bash", {"command": "ls"})], stop_reason="toolUse")
    )
    assert assistant["content"] == [
        {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}}
    ]
    assert assistant["stopReason"] == "toolUse"


PICTURE = Attachment("image", "a.png", "image/png", 3, "cGlj")
PAPER = Attachment("document", "a.txt", "text/plain", 3, "dHh0", extracted_text="the paper")
UNREAD = Attachment("document", "a.pdf", "application/pdf", 3, "cGRm")


def test_attachments_are_sent_as_blocks_after_the_text() -> None:
    (seen,) = Transformer()([UserMessage(content="Look", attachments=[PICTURE, PAPER, UNREAD])])
    assert isinstance(seen, UserMessage)
    assert seen.content == [TextContent("Look"), ImageContent("cGlj", "image/png"), TextContent("the paper")]
    assert seen.attachments == []


def test_custom_messages_and_empty_failures_are_not_sent() -> None:
    failed = AssistantMessage(content=[], stop_reason="error")
    assert Transformer()([CustomMessage("artifact", {"a": 1}), failed]) == []


def test_a_kind_of_custom_messages_is_sent_as_the_application_describes_it() -> None:
    transform = Transformer({"artifact": lambda message: str(message.data.get("text", ""))})
    history: list[AppMessage] = [
        CustomMessage("artifact", {"text": "The file a."}),
        CustomMessage("artifact", {}),
        CustomMessage("notification", {"text": "Saved."}),
        UserMessage(content="Hi"),
    ]
    sent = transform(history)
    assert [message.text for message in sent if isinstance(message, UserMessage)] == ["The file a.", "Hi"]
    assert (sent[0].id, transform([*history, UserMessage(content="So?")])[0]) == (history[0].id, sent[0])
    assert transform([*history[:1]])[0] is sent[0], "providers encode a message once"


def test_unchanged_messages_stay_the_same_objects_between_requests() -> None:
    """Providers encode a message once; a new object each time would cost the whole history at each step."""
    history: list[AppMessage] = [
        UserMessage(content="a", attachments=[PAPER]),
        CustomMessage(COMPACTION, {"summary": "s"}),
        UserMessage(content="b", attachments=[PAPER]),
        AssistantMessage(content=[TextContent("c")]),
    ]
    transform = Transformer()
    for first, second in zip(transform(history), transform(history), strict=True):
        assert first is second


def test_a_compaction_hides_what_it_summarizes_and_keeps_what_it_names() -> None:
    first, kept = UserMessage(content="first"), UserMessage(content="kept")
    compaction = CustomMessage(COMPACTION, {"summary": "They met.", "firstKept": kept.id})
    after = UserMessage(content="after")
    seen = Transformer()([first, kept, compaction, after])
    assert [message.text for message in seen if isinstance(message, UserMessage)][1:] == ["kept", "after"]
    assert isinstance(seen[0], UserMessage)
    assert seen[0].text.endswith("They met.")


@pytest.mark.parametrize("lost", [{}, {"firstKept": "nobody"}])
def test_a_compaction_that_names_nothing_keeps_what_follows_it(lost: dict[str, str]) -> None:
    compaction = CustomMessage(COMPACTION, {"summary": "s"} | lost)
    seen = Transformer()([UserMessage(content="old"), compaction, UserMessage(content="new")])
    assert [message.text.split()[-1] for message in seen if isinstance(message, UserMessage)] == ["s", "new"]


def all_errors(kind: type[NewelError]) -> list[type[NewelError]]:
    return [kind, *(each for child in kind.__subclasses__() for each in all_errors(child))]


def test_the_documented_tree_of_errors_is_complete() -> None:
    import newel.agent.errors

    for kind in all_errors(NewelError):
        if kind.__module__ == newel.agent.errors.__name__:
            assert kind.__name__ in str(newel.agent.errors.__doc__)


def test_the_core_can_be_read_in_an_evening() -> None:
    """Messages, events, ports and loop have less than 600 lines of code, without comments and blank lines."""
    folder = Path(newel.agent.__file__).parent
    assert sum(code_lines(folder / f"{name}.py") for name in ("messages", "events", "ports", "loop")) < 600


def code_lines(path: Path) -> int:
    source = path.read_text()
    strings = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    free = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in free
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(lines - strings)
