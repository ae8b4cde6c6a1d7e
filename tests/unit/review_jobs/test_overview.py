"""If these fail, the list of a conversation's runs tells a change as something else than it was."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from newel.review.model.file_lines import lines_of
from newel.review.project import ProjectReview
from newel.review.store.ledger import Ledger
from newel.review.tracking.applied_sink import recorded
from newel.review_jobs.overview import Overview
from newel.workspace.local import LocalWorkspace

pytestmark = pytest.mark.anyio

Change = tuple[str, bytes | None, bytes | None]
"""A file with its content before and after; None is no file."""


async def moves(folder: Path, *changes: Change) -> dict[str, str]:
    """The moves in the list of runs, after a run that made some changes: new name → old name."""
    with Ledger.open(folder / "ledger") as ledger:
        checkpoints = ProjectReview(ledger, LocalWorkspace(str(folder))).checkpoints
        checkpoint = await checkpoints.begin("r", title="r")
        for path, before, after in changes:
            if before is not None:
                (folder / path).write_bytes(before)
            await checkpoints.touch(checkpoint.id, path)
            make = partial(recorded, before=lines_of(before), after=lines_of(after), run="r")
            ledger.change(path, "record", make, run="r")
        (run,) = (await Overview(ledger).checkpoints()).checkpoints
    targets = {file.moved_to: file.file_path for file in run.files if file.moved_to}
    sources = {file.file_path: file.moved_from for file in run.files if file.moved_from}
    assert targets == sources
    return sources


async def test_a_deleted_and_a_created_file_with_its_content_are_a_move(tmp_path: Path) -> None:
    text, picture = b"measure\ncut\n", b"\0\xff"
    assert await moves(
        tmp_path,
        ("plan.md", text, None),
        ("schedule.md", None, text),
        ("a.png", picture, None),
        ("b.png", None, picture),
    ) == {"schedule.md": "plan.md", "b.png": "a.png"}


@pytest.mark.parametrize(
    "changes",
    [
        [("old", b"one\n", None), ("new", None, b"two\n")],
        [("old", b"one\n", b"two\n"), ("new", None, b"one\n")],
        [("old", b"", None), ("new", None, b"")],
        [("old", b"one\n", None), ("new", None, b"one\n"), ("other", None, b"one\n")],
    ],
    ids=["other content", "a copy", "empty files", "two copies"],
)
async def test_nothing_else_is_a_move(tmp_path: Path, changes: list[Change]) -> None:
    assert await moves(tmp_path, *changes) == {}
