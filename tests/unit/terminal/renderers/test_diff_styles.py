"""If these fail, somebody who approves a change misses what changes, or takes something else for a change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from newel.diff.unified import MINUS, compare, split_lines, unified_diff
from newel.diff.words import changed_words
from newel.terminal.renderers.diff_styles import diff_block, with_diff
from newel.terminal.renderers.palette import ADDED, CHANGED_WORD, FILE, REMOVED
from newel.text.sanitize import escape_invisible

DIFF = "--- a\n+++ b\n@@ -1,3 +1,3 @@\n before\n-one old word\n+one new word\n after\n"


def styled(line: Text, *styles: str) -> list[str]:
    """The parts of a line with one of these styles."""
    return [line.plain[span.start : span.end] for span in line.spans if span.style in styles]


def test_changed_lines_are_coloured_and_their_context_is_not() -> None:
    lines = diff_block(DIFF, 60)
    assert [line.plain for line in lines] == [
        "  │ 1   before",
        f"  │ 2 {MINUS} one old word",
        "  │ 2 + one new word",
        "  │ 3   after",
    ]
    assert [styled(line, ADDED, REMOVED) for line in lines] == [
        [],
        [f"{MINUS} one old word"],
        ["+ one new word"],
        [],
    ]


def test_the_words_that_changed_are_marked() -> None:
    assert [styled(line, CHANGED_WORD) for line in diff_block(DIFF, 60)] == [[], ["old"], ["new"], []]


@pytest.mark.parametrize(
    ("old", "new", "marked"),
    [
        ("return f(a)", "return f(a, b)", "/, b"),
        ("x = 1  # one", "x = 2  # one", "1/2"),
        ("entirely", "different words", "/"),
        ("a " * 600, "a " * 600 + "b", "/"),
    ],
)
def test_words_are_compared_in_lines_that_have_something_in_common(old: str, new: str, marked: str) -> None:
    spans = zip((old, new), changed_words(old, new), strict=True)
    found = ["".join(line[start:end] for start, end in side) for line, side in spans]
    assert "/".join(found) == marked


def test_a_line_is_compared_with_the_one_that_replaces_it() -> None:
    diff = (
        "--- a\n+++ b\n@@ -1 +1,2 @@\n-return run(source, target)\n+check(first)\n+return run(source, goal)\n"
    )
    assert [styled(line, CHANGED_WORD) for line in diff_block(diff, 60)] == [["target"], [], ["goal"]]


def test_syntax_is_coloured_where_the_language_is_known() -> None:
    diff = "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-x = 1\n+return 'x'\n"
    assert styled(diff_block(diff, 60)[1], "syntax.keyword", "syntax.string") == ["return", "'", "x", "'"]
    assert not styled(diff_block(diff.replace("a.py", "a.unknown"), 60)[1], "syntax.keyword", "syntax.string")


def test_the_names_of_files_are_no_changes() -> None:
    painted = with_diff(f"Two files:\n\n{DIFF}{DIFF}end")
    assert styled(painted, ADDED) == ["+one new word"] * 2
    assert styled(painted, REMOVED) == ["-one old word"] * 2
    assert styled(painted, FILE) == ["--- a", "+++ b"] * 2


def test_a_removed_line_that_looks_like_a_name_is_a_change() -> None:
    painted = with_diff("--- a.sql\n+++ a.sql\n@@ -1,2 +1 @@\n--- drop it\n-x\n+++ y\n")
    assert styled(painted, REMOVED) == ["--- drop it", "-x"]
    assert styled(painted, ADDED) == ["+++ y"]


def test_a_diff_that_was_cut_does_not_colour_the_next_one() -> None:
    cut = "--- a\n+++ a\n@@ -1,9 +1,9 @@\n-x\n… the diff goes on …\n"
    painted = with_diff(cut + DIFF)
    assert styled(painted, FILE) == ["--- a", "+++ a", "--- a", "+++ b"]


@given(
    st.lists(
        st.sampled_from([*"+- @\\", "--- a", "+++ b", "@@ -1,2 +1,2 @@", "-x", "    @@ -1 +1 @@", "\x1b[2J"])
    )
)
def test_nothing_of_a_text_is_left_out(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert with_diff(text).plain == escape_invisible(text)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_every_line_of_a_diff_is_there(old: bytes, new: bytes) -> None:
    before, after = split_lines(old), split_lines(new)
    diff = unified_diff("a.py", before, compare(before, after))
    assert with_diff(diff).plain == escape_invisible(diff)


def test_a_diff_of_ten_thousand_lines_is_painted_whole() -> None:
    body = "".join(f"-    old(line, {n})\n+    new(line, {n})\n" for n in range(5_000))
    diff = f"--- a.py\n+++ a.py\n@@ -1,5000 +1,5000 @@\n{body}"
    painted = with_diff(diff)
    assert painted.plain == diff
    assert len(styled(painted, ADDED)) == 5_000
    assert diff_block(diff, 80)[-1].plain == "  │ … 9,984 more changed lines · /show"
