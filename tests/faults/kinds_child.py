"""Changes links, folders and modes like a recorded command, or undoes that: ``FOLDER run|undo``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread

from newel.review.store import garbage_collection
from newel.review.tracking import change_recorder, effect_log
from newel.review.tracking.effects import TrackedRun
from newel.review.tracking.recording_workspace import RecorderRegistry
from newel.workspace.disk import file_kinds
from newel.workspace.local import LocalWorkspace
from newel.workspace.snapshots import local_source, manager
from tests.faults.traced_start import wait_for_tracer
from tests.tracked_operation import begin, end

__all__ = [
    "change_recorder",
    "effect_log",
    "file_kinds",
    "garbage_collection",
    "local_source",
    "manager",
]

BEGIN = (
    "echo d > d; mkdir -p e/f; echo x > e/f/x; echo g > g; ln -s one link; mkdir h; chmod 700 h; echo s > s"
)
DOES = (
    "rm d; mkdir d; echo > d/q; rm -r e; echo e > e; rm g; ln -s two g; ln -sfn two link; chmod 755 h; "
    "chmod 4755 s; mkdir -p n/m; mkfifo p"
)


def sh(project: Path, text: str) -> None:
    subprocess.run(["sh", "-ec", text], cwd=project, check=True)


async def main(folder: Path, what: str) -> None:
    anyio.to_thread.current_default_thread_limiter().total_tokens = 1
    recorders = RecorderRegistry(folder / "home")
    found = await recorders.recorder_of(LocalWorkspace(str(folder / "project")))
    if what == "undo":
        await found.project.apply(await found.project.undo())
    else:
        effect = await begin(found, TrackedRun("s", title="work"), None)
        sh(folder / "project", DOES)
        if what == "die":
            os.kill(os.getpid(), 9)
        await end(effect)
    recorders.close()
    os.writev(1, [b"done"])


if __name__ == "__main__":
    wait_for_tracer()
    anyio.run(main, Path(sys.argv[1]), sys.argv[2])
