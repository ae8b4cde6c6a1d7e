"""If these fail, diffs are wrong or needlessly long, or the page's differ from the terminal's."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newel.diff.patience import MAX_STEPS, LineSpan, diff, fruitless_steps
from tests.properties import examples

ROOT = Path(__file__).resolve().parents[3]

LINE = st.sampled_from(["a\n", "b\n", "c\n", "c\r\n", "\n", "\u2028\n", "😀\n", "end"])
TEXT = st.lists(LINE, max_size=14)


def applied(spans: Sequence[LineSpan], a: Sequence[str], b: Sequence[str]) -> list[str]:
    text = list(a)
    for span in reversed(spans):
        text[span.a0 : span.a1] = b[span.b0 : span.b1]
    return text


def cost(spans: Sequence[LineSpan]) -> int:
    """The number of deleted and inserted lines."""
    return sum(span.a1 - span.a0 + span.b1 - span.b0 for span in spans)


def least(a: Sequence[str], b: Sequence[str]) -> int:
    """The size of the shortest script, by the table of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for line in a:
        above = row
        row = [0]
        for j, other in enumerate(b):
            row.append(above[j] + 1 if line == other else max(above[j + 1], row[j]))
    return len(a) + len(b) - 2 * row[-1]


def without_common_ends(a: list[str], b: list[str]) -> tuple[list[str], list[str]]:
    while a and b and a[0] == b[0]:
        a, b = a[1:], b[1:]
    while a and b and a[-1] == b[-1]:
        a, b = a[:-1], b[:-1]
    return a, b


@pytest.mark.slow  # a second of a core
def test_python_and_javascript_find_the_same_hunks() -> None:
    """The script compares each text again; ``web/tests/patience.test.js`` reads the file with the expected result."""
    script = str(ROOT / "scripts/line_diff_fixtures.py")
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("a", "b", "spans"),
    [
        ("", "", []),
        ("", "xy", [(0, 0, 0, 2)]),
        ("xy", "", [(0, 2, 0, 0)]),
        ("abc", "abc", []),
        ("abc", "aXc", [(1, 2, 1, 2)]),
        ("abcd", "bcde", [(0, 1, 0, 0), (4, 4, 3, 4)]),
        ("xxx", "xx", [(2, 3, 2, 2)]),
        ("f{1}g{2}", "f{1}h{3}g{2}", [(4, 4, 4, 8)]),
        # A unique line keeps its place, although moving it would be cheaper.
        ("uxxx", "xxxu", [(0, 0, 0, 3), (1, 4, 4, 4)]),
    ],
)
def test_a_change_is_where_a_reader_expects_it(a: str, b: str, spans: list[tuple[int, ...]]) -> None:
    assert [tuple(span) for span in diff(a, b)] == spans


@pytest.mark.parametrize("at", [0, 1, 255, 256, 257, 511, 512, 768, 998, 999])
def test_one_changed_line_of_a_long_text_is_found(at: int) -> None:
    a = ["x"] * 1000
    b = [*a[:at], "y", *a[at + 1 :]]
    assert diff(a, b) == [LineSpan(at, at + 1, at, at + 1)]
    assert diff(a, [*a[:at], *a[at + 1 :]]) == [LineSpan(999, 1000, 999, 999)]


def test_lists_and_tuples_of_lines_compare_alike() -> None:
    a, b = ["x", "y", "x", "y", "z"], ("y", "x", "y", "x", "z")
    assert diff(a, b) == diff(a, list(b)) == diff(tuple(a), b)


@settings(max_examples=examples(120), deadline=None)
@given(TEXT, TEXT)
def test_applying_the_spans_gives_the_other_text(a: list[str], b: list[str]) -> None:
    spans = diff(a, b)
    assert applied(spans, a, b) == b
    back = [LineSpan(span.b0, span.b1, span.a0, span.a1) for span in spans]
    assert applied(back, b, a) == a
    assert sum(span.b1 - span.b0 for span in spans) - sum(span.a1 - span.a0 for span in spans) == len(
        b
    ) - len(a)


@settings(max_examples=examples(120), deadline=None)
@given(TEXT, TEXT)
def test_each_span_changes_something_and_spans_do_not_touch(a: list[str], b: list[str]) -> None:
    spans = diff(a, b)
    assert all(a[span.a0 : span.a1] != b[span.b0 : span.b1] for span in spans)
    for one, other in pairwise(spans):
        # The part between two spans is unchanged and at least one line long.
        assert one.a1 < other.a0
        assert one.b1 < other.b0
        assert a[one.a1 : other.a0] == b[one.b1 : other.b0]


@settings(max_examples=examples(120), deadline=None)
@given(TEXT, TEXT)
def test_common_beginnings_and_ends_are_not_changed(a: list[str], b: list[str]) -> None:
    spans = diff(a, b)
    if not spans:
        assert a == b
        return
    middle, _ = without_common_ends(a, b)
    head = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    tail = len(a) - head - len(middle)
    assert spans[0].a0 >= head
    assert spans[-1].a1 <= len(a) - tail


@settings(max_examples=examples(120), deadline=None)
@given(TEXT, TEXT)
def test_the_changes_are_minimal(a: list[str], b: list[str]) -> None:
    """The shortest script, unless a line that is unique on both sides had to keep its place; then something is kept."""
    old, new = without_common_ends(a, b)
    count, count_new = Counter(old), Counter(new)
    anchors = [line for line in old if count[line] == 1 == count_new[line]]
    changed = cost(diff(a, b))
    if anchors:
        assert least(a, b) <= changed <= len(old) + len(new) - 2
    else:
        assert changed == least(a, b)


@settings(max_examples=examples(150), deadline=None)
@given(st.permutations(range(12)), st.permutations(range(12)), st.integers(0, 12), st.integers(0, 12))
def test_unique_lines_give_minimal_changes(
    one: list[int], other: list[int], size: int, other_size: int
) -> None:
    a, b = [f"{i}" for i in one[:size]], [f"{i}" for i in other[:other_size]]
    assert cost(diff(a, b)) == least(a, b)


@pytest.mark.parametrize("words", [2, 6, 40])
def test_a_text_compared_in_pieces_is_not_replaced_by_half(words: int) -> None:
    """Many more edits than one piece has, and few unique lines: at most twice the cost of the shortest script."""
    for seed in range(12):
        rng = Random(seed)  # noqa: S311 - these are texts, not secrets
        a = drawn(rng, words, 400)
        b = list(a)
        for _ in range(150):
            at = rng.randrange(len(b) + 1)
            b[at : at + rng.randrange(4)] = drawn(rng, words, rng.randrange(4))
        spans = diff(a, b)
        assert applied(spans, a, b) == b
        assert all(one.a1 < other.a0 and one.b1 < other.b0 for one, other in pairwise(spans))
        assert cost(spans) <= 2 * least(a, b)


def drawn(rng: Random, words: int, count: int) -> list[str]:
    return [f"w{rng.randrange(words)}\n" for _ in range(count)]


class Watched:
    """A line that counts its comparisons."""

    compared = 0

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        Watched.compared += 1
        return isinstance(other, Watched) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def nested(odd: str) -> list[Watched]:
    """Lines that each become an anchor only after the ones before them."""
    pairs = ((f"u{level}", f"u{level - 1}", odd) for level in range(2000))
    return [Watched(line) for three in pairs for line in three]


def blocks(odd: str) -> list[Watched]:
    """Blocks in which every line differs, and none is an anchor."""
    return [Watched(line) for number in range(300) for line in (*[odd] * 101, f"{number}")]


@pytest.mark.parametrize("made", [nested, blocks])
def test_no_text_can_keep_the_differ_busy(made: Callable[[str], list[Watched]]) -> None:
    a, b = made("x"), made("y")
    Watched.compared = 0
    spans = diff(a, b)
    assert Watched.compared < MAX_STEPS + 20 * (len(a) + len(b))
    assert applied_texts(spans, a, b) == [line.text for line in b]


def applied_texts(spans: Sequence[LineSpan], a: list[Watched], b: list[Watched]) -> list[str]:
    return applied(spans, [line.text for line in a], [line.text for line in b])


@given(st.integers(1, 40), st.integers(1, 24))
def test_a_short_cut_spends_the_steps_of_the_search(n: int, m: int) -> None:
    """Where the steps run out decides on a diff: Python would find others than the page, which takes no short cut."""
    diagonals = [(edits, k) for edits in range(n + m + 1) for k in range(-edits, edits + 1, 2)]
    assert fruitless_steps(n, m) == diagonals.index((n + m, n - m)) + 1
