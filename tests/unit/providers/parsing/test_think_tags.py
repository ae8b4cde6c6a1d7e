"""If these fail, reasoning in tags is shown as the answer."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.providers.openai.stream import ThinkSplitter

PIECES = st.sampled_from(
    ["<think>", "</think>", "<thinking>", "</thinking>", "<", "th", ">", "`", "```", " ", "\n", "hi"]
)


def split(pieces: list[str]) -> list[tuple[bool, str]]:
    splitter = ThinkSplitter()
    found = [part for piece in pieces for part in splitter.feed(piece)] + splitter.close()
    return [
        (thinking, "".join(text for _, text in group))
        for thinking, group in itertools.groupby(found, key=lambda part: part[0])
    ]


@given(st.lists(PIECES, max_size=30).map("".join))
def test_any_cut_of_the_text_gives_the_same_parts(text: str) -> None:
    """Otherwise reasoning would leak into the answer whenever a tag fell on the border of two chunks."""
    assert split(list(text)) == split([text])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("<think>hm</think>\n\nYes.", [(True, "hm"), (False, "Yes.")]),
        ("\n<thinking>a</think>b</thinking>c", [(True, "a</think>b"), (False, "c")]),
        ("<think>never closed", [(True, "never closed")]),
        ("Well. <think>hm</think> So.", [(False, "Well. "), (True, "hm"), (False, " So.")]),
        ("<think></think>Hi", [(False, "Hi")]),
        ("a < b and <b>c", [(False, "a < b and <b>c")]),
        ("Write `<think>` first.", [(False, "Write `<think>` first.")]),
        ("```\n<think>\n```\n<think>x", [(False, "```\n<think>\n```\n"), (True, "x")]),
        ("ends in <thi", [(False, "ends in <thi")]),
    ],
)
def test_tags_count_unless_they_are_quoted(text: str, parts: list[tuple[bool, str]]) -> None:
    """Otherwise a model's thoughts would be shown as its answer, or its answer be hidden as a thought."""
    assert split([text]) == parts
    assert split(list(text)) == parts
