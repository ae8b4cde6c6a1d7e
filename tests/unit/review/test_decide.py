"""If these fail, a name selects another hunk than the user meant, or a file differs from their decisions."""

from __future__ import annotations

import contextlib
import tempfile
from functools import partial
from pathlib import Path
from typing import Literal

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newel.review.decide import (
    PendingReviews,
    Verdict,
    accepted_hunks,
    decide,
    decide_hunks,
    edit_hunk,
    files_with_pending,
    load_pending,
    patch_of,
    select_hunks,
    split_hunk,
    write,
)
from newel.review.model.decisions import Mine
from newel.review.model.file_lines import lines_of
from newel.review.model.file_review import (
    ChoiceNeeded,
    FileReview,
    Hunk,
    HunkState,
    Layer,
    Origin,
    ReviewError,
    StaleRevision,
    UnknownHunk,
    new_hunk_id,
    root_of,
)
from newel.review.model.history import NothingToUndo
from newel.review.model.merge import staged
from newel.review.project import ProjectReview
from newel.review.store.ledger import Checkpoint, Ledger
from newel.workspace.local import LocalWorkspace
from tests.properties import examples
from tests.unit.review.project import Project as Folder

pytestmark = pytest.mark.anyio


def hunk(name: str, at: int, *origins: Origin, state: HunkState = "pending", conflict: bool = False) -> Hunk:
    layers = tuple(
        Layer(origin=origin, lines=(f"{name} {n}\n",), run="r" if origin == "agent" else "")
        for n, origin in enumerate(origins or ("agent",))
    )
    return Hunk(id=name, a=at, b=at + 1, layers=layers, state=state, conflict=conflict)


BASE = ("\x00644\n", *(f"{n}\n" for n in range(20)))
REVIEW = FileReview(
    path="a/b.py",
    base=BASE,
    hunks=(
        hunk("h_1waits", 1),
        hunk("h_2both", 3, "agent", "user"),
        hunk("h_3mine", 5, "user"),
        hunk("h_4conflict", 7, conflict=True),
        hunk("h_5rejected", 9, state="rejected"),
        hunk("h_6accepted", 11, state="accepted"),
    ),
)
NAMED_LIKE_A_HUNK = FileReview(path="h_1", base=BASE, hunks=(hunk("h_10", 1), hunk("h_100", 3)))
FOUND = PendingReviews([REVIEW, NAMED_LIKE_A_HUNK], [])


def names(found: PendingReviews, words: list[str], verdict: Verdict, mine: Mine | None = None) -> list[str]:
    choice = select_hunks(found, words, verdict, mine=mine)
    return [name for ids in choice.hunks.values() for name in ids]


def test_a_file_name_selects_its_pending_hunks_and_keeps_no_conflict() -> None:
    assert names(FOUND, ["a/b.py"], "keep") == ["h_1waits", "h_2both", "h_3mine", "h_6accepted"]
    left = select_hunks(FOUND, ["a/b.py"], "keep").left
    assert [problem.reason.split()[1] for problem in left] == ["h_4conflict"]


def test_rejecting_a_file_never_drops_lines_of_the_user_alone() -> None:
    assert names(FOUND, ["a/b.py"], "reject", mine="base") == [
        "h_1waits",
        "h_2both",
        "h_4conflict",
        "h_6accepted",
    ]
    with pytest.raises(ChoiceNeeded):
        names(FOUND, ["a/b.py"], "reject")
    with pytest.raises(ChoiceNeeded):
        names(FOUND, ["h_3"], "reject")
    assert names(FOUND, ["h_3"], "reject", mine="base") == ["h_3mine"]


@pytest.mark.parametrize("name", ["h_4conflict", "h_5rejected", "h_6accepted"])
def test_a_named_hunk_is_kept_whatever_its_state(name: str) -> None:
    assert names(FOUND, [name], "keep") == [name]
    assert names(FOUND, [name[:3]], "keep") == [name]


def test_a_name_means_a_hunk_then_a_file_then_an_id_prefix() -> None:
    assert names(FOUND, ["h_10"], "keep") == ["h_10"]
    assert names(FOUND, ["h_1"], "keep") == ["h_10", "h_100"]
    assert names(FOUND, ["./h_1"], "keep") == ["h_10", "h_100"]
    for unclear in ("h_", "", "h_7", "a", "a/b.pyc", "/a/b.py", "../a/b.py"):
        with pytest.raises(UnknownHunk):
            names(FOUND, ["h_10", unclear], "keep")


def test_a_hunk_named_twice_is_decided_once_and_no_name_decides_nothing() -> None:
    assert names(FOUND, ["h_10", "h_10", "h_1"], "keep") == ["h_10", "h_100"]
    assert names(FOUND, [], "keep") == []
    assert names(FOUND, ["h_5rejected"], "reject") == []


async def test_a_decision_on_a_file_changed_by_others_is_refused(tmp_path: Path) -> None:
    with Ledger.open(None) as ledger:
        folder = Folder(tmp_path / "project", ledger)
        folder.file("f", b"1\n2\n3\n4\n5\n")
        one = await folder.propose("f", 1, 2, b"one\n")
        project = ProjectReview(ledger, LocalWorkspace(str(folder.folder)))
        choice = select_hunks(await load_pending(project), [one], "keep")
        await folder.propose("f", 1, 2, b"another\n")
        with pytest.raises(StaleRevision):
            await decide(project, choice)
        assert [hunk.state for hunk in ledger.get("f").hunks] == ["pending"]


async def test_a_decision_refused_for_one_file_is_recorded_for_none(tmp_path: Path) -> None:
    """Otherwise the next `newel decide` writes a part of a save that was reported as failed."""
    with Ledger.open(None) as ledger:
        folder = Folder(tmp_path / "project", ledger)
        for name in ("e", "f"):
            folder.file(name, b"1\n2\n3\n4\n5\n")
            await folder.propose(name, 1, 2, b"one\n")
        project = ProjectReview(ledger, LocalWorkspace(str(folder.folder)))
        choice = select_hunks(await load_pending(project), [], "keep", every=True)
        await folder.propose("f", 3, 4, b"unseen\n")
        with pytest.raises(StaleRevision):
            await decide(project, choice)
        assert {hunk.state for name in ("e", "f") for hunk in ledger.get(name).hunks} == {"pending"}


async def test_text_typed_after_the_last_look_is_not_written_unseen(tmp_path: Path) -> None:
    with Ledger.open(None) as ledger:
        folder = Folder(tmp_path / "project", ledger)
        path = folder.file("f", b"1\n2\n3\n")
        one = await folder.propose("f", 1, 2, b"one\n")
        project = ProjectReview(ledger, LocalWorkspace(str(folder.folder)))
        reviews = await decide(project, select_hunks(await load_pending(project), [one], "keep"))
        await folder.propose("f", 1, 2, b"typed\n", origin="user")
        written = await write(project, reviews, {"f": [one]})
        assert [problem.path for problem in written.problems] == ["f"]
        assert path.read_bytes() == b"1\n2\n3\n"


async def test_a_file_that_became_a_folder_is_reported_and_hides_no_other(tmp_path: Path) -> None:
    with Ledger.open(None) as ledger:
        folder = Folder(tmp_path / "project", ledger)
        folder.file("f", b"1\n").chmod(0o644)
        folder.file("g", b"1\n")
        await folder.propose("f", 1, 2, b"one\n")
        await folder.propose("g", 1, 2, b"one\n")
        (folder.folder / "f").unlink()
        (folder.folder / "f").mkdir()
        project = ProjectReview(ledger, LocalWorkspace(str(folder.folder)))
        found = await load_pending(project)
        assert [review.path for review in found.reviews] == ["g"]
        assert [problem.path for problem in found.problems] == ["f"]
        choice = select_hunks(found, ["f", "g"], "keep")
        assert list(choice.hunks) == ["g"]
        assert [problem.path for problem in choice.left] == ["f"]


async def test_only_runs_of_this_conversation_and_this_prompt_are_mentioned(tmp_path: Path) -> None:
    with Ledger.open(None) as ledger:
        folder = Folder(tmp_path / "project", ledger)
        project = ProjectReview(ledger, LocalWorkspace(str(folder.folder)))
        for name, session in (("mine", "s"), ("decided", "s"), ("other", "elsewhere")):
            folder.file(name, b"1\n2\n")
            point = await project.checkpoints.begin(f"run {name}", session=session)
            await project.checkpoints.touch(point.id, name)
            await folder.propose(name, 1, 2, b"one\n", run=f"run {name}")
        review = ledger.get("decided")
        await decide_hunks(project, review, [review.hunks[0].id], "reject")
        before = Checkpoint(id="cp", created="2001-01-01T00:00:00.000Z", run="run other", session="s")
        ledger.add_checkpoint(before)
        assert files_with_pending(ledger, "s", "2002") == ["mine"]
        assert files_with_pending(ledger, "s", "9999") == []
        assert files_with_pending(ledger, "none", "2002") == []


Step = tuple[int, Verdict | Literal["later"]]
KEYS: tuple[Verdict | Literal["later"], ...] = ("keep", "reject", "later")
VERDICTS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(KEYS)), max_size=20)


@given(VERDICTS)
@settings(max_examples=40, deadline=None)
def test_after_any_decisions_the_file_is_the_base_with_the_kept_hunks(
    verdicts: list[Step],
) -> None:
    with tempfile.TemporaryDirectory() as where:
        anyio.run(partial(_decide_and_write, Path(where), verdicts))


async def _decide_and_write(where: Path, verdicts: list[Step]) -> None:
    lines = [f"{n}\r\n".encode() for n in range(18)]
    with Ledger.open(None) as ledger:
        folder = Folder(where / "project", ledger)
        path = folder.file("f", b"".join(lines), mode=0o755)
        ids = [await folder.propose("f", 3 * n + 1, 3 * n + 2, b"new %d\r\n" % n) for n in range(6)]
        project = ProjectReview(ledger, LocalWorkspace(str(folder.folder)))
        last: dict[int, str] = {}
        for number, verdict in verdicts:
            last[number] = verdict
            await decide_hunks(project, ledger.get("f"), [ids[number]], verdict)
        found = await load_pending(project)
        patch = patch_of(found.reviews[0], [one for one in found.reviews[0].hunks if one.state == "accepted"])
        written = await write(project, found.reviews, accepted_hunks(found.reviews))
        kept = [n for n in range(6) if last.get(n) == "keep"]
        expected = list(lines)
        for n in kept:
            expected[3 * n] = b"new %d\r\n" % n
        assert path.read_bytes() == b"".join(expected)
        assert path.stat().st_mode & 0o777 == 0o755
        assert sum(one.applied for one in written.saved) == len(kept)
        assert patch.count("\n+new") == len(kept)
        assert not written.problems
        assert folder.agrees("f")
        assert [each.name for each in folder.folder.iterdir()] == ["f"]


async def test_a_redo_proposes_again_what_an_undo_has_withdrawn(tmp_path: Path) -> None:
    """One hunk of a run was kept, one waits: the redo restored the first, and the second stayed rejected without a word."""
    with Ledger.open(None) as ledger:
        folder = Folder(tmp_path / "project", ledger)
        path = folder.file("f", b"1\n2\n3\n4\n5\n")
        project = ProjectReview(ledger, LocalWorkspace(str(folder.folder)))
        point = await project.checkpoints.begin("r", title="a run")
        await project.checkpoints.touch(point.id, "f")
        kept, waiting = await folder.propose("f", 1, 2, b"one\n"), await folder.propose("f", 4, 5, b"four\n")
        await project.saver.save({"f": [kept]})
        for _ in range(2):
            await project.apply(await project.undo())
            assert (path.read_bytes(), ledger.hunk_states("f")) == (b"1\n2\n3\n4\n5\n", ["rejected"])
            await project.apply(await project.redo())
            assert (path.read_bytes(), ledger.hunk_states("f")) == (b"one\n2\n3\n4\n5\n", ["pending"])
            assert ledger.get("f").hunk(waiting).top.lines == ("four\n",)
        await project.saver.save({"f": [waiting]})
        assert path.read_bytes() == b"one\n2\n3\nfour\n5\n"


LINE = st.sampled_from(["a\r\n", "b\n", "\n", "c\n", "d\n", "end"])
CONTENT = st.one_of(st.none(), st.lists(LINE, max_size=8).map(lambda lines: "".join(lines).encode()))
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["split", "split", "keep", "keep", "reject", "edit", "write"]),
        st.integers(0, 10**6),
        st.lists(LINE, max_size=3).map("".join),
    ),
    max_size=12,
)


@given(CONTENT, CONTENT, ACTIONS)
@settings(max_examples=examples(50), deadline=None)
def test_a_run_decided_in_parts_and_with_edits_is_undone_and_redone_to_the_byte(
    before: bytes | None, after: bytes | None, actions: list[tuple[str, int, str]]
) -> None:
    with tempfile.TemporaryDirectory() as where:
        anyio.run(partial(_decide_in_parts, Path(where), before, after, actions))


async def _decide_in_parts(
    where: Path, before: bytes | None, after: bytes | None, actions: list[tuple[str, int, str]]
) -> None:
    with Ledger.open(None) as ledger:
        folder = Folder(where / "project", ledger)
        path = folder.folder / "f"
        if before is not None:
            folder.file("f", before)
        project = ProjectReview(ledger, LocalWorkspace(str(folder.folder)))
        point = await project.checkpoints.begin("r", title="a run")
        await project.checkpoints.touch(point.id, "f")
        then, proposed = lines_of(before), lines_of(after)
        make = partial(staged, before=then, after=proposed, run="r", new_id=new_hunk_id)
        ledger.change("f", "propose", lambda now: make(now).review, run="r")
        for action in [*actions, ("write", 0, "")]:
            with contextlib.suppress(ReviewError):
                await _act(project, *action)
        now = path.read_bytes() if path.exists() else None
        waiting = _shown(ledger.get("f"))
        assert folder.agrees("f")
        # Parts that are written at different times may be in each other's way, which the user is told.
        is_at_once = all(action != "write" for action, *_ in actions)
        try:
            plan = await project.undo()
        except NothingToUndo:
            assert now == before or not is_at_once
        else:
            await project.apply(plan)
            undone = path.read_bytes() if path.exists() else None
            assert undone == before or (plan.conflicts and not is_at_once)
            if plan.files:
                # What was restored may have replaced some.
                left = {root_of(hunk.id) for hunk in ledger.get("f").hunks}
                plan = await project.redo()
                await project.apply(plan)
                assert (path.read_bytes() if path.exists() else None) == now
                left -= {root_of(conflict.hunk) for conflict in plan.conflicts}
                again = _shown(ledger.get("f"))
                assert all(again[name] == waiting[name] for name in waiting.keys() & left)
        await project.apply(await project.rollback(point))
        assert (path.read_bytes() if path.exists() else None) == before


def _shown(review: FileReview) -> dict[str, tuple[object, str]]:
    return {root_of(hunk.id): (hunk.layers, hunk.state) for hunk in review.hunks if hunk.is_shown}


async def _act(project: ProjectReview, action: str, number: int, text: str) -> None:
    review = await project.saver.refresh("f")
    if action == "write":
        await write(project, [review], accepted_hunks([review]))
    if not review.hunks:
        return
    hunk = review.hunks[number % len(review.hunks)]
    match action:
        case "split":
            await split_hunk(project, review, hunk)
        case "keep":
            await decide_hunks(project, review, [hunk.id], "keep")
        case "reject":
            await decide_hunks(project, review, [hunk.id], "reject", "base")
        case "edit":
            edited = await edit_hunk(project, "f", hunk.id, text)
            await decide_hunks(
                project, edited, [one.id for one in edited.hunks if one.has_user_layer], "keep"
            )
        case _:
            pass
