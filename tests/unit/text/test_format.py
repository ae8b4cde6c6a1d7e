"""If these fail, the numbers on every screen are wrong or unreadable."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.agent.messages import Usage
from newel.diff.unified import DiffLine, changed_lines, changes, line_counts
from newel.terminal.renderers.call_outcome import last_lines
from newel.text.format import (
    describe_call,
    format_columns,
    format_cost,
    format_duration,
    format_size,
    join_names,
    one_line,
    short_number,
    usage_line,
    wrap_words,
)

CASES: Final[dict[str, list[Any]]] = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "number_formats.json").read_text()
)
"""Of the page, too: ``web/tests/format.test.js``."""


@pytest.mark.parametrize(
    ("kind", "formatter"),
    [
        ("counts", short_number),
        ("durations_ms", format_duration),
        ("sizes_bytes", format_size),
        ("costs_usd", format_cost),
    ],
)
def test_numbers_are_those_of_the_page(kind: str, formatter: Callable[[float], str]) -> None:
    assert [[value, formatter(value)] for value, _ in CASES[kind]] == CASES[kind]


def test_line_counts_are_those_of_the_page() -> None:
    assert [[counts, line_counts(*counts)] for counts, _ in CASES["line_counts"]] == CASES["line_counts"]


def test_the_meter_is_that_of_the_page() -> None:
    for figures, line in CASES["usage"]:
        usage = Usage(figures["input"], figures["output"], figures.get("cached", 0))
        context, window = figures.get("context", 0), figures.get("window")
        assert usage_line(usage, figures.get("cost"), context=context, window=window) == line


def test_the_meter_omits_unknown_values() -> None:
    assert usage_line(Usage(), None, milliseconds=6_200) == "6.2 s"
    assert usage_line(Usage(input=10, output=2), 0.5) == "10 in · 2 out · $0.500"
    assert usage_line(Usage(input=100, output=2, cache_read=82), None) == "100 in (82 % cached) · 2 out"
    assert usage_line(Usage(), None) == ""
    assert (
        usage_line(Usage(input=10, output=2), None, context=12, milliseconds=5)
        == "10 in · 2 out · 12 context · 5 ms"
    )


def test_a_call_is_one_line_in_any_notation() -> None:
    assert describe_call("bash", {"command": "a\nb\tc"}) == "bash a↵b c"
    assert describe_call("bash", {"command": "a", "unsandboxed": True}) == "bash (unsandboxed) a"
    assert describe_call("bash", {"command": "x" * 500}, 20) == "bash " + "x" * 14 + "…"
    assert describe_call("search", {"query": 1}) == 'search {"query":1}'
    assert describe_call("read", {"file_path": 7}) == 'read {"file_path":7}'
    assert describe_call("odd", {}) == "odd"
    assert one_line("\n a \n") == "a"


def test_a_list_of_names_is_indented_at_its_start() -> None:
    rows = [
        ("/a", "short"),
        ("/b [NAME]", "words that need more than one line"),
        ("/long [name WORDS]", "odd"),
        ("a heading above rows:", ""),
    ]
    assert format_columns(rows, 80).split("\n") == [
        "/a                     short",
        "/b [NAME]              words that need more than one line",
        "/long [name WORDS]     odd",
        "a heading above rows:",
    ]
    assert format_columns(rows, 30).split("\n") == [
        "/a         short",
        "/b [NAME]  words that need",
        "           more than one line",
        "/long [name WORDS]",
        "           odd",
        "a heading above rows:",
    ]


@given(st.lists(st.tuples(st.text("ab/ ", min_size=1), st.text("cd ")), min_size=1), st.integers(1, 60))
def test_a_list_loses_no_word_at_any_width(rows: list[tuple[str, str]], columns: int) -> None:
    assert "".join(format_columns(rows, columns).split()) == "".join(
        "".join(name + words for name, words in rows).split()
    )


def test_what_continues_a_line_is_indented_like_its_beginning() -> None:
    assert wrap_words("one two three\n\n   1  a-long-name and more", 12) == (
        "one two\nthree\n\n   1  a-long-name\n      and\n      more"
    )


def test_the_last_lines_are_those_of_the_command() -> None:
    assert last_lines("stdout:\na\n\nb\nstderr:\nc\nexit code: 1") == ["a", "b", "c"]
    assert last_lines("") == []
    assert len(last_lines("x" * 9_000)[0]) == 400


def test_the_headers_of_a_diff_are_not_changes() -> None:
    assert changed_lines("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n") == "+1 \N{MINUS SIGN}1"
    assert changed_lines("") == ""


def test_a_change_that_looks_like_a_header_is_a_change() -> None:
    diff = "--- a\n+++ b\n@@ -4,3 +4,2 @@\n x\n--- old comment\n-y\n+++ i\n\\ No newline at end of file\n"
    diff += "@@ -20 +19,0 @@\n-z\n"
    assert list(changes(diff)) == [
        DiffLine("-", 5, "-- old comment", 0),
        DiffLine("-", 6, "y", 0),
        DiffLine("+", 5, "++ i", 0),
        DiffLine("-", 20, "z", 1),
    ]


def test_of_many_files_the_first_are_named_and_the_others_counted() -> None:
    assert join_names(["a", "b"]) == "a, b"
    assert join_names([str(number) for number in range(9)]).endswith("7, 8")
    assert join_names([str(number) for number in range(1300)]) == "0, 1, 2, 3, 4, 5, 6, 7 and 1,292 more"
    assert "\x1b" not in join_names(["\x1b[31m"])
