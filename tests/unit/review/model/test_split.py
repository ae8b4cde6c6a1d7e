"""If these fail, a part of a hunk is lost or written twice, or a decision on it changes another part."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from newel.review.model.decisions import accept, peel, reject, split
from newel.review.model.edits import edit, tidied
from newel.review.model.file_lines import content_of, lines_of
from newel.review.model.file_review import (
    FileReview,
    Hunk,
    Layer,
    Lines,
    Origin,
    ReviewError,
    StaleRevision,
    buffer,
)
from newel.review.model.history import HistoryEntry, entry, patched, reverse
from newel.review.model.hunk_text import NotEditable, NothingLeft, text_of, with_text
from newel.review.model.rebase import rebased, saved
from newel.review.model.split import CannotSplit
from tests.properties import examples

LINE = st.sampled_from(["a\n", "b\n", "c\r\n", "\n", "d\n", "e\n", "\u2028x\n", "😀\n", "end"])
TEXT = st.lists(LINE, max_size=9).map("".join)
MODE = st.sampled_from([0o644, 0o755])
VERSION = st.one_of(st.none(), st.tuples(TEXT, MODE))
STEP = st.tuples(
    st.sampled_from(["split", "split", "keep", "reject", "edit", "peel"]), st.integers(0, 10**6), TEXT
)
MANY = settings(max_examples=examples(150), deadline=None)


def lines(version: tuple[str, int] | None) -> Lines:
    return lines_of(
        None if version is None else version[0].encode(), 0o644 if version is None else version[1]
    )


def one_hunk(before: Lines, after: Lines, *more: tuple[Origin, Lines]) -> FileReview:
    """A review with one hunk over the whole file, and layers above it."""
    layers = [Layer(origin="agent", lines=after, run="r")]
    layers += [
        Layer(origin=origin, lines=text, run="r" if origin == "agent" else "") for origin, text in more
    ]
    hunk = Hunk(id="h_1", a=0, b=len(before), layers=tuple(layers))
    return FileReview(path="f", base=before, hunks=tidied(before, hunk))


def review_of(before: str, after: str) -> FileReview:
    return one_hunk(lines((before, 0o644)), lines((after, 0o644)))


def split_all(review: FileReview) -> FileReview:
    """Until nothing can be split."""
    at = 0
    while at < len(review.hunks):
        try:
            review = split(review, review.hunks[at].id)
        except CannotSplit:
            at += 1
    return review


def texts(review: FileReview) -> list[str]:
    return ["".join(hunk.top.lines) for hunk in review.hunks]


@MANY
@given(VERSION, VERSION)
def test_parts_that_are_all_kept_give_the_proposal_and_all_rejected_the_base(
    before: tuple[str, int] | None, after: tuple[str, int] | None
) -> None:
    base, proposed = lines(before), lines(after)
    if base == proposed:
        return
    review = split_all(one_hunk(base, proposed))
    assert buffer(review) == proposed
    kept = rejected = review
    for hunk in review.hunks:
        kept, rejected = accept(kept, hunk.id), reject(rejected, hunk.id)
    assert saved(kept).base == proposed
    assert buffer(rejected) == base
    assert saved(rejected).base == base
    one_by_one = review
    for hunk in review.hunks[::-1]:  # saved by themselves, from the last to the first
        one_by_one = saved(accept(one_by_one, hunk.id))
    assert content_of(one_by_one.base) == content_of(proposed)


@MANY
@given(VERSION, VERSION, VERSION, st.lists(STEP, max_size=10))
def test_any_mix_of_splits_edits_and_decisions_is_undone_and_redone_exactly(
    before: tuple[str, int] | None,
    after: tuple[str, int] | None,
    mine: tuple[str, int] | None,
    steps: list[tuple[str, int, str]],
) -> None:
    base, proposed = lines(before), lines(after)
    own: list[tuple[Origin, Lines]] = (
        [("user", lines(mine))] if lines(mine) not in {base, proposed, ()} else []
    )
    if base == proposed:
        return
    review = one_hunk(base, proposed, *own)
    states, ids = [review], count(10)
    entries: list[HistoryEntry] = []
    for step in steps:
        try:
            after_step = take(review, *step, ids)
        except ReviewError:
            continue
        if step[0] == "split":
            assert buffer(after_step) == buffer(review)
        entries.append(entry("user_edit", review, after_step))
        review = after_step
        states.append(review)
    assert len({hunk.id for hunk in review.hunks}) == len(review.hunks)
    assert all(hunk.top.lines != base[hunk.a : hunk.b] for hunk in review.hunks)
    now = review
    for made, state in zip(reversed(entries), reversed(states[:-1]), strict=True):
        now = patched(now, reverse(made.forward))
        assert (now.base, now.hunks) == (state.base, state.hunks)
    for made in entries:
        now = patched(now, made.forward)
    assert (now.base, now.hunks) == (review.base, review.hunks)
    for hunk in review.hunks:
        now = reject(now, hunk.id, "base")
    assert buffer(now) == base


def take(review: FileReview, kind: str, number: int, text: str, ids: count[int]) -> FileReview:
    if not review.hunks:
        return review
    hunk = review.hunks[number % len(review.hunks)]
    match kind:
        case "split":
            return split(review, hunk.id)
        case "keep":
            return accept(review, hunk.id)
        case "reject":
            return reject(review, hunk.id, "base")
        case "peel":
            return peel(review, hunk.id)
        case _:
            return with_text(review, hunk.id, text, lambda: f"h_{next(ids)}")


@MANY
@given(VERSION, VERSION, st.integers(0, 10**6), TEXT)
@example(("end", 0o644), ("", 0o644), 0, "\n")
def test_an_edited_hunk_is_without_the_edit_is_the_proposal_again(
    before: tuple[str, int] | None, after: tuple[str, int] | None, number: int, text: str
) -> None:
    base, proposed = lines(before), lines(after)
    if base == proposed:
        return
    review = split_all(one_hunk(base, proposed))
    hunk = review.hunks[number % len(review.hunks)]
    try:
        shown = text_of(review, hunk)
        assert with_text(review, hunk.id, shown, lambda: "h_new") is review
        done = with_text(review, hunk.id, text and text.removesuffix("\n") + "\n", lambda: "h_new")
    except (NotEditable, NothingLeft):
        return
    if done is review:
        return
    assert len([each for each in done.hunks if each.has_user_layer]) == 1
    assert buffer(peel(done, next(each.id for each in done.hunks if each.has_user_layer))) == proposed


# -- where it is cut, by example ----------------------------------------------------------------------------


def test_a_hunk_is_split_at_its_unchanged_lines_first() -> None:
    review = split(review_of("1\n2\n3\n4\n", "one\n2\n3\nfour\n"), "h_1")
    assert [(hunk.id, hunk.a, hunk.b) for hunk in review.hunks] == [("h_1-1", 1, 2), ("h_1-2", 4, 5)]
    assert texts(review) == ["one\n", "four\n"]


def test_new_lines_are_split_behind_blank_lines_and_then_in_half() -> None:
    review = split(review_of("", "def a():\n    1\n\n\ndef b():\n    2\n"), "h_1")
    assert texts(review) == ["def a():\n    1\n\n\n", "def b():\n    2\n"]
    review = split(review, "h_1-2")
    assert texts(review) == ["def a():\n    1\n\n\n", "def b():\n", "    2\n"]
    assert [hunk.id for hunk in review.hunks] == ["h_1-1", "h_1-2-1", "h_1-2-2"]
    with pytest.raises(CannotSplit, match="cannot be split further"):
        split(review, "h_1-2-2")


def test_lines_that_replace_as_many_are_split_in_pairs() -> None:
    review = split(review_of("1\n2\n", "one\ntwo\n"), "h_1")
    assert buffer(reject(review, "h_1-1"))[1:] == ("1\n", "two\n")
    with pytest.raises(CannotSplit):
        split(review_of("1\n", "one\ntwo\n"), "h_1")


def test_the_mode_is_decided_apart_from_the_lines() -> None:
    review = split(one_hunk(lines(("1\n", 0o644)), lines(("one\n", 0o755))), "h_1")
    assert buffer(reject(review, "h_1-1")) == lines(("one\n", 0o644))
    assert buffer(reject(review, "h_1-2")) == lines(("1\n", 0o755))


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (lines_of(b"1\n2\n"), (), "it deletes the file"),
        (lines_of(b"\0"), lines_of(b"1\n2\n"), "it is not text"),
        (lines_of(b"1\n"), lines_of(b"\xff\n"), "it is not text"),
        (lines_of(b"1\n2\n"), lines_of(b"3\n4\n", 0o120777), "it changes what kind of file this is"),
    ],
    ids=["deletion", "from bytes", "to bytes", "link"],
)
def test_what_is_no_text_is_neither_split_nor_edited_and_says_why(
    before: Lines, after: Lines, why: str
) -> None:
    review = one_hunk(before, after)
    with pytest.raises(CannotSplit, match=why):
        split(review, "h_1")
    with pytest.raises(NotEditable, match=why):
        text_of(review, review.hunks[0])


def test_a_mode_alone_is_not_edited() -> None:
    review = one_hunk(lines(("1\n", 0o644))[:1], lines(("1\n", 0o755))[:1])
    with pytest.raises(NotEditable, match="only the mode"):
        text_of(review, review.hunks[0])


def test_the_users_lines_stay_in_the_part_where_they_are() -> None:
    review = one_hunk(
        lines(("1\n2\n3\n", 0o644)),
        lines(("one\n2\nthree\n", 0o644)),
        ("user", lines(("one\n2\nmine\n", 0o644))),
    )
    review = split(review, "h_1")
    assert [hunk.has_user_layer for hunk in review.hunks] == [False, True]
    assert buffer(peel(review, "h_1-2"))[1:] == ("one\n", "2\n", "three\n")


def test_a_part_of_the_agents_that_the_user_took_back_is_not_lost() -> None:
    """Without it, dropping the user's lines would no longer bring back the agent's."""
    review = one_hunk(
        lines(("1\n2\n3\n4\n5\n", 0o644)),
        lines(("one\n2\nthree\n4\nfive\n", 0o644)),
        ("user", lines(("one\n2\n3\n4\nmine\n", 0o644))),
    )
    review = split(review, "h_1")
    assert len(review.hunks) == 2
    assert buffer(peel(review, "h_1-2"))[1:] == ("one\n", "2\n", "three\n", "4\n", "five\n")


def test_a_name_of_a_hunk_that_was_split_is_refused_with_the_names_of_its_parts() -> None:
    review = split(review_of("1\n2\n3\n", "one\n2\nthree\n"), "h_1")
    with pytest.raises(StaleRevision, match="was split; its parts are h_1-1, h_1-2"):
        accept(review, "h_1")


def test_parts_of_a_conflict_are_conflicts() -> None:
    review = rebased(review_of("1\n2\n3\n", "one\n2\nthree\n"), lines(("eins\n2\n3\n", 0o644)))
    assert {hunk.conflict for hunk in split(review, "h_1").hunks} == {True}


# -- texts that are edited ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "shown", "typed", "result"),
    [
        (b"1\r\n2\r\n", b"1\r\ntwo\r\n", "two\n", "zwei\nand\n", b"1\r\nzwei\r\nand\r\n"),
        (b"1\n2", b"1\ntwo", "two\n", "zwei\n", b"1\nzwei"),
        (b"1\n2", b"1\ntwo\n", "two\n", "zwei\n", b"1\nzwei\n"),
        (b"\xef\xbb\xbf1\n2\n", b"\xef\xbb\xbfone\n2\n", "one\n", "eins\n", b"\xef\xbb\xbfeins\n2\n"),
        (b"a\r\nb\n", b"A\r\nB\n", "A\r\nB\n", "A\r\nb2\n", b"A\r\nb2\n"),
        (b"1\r\n2\r\n3\r\n", b"1\r\n3\r\n", "", "zwei\n", b"1\r\nzwei\r\n3\r\n"),
        (None, b"new\n", "new\n", "newer\nfile\n", b"newer\nfile\n"),
        (None, b"", "", "text\n", b"text\n"),
        (b"1\n2\n", b"1\ntwo\n", "two\n", "", b"1\n"),
    ],
    ids=["crlf", "no end", "end is new", "bom", "mixed ends", "deletion in crlf", "new", "empty", "emptied"],
)
def test_line_ends_and_marks_of_a_file_survive_an_edit(
    before: bytes | None, after: bytes, shown: str, typed: str, result: bytes
) -> None:
    old, new = lines_of(before), lines_of(after)
    review = FileReview(path="f", base=old)
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    layer = Layer(origin="agent", lines=new[start : len(new) - end], run="r")
    review = edit(review, start, len(old) - end, layer, lambda: "h_1")
    (hunk,) = review.hunks
    assert text_of(review, hunk) == shown
    done = with_text(review, "h_1", typed, lambda: "h_2")
    content = content_of(buffer(done))
    assert content is not None
    assert content.data == result
    assert content_of(buffer(peel(done, done.hunks[0].id))) == content_of(new)


def test_an_edit_that_gives_the_file_as_it_is_is_refused() -> None:
    with pytest.raises(NothingLeft):
        with_text(review_of("1\n", "one\n"), "h_1", "1\n", lambda: "h_2")


def test_a_rejected_hunk_that_is_edited_is_pending_again() -> None:
    review = with_text(reject(review_of("1\n", "one\n"), "h_1"), "h_1", "eins\n", lambda: "h_2")
    assert [hunk.state for hunk in review.hunks] == ["pending"]
    assert buffer(review)[1:] == ("eins\n",)
