"""If these fail, undoing a run removes other people's lines, or refuses although its lines are untouched."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from newel.review.model.file_lines import lines_of
from newel.review.model.file_review import Lines, buffer, root_of
from newel.review.model.rebase import rebased, saved
from newel.review.project import intact_hunks
from newel.review.revert import FileHistory, HunkNames, RevertStep, revert_hunks
from newel.review.store.ledger import Ledger
from newel.review.tracking.applied_sink import recorded
from tests.properties import examples

TEXTS = st.one_of(
    st.none(),
    st.lists(st.sampled_from(["a\n", "b\n", "c\r\n", "d\n", "\n"]), max_size=7).map("".join),
    st.lists(st.sampled_from(["a\n", "b\n", "c"]), max_size=4).map("\n".join),
)


def made(text: str | None) -> Lines:
    return lines_of(None if text is None else text.encode())


def wrote(ledger: Ledger, text: str | None, run: str) -> None:
    """A run changes the file to this."""
    change = partial(recorded, before=ledger.get("f").base, after=made(text), run=run)
    ledger.change("f", "record", change, run=run)


def taking_back(ledger: Ledger, run: str) -> RevertStep:
    review = ledger.get("f")
    ids = [one.id for one in review.applied if one.run == run]
    return revert_hunks(review, FileHistory.of(ledger.entries(path="f"), run), run, HunkNames(ids))


def took_back(ledger: Ledger, run: str) -> None:
    """Roll a whole run back, and save."""
    step = taking_back(ledger, run)
    assert step.conflicts == ()
    if step.after is not step.before:
        ledger.change("f", "rollback", lambda _: step.after, hunks=step.hunks, run=f"rollback of {run}")
        ledger.change("f", "save", saved)


def left(ledger: Ledger, run: str) -> list[str]:
    """The hunks of a run that could be undone."""
    review = ledger.get("f")
    ids = [one.id for one in review.applied if one.run == run]
    return intact_hunks(review, lambda: ledger.entries(path="f"), ids)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(TEXTS, min_size=3, max_size=6))
@example(
    ["\n", "b\n\nb\n", "\nb\n\n", None]
)  # lines that could be either of two, unless one compares the unchanged places
@example(["", "a\nb\n", "b\na\n"])  # what went is still there: at another place
def test_runs_can_be_undone_one_by_one_the_latest_first(texts: list[str | None]) -> None:
    with Ledger.open(None) as ledger:
        for number, text in enumerate(texts):
            wrote(ledger, text, f"r{number}")
        for number in reversed(range(1, len(texts))):
            took_back(ledger, f"r{number}")
            assert ledger.get("f").base == made(texts[number - 1])
            if (
                texts[number - 1] not in texts[number:]
            ):  # else it looks like a later state, in which the hunks stand
                assert left(ledger, f"r{number}") == []


@settings(max_examples=examples(40), deadline=None)
@given(
    mine=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=4),
    later=st.lists(st.tuples(st.integers(0, 5), st.integers(10, 19)), min_size=1, max_size=4),
    others=st.lists(st.tuples(st.integers(0, 5), st.integers(20, 29)), max_size=3),
)
def test_foreign_lines_beside_an_undo_stay(
    mine: list[tuple[int, int]], later: list[tuple[int, int]], others: list[tuple[int, int]]
) -> None:
    """Two runs write the same lines, the later one is rolled back, and other lines change meanwhile."""
    texts = [f"{number}\n" for number in range(24)]
    kept = list(texts)
    with Ledger.open(None) as ledger:
        wrote(ledger, "".join(texts), "start")
        for run, steps in (("mine", mine), ("later", later)):
            for line, word in steps:
                texts[line * 4] = f"{run} {word}\n"
            wrote(ledger, "".join(texts), run)
        took_back(ledger, "later")
        texts = list(ledger.get("f").base[1:])
        for line, word in others:
            texts[line * 4 + 2] = kept[line * 4 + 2] = f"other {word}\n"
        ledger.change("f", "rebase", lambda now: rebased(now, made("".join(texts))))
        took_back(ledger, "mine")
        assert ledger.get("f").base == made("".join(kept))


@settings(max_examples=examples(60), deadline=None)
@given(
    count=st.integers(2, 8),
    run=st.lists(st.tuples(st.integers(0, 7), st.integers(1, 3), st.integers(0, 7)), min_size=1, max_size=2),
    mine=st.lists(st.tuples(st.integers(0, 7), st.integers(1, 3), st.integers(0, 7)), max_size=2),
    begins_again=st.booleans(),
    place=st.integers(0, 7),
)
@example(count=3, run=[(2, 1, 1)], mine=[(0, 1, 1)], begins_again=False, place=0)  # it lost the moved line
@example(count=5, run=[(3, 1, 2)], mine=[], begins_again=False, place=3)  # it wrote the line again
@example(count=3, run=[(2, 1, 0)], mine=[], begins_again=True, place=1)
def test_a_move_is_undone_as_a_whole_or_not_at_all(
    count: int,
    run: list[tuple[int, int, int]],
    mine: list[tuple[int, int, int]],
    begins_again: bool,
    place: int,
) -> None:
    """Whatever the user has moved and replaced since: no line is lost, and none is there twice."""
    texts = [f"line {number}\n" for number in range(count)]
    with Ledger.open(None) as ledger:
        wrote(ledger, "".join(texts), "start")
        moved = _moved(texts, run)
        wrote(ledger, "".join(moved), "run")
        edited = _moved(texts if begins_again else moved, mine)
        edited[place % count] = "mine\n"
        ledger.change("f", "rebase", lambda now: rebased(now, made("".join(edited))))
        step = taking_back(ledger, "run")
    assert sorted(buffer(step.after)) == sorted(step.before.base)


def test_what_stands_is_undone_although_the_rest_was_changed_and_it_was_changed_and_restored() -> None:
    with Ledger.open(None) as ledger:
        wrote(ledger, "a\nb\nc\n", "start")
        wrote(ledger, "A\nb\nC\n", "run")
        for text in ("mine\nb\nmine\n", "A\nb\nmine\n"):
            ledger.change("f", "rebase", lambda now, text=text: rebased(now, made(text)))
        step = taking_back(ledger, "run")
    assert buffer(step.after) == made("a\nb\nmine\n")
    assert len(step.conflicts) == 1


@pytest.mark.parametrize(
    ("before", "mine", "after"),
    [
        ("x\ny\nz\n", "x\nmine\nz\n", None),
        ("y\nx\nz\n", "mine\nx\nz\n", None),
        ("x\nw\ny\nz\n", "mine\nx\nw\nmine\nz\n", None),
        ("x\ny\nz\n", "mine\nz\n", "x\nmine\nz\n"),
        ("x\nw\ny\nz\n", "x\nmine\nz\n", "x\nw\nx\nmine\nz\n"),
    ],
)
def test_removed_lines_that_the_user_has_put_back_are_not_restored_again(
    before: str, mine: str, after: str | None
) -> None:
    """Also if the user has changed the lines beside them."""
    with Ledger.open(None) as ledger:
        wrote(ledger, before, "start")
        wrote(ledger, before.replace("x\n", "").replace("w\n", ""), "run")
        ledger.change("f", "rebase", lambda now: rebased(now, made(mine)))
        step = taking_back(ledger, "run")
    assert buffer(step.after) == made(after or mine)
    assert len(step.conflicts) == (after is None)


@pytest.mark.parametrize("mine", ["x\nY\nz\n", "Y\nx\nz\n", "x\nmine\nY\nz\n", "Y\nmine\nx\n"])
def test_a_replaced_line_that_the_user_has_put_back_beside_is_not_written_twice(mine: str) -> None:
    """Also by the second of two undos, where the run after it has removed the line."""
    with Ledger.open(None) as ledger:
        wrote(ledger, "x\nz\n", "start")
        wrote(ledger, "Y\nz\n", "run")
        wrote(ledger, "z\n", "later")
        ledger.change("f", "rebase", lambda now: rebased(now, made(mine)))
        for run in ("later", "run"):
            step = taking_back(ledger, run)
            assert buffer(step.after) == made(mine)
            assert len(step.conflicts) == 1


def test_a_bracket_beside_a_replaced_bracket_does_not_keep_it_from_being_undone() -> None:
    with Ledger.open(None) as ledger:
        wrote(ledger, "a\n}\n", "start")
        wrote(ledger, "a\n}; // end\n", "run")
        ledger.change("f", "rebase", lambda now: rebased(now, made("a\n}; // end\n}\n")))
        took_back(ledger, "run")
        assert ledger.get("f").base == made("a\n}\n}\n")


def _moved(lines: list[str], moves: list[tuple[int, int, int]]) -> list[str]:
    """The lines after moves of so many lines from one place to another."""
    lines = list(lines)
    for start, size, to in moves:
        place = start % len(lines)
        block = lines[place : place + size]
        del lines[place : place + size]
        place = to % (len(lines) + 1)
        lines[place:place] = block
    return lines


def test_undo_of_an_ambiguous_line_is_a_conflict() -> None:
    """One of two identical lines was removed: it may be this one."""
    with Ledger.open(None) as ledger:
        wrote(ledger, "x\n1\n", "start")
        wrote(ledger, "x\ny\n1\nx\ny\nx\n", "mine")
        for text in ("x\n1\nx\ny\nx\n", "x\ny\nx\n"):
            ledger.change("f", "rebase", lambda now, text=text: rebased(now, made(text)))
        step = taking_back(ledger, "mine")
        assert len(step.conflicts) == 2
        assert step.after is step.before


@pytest.mark.slow  # thousands of lines
def test_undo_and_redo_of_thousands_of_lines_take_seconds() -> None:
    """A whole file is indented again and again: minutes if each hunk compares the whole text."""
    old = "".join(f"line {number}\n" for number in range(2_000))
    new = "".join(f"\tline {number}\n" if number % 2 else f"line {number}\n" for number in range(2_000))
    with Ledger.open(None) as ledger:
        wrote(ledger, old, "r0")
        for number in range(1, 4):
            wrote(ledger, new, f"r{number}")
            took_back(ledger, f"r{number}")
            assert ledger.get("f").base == made(old)
        wrote(ledger, new, "r4")
        wrote(ledger, old + "end\n", "r5")
        took_back(ledger, "r5")
        took_back(ledger, "r4")
        assert ledger.get("f").base == made(old)


IDS = st.builds(
    "{}h_{}{}".format,
    st.sampled_from(["", "h_1.", "h_2."]),
    st.integers(0, 5),
    st.sampled_from(["", "-1", "-1-2"]),
)


@given(st.lists(IDS), st.lists(IDS))
def test_the_named_hunks_of_a_file_are_found_among_those_of_all_files(
    named: list[str], ids: list[str]
) -> None:
    roots = {root_of(name) for name in ids}
    assert HunkNames(named).of(ids) == [name for name in dict.fromkeys(named) if root_of(name) in roots]
