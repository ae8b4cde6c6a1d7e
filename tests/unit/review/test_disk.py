"""If these fail, files differ from the ledger after a random history, or a rollback is not exact."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from newel.review.checkpoints import Checkpoints
from newel.review.model.decisions import NothingToPeel, accept, peel, reject, reopen
from newel.review.model.file_lines import Content, content_of
from newel.review.model.file_review import (
    BadRange,
    BadText,
    ChoiceNeeded,
    Conflict,
    FileReview,
    UnknownHunk,
    UserEditConflict,
    buffer,
)
from newel.review.model.history import NothingToUndo
from newel.review.model.rebase import kept
from newel.review.save_plans import NotText
from newel.review.store.ledger import Ledger
from tests.properties import examples
from tests.unit.review.project import Project

LINE = st.sampled_from([b"a\n", b"b\n", b"c\r\n", b"\n", "\u2028x\n".encode(), b"\xef\xbb\xbfd\n", b"end"])
TEXT = st.lists(LINE, max_size=6).map(b"".join)
DATA = st.one_of(st.none(), TEXT, TEXT, st.sampled_from([b"\xff\0", b"\0\xfe"]))
NUMBER = st.integers(0, 10**6)
STEP = st.tuples(
    st.sampled_from(
        ["agent", "agent", "agent", "user", "accept", "reject", "peel", "reopen", "undo", "save", "some", "disk", "mode",
         "point", "hard", "scoped"]
    ),
    st.sampled_from(["a", "b"]), NUMBER, NUMBER, DATA,
)  # fmt: skip
HISTORY = st.tuples(DATA, DATA, st.lists(STEP, max_size=12))
REFUSED = (
    BadText,
    UserEditConflict,
    ChoiceNeeded,
    Conflict,
    NothingToPeel,
    NothingToUndo,
    UnknownHunk,
    BadRange,
    NotText,
)


class World:
    """A project of two files, and its random history."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.ledger = project.ledger
        self.points = Checkpoints(project.ledger, project.saver)
        self.run = 0
        self.checkpoint = ""

    async def begin(self) -> None:
        """Start the next run; it may change both files."""
        self.run += 1
        self.checkpoint = (await self.points.begin(f"run{self.run}")).id
        await self.points.touch(self.checkpoint, "a", "b")

    async def take(self, step: tuple[str, str, int, int, bytes | None]) -> None:
        with suppress(*REFUSED):
            await self._take(*step)
        for path in ("a", "b"):
            await self.project.saver.refresh(path)
            assert self.project.agrees(path)
        assert self.ledger.intents() == []

    async def _take(self, kind: str, path: str, x: int, y: int, data: bytes | None) -> None:
        saver, review = self.project.saver, await self.project.saver.refresh(path)
        file = self.project.folder / path
        match kind:
            case "agent" | "user":
                size = len(buffer(review))
                start, end = sorted((min(1, size) + x % max(size, 1), min(1, size) + y % max(size, 1)))
                await self.project.propose(
                    path,
                    start,
                    end,
                    data,
                    run=f"run{self.run}",
                    origin="agent" if kind == "agent" else "user",
                )
            case "accept" | "reject" | "peel" | "reopen" if review.hunks:
                made: Any = {"accept": accept, "reject": reject, "peel": peel, "reopen": reopen}
                hunk = review.hunks[x % len(review.hunks)].id
                decide: Callable[[FileReview], FileReview] = lambda now: made[kind](now, hunk)  # noqa: E731 — typed
                self.ledger.change(path, made[kind].__name__, decide)
            case "undo":
                self.ledger.undo(path)
            case "save":
                wanted = buffer(review) if len(kept(review)) == len(review.hunks) else None
                (saved,) = await saver.save({path: None}, revs={path: review.rev}, overwrite=[path])
                assert wanted is None or saved.review.base == wanted
            case "some":
                ids = [hunk.id for n, hunk in enumerate(review.hunks) if x >> n & 1]
                await saver.save({path: ids}, overwrite=[path])
            case "disk":
                if data is None:
                    file.unlink(missing_ok=True)
                else:
                    file.write_bytes(data)
            case "mode" if file.exists():
                file.chmod(0o600 | x & 0o177)
            case "point":
                await self.begin()
            case "hard" | "scoped":
                points = self.ledger.checkpoints()
                point = points[x % len(points)]
                ids = [
                    hunk.id
                    for name in ("a", "b")
                    for hunk in self.ledger.get(name).hunks
                    if point.run == hunk.top.run
                ]
                mode = "hard_all" if kind == "hard" else "scoped_selected"
                plan = await self.points.plan(point.id, mode, ids[: 1 + y % 3])
                await self.points.rollback(plan)
            case _:
                pass


def in_a_world(history: Any, check: Callable[[World], Any]) -> None:
    """Run a history, and check its result."""

    async def told() -> None:
        with tempfile.TemporaryDirectory() as folder, Ledger.open(None) as ledger:
            world = World(Project(Path(folder), ledger))
            first, second, steps = history
            for path, data in (("a", first), ("b", second)):
                if data is not None:
                    world.project.file(path, data)
            await world.begin()
            for step in steps:
                await world.take(step)
            await check(world)

    anyio.run(told)


def shown(world: World) -> list[Content | None]:
    """The files according to their buffers."""
    return [content_of(buffer(world.ledger.get(path))) for path in ("a", "b")]


async def save(world: World) -> None:
    """Save kept hunks, over what others wrote in their places. Text beside binary content is refused: a file may have become binary under
    an edit.
    """
    for path in ("a", "b"):
        with suppress(NotText):
            await world.project.saver.save({path: None}, overwrite=[path])


def disk(world: World) -> list[tuple[bytes, int] | None]:
    files = [world.project.folder / path for path in ("a", "b")]
    return [(file.read_bytes(), file.stat().st_mode & 0o777) if file.exists() else None for file in files]


@settings(max_examples=examples(20), deadline=None)
@given(HISTORY)
def test_the_disk_equals_the_ledger_after_every_step(history: Any) -> None:
    async def check(world: World) -> None:
        await world.take(("save", "a", 0, 0, None))

    in_a_world(history, check)


@settings(max_examples=examples(20), deadline=None)
@given(HISTORY, st.lists(STEP, max_size=8))
def test_a_hard_rollback_restores_the_files_and_its_own_rollback_the_state_before_it(
    history: Any, later: list[Any]
) -> None:
    async def check(world: World) -> None:
        await world.begin()
        point, then, files = world.checkpoint, shown(world), disk(world)
        was_saved = all(not world.ledger.get(path).hunks for path in ("a", "b"))
        for step in later:
            await world.take(step)
        before = shown(world)

        plan = await world.points.plan(point, "hard_all")
        assert plan.conflicts == ()
        await world.points.rollback(plan)
        assert shown(world) == then
        await save(world)
        assert shown(world) == then
        if was_saved:
            assert disk(world) == files

        if plan.files:
            own = await world.points.begin(plan.run)
            await world.points.rollback(await world.points.plan(own.id, "hard_all"))
            assert shown(world) == before
            await save(world)
            assert shown(world) == before

    in_a_world(history, check)
