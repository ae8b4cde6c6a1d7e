"""If these fail, the plan of a rewind promises or refuses what the rewind itself does otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from newel.review.model.file_lines import lines_of
from newel.review.model.patch import file_patch
from newel.review.rewind import apply_rewind, plan_rewind
from newel.review.store.ledger import Ledger
from tests.unit.review.test_stopped_undo import Place


@pytest.mark.anyio
async def test_a_file_that_the_user_has_restored_is_no_conflict(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    before = {"a": b"one\n", "b": b"one\n"}
    with Ledger.open(tmp_path / "ledger") as ledger:
        place = Place(tmp_path / "project", ledger)
        await place.run("r", before, dict.fromkeys(before, b"two\n"))
        place.put("a", before["a"])
        plan = await plan_rewind(place.project, (await place.project.order()).to_undo)
        assert ([file.path for file in plan.files], plan.conflicts) == (["b"], [])
        done = await apply_rewind(place.project, plan)
        assert ([file.path for file in done.saved], done.conflicts) == (["b"], [])
        assert place.files() == before


@pytest.mark.anyio
async def test_a_plan_shows_what_the_rewind_makes_of_runs_over_lines_of_the_user(tmp_path: Path) -> None:
    """Lines like those that an undo has removed are others: the plan has to know what it has undone, as the undo does."""
    (tmp_path / "project").mkdir()
    with Ledger.open(tmp_path / "ledger") as ledger:
        place = Place(tmp_path / "project", ledger)
        await place.run("r1", {"a": b""}, {"a": b"0\nc\n"})
        await place.run("r2", {"a": b"0\nc\n"}, {"a": b"c\n"})
        await place.run("r3", {"a": b"c\n"}, {"a": b""})
        mine = b"m\ne\n"
        place.put("a", mine)
        await place.project.saver.refresh("a")
        await place.run("r4", {"a": mine}, {"a": b"e\nm\n"})
        plan = await plan_rewind(place.project, (await place.project.order()).to_undo)
        await apply_rewind(place.project, plan)
        made = file_patch("a", lines_of(b"e\nm\n"), lines_of(place.files()["a"]))
    assert [file.patch for file in plan.files] == [made]


@pytest.mark.anyio
async def test_a_rewind_names_each_conflict_of_its_plan(tmp_path: Path) -> None:
    """Also of a run of which nothing can be undone: the user was told that all of it was."""
    (tmp_path / "project").mkdir()
    with Ledger.open(tmp_path / "ledger") as ledger:
        place = Place(tmp_path / "project", ledger)
        await place.run("r1", {"a": b"one\n"}, {"a": b"two\n"})
        await place.run("r2", {"b": b"one\n"}, {"b": b"two\n"})
        place.put("a", b"mine\n")
        plan = await plan_rewind(place.project, (await place.project.order()).to_undo)
        assert [conflict.path for conflict in plan.conflicts] == ["a"]
        done = await apply_rewind(place.project, plan)
    assert (place.files(), done.conflicts) == ({"a": b"mine\n", "b": b"one\n"}, plan.conflicts)
