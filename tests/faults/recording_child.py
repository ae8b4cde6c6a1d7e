"""Changes files like a recorded run, and prints the messages for the user."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import anyio.to_thread

from newel.review.tracking import change_recorder, effect_log
from newel.review.tracking.effects import TrackedRun, retry
from newel.review.tracking.recording_workspace import RecorderRegistry
from newel.terminal.signals import on_signals
from newel.workspace.local import LocalWorkspace
from newel.workspace.snapshots import local_source, manager
from tests.faults.traced_start import wait_for_tracer
from tests.tracked_operation import begin, end

__all__ = ["change_recorder", "effect_log", "local_source", "manager"]

OLD = {"a": b"one\ntwo\n", "b": b"b\n", "c/d": b"d\n"}


def prepare(folder: Path) -> None:
    for name, data in OLD.items():
        path = folder / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


async def work(folder: Path) -> None:
    """Three commands and a write, recorded by ``RecordingWorkspace``."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = 1
    project = folder / "project"
    workspace = LocalWorkspace(str(project))
    recorders = RecorderRegistry(folder / "home")
    run = TrackedRun("s", title="work")

    async def first() -> None:
        (project / "a").write_text("one\n2\n")
        (project / "new").mkdir()
        (project / "new/e").write_text("e\n")

    async def second() -> None:
        (project / "b").unlink()
        (project / "a").write_text("1\n2\n")

    async def third() -> None:
        await workspace.write_bytes(str(project / "c/d"), b"D\n")

    for command, path in ((first, None), (third, "c/d"), (second, None)):
        found = await retry(lambda: recorders.recorder_of(workspace))
        effect = await retry(lambda path=path, found=found: begin(found, run, path))
        await command()
        for words in await end(effect):
            os.writev(1, [words.encode()])
    recorders.close()
    os.writev(1, [b"done"])


async def listen() -> None:
    async with on_signals(lambda _: None):
        os.writev(1, [b"listening"])


if __name__ == "__main__":
    wait_for_tracer()
    try:
        anyio.run(listen) if sys.argv[2:] == ["listen"] else anyio.run(work, Path(sys.argv[1]))
    except Exception as error:  # noqa: BLE001 — whatever it is, it is to be seen
        os.writev(1, [f"{type(error).__name__}: {error}".encode()])
