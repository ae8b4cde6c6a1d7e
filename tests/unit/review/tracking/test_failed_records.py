"""If these fail, a disk that was full for a moment makes the changes of a run impossible to undo, and nothing says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from newel.review.project import ProjectReview
from newel.review.store.ledger import Ledger
from newel.review.store.schema import LedgerError
from newel.review.tracking.applied_sink import AppliedSink
from newel.review.tracking.change_recorder import ChangeRecorder
from newel.review.tracking.effect_log import EffectLog
from newel.review.tracking.effects import TrackedRun
from newel.workspace.local import LocalWorkspace
from newel.workspace.snapshots.port import FileChange
from newel.workspace.tracked import snapshots_of
from tests.tracked_operation import begin, end

pytestmark = pytest.mark.anyio


class SinkOfFullDisk(AppliedSink):
    """The first record fails when nearly all of it is written."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._full_ledger = ledger
        self._is_full = True

    async def put(self, run: str, changes: Sequence[FileChange], prepare: Callable[[], None]) -> list[str]:
        if self._is_full:
            self._is_full = False
            with self._full_ledger.batch():
                prepare()
                raise LedgerError("the disk is full")
        return await super().put(run, changes, prepare)


async def test_a_record_that_failed_once_has_its_checkpoint(tmp_path: Path) -> None:
    project, folder = tmp_path / "project", tmp_path / "ledger"
    project.mkdir()
    (project / "a").write_text("old\n")
    workspace = LocalWorkspace(str(project))
    ledger = Ledger.open(folder)
    review = ProjectReview(ledger, workspace)
    recorder = ChangeRecorder(
        workspace,
        review,
        SinkOfFullDisk(ledger),
        partial(snapshots_of, workspace, ledger, limits=None, index=None, left_out=()),
        EffectLog(ledger, folder),
    )
    begun = await begin(recorder, TrackedRun("s", title="work"), None)
    (project / "a").write_text("new\n")
    assert await end(begun) == []
    await review.apply(await review.undo())
    assert (project / "a").read_text() == "old\n"
    recorder.close()
