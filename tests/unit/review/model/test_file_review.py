"""If these fail, some history of edits and decisions corrupts a user's text."""

from __future__ import annotations

from itertools import count, pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newel.review.model.decisions import NothingToPeel, accept, peel, reject, reopen
from newel.review.model.edits import edit
from newel.review.model.file_lines import content_of, lines_of, make_head
from newel.review.model.file_review import (
    BadRange,
    BadText,
    ChoiceNeeded,
    Conflict,
    FileReview,
    Layer,
    Lines,
    Origin,
    UnknownHunk,
    UserEditConflict,
    buffer,
    joined,
    placed,
)
from newel.review.model.history import (
    BufferEntry,
    HistoryEntry,
    NothingToUndo,
    buffer_before,
    entry,
    patched,
    redo,
    reverse,
    undo,
)
from newel.review.model.rebase import kept, rebased, saved
from newel.review.model.revert_applied import restored, reverted
from tests.properties import examples

LINE = st.sampled_from(["a\n", "b\n", "c\r\n", "\n", "\u2028x\n", "😀\n", "\ufeffd\n", "end"])
TEXT = st.one_of(st.just(None), st.lists(LINE, max_size=8).map("".join))
NUMBER = st.integers(0, 10**6)
STEP = st.tuples(
    st.sampled_from(
        ["agent", "agent", "user", "user", "accept", "reject", "base", "peel", "reopen", "save", "disk", "record",
         "revert", "restore", "undo", "redo"]
    ),
    NUMBER, NUMBER, TEXT,
)  # fmt: skip
HISTORY = st.tuples(TEXT, st.lists(STEP, max_size=14))
MANY = settings(max_examples=examples(80), deadline=None)


def as_lines(text: str | None) -> Lines:
    return lines_of(None if text is None else text.encode())


class Story:
    """A review and its journal, from a random history."""

    def __init__(self, text: str | None) -> None:
        self.start = FileReview(path="f", base=as_lines(text))
        self.now = self.start
        self.entries: list[HistoryEntry] = []
        self.ids = count(1)
        self.texts = [self.now.base]

    def new_id(self) -> str:
        return f"h_{next(self.ids)}"

    def take(self, step: tuple[str, int, int, str | None]) -> None:
        """One step; an impossible one changes nothing."""
        kind, x, y, text = step
        before = self.now
        try:
            after, made = self._step(kind, x, y, text)
        except (
            BadRange,
            BadText,
            UserEditConflict,
            ChoiceNeeded,
            Conflict,
            NothingToPeel,
            NothingToUndo,
            UnknownHunk,
        ):
            assert self.now is before
            return
        self.now = after
        if made is None and after is not before:
            made = entry(KINDS[kind], before, after)
        if made is not None:
            self.entries.append(made)
        self.texts.append(buffer(after))

    def _step(self, kind: str, x: int, y: int, text: str | None) -> tuple[FileReview, HistoryEntry | None]:
        now = self.now
        hunks, applied = now.hunks, now.applied
        match kind:
            case "agent" | "user":
                return self._edit("agent" if kind == "agent" else "user", x, y, text or ""), None
            case "accept" | "reject" | "base" | "peel" | "reopen":
                if not hunks:
                    return now, None
                hunk = hunks[x % len(hunks)].id
                done: Any = {"accept": accept, "reject": reject, "peel": peel, "reopen": reopen}
                return (reject(now, hunk, "base") if kind == "base" else done[kind](now, hunk)), None
            case "save":
                return saved(now), None
            case "disk":
                return rebased(now, as_lines(text)), None
            case "record":
                return rebased(now, as_lines(text), run=f"run{x % 3}", new_id=self.new_id), None
            case "revert":
                return (reverted(now, [applied[x % len(applied)].id], self.new_id) if applied else now), None
            case "restore":
                return restored(now, self.texts[x % len(self.texts)], self.new_id), None
            case "undo":
                return undo(now, self.entries)
            case _:
                return redo(now, self.entries)

    def _edit(self, origin: Origin, x: int, y: int, text: str) -> FileReview:
        shown = buffer(self.now)
        start, end = sorted((x % (len(shown) + 1), y % (len(shown) + 1)))
        lines = as_lines(text)[1:]
        after = edit(
            self.now,
            start,
            end,
            Layer(origin=origin, lines=lines, run="r" if origin == "agent" else ""),
            self.new_id,
        )
        wanted = joined(shown[:start], lines, shown[end:])
        assert buffer(after) == (wanted if shown or not wanted else (make_head(), *wanted))
        return after


KINDS: dict[str, Any] = {
    "agent": "propose", "user": "user_edit", "base": "reject", "disk": "rebase", "revert": "rollback",
    "restore": "rollback",
} | {kind: kind for kind in ("accept", "reject", "peel", "reopen", "save", "record")}  # fmt: skip


def told(history: tuple[str | None, list[tuple[str, int, int, str | None]]]) -> Story:
    story = Story(history[0])
    for step in history[1]:
        story.take(step)
    return story


def same(one: FileReview, other: FileReview) -> bool:
    return msgspec.structs.replace(one, rev=0) == msgspec.structs.replace(other, rev=0)


@MANY
@given(HISTORY)
def test_hunks_are_ordered_disjoint_and_change_something(history: Any) -> None:
    review = told(history).now
    assert all(one.b <= other.a for one, other in pairwise(review.hunks))
    assert len({hunk.id for hunk in review.hunks}) == len(review.hunks)
    for hunk in review.hunks:
        assert 0 <= hunk.a <= hunk.b <= len(review.base)
        assert hunk.top.lines != review.base[hunk.a : hunk.b]
    shown = buffer(review)
    assert not any("\0" in line for line in shown[1:])
    for each in placed(review):
        lines = each.hunk.top.lines if each.hunk.is_shown else review.base[each.hunk.a : each.hunk.b]
        assert [line.rstrip("\r\n") for line in shown[each.start : each.end]] == [
            line.rstrip("\r\n") for line in lines
        ]
    assert all(0 <= one.a <= one.b <= len(review.base) for one in review.applied)


@MANY
@given(HISTORY)
def test_replaying_the_journal_gives_each_state_forwards_and_backwards(history: Any) -> None:
    story = told(history)
    decoded = msgspec.json.decode(msgspec.json.encode(story.entries), type=list[HistoryEntry])
    review, states = story.start, [story.start]
    for each in decoded:
        review = patched(review, each.forward)
        states.append(review)
    assert same(review, story.now)
    for each, before in zip(reversed(decoded), reversed(states[:-1]), strict=True):
        review = patched(review, reverse(each.forward))
        assert same(review, before)
    parts = msgspec.json.decode(msgspec.json.encode(story.entries), type=list[BufferEntry])
    for number, state in enumerate(states):
        assert buffer_before(story.now, parts[number:]) == buffer(state)


@MANY
@given(HISTORY)
def test_rejecting_everything_gives_the_base_exactly(history: Any) -> None:
    review = told(history).now
    base = review.base
    for hunk in review.hunks:
        review = reject(review, hunk.id, "base")
    assert buffer(review) == base == review.base


@MANY
@given(HISTORY)
def test_accepting_everything_and_saving_gives_the_proposed_file(history: Any) -> None:
    review = told(history).now
    shown = buffer(review)
    for hunk in review.hunks:
        if hunk.is_shown:
            review = accept(review, hunk.id)
    review = saved(review)
    assert review.base == buffer(review)
    assert content_of(review.base) == content_of(shown)


@MANY
@given(HISTORY)
def test_a_save_changes_no_buffer_and_writes_only_kept_hunks(history: Any) -> None:
    review = told(history).now
    after = saved(review)
    # A file whose deletion was partly kept exists, and may be empty.
    one, other = content_of(buffer(after)), content_of(buffer(review))
    now, then = (one.data if one else b""), (other.data if other else b"")
    # So does the end of a last line, if the lines behind it are only to be deleted and are still in the file.
    is_last = not any(hunk.is_shown and hunk.b == len(after.base) for hunk in after.hunks)
    assert now == then or (not is_last and now.rstrip(b"\r\n") == then)
    assert [hunk.id for hunk in after.hunks] == [
        hunk.id for hunk in review.hunks if hunk.id not in {each.id for each in kept(review)}
    ]


@MANY
@given(HISTORY, st.randoms(use_true_random=False), st.lists(st.sampled_from(["accept", "reject", "reopen"])))
def test_the_order_of_decisions_does_not_matter(history: Any, random: Any, decisions: list[str]) -> None:
    review = told(history).now
    chosen = list(zip(review.hunks, decisions, strict=False))

    def decided(order: list[Any]) -> FileReview:
        after = review
        for hunk, decision in order:
            if decision == "accept":
                after = accept(after, hunk.id)
            elif decision == "reject":
                after = reject(after, hunk.id, "base")
            else:
                after = reopen(after, hunk.id)
        return after

    shuffled = list(chosen)
    random.shuffle(shuffled)
    assert decided(chosen) == decided(shuffled)


@MANY
@given(HISTORY)
def test_reject_and_reopen_cancel_out(history: Any) -> None:
    review = told(history).now
    for hunk in review.hunks:
        if hunk.state == "pending":
            assert same(reopen(reject(review, hunk.id, "base"), hunk.id), review)


@MANY
@given(HISTORY)
def test_undo_reverts_exactly_one_change_and_redo_repeats_it(history: Any) -> None:
    story = told(history)
    try:
        before, undone = undo(story.now, story.entries)
    except NothingToUndo:
        return
    assert undone.hash_after == next(each for each in story.entries if each.id == undone.of).hash_before
    again, _ = redo(before, [*story.entries, undone])
    assert same(again, story.now)


@MANY
@given(HISTORY)
def test_a_save_can_be_undone_exactly(history: Any) -> None:
    story = told(history)
    before = story.now
    after = saved(before)
    fresh = [one for one in after.applied if one.id not in {old.id for old in before.applied} and one.intact]
    if len(fresh) != len(kept(before)):
        return  # the user's lines were saved with the agent's: only the user can separate them
    try:
        back = saved(reverted(after, [one.id for one in fresh], story.new_id))
    except Conflict:  # a pending hunk is right there
        return
    mine = [hunk for hunk in kept(after) if hunk.id not in {one.id for one in fresh}]
    if not mine:
        assert back.base == before.base


@MANY
@given(HISTORY, TEXT)
def test_a_change_on_the_disk_keeps_hunks_that_it_does_not_touch(history: Any, text: str | None) -> None:
    review = told(history).now
    after = rebased(review, as_lines(text))
    assert after.base == as_lines(text) or review.base == as_lines(text)
    known = {hunk.id: hunk for hunk in review.hunks}
    for hunk in after.hunks:
        old = known[hunk.id]
        if not hunk.conflict:
            assert msgspec.structs.replace(hunk, a=old.a, b=old.b) == old
    if not review.hunks:
        assert buffer(after) == as_lines(text)


@MANY
@given(HISTORY, NUMBER, NUMBER, TEXT)
def test_an_agent_never_overwrites_the_users_lines(history: Any, x: int, y: int, text: str | None) -> None:
    review = told(history).now
    shown = buffer(review)
    start, end = sorted((x % (len(shown) + 1), y % (len(shown) + 1)))
    try:
        after = edit(
            review, start, end, Layer(origin="agent", lines=as_lines(text)[1:], run="z"), lambda: "new"
        )
    except (BadRange, UserEditConflict):
        return
    mine = [hunk for hunk in review.hunks if hunk.is_shown and hunk.has_user_layer]
    assert [hunk.layers for hunk in after.hunks if hunk.is_shown and hunk.has_user_layer] == [
        hunk.layers for hunk in mine
    ]


@given(
    st.one_of(
        st.none(), st.binary(max_size=60), TEXT.map(lambda text: None if text is None else text.encode())
    )
)
def test_a_file_is_its_lines(data: bytes | None) -> None:
    content = content_of(lines_of(data, 0o755))
    if data is None:
        assert content is None
    else:
        assert content is not None
        assert content.mode == 0o755
        assert content.blob or content.data == data


# -- what it is about, by example --------------------------------------------------------------------


def review_of(text: str, *edits: tuple[Origin, int, int, str]) -> FileReview:
    """Edits of a file, in lines counted from 1."""
    ids = count(1)
    review = FileReview(path="f", base=as_lines(text))
    for origin, start, end, new in edits:
        layer = Layer(origin=origin, lines=as_lines(new)[1:], run="r" if origin == "agent" else "")
        review = edit(review, start, end + 1, layer, lambda: f"h_{next(ids)}")
    return review


def text_of(review: FileReview) -> str:
    content = content_of(buffer(review))
    assert content is not None
    return content.data.decode()


def test_a_users_edit_beside_an_agents_is_a_separate_hunk() -> None:
    review = review_of("1\n2\n3\n", ("agent", 2, 2, "two\n"), ("user", 3, 3, "three\n"))
    assert [(hunk.id, hunk.top.origin) for hunk in review.hunks] == [("h_1", "agent"), ("h_2", "user")]
    assert text_of(reject(review, "h_1")) == "1\n2\nthree\n"


def test_a_users_edit_inside_an_agents_is_a_layer_that_can_be_peeled_off() -> None:
    review = review_of("1\n2\n3\n", ("agent", 2, 2, "two\ntwo and a half\n"), ("user", 3, 3, "mine\n"))
    assert [layer.origin for layer in review.hunks[0].layers] == ["agent", "user"]
    with pytest.raises(ChoiceNeeded):
        reject(review, "h_1")
    assert text_of(reject(review, "h_1", "peel")) == "1\ntwo\ntwo and a half\n3\n"
    assert text_of(reject(review, "h_1", "base")) == "1\n2\n3\n"
    assert text_of(reopen(reject(review, "h_1", "base"), "h_1")) == "1\ntwo\nmine\n3\n"


def test_a_save_writes_the_users_lines_and_no_pending_ones() -> None:
    review = review_of("1\n2\n3\n", ("agent", 1, 1, "one\n"), ("user", 3, 3, "three\n"))
    after = saved(review)
    assert "".join(after.base[1:]) == "1\n2\nthree\n"
    assert text_of(after) == "one\n2\nthree\n"


def test_a_foreign_change_of_a_pending_place_is_a_conflict_with_both_sides() -> None:
    review = review_of("1\n2\n3\n4\n", ("agent", 2, 2, "two\n"), ("agent", 4, 4, "four\n"))
    after = rebased(review, as_lines("1\nzwei\n3\n4\n"))
    assert [(hunk.id, hunk.conflict) for hunk in after.hunks] == [("h_1", True), ("h_2", False)]
    assert text_of(reject(after, "h_1")) == "1\nzwei\n3\nfour\n"
    assert "".join(saved(accept(after, "h_1")).base[1:]) == "1\ntwo\n3\n4\n"


def test_a_last_line_without_an_end_is_restored_by_an_undo() -> None:
    review = rebased(review_of("x\n", ("agent", 2, 1, "c\n")), as_lines("x"))
    after = saved(accept(review, "h_1"))
    assert "".join(after.base[1:]) == "x\nc\n"
    back = saved(reverted(after, ["h_1"], lambda: "h_2"))
    assert back.base == as_lines("x")


@pytest.mark.parametrize("disk", [b"\xff\0\xfe", None], ids=["bytes", "gone"])
def test_a_replaced_file_is_a_conflict_for_every_edit(
    disk: bytes | None,
) -> None:
    """Otherwise the shown text has bytes in it, or a file that the user deleted returns by itself."""
    review = review_of("1\n2\n", ("user", 3, 2, "three\n"))
    after = rebased(review, lines_of(disk))
    assert [hunk.conflict for hunk in after.hunks] == [True]
    assert text_of(after) == "1\n2\nthree\n"
    assert saved(after).base == lines_of(disk)
    assert saved(accept(after, "h_1")).base == as_lines("1\n2\nthree\n")


def test_no_text_can_pass_for_a_files_head() -> None:
    for line in ("\0" + "755\n", "\0zz\n", "a\0b\n"):
        with pytest.raises(BadText):
            edit(review_of("1\n"), 1, 1, Layer(origin="agent", lines=(line,)), lambda: "h_1")


def test_unreadable_bytes_keep_their_mode() -> None:
    content = content_of(lines_of(b"\xff\0", 0))
    assert content is not None
    assert content.mode == 0
