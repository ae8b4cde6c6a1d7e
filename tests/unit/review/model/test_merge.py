"""If these fail, merging an agent's copy proposes other changes, or overwrites newer decisions."""

from __future__ import annotations

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from newel.review.model.decisions import accept, reject
from newel.review.model.edits import NewId, edit
from newel.review.model.file_lines import lines_of
from newel.review.model.file_review import FileReview, Layer, Lines, buffer, new_hunk_id
from newel.review.model.merge import staged
from newel.review.model.proposal import HunkSize
from newel.review.model.rebase import rebased, saved
from tests.properties import examples

SMALL = HunkSize(lines=2, bytes=8192)
CONTENTS = st.one_of(
    st.none(),
    st.binary(max_size=3).map(lambda data: b"\xff" + data),
    st.lists(st.sampled_from(["a\n", "b\n", "c\r\n", "d.\n", "\n", "\u2028\n", "😀\n"]), max_size=8).map(
        lambda lines: "".join(lines).encode()
    ),
    st.lists(st.sampled_from(["a\n", "b\n", "c"]), max_size=5).map(lambda lines: "\n".join(lines).encode()),
)
FILES = st.tuples(CONTENTS, st.sampled_from([0o644, 0o755]))


def made(file: tuple[bytes | None, int]) -> Lines:
    return lines_of(*file)


def of(*lines: str) -> Lines:
    return made(("".join(f"{line}\n" for line in lines).encode(), 0o644))


def on(base: Lines) -> FileReview:
    return rebased(FileReview(path="f"), base)


def names() -> NewId:
    numbers = count()
    return lambda: f"h_{next(numbers)}"


@settings(max_examples=examples(100), deadline=None)
@given(start=FILES, steps=st.lists(st.tuples(FILES, st.booleans()), min_size=1, max_size=5))
def test_the_buffer_equals_the_copy_and_rejecting_all_restores_the_file(
    start: tuple[bytes | None, int], steps: list[tuple[tuple[bytes | None, int], bool]]
) -> None:
    base, new_id = made(start), names()
    review, before = on(base), base
    for file, is_same_run in steps:
        after = made(file)
        run = "one" if is_same_run else "two"
        done = staged(review, before=before, after=after, run=run, new_id=new_id, size=SMALL)
        assert not done.left_out
        review, before = done.review, after
        assert buffer(review) == after
        assert review.base == base
    kept = review
    for hunk in review.hunks:
        kept = accept(kept, hunk.id)
        review = reject(review, hunk.id)
    assert buffer(review) == base
    assert saved(kept).base == before


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 99)), min_size=1, max_size=8),
    st.booleans(),
)
def test_decisions_and_saves_made_meanwhile_stay(steps: list[tuple[bool, int, int]], is_saved: bool) -> None:
    """The run writes the even lines of its copy, the user the odd ones of the buffer or the file."""
    new_id = names()
    start = [f"{number}" for number in range(24)]
    copy, theirs = list(start), list(start)
    review = on(of(*start))
    for is_run, line, word in steps:
        (copy if is_run else theirs)[line * 4 + (0 if is_run else 2)] = (
            f"{'run' if is_run else 'user'} {word}"
        )
    if is_saved:
        review = rebased(review, of(*theirs))
    else:
        for number, (old, new) in enumerate(zip(start, theirs, strict=True), 1):
            if old != new:
                layer = Layer(origin="user", lines=(f"{new}\n",))
                review = edit(review, number, number + 1, layer, new_id)
    done = staged(review, before=of(*start), after=of(*copy), run="r", new_id=new_id)
    both = [mine if mine != old else other for old, mine, other in zip(start, copy, theirs, strict=True)]
    assert buffer(done.review) == of(*both)
    assert not done.left_out
    assert not any(hunk.conflict for hunk in done.review.hunks)


@settings(max_examples=examples(100), deadline=None)
@given(start=FILES, now=FILES, after=FILES, is_saved=st.booleans())
def test_no_line_of_the_user_is_ever_overwritten(
    start: tuple[bytes | None, int],
    now: tuple[bytes | None, int],
    after: tuple[bytes | None, int],
    is_saved: bool,
) -> None:
    new_id = names()
    review = on(made(start))
    if is_saved:
        review = rebased(review, made(now))
    elif now[0] is not None and b"\xff" not in now[0] and start[0] is not None and b"\xff" not in start[0]:
        layer = Layer(origin="user", lines=made(now))
        review = edit(review, 0, len(buffer(review)), layer, new_id)
    theirs = [hunk for hunk in review.hunks if hunk.has_user_layer]
    done = staged(review, before=made(start), after=made(after), run="r", new_id=new_id)
    assert done.review.base == review.base
    assert [hunk for hunk in done.review.hunks if hunk.has_user_layer] == theirs
    back = done.review
    for hunk in back.hunks:
        if not hunk.has_user_layer:
            back = reject(back, hunk.id)
    assert buffer(back) == buffer(review)


def test_a_change_of_foreign_changed_lines_is_a_conflict() -> None:
    review = on(of("a", "theirs", "c", "d"))
    done = staged(
        review, before=of("a", "b", "c", "d"), after=of("a", "mine", "c", "D"), run="r", new_id=names()
    )
    assert [(hunk.conflict, hunk.top.lines) for hunk in done.review.hunks] == [
        (True, ("mine\n",)),
        (False, ("D\n",)),
    ]


def test_a_change_of_lines_that_the_user_edits_is_skipped_and_reported() -> None:
    new_id = names()
    review = on(of("a", "b", "c", "d"))
    review = edit(review, 2, 3, Layer(origin="user", lines=("theirs\n",)), new_id)
    done = staged(
        review, before=of("a", "b", "c", "d"), after=of("a", "mine", "c", "D"), run="r", new_id=new_id
    )
    assert buffer(done.review) == of("a", "theirs", "c", "D")
    assert len(done.left_out) == 1
    assert "f" in done.left_out[0]


def test_a_command_with_thousands_of_changes_is_staged_quickly() -> None:
    old = lines_of("".join(f"line {number}\n" for number in range(8_000)).encode())
    new = lines_of("".join(f"line {number}\n" + "\n" * (number % 2) for number in range(8_000)).encode())
    done = staged(FileReview(path="f", base=old), before=old, after=new, run="r", new_id=new_hunk_id)
    assert buffer(done.review) == new
    assert len(done.review.hunks) == 4_000
