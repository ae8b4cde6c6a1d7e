"""How far an undo has come, on the screen, and its stop by Esc or Ctrl+C."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

import anyio

from newel.agent.formatting import pluralize
from newel.concurrency import background_tasks
from newel.review.save_outcome import SaveProgress
from newel.terminal.renderers.base import TICK_S
from newel.terminal.review.review_ui import ReviewUI
from newel.workspace.process.signals import receiver

SHOWN_AFTER_S: Final = 0.5
"""What is done by then needs no words."""


@asynccontextmanager
async def stoppable(progress: SaveProgress, verb: str, ui: ReviewUI) -> AsyncGenerator[None]:
    """Show the ``progress`` of the block. Cancellation, or Ctrl+C where the ``ui`` handles it, does not end the block but stops the
    progress, so that the block can say what is done.
    """
    with suppress(anyio.get_cancelled_exc_class()):  # the block has ended: nothing is left to cancel
        async with background_tasks(partial(_stop, progress, ui)):
            with anyio.CancelScope(shield=True):
                async with background_tasks(partial(_show, progress, verb, ui)):
                    yield


async def _stop(progress: SaveProgress, ui: ReviewUI) -> None:
    try:
        if ui.takes_signals:
            with receiver([signal.SIGINT]) as arriving:
                await anext(arriving)  # a second Ctrl+C interrupts, as a kill does
        else:
            await anyio.sleep_forever()
    finally:
        progress.stop()


async def _show(progress: SaveProgress, verb: str, ui: ReviewUI) -> None:
    await anyio.sleep(SHOWN_AFTER_S)
    files = pluralize(progress.total, "file")
    if ui.show_progress is None:
        ui.say(f"{verb}ing {files}. If this is interrupted, the next `newel {verb.lower()}` completes it.")
        return
    try:
        while True:
            words = f"{verb.lower()}ing {progress.done:,} of {files}"
            ui.show_progress("stopping" if progress.is_stopped else words)
            await anyio.sleep(TICK_S)
    finally:
        ui.show_progress("")
