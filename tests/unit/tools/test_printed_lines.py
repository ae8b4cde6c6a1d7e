"""If these fail, Newel hangs after a command with a long output, or a file that was only printed in part may be overwritten."""

from __future__ import annotations

import pytest

from newel.tools.file_tool import MAX_PRINTED, FileTracker


def numbers(start: int, end: int) -> str:
    return "".join(f"{number}\n" for number in range(start, end))


@pytest.mark.slow  # a second of a core
def test_the_lines_printed_longest_ago_are_forgotten_even_if_they_are_very_many() -> None:
    """Forgetting each by a search from the start would take minutes, longer than a test may."""
    tracker = FileTracker()
    count = 10 * MAX_PRINTED
    tracker.printed(numbers(0, count))
    assert tracker.was_printed(numbers(count - MAX_PRINTED, count).encode())
    assert not tracker.was_printed(b"0\n")


def test_a_line_that_is_printed_again_counts_as_printed_last() -> None:
    tracker = FileTracker()
    tracker.printed(numbers(0, MAX_PRINTED))
    tracker.printed("0\nnew\n")
    assert tracker.was_printed(b"0\nnew\n2\n")
    assert not tracker.was_printed(b"1\n")
