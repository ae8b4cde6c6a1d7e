"""If these fail, a batch of thousands of edits has another result than the same edits one by one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from newel.review.model.batch_edit import Piece, edit_each
from newel.review.model.decisions import reject
from newel.review.model.edits import NewId, edit
from newel.review.model.file_lines import lines_of
from newel.review.model.file_review import FileReview, Layer, Lines, ReviewError, buffer
from tests.properties import examples

LINE = st.sampled_from(["a\n", "b\n", "c\r\n", "\n", "\u2028x\n"])
LINES = st.lists(LINE, max_size=3).map(tuple)
TEXT = st.tuples(st.lists(LINE, min_size=8, max_size=24), st.sampled_from(["", "end"])).map(
    lambda each: "".join(each[0]) + each[1]
)
EDIT = st.tuples(st.integers(0, 24), st.integers(0, 3), LINES, st.sampled_from(["agent", "user", "rejected"]))
GAPS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), LINES), min_size=2, max_size=12)


def begun(text: str, edits: list[tuple[int, int, Lines, str]]) -> FileReview:
    """A review with hunks of the agent and the user, some of them rejected."""
    review, ids = FileReview(path="f", base=lines_of(text.encode())), count(1)
    for start, size, lines, hand in edits:
        layer = Layer(origin="user" if hand == "user" else "agent", lines=lines, run="before")
        try:
            review = edit(review, start + 1, start + 1 + size, layer, lambda: f"h_{next(ids)}")
            if hand == "rejected" and review.hunks:
                review = reject(review, review.hunks[-1].id)
        except ReviewError:
            continue
    return review


def outcome(make: Callable[..., FileReview], review: FileReview, pieces: list[Piece]) -> FileReview | None:
    """None for a refusal. New hunks are numbered by their place: an edit that changes nothing may take an id or not."""
    ids = count(1)
    try:
        result = make(review, pieces, lambda: f"n_{next(ids)}", few=1)
    except ReviewError:
        return None
    hunks = (
        msgspec.structs.replace(hunk, id=f"n_{number}") if hunk.id.startswith("n_") else hunk
        for number, hunk in enumerate(result.hunks)
    )
    return msgspec.structs.replace(result, hunks=tuple(hunks))


def one_by_one(review: FileReview, pieces: list[Piece], new_id: NewId, few: int) -> FileReview:
    for start, end, layer in reversed(pieces):
        review = edit(review, start, end, layer, new_id)
    return review


@settings(max_examples=examples(100), deadline=None)
@given(TEXT, st.lists(EDIT, max_size=6), GAPS)
@example(
    "a\n" * 7 + "b\na\n",
    [(5, 2, ("b\n", "b\n"), "agent")],
    [(0, 0, ()), (0, 2, ()), (2, 0, ()), (0, 2, ()), (0, 0, ()), (0, 0, ())],
)
def test_a_batch_of_edits_equals_its_single_edits(
    text: str, edits: list[tuple[int, int, Lines, str]], gaps: list[tuple[int, int, Lines]]
) -> None:
    review = begun(text, edits)
    pieces: list[Piece] = []
    at = 1
    for gap, size, lines in gaps:
        start, end = at + gap, at + gap + size
        if end > len(buffer(review)):
            break
        pieces.append((start, end, Layer(origin="agent", lines=lines, run="now")))
        at = end + (size == 0)
    assert outcome(edit_each, review, pieces) == outcome(one_by_one, review, pieces)


def test_ten_thousand_hunks_are_created_quickly() -> None:
    base = lines_of("".join(f"{number}\n\n" for number in range(10_000)).encode())
    layer = Layer(origin="agent", lines=("new\n",), run="now")
    pieces = [(number, number + 1, layer) for number in range(1, 20_001, 2)]
    ids = count(1)
    made = edit_each(FileReview(path="f", base=base), pieces, lambda: f"h_{next(ids)}")
    assert [(hunk.id, hunk.a, hunk.b) for hunk in made.hunks] == [
        (f"h_{10_001 - number}", 2 * number - 1, 2 * number) for number in range(1, 10_001)
    ]
