"""If these fail, a model's edit lands on the wrong lines, or makes an unreadable hunk."""

from __future__ import annotations

import contextlib
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.review.model.decisions import reject
from newel.review.model.file_lines import content_of, lines_of
from newel.review.model.file_review import BadRange, Conflict, FileReview, buffer
from newel.review.model.proposal import DEFAULT_SIZE, HunkSize, propose
from newel.tools.review.propose_edits import ProposedEdit, lines_hash


def proposal(text: str | None, *edits: dict[str, Any], size: HunkSize = DEFAULT_SIZE) -> FileReview:
    ids = count(1)
    review = FileReview(path="f", base=lines_of(None if text is None else text.encode()))
    raw = [{"edit_id": f"e_{n}", "file_path": "f"} | each for n, each in enumerate(edits, 1)]
    made = msgspec.convert(raw, list[ProposedEdit])
    return propose(review, made, run="r", new_id=lambda: f"h_{next(ids)}", size=size)


def text_of(review: FileReview) -> str | None:
    content = content_of(buffer(review))
    return None if content is None else content.data.decode()


def replace(start: int, end: int, new: str, **more: Any) -> dict[str, Any]:
    return {"operation": "replace", "start_line": start, "end_line": end, "new_text": new} | more


def insert(start: int, new: str, **more: Any) -> dict[str, Any]:
    return {"operation": "insert", "start_line": start, "new_text": new} | more


def delete(start: int, end: int) -> dict[str, Any]:
    return {"operation": "delete", "start_line": start, "end_line": end}


@pytest.mark.parametrize(
    ("text", "edits", "wanted"),
    [
        ("1\n2\n3\n", [replace(2, 2, "two\n")], "1\ntwo\n3\n"),
        ("1\n2\n3\n", [replace(2, 2, "two")], "1\ntwo\n3\n"),
        ("1\n2\n3\n", [insert(1, "0\n"), delete(3, 3)], "0\n1\n2\n"),
        ("1\n2\n3\n", [insert(4, "4\n")], "1\n2\n3\n4\n"),
        ("1\n2\n3", [insert(4, "4")], "1\n2\n3\n4"),
        ("1\n2\n3", [replace(3, 3, "three")], "1\n2\nthree"),
        ("1\r\n2\r\n", [replace(2, 2, "two\n2½\n")], "1\r\ntwo\r\n2½\r\n"),
        ("\ufeff1\n2\n", [delete(2, 2)], "\ufeff1\n"),
        ("\ufeff1\n2\n", [insert(1, "0\n")], "\ufeff0\n1\n2\n"),
        ("\ufeff1\n2\n", [insert(1, "\ufeff0\n")], "\ufeff0\n1\n2\n"),
        ("\ufeff1\n2\n", [replace(1, 1, "one\n")], "\ufeffone\n2\n"),
        ("\ufeff1\n2\n", [insert(1, "0\n"), replace(1, 1, "one\n")], "\ufeff0\none\n2\n"),
        ("\ufeff1\n2\n", [delete(1, 1)], "\ufeff2\n"),
        ("\ufeff1\n2\n", [delete(1, 1), replace(2, 2, "two\n")], "\ufefftwo\n"),
        ("\ufeff1\n2\n", [delete(1, 2)], "\ufeff"),
        ("\ufeff1", [insert(1, "0")], "\ufeff0\n1"),
        ("1\n2\n", [delete(1, 2)], ""),
        ("", [insert(1, "1\n")], "1\n"),
        (None, [insert(1, "1\n2\n")], "1\n2\n"),
        ("1\n2\n3\n", [insert(2, "a\n"), replace(2, 2, "b\n")], "1\na\nb\n3\n"),
    ],
)
def test_edits_apply_to_their_lines(text: str | None, edits: list[dict[str, Any]], wanted: str) -> None:
    assert text_of(proposal(text, *edits)) == wanted


def test_an_edit_becomes_a_hunk_of_the_lines_that_it_changes() -> None:
    review = proposal("1\n2\n3\n4\n5\n", replace(1, 5, "1\ntwo\n3\n4\nfive\n"))
    assert [(hunk.a, hunk.b, hunk.top.lines, hunk.top.edits) for hunk in review.hunks] == [
        (2, 3, ("two\n",), ("e_1",)),
        (5, 6, ("five\n",), ("e_1",)),
    ]


@pytest.mark.parametrize(
    "edits",
    [
        [replace(3, 4, "x")],
        [replace(4, 4, "x")],
        [replace(3, 2, "x")],
        [insert(5, "x")],
        [replace(1, 2, "x"), replace(2, 3, "y")],
        [replace(1, 3, "x"), insert(2, "y")],
    ],
)
def test_missing_or_overlapping_lines_are_refused(edits: list[dict[str, Any]]) -> None:
    with pytest.raises(BadRange):
        proposal("1\n2\n3\n", *edits)


def test_an_edit_of_lines_with_other_text_is_a_conflict() -> None:
    right, wrong = lines_hash(["2\n"]), lines_hash(["two\n"])
    assert text_of(proposal("1\n2\n", replace(2, 2, "zwei", expected_hash=right))) == "1\nzwei\n"
    assert text_of(proposal("1\n2\n", insert(2, "1½", expected_hash=right))) == "1\n1½\n2\n"
    with pytest.raises(Conflict):
        proposal("1\n2\n", replace(2, 2, "zwei", expected_hash=wrong))


def test_a_large_edit_is_split_at_blank_lines_and_then_at_sentences() -> None:
    size = HunkSize(lines=4)
    review = proposal("", insert(1, "a\nb\n\nc\nd\n\ne.\nf\ng.\nh\ni\n"), size=size)
    assert [hunk.top.lines for hunk in review.hunks] == [
        ("a\n", "b\n", "\n"), ("c\n", "d\n", "\n"), ("e.\n", "f\n", "g.\n"), ("h\n", "i\n"),
    ]  # fmt: skip
    assert not any(hunk.oversized for hunk in review.hunks)


def test_an_unsplittable_hunk_is_marked() -> None:
    review = proposal("", insert(1, "a\nb\nc\nd\n"), size=HunkSize(lines=3))
    assert [hunk.oversized for hunk in review.hunks] == [True]
    review = proposal("a\nb\nc\nd\n", delete(1, 4), size=HunkSize(lines=3))
    assert [hunk.oversized for hunk in review.hunks] == [True]


@given(st.lists(st.sampled_from(["a\n", "\n", "b.\n", "😀\n"]), max_size=40), st.integers(1, 6))
def test_splitting_never_changes_the_text(lines: list[str], most: int) -> None:
    for text, made in ((None, "".join(lines)), ("x\ny\n", "".join(lines))):
        review = proposal(
            text, insert(1, made) if text is None else replace(1, 2, made), size=HunkSize(lines=most)
        )
        assert text_of(review) == (made if made or text is not None else None)
        assert all(hunk.oversized or len(hunk.top.lines) <= most + 1 for hunk in review.hunks)


LINES = st.lists(st.sampled_from(["a\n", "b\n", "\n", "\ufeffc\n"]), max_size=2).map("".join)


@given(st.lists(st.tuples(st.sampled_from("ird"), st.integers(1, 3), LINES), max_size=3), st.data())
def test_a_byte_order_mark_stays_first_however_hunks_are_decided(
    edits: list[tuple[str, int, str]], data: st.DataObject
) -> None:
    def made(kind: str, at: int, new: str) -> dict[str, Any]:
        match kind:
            case "i":
                return insert(at, new)
            case "r":
                return replace(at, at, new)
            case _:
                return delete(at, at)

    review = FileReview(path="f")
    with contextlib.suppress(BadRange):
        review = proposal("\ufeff1\n2\n3\n", *(made(*each) for each in edits))
    for hunk in review.hunks:
        if data.draw(st.booleans()):
            review = reject(review, hunk.id)
    text = text_of(review)
    assert not review.hunks or (text is not None and text.startswith("\ufeff"))
    assert text is None or "\ufeff\ufeff" not in text
