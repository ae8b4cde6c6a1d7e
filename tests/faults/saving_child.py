"""Saves or rolls back, and may be killed: ``saving_child.py FOLDER save|rollback``."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from newel.review.checkpoints import Checkpoints
from newel.review.save import DiskSync
from newel.review.store.ledger import Ledger
from newel.workspace.local import LocalWorkspace
from tests.faults.traced_start import wait_for_tracer


async def main(folder: Path, what: str) -> None:
    with Ledger.open(folder / "ledger") as ledger:
        saver = DiskSync(ledger, LocalWorkspace(str(folder / "project")))
        await saver.recover()
        if what == "rollback":
            points = Checkpoints(ledger, saver)
            first = ledger.checkpoints()[-1]
            await points.rollback(await points.plan(first.id, "hard_all"))
        await saver.save(dict.fromkeys(ledger.paths()))


if __name__ == "__main__":
    wait_for_tracer()
    anyio.run(main, Path(sys.argv[1]), sys.argv[2])
