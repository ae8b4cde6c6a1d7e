"""Whose changes between commands are, while processes that a command left behind may be making them."""

from __future__ import annotations

import time

from newel.review.tracking.effect_log import EffectLog, effect_of
from newel.review.tracking.effects import TrackedOperation, TrackedRun


class ChangesBetweenCommands:
    """``run`` is the run that they belong to; None if no process was left behind, and they are the user's. After the end of a run it is in
    the effect log, so that the process after a crash names what changed.
    """

    def __init__(self, log: EffectLog) -> None:
        self.run: TrackedRun | None = None
        self._log = log
        self._effect_id = ""

    def belong_to(self, run: TrackedRun | None) -> None:
        """They belong to ``run`` from now on. Blocks."""
        if run is self.run:
            return
        if self._effect_id:
            self._log.end_run(self._effect_id)
            self._effect_id = ""
        self.run = run
        if run is not None and run.is_between:
            run.commands_began_ns = time.time_ns()
            self._effect_id = self._log.begin_run(effect_of(TrackedOperation(run, None), is_run=True))

    def is_over(self, processes: object) -> bool:
        """Whether nothing that was left behind runs any more, by what the workspace tells of its ``processes``. Those of a host are
        unknown: within a run, any change may be theirs.
        """
        return not processes and (processes is not None or (self.run is not None and self.run.is_between))
