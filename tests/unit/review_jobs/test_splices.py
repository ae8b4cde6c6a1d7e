"""If these fail, typing in many places at once has another result than typing in one after the other."""

from __future__ import annotations

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from newel.review.model.decisions import reject
from newel.review.model.edits import edit
from newel.review.model.file_lines import lines_of
from newel.review.model.file_review import FileReview, Layer, Lines, ReviewError, buffer, joined
from newel.review_jobs.decisions import apply_splices
from newel.review_jobs.requests import Splice
from tests.properties import examples

LINE = st.sampled_from(["a\n", "b\n", "c\r\n", "\n", "end"])
TEXT = st.lists(LINE, max_size=30).map("".join)
PLACE = st.tuples(st.integers(0, 30), st.integers(0, 2), st.lists(LINE, max_size=3).map("".join))


def reviewed(text: str, places: list[tuple[int, int, str]]) -> FileReview:
    """A file with hunks of an agent, every other one rejected."""
    names = count()
    review = FileReview(path="f", base=lines_of(text.encode()), rev=1)
    for number, (start, size, lines) in enumerate(places):
        end = min(start + 1 + size, len(buffer(review)))
        layer = Layer(origin="agent", lines=lines_of(lines.encode())[1:] if lines else (), run="r")
        try:
            after = edit(review, min(start + 1, end), end, layer, lambda: f"old{next(names)}")
            made = [hunk.id for hunk in after.hunks if hunk.id not in {each.id for each in review.hunks}]
            review = reject(after, made[0]) if made and number % 2 else after
        except ReviewError:
            continue
    return review


def apart(review: FileReview, places: list[tuple[int, int, str]]) -> list[Splice]:
    """Splices of existing lines that do not overlap."""
    size = len(buffer(review)) - 1
    found: list[Splice] = []
    at = 1
    for start, length, text in sorted(places):
        first = max(at, min(start + 1, size + 1))
        gone = min(length, size + 1 - first)
        found.append(Splice(start_line=first, delete_lines=gone, new_text=text))
        at = first + gone
    return found


@settings(max_examples=examples(100), deadline=None)
@given(TEXT.filter(bool), st.lists(PLACE, max_size=4), st.lists(PLACE, min_size=1, max_size=8))
def test_the_buffer_is_the_typed_text_whatever_hunks_it_has(
    text: str, hunks: list[tuple[int, int, str]], places: list[tuple[int, int, str]]
) -> None:
    review = reviewed(text, hunks)
    splices = apart(review, places)
    before, pieces, at = buffer(review), list[Lines](), 0
    for each in splices:  # the head of the file is line 0
        pieces += [before[at : each.start_line], lines_of(each.new_text.encode())[1:]]
        at = each.start_line + each.delete_lines
    found, wanted = buffer(apply_splices(review, splices)), joined(*pieces, before[at:])
    # The line end of a line without one is unspecified.
    assert [line.rstrip("\r\n") for line in found] == [line.rstrip("\r\n") for line in wanted]
    assert found[-1].endswith("\n") == wanted[-1].endswith("\n")


def test_a_word_replaced_all_over_a_long_file_is_a_hunk_at_each_place() -> None:
    text = "".join(f"line {n}\n" for n in range(40_000))
    review = FileReview(path="f", base=lines_of(text.encode()), rev=1)
    splices = [Splice(start_line=4 * n + 1, delete_lines=1, new_text="new\n") for n in range(10_000)]
    after = apply_splices(review, splices)
    assert len(after.hunks) == 10_000
    assert buffer(after)[1::4] == ("new\n",) * 10_000


MARKED = st.sampled_from(["a\n", "\ufeffb\n", "\n", "end"])


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(LINE, max_size=6).map("".join),
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.lists(MARKED, max_size=2).map("".join)), min_size=1
    ),
)
def test_text_typed_at_the_top_of_a_file_follows_its_byte_order_mark(
    text: str, places: list[tuple[int, int, str]]
) -> None:
    review = FileReview(path="f", base=lines_of(("\ufeff" + text).encode()), rev=1)
    typed = "".join(buffer(apply_splices(review, apart(review, places)))[1:])
    assert typed.startswith("\ufeff")
    assert not typed.startswith("\ufeff\ufeff")
