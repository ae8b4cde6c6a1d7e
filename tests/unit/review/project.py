"""A project under review, for tests: real files, a real ledger."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from newel.review.model.decisions import accept
from newel.review.model.edits import edit
from newel.review.model.file_lines import MODE, content_of, lines_of
from newel.review.model.file_review import FileReview, Layer, Origin
from newel.review.save import DiskSync
from newel.review.store.ledger import Ledger
from newel.workspace.local import LocalWorkspace

IDS = count(1)


class Project:
    """A folder, its ledger, and the proposals for its files."""

    def __init__(self, folder: Path, ledger: Ledger) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.ledger = ledger
        self.saver = DiskSync(self.ledger, LocalWorkspace(str(self.folder)))

    def file(self, name: str, data: bytes, mode: int = 0o644) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(mode)
        return path

    async def propose(
        self,
        name: str,
        start: int,
        end: int,
        new: bytes | None,
        *,
        run: str = "r",
        origin: Origin = "agent",
        mode: int = MODE,
    ) -> str:
        """Propose to replace lines ``start:end`` of the buffer, counted from 1; 0 is the head. Returns the hunk's id."""
        await self.saver.refresh(name)
        hunk = f"h_{next(IDS)}"
        lines = lines_of(new, mode)[1 if start else 0 :]
        layer = Layer(origin=origin, lines=lines, run=run if origin == "agent" else "")
        kind = "propose" if origin == "agent" else "user_edit"
        self.ledger.change(name, kind, lambda now: edit(now, start, end, layer, lambda: hunk), run=layer.run)
        return hunk

    def accept(self, name: str, *hunks: str) -> FileReview:
        for hunk in hunks:
            self.ledger.change(name, "accept", lambda now, hunk=hunk: accept(now, hunk))
        return self.ledger.get(name)

    def agrees(self, name: str) -> bool:
        """Whether the ledger's base equals the file on disk."""
        path = self.folder / name
        there = lines_of(path.read_bytes(), path.stat().st_mode & 0o777) if path.exists() else ()
        return content_of(self.ledger.get(name).base) == content_of(there)
