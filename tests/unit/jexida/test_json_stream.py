"""If these fail, a person sees JSON in place of an answer, or sees nothing until the model is done."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newel.terminal.jexida.json_stream import AnswerStream
from newel.terminal.jexida.protocol import AnswerReply, ShellReply, read, render
from tests.properties import examples

TEXTS = st.text(
    st.one_of(st.sampled_from("`{}\"\\\n '<>thinkype: "), st.characters(exclude_categories=["Cs"])),
    max_size=60,
)


def shown(text: str, cuts: list[int]) -> str:
    stream = AnswerStream()
    places = sorted({cut % (len(text) + 1) for cut in cuts})
    pieces = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    given = "".join(stream.feed(piece) for piece in pieces)
    assert given == stream.shown
    return given


@settings(max_examples=examples(100))
@given(TEXTS, st.lists(st.integers(0, 200), max_size=8))
def test_an_answers_text_is_complete_however_it_is_cut(text: str, cuts: list[int]) -> None:
    assert shown(render(AnswerReply(text)), cuts) == text


@settings(max_examples=examples(100))
@given(TEXTS, st.lists(st.integers(0, 200), max_size=8))
def test_any_reply_shows_something_and_nothing_fails(text: str, cuts: list[int]) -> None:
    seen = shown(text, cuts)
    reply = read(text)
    if isinstance(reply, AnswerReply) and '"type"' not in text and "think" not in text:
        assert reply.text.startswith(seen)


@pytest.mark.parametrize(
    ("reply", "seen"),
    [
        ("Plain words, no JSON.", "Plain words, no JSON."),
        (render(ShellReply("rm -rf /", "why")), ""),
        (f"<think>\nfirst, hm</think>\n{render(AnswerReply('Yes'))}", "Yes"),
        (f"```json\n{render(AnswerReply('Yes'))}\n```", "Yes"),
        (f"Sure:\n\n```\n{render(AnswerReply('Yes'))}\n```", "Sure:\n\nYes"),
        (f"I look.\n{render(ShellReply('ls'))}", "I look."),
        ('Use `{"a": 1}` there.', 'Use `{"a": 1}` there.'),
        ('{"type": "object"} is a schema.', '{"type": "object"} is a schema.'),
        ('{"type":"answer","text":"a\\u00e9\\ud83d\\ude00\\n\\"b\\""}', 'aé😀\n"b"'),
        ('{"text":"late","type":"answer"}', "late"),
        ("```python\nprint({1: 2})\n``` prints it.", "```python\nprint({1: 2})\n``` prints it."),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_each_kind_of_reply_is_shown(reply: str, seen: str, size: int) -> None:
    stream = AnswerStream()
    assert "".join(stream.feed(reply[at : at + size]) for at in range(0, len(reply), size)) == seen


def test_an_answer_is_shown_while_it_streams() -> None:
    stream = AnswerStream()
    assert stream.feed('{"type":"answer","text":"The disk is\\') == "The disk is"
    assert stream.feed("nfull") == "\nfull"
