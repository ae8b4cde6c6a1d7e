"""If these fail, a diff marks words that did not change or misses those that did, or the page marks others than the terminal.

``web/tests/word-diff.test.js`` reads the same cases.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from newel.diff.words import Range, changed_words, line_pairs

CASES = Path(__file__).resolve().parents[2] / "fixtures" / "word_diffs.json"


def marked(text: str, ranges: list[Range]) -> str:
    for start, end in reversed(ranges):
        text = f"{text[:start]}⟦{text[start:end]}⟧{text[end:]}"
    return text


def test_python_and_javascript_mark_the_same_words() -> None:
    cases: list[dict[str, Any]] = json.loads(CASES.read_text())["cases"]
    assert len(cases) > 20
    for case in cases:
        found: list[list[Any]] = []
        for removed, added in line_pairs(case["old"], case["new"]):
            old, new = case["old"][removed], case["new"][added]
            words = changed_words(old, new)
            found.append([removed, added, marked(old, words.old), marked(new, words.new)])
        assert found == case["pairs"], case["name"]


LINE = st.text(alphabet="ab1_ \t.é😀\u0301\r", max_size=24)


@given(LINE, LINE)
def test_what_is_not_marked_is_equal(old: str, new: str) -> None:
    words = changed_words(old, new)
    if words.old or words.new:
        assert _without(old, words.old) == _without(new, words.new)


def _without(text: str, ranges: list[Range]) -> str:
    for start, end in reversed(ranges):
        text = text[:start] + text[end:]
    return text
