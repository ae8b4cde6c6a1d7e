"""If these fail, undo and redo do not bring back the files, folders, links and modes that were there."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from newel.agent.messages import AssistantMessage, TextContent, ToolCall
from newel.review.model.history import NothingToUndo
from newel.review.project import ProjectReview
from newel.review.save_outcome import SaveFailed
from newel.workspace.local import LocalWorkspace
from tests.integration.review.recorded_agent import recorded_agent, recorder_of
from tests.properties import examples

Tree = dict[str, tuple[int, bytes]]

NAMES = st.sampled_from(["a", "b", "d/c", "d/e", "f/g/h"])
LINES = st.lists(st.sampled_from([r"x\n", r"y\n", r"z\n", r"\n", "x"]), max_size=5).map("".join)
TARGETS = st.sampled_from(["a", "./b", "../x", "gone/"])
MODES = st.sampled_from(["755", "644", "600"])

COMMANDS = st.one_of(
    st.builds("mkdir -p $(dirname {0}); rm -rf {0}; printf '{1}' > {0}".format, NAMES, LINES),
    st.builds("[ -d {0} ] || printf '{1}' >> {0}".format, NAMES, LINES),
    st.builds("rm -rf {}".format, NAMES),
    st.builds("mkdir -p $(dirname {1}); mv {0} {1}".format, NAMES, NAMES),
    st.builds("cp {} {}".format, NAMES, NAMES),
    st.builds("tac {0} > new && cat new > {0}; rm -f new".format, NAMES),
    st.builds("sort {0} > new && mv new {0}; rm -f new".format, NAMES),
    st.builds("sed -i 's/x/y/' {}".format, NAMES),
    st.builds("chmod {} {}".format, MODES, NAMES),
    st.builds("mkdir -p $(dirname {0}); rm -rf {0}; ln -s {1} {0}".format, NAMES, TARGETS),
    st.builds("rm -rf {0}; mkdir -p {0}".format, NAMES),
    st.sampled_from(["rmdir d f/g f", "rm -rf d; echo x > d", "rm -rf f"]),
)
RUNS = st.lists(st.lists(COMMANDS, min_size=1, max_size=4).map("; ".join), min_size=1, max_size=4)


def read_tree(folder: Path) -> Tree:
    found: Tree = {}
    for path in folder.rglob("*"):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            content = os.readlink(bytes(path))  # noqa: PTH115 — Path makes `b` of `./b`
        else:
            content = path.read_bytes() if stat.S_ISREG(mode) else b""
        found[str(path.relative_to(folder))] = mode, content
    return found


@asynccontextmanager
async def after_runs(folder: Path, runs: Sequence[str]) -> AsyncGenerator[tuple[ProjectReview, list[Tree]]]:
    """The review of a project in which an agent has run commands, and its files before each run and at the end."""
    project = folder / "project"
    (project / "d").mkdir(parents=True)
    (project / "a").write_text("x\ny\nz\nx\n")
    (project / "d" / "c").write_text("y\nx\n")
    script: list[AssistantMessage] = []
    for number, commands in enumerate(runs):
        # Each run changes something, as one that does not is no step of an undo.
        command = f"( {commands} ) 2>/dev/null; echo {number} > number"
        call = ToolCall(str(number), "bash", {"command": command})
        script += [AssistantMessage(content=[call]), AssistantMessage(content=[TextContent("Done.")])]
    async with recorded_agent(LocalWorkspace(str(project)), folder / "home", script) as agent:
        trees = [read_tree(project)]
        for _ in runs:
            await agent.prompt("go")
            trees.append(read_tree(project))
        yield (await recorder_of(agent)).project, trees


async def step(review: ProjectReview, *, is_undo: bool) -> None:
    await review.apply(await (review.undo() if is_undo else review.redo()))


async def walk(folder: Path, runs: Sequence[str], steps: Sequence[bool]) -> None:
    async with after_runs(folder, runs) as (review, trees):
        at = len(runs)
        for is_undo in steps:
            to = at - 1 if is_undo else at + 1
            if 0 <= to <= len(runs):
                await step(review, is_undo=is_undo)
                assert read_tree(folder / "project") == trees[to]
                at = to


@settings(max_examples=examples(12), deadline=None)
@given(runs=RUNS, steps=st.lists(st.booleans(), min_size=2, max_size=8))
@example(runs=["mkdir -p f/g; echo x > f/g/h", "rm f/g/h"], steps=[True, False])  # the empty folders stay
@example(runs=["printf '1\\n2\\n3\\n' > a", "tac a > b; mv b a"], steps=[True, True, False, False])
@example(runs=["ln -s ./b a", "ln -sfn gone/ a"], steps=[True, True, False])
def test_undo_and_redo_bring_back_exactly_what_was_there(runs: list[str], steps: list[bool]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(walk, Path(folder), runs, steps)


async def walk_with_edits(folder: Path, runs: Sequence[str], edits: Sequence[tuple[str, int, bool]]) -> None:
    async with after_runs(folder, runs) as (review, _):
        mine: list[str] = []
        for name, place, is_undo in edits:
            file = folder / "project" / name
            if file.is_file() and not file.is_symlink():
                mine.append(f"mine {len(mine)}\n")
                lines = file.read_text().splitlines(keepends=True)
                file.write_text("".join([*lines[:place], mine[-1], *lines[place:]]))
            with suppress(NothingToUndo, SaveFailed):  # what is left out is named
                await step(review, is_undo=is_undo)
            whole = "".join(content.decode() for _, content in read_tree(folder / "project").values())
            assert [whole.count(line) for line in mine] == [1] * len(mine)


@settings(max_examples=examples(12), deadline=None)
@given(runs=RUNS, edits=st.lists(st.tuples(NAMES, st.integers(0, 4), st.booleans()), min_size=1, max_size=4))
@example(runs=["rm -rf d; echo x > d"], edits=[("d", 1, True)])  # a folder has no place for a line
@example(runs=["rm a; ln -s b a", "rm a; echo x > a"], edits=[("a", 1, True)])  # nor has a link
@example(runs=["printf '\\0' > a", "echo x > a"], edits=[("a", 1, True)])  # nor a file that is not text
def test_no_undo_removes_a_line_that_somebody_else_has_written(
    runs: list[str], edits: list[tuple[str, int, bool]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(walk_with_edits, Path(folder), runs, edits)


@pytest.mark.anyio
async def test_a_file_that_is_no_text_says_why_it_cannot_be_undone(tmp_path: Path) -> None:
    """Else the user reads that the run's change was overwritten, while it is there, and finds no way to undo it."""
    async with after_runs(tmp_path, ["printf 'caf\\351\\n' > latin"]) as (review, _):
        latin = tmp_path / "project/latin"
        latin.write_bytes(latin.read_bytes() + b"mine\n")
        [conflict] = (await review.undo()).conflicts
        assert conflict.reason.endswith("the file is stored as a whole, and changed since.")
        (tmp_path / "project/number").write_text("mine\n")
        with pytest.raises(NothingToUndo) as refused:
            await review.undo()
        checkpoint = review.ledger.checkpoints()[0].id
        assert str(refused.value).endswith(
            f"is left to undo: latin is stored as a whole, and changed since. To restore the files as they were before, later "
            f"changes included: `newel rollback {checkpoint}`."
        )
