"""If these fail, a long conversation ends in an error, or the agent forgets what it was asked to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newel.agent.errors import ContextOverflow, ServerFailed
from newel.agent.events import AgentEvent
from newel.agent.loop import run
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
from newel.agent.ports import Model, ModelRequest, OnDelta, RunConfig
from newel.agent.transform import Transformer
from newel.context import compaction, compaction_summary
from newel.context.compaction import Compactor

pytestmark = pytest.mark.anyio

SMALL = Model("small", context_window=8_000)


class Writer:
    """A model that gives the same summary each time, or none, and records the requests."""

    def __init__(self, words: str | None = "## Goal\nAll is well.") -> None:
        self.words = words
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, _on_delta: OnDelta, /) -> AssistantMessage:
        self.requests.append(request)
        if self.words is None:
            raise ServerFailed("the server is down", status=503)
        return AssistantMessage([TextContent(self.words)], usage=Usage(input=900, output=50), cost=0.001)

    @property
    def question(self) -> str:
        [message] = self.requests[-1].messages
        assert isinstance(message, UserMessage)
        return message.text


def turn(number: int, size: int = 4_000, **arguments: object) -> list[AppMessage]:
    """A call of a tool and its result of ``size`` characters."""
    call = ToolCall(
        f"call{number}", str(arguments.pop("tool", "bash")), dict(arguments) or {"command": f"step {number}"}
    )
    return [
        AssistantMessage([TextContent(f"Now step {number}."), call]),
        ToolResultMessage(call.id, call.name, "x" * size, is_error=False),
    ]


def conversation(turns: int, size: int = 4_000) -> list[AppMessage]:
    return [UserMessage("Add a --dry-run flag."), *(m for number in range(turns) for m in turn(number, size))]


def compactor(writer: Writer, window: int | None = 10_000, **sizes: Any) -> Compactor:
    return Compactor(writer, SMALL, context_window=window, **sizes)


async def asked(
    compact: Compactor, messages: Sequence[AppMessage], *, overflow: bool = False
) -> CustomMessage | None:
    return await compact(messages, Usage(), overflow=overflow)


def answered_calls(messages: Sequence[AppMessage]) -> bool:
    """Whether each result that the model sees follows its call, and each call has its result."""
    open_calls: set[str] = set()
    for message in Transformer()(messages):
        if isinstance(message, AssistantMessage):
            if open_calls:
                return False
            open_calls = {call.id for call in message.tool_calls}
        elif isinstance(message, ToolResultMessage):
            if message.tool_call_id not in open_calls:
                return False
            open_calls.remove(message.tool_call_id)
    return not open_calls


async def test_with_room_left_nothing_is_compacted() -> None:
    writer = Writer()
    assert await asked(compactor(writer), conversation(3)) is None
    assert await asked(compactor(writer, window=None), conversation(100)) is None
    assert writer.requests == []


async def test_a_full_window_is_compacted_and_the_latest_turns_stay() -> None:
    writer = Writer()
    messages = conversation(8)
    compaction = await asked(compactor(writer), messages)
    assert compaction is not None
    summed_up, *kept = Transformer()([*messages, compaction])
    assert isinstance(summed_up, UserMessage)
    assert "All is well." in summed_up.text
    assert kept == messages[-4:]
    assert compaction.data["tokensBefore"] > 8_000
    assert compaction.data["reason"] == "full"
    assert compaction.data["usage"] == {"input": 900, "output": 50}
    assert "step 0" in writer.question
    assert "step 7" not in writer.question
    assert writer.requests[0].model == SMALL


async def test_a_compaction_is_a_message_of_the_session() -> None:
    compaction = await asked(compactor(Writer()), conversation(8))
    assert compaction is not None
    assert msgspec.json.decode(msgspec.json.encode(compaction), type=CustomMessage) == compaction


async def test_the_task_and_the_latest_request_survive_any_summary() -> None:
    messages = [
        UserMessage("Port the parser to Rust."),
        *conversation(4)[1:],
        UserMessage(
            "But keep the tests in Python.",
            attachments=[
                Attachment("document", "notes.txt", "text/plain", 1, ""),
                Attachment("document", "!make", "text/plain", 1, "", "$ make\nno rule"),
            ],
        ),
        *conversation(8)[1:],
    ]
    compaction = await asked(compactor(Writer("Nothing much happened.")), messages)
    assert compaction is not None
    text = compaction.data["summary"]
    assert "Port the parser to Rust." in text
    assert "But keep the tests in Python.\n[attached: notes.txt]\n$ make\nno rule" in text


async def test_a_task_of_a_megabyte_is_cut_and_not_lost() -> None:
    messages = [UserMessage("Begin. " + "x" * 1_000_000 + " End."), *conversation(8)[1:]]
    compaction = await asked(compactor(Writer()), messages)
    assert compaction is not None
    text = compaction.data["summary"]
    assert "Begin. xxx" in text
    assert "xxx End." in text
    assert "characters omitted" in text
    assert len(text) < 10_000
    assert len(writer_input(messages)) < 30_000


def writer_input(messages: Sequence[AppMessage]) -> str:
    shown = Transformer()(messages)
    return compaction_summary.build_question(shown, before="", wishes="", limit=16_000)


async def test_touched_files_are_listed_and_failed_calls_are_not() -> None:
    failed = turn(3, tool="edit", file_path="never.py")
    failed[1] = msgspec.structs.replace(failed[1], is_error=True)
    messages = [
        UserMessage("Go."),
        *turn(1, tool="read", file_path="cli.py"),
        *turn(2, tool="read", file_path="run.py"),
        *failed,
        *turn(4, tool="edit", file_path="run.py"),
    ]
    text = compaction_summary.compose("", messages, limit=4_000)
    assert "Changed: run.py\nRead: cli.py\n" in text
    assert "never.py" not in text


async def test_an_earlier_summary_is_part_of_the_next() -> None:
    writer = Writer("The first account.")
    compact = compactor(writer)
    messages = conversation(8)
    for expected in ("The second account.", "The third account."):
        compaction = await asked(compact, messages)
        assert compaction is not None
        assert await asked(compact, [*messages, compaction]) is None
        messages = [*messages, compaction, *(m for number in range(8) for m in turn(number))]
        before, writer.words = writer.words, expected
        compaction = await asked(compact, messages)
        assert compaction is not None
        assert before is not None
        assert before in writer.question
        assert expected in compaction.data["summary"]
        assert before not in compaction.data["summary"]
        assert compaction.data["summary"].count("Add a --dry-run flag.") == 1
        messages = [*messages, compaction, *(m for number in range(8) for m in turn(number))]


@pytest.mark.parametrize("words", [None, "", "  \n"])
async def test_without_a_summary_of_the_model_the_run_continues_with_known_facts(words: str | None) -> None:
    compact = compactor(Writer(words))
    messages = conversation(8)
    compaction = await asked(compact, messages)
    assert compaction is not None
    text = compaction.data["summary"]
    assert "Add a --dry-run flag." in text
    assert "- step 2" in text
    assert "Now step" in text
    assert "listed" in compaction.data["problem"]
    again = await asked(compact, [*messages, compaction, *conversation(8)[1:]])
    assert again is not None
    assert "- step 2" in again.data["summary"]


async def test_the_servers_count_is_used_until_a_compaction() -> None:
    compact = compactor(Writer(), window=100_000)
    counted = AssistantMessage([TextContent("short")], usage=Usage(input=90_000, output=10))
    messages = [*conversation(60), counted]
    assert compact.size([*messages, UserMessage("x" * 400)]) == 90_010 + 104
    compaction = await asked(compact, messages)
    assert compaction is not None
    assert compaction.data["tokensBefore"] == 90_010
    assert compact.size([*messages, compaction]) < 30_000
    assert await asked(compact, [*messages, compaction]) is None


async def test_a_refused_conversation_is_much_shorter_afterwards_although_the_window_is_unknown() -> None:
    messages = [*conversation(20), AssistantMessage([], stop_reason="error", error_message="too long")]
    compact = compactor(Writer("long " * 10_000), window=None)
    compaction = await asked(compact, messages, overflow=True)
    assert compaction is not None
    assert compaction.data["reason"] == "overflow"
    assert compact.size([*messages, compaction]) < compact.size(messages) * 0.7


@pytest.mark.parametrize(
    "last",
    [
        turn(9, size=1_000_000),
        [UserMessage("what is this? " + "x" * 1_000_000)],
        [AssistantMessage([TextContent("x" * 1_000_000)]), UserMessage("go on")],
    ],
)
async def test_one_message_larger_than_the_window_does_not_end_the_run(last: list[AppMessage]) -> None:
    writer = Writer()
    compact = compactor(writer)
    messages = [*conversation(2), *last]
    compaction = await asked(compact, messages, overflow=True)
    assert compaction is not None
    assert compact.size([*messages, compaction]) < 8_000
    assert answered_calls([*messages, compaction])
    assert len(writer.question) < 20_000
    assert "omitted" in writer.question


class SmallServer(Writer):
    """A server that refuses more than its undeclared window of 50,000 characters."""

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        if len(msgspec.json.encode(request.messages)) > 50_000:
            raise ContextOverflow("the conversation is too long", status=400)
        return await super().complete(request, on_delta)


async def test_a_run_continues_after_the_server_refused_an_overlong_conversation() -> None:
    server = SmallServer("Done.")
    events: list[AgentEvent] = []

    async def emit(event: AgentEvent) -> None:
        events.append(event)

    config = RunConfig(
        model=SMALL, transform=Transformer(), compact=Compactor(server, Model("m"), context_window=None)
    )
    end = await run(
        conversation(20), [UserMessage("Now test it.")], provider=server, config=config, emit=emit
    )
    assert end.reason == "done"
    first = server.requests[-1].messages[0]
    assert isinstance(first, UserMessage)
    assert "Add a --dry-run flag." in first.text
    assert "Now test it." in first.text


async def test_a_user_can_request_a_compaction_with_instructions() -> None:
    writer = Writer()
    compact = compactor(writer, window=1_000_000)
    compaction = await compact.compact_now(conversation(3), "Keep the benchmark figures.")
    assert compaction is not None
    assert compaction.data["reason"] == "asked"
    assert "Keep the benchmark figures." in writer.question
    assert await compact.compact_now([]) is None


async def test_the_middle_of_a_long_transcript_is_omitted() -> None:
    question = writer_input(conversation(100))
    assert len(question) < 20_000
    assert "Add a --dry-run flag." in question
    assert "step 99" in question
    assert "step 20" not in question
    assert "messages omitted" in question


async def test_images_reasoning_and_other_scripts_are_counted() -> None:
    picture = ImageContent("A" * 100_000, "image/png")
    assert 1_200 <= compaction.estimate_message(UserMessage([TextContent("hi"), picture])) < 1_300
    assert (
        1_200
        <= compaction.estimate_message(ToolResultMessage("1", "read", "", is_error=False, images=[picture]))
        < 1_300
    )
    attachments = [
        Attachment("image", "a.png", "image/png", 1, "A" * 100_000),
        Attachment("document", "b.txt", "text/plain", 1, "A" * 100_000, extracted_text="b" * 4_000),
    ]
    assert 2_200 <= compaction.estimate_message(UserMessage("", attachments=attachments)) < 2_300
    assert compaction.estimate_message(AssistantMessage([ThinkingContent("t" * 4_000)])) > 1_000
    assert compaction.estimate_text("漢字" * 100) == 150
    assert compaction.estimate_message(CustomMessage("note", {"text": "x" * 4_000})) == 0


def calls_and_results(sizes: list[int]) -> list[AppMessage]:
    results = [ToolResultMessage(f"c{n}", "bash", "r" * size, is_error=False) for n, size in enumerate(sizes)]
    calls = [ToolCall(result.tool_call_id, "bash", {"command": "x"}) for result in results]
    return [AssistantMessage([*calls]), *results]


def request(size: int) -> list[AppMessage]:
    return [UserMessage("u" * size)]


def what_no_model_sees(_: None) -> list[AppMessage]:
    return [CustomMessage("note"), AssistantMessage([], stop_reason="error")]


HISTORY = st.lists(
    st.one_of(
        st.integers(0, 3_000).map(request),
        st.lists(st.integers(0, 9_000), max_size=4).map(calls_and_results),
        st.none().map(what_no_model_sees),
    ),
    min_size=1,
    max_size=20,
).map(lambda groups: [message for group in groups for message in group])


@settings(deadline=None)
@given(HISTORY, st.integers(500, 20_000), st.booleans(), st.sampled_from([None, "short", "long " * 9_000]))
async def test_a_call_is_never_separated_from_its_result(
    messages: list[AppMessage], window: int, overflow: bool, words: str | None
) -> None:
    compact = compactor(Writer(words), window, overhead_tokens=100)
    for _ in range(3):
        compaction = await asked(compact, messages, overflow=overflow)
        if compaction is None:
            break
        messages = [*messages, compaction]
        assert answered_calls(messages)
        assert compaction.data["firstKept"] in {message.id for message in messages}
        if not overflow:
            assert compact.size(messages) < window


@pytest.mark.anyio
async def test_an_unknown_window_is_looked_up_once_and_only_when_needed() -> None:
    """Otherwise a long run on a server that cuts silently loses its beginning."""
    asked: list[str] = []

    async def find_window(name: str) -> int | None:
        asked.append(name)
        return 10_000

    subject = Compactor(Writer(), SMALL, context_window=None, find_window=find_window)
    subject.follow(Model("m"))
    assert await subject(conversation(1, size=400), Usage(), overflow=False) is None
    assert asked == []
    assert await subject(conversation(30), Usage(), overflow=False) is not None
    assert await subject(conversation(3), Usage(), overflow=False) is None
    assert asked == ["m"]
    assert subject.context_window == 10_000
