"""Pending proposals in the ledger of a real project, stored like those of reviews."""

from __future__ import annotations

from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import msgspec

from newel.review.checkpoints import Checkpoints
from newel.review.model.decisions import accept
from newel.review.model.edits import edit
from newel.review.model.file_review import FileReview, Layer
from newel.review.model.merge import staged
from newel.review.model.proposal import propose
from newel.review.save import DiskSync
from newel.review.store.ledger import Ledger
from newel.review.tracking.recording_workspace import ledger_folder
from newel.tools.review.propose_edits import ProposedEdit
from newel.workspace.local import LocalWorkspace

IDS = count(0xA0)


def replace(start: int, end: int, new: str) -> dict[str, Any]:
    return {"operation": "replace", "start_line": start, "end_line": end, "new_text": new}


def insert(start: int, new: str) -> dict[str, Any]:
    return {"operation": "insert", "start_line": start, "new_text": new}


def hunk_id() -> str:
    return f"h_{next(IDS):02x}"


class Proposals:
    """The ledger of ``project`` in Newel's home ``home``."""

    def __init__(self, home: Path, project: Path) -> None:
        self.project = project
        self._folder = ledger_folder(home, str(project))

    def propose(
        self, title: str, files: dict[str, list[dict[str, Any]]], *, run: str = "", session: str = ""
    ) -> list[str]:
        """A run proposes edits; returns the ids of the pending hunks in these files."""
        run = run or f"run_{title}"

        async def make(ledger: Ledger, saver: DiskSync) -> list[str]:
            points = Checkpoints(ledger, saver)
            point = await points.begin(run, title=title, session=session)
            for path, raw in files.items():
                await points.touch(point.id, path)
                edits = [{"edit_id": f"e_{n}", "file_path": path} | each for n, each in enumerate(raw)]
                made = partial(
                    propose, edits=msgspec.convert(edits, list[ProposedEdit]), run=run, new_id=hunk_id
                )
                ledger.change(path, "propose", made, run=run)
            return [hunk.id for path in files for hunk in ledger.get(path).hunks]

        return self._with(make)

    def accept(self, path: str, hunk: str) -> None:
        """Accept a hunk, as in the workbench, which writes it later."""

        async def make(ledger: Ledger, _: DiskSync) -> None:
            ledger.change(path, "accept", lambda now: accept(now, hunk))

        self._with(make)

    def delete(self, title: str, path: str) -> None:
        """A run proposes to delete a file."""

        async def make(ledger: Ledger, saver: DiskSync) -> None:
            points = Checkpoints(ledger, saver)
            point = await points.begin(f"run_{title}", title=title)
            await points.touch(point.id, path)
            before = ledger.get(path).base
            made = partial(staged, before=before, after=(), run=f"run_{title}", new_id=hunk_id)
            ledger.change(path, "propose", lambda now: made(now).review, run=f"run_{title}")

        self._with(make)

    def write(self, path: str, start: int, end: int, text: str) -> None:
        """The user edits lines ``start:end`` of the buffer, including its head."""
        lines = tuple(text.splitlines(keepends=True))

        async def make(ledger: Ledger, _: DiskSync) -> None:
            layer = Layer(origin="user", lines=lines)
            ledger.change(path, "user_edit", lambda now: edit(now, start, end, layer, hunk_id))

        self._with(make)

    def get(self, path: str) -> FileReview:
        async def read(ledger: Ledger, saver: DiskSync) -> FileReview:
            return await saver.refresh(path)

        return self._with(read)

    def states(self, path: str) -> list[str]:
        return [hunk.state for hunk in self.get(path).hunks]

    def _with(self, make: Any) -> Any:
        async def run() -> Any:
            with Ledger.open(self._folder) as ledger:
                return await make(ledger, DiskSync(ledger, LocalWorkspace(str(self.project))))

        return anyio.run(run)
