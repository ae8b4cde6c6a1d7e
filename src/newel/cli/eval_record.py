"""``newel eval record``: golden traces of what a model answered in a run."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from newel.agent.errors import NewelError
from newel.agent.formatting import describe_error, pluralize
from newel.cli.eval_tables import NAME_WIDTH
from newel.evals.checks import OpenFolder
from newel.evals.golden import BY_HAND, save_trace, source_of
from newel.evals.record import OpenReplay, RecordError, TraceRecorder
from newel.evals.run import RunPlan, read_results, trial_folder
from newel.evals.task import GOLDEN, Task
from newel.evals.trial import TrialResult
from newel.text.sanitize import sanitize


class RunRecorder:
    """Records the trials of the run in ``folder``, and prints a line for each task. ``is_forced`` replaces traces that no model
    has made.
    """

    def __init__(
        self,
        folder: Path,
        plan: RunPlan,
        recording: TraceRecorder,
        *,
        open_replay: OpenReplay,
        open_folder: OpenFolder,
        is_forced: bool,
    ) -> None:
        self._folder = folder
        self._plan = plan
        self._recording = recording
        self._open_replay = open_replay
        self._open_folder = open_folder
        self._is_forced = is_forced

    async def record(self, tasks: Sequence[Task]) -> int:
        """The exit code: 0 if each of the tasks has a trace of the run."""
        results = await read_results(self._folder)
        counts: Counter[str] = Counter()
        for task in tasks:
            state, about = await self._record_task(task, [each for each in results if each.task == task.name])
            counts[state] += 1
            print(f"{task.name:{NAME_WIDTH}}  {state:9}  {sanitize(about)}".rstrip(), flush=True)
        print(f"{pluralize(counts['recorded'], 'trace')} recorded")
        return 0 if counts["recorded"] + counts["unchanged"] == len(tasks) else 1

    async def _record_task(self, task: Task, results: Sequence[TrialResult]) -> tuple[str, str]:
        """What became of the trace, and why."""
        if not self._is_forced and (reason := _reason_to_keep(task)):
            return "kept", f"{GOLDEN} {reason}; --force replaces it"
        if task.digest != self._plan.tasks[task.name]:
            return "refused", "the task is not as it was when the run began: run it again"
        passed = [result for result in results if result.passed]
        if not passed:
            return "failed", f"passed in 0 of {pluralize(len(results), 'trial')}"
        reasons: list[str] = []
        for result in passed:
            place = trial_folder(self._folder, task.name, result.repeat)
            try:
                return await self._record_trial(task, result, place)
            except (OSError, NewelError) as error:
                reasons.append(f"{describe_error(error)}\n    {place}")
        return "refused", reasons[0]

    async def _record_trial(self, task: Task, result: TrialResult, place: Path) -> tuple[str, str]:
        if result.end != "done":
            raise RecordError(result.problem)
        recorded, masked = self._recording.read(task, place)
        with tempfile.TemporaryDirectory(prefix="newel-eval-") as folder:
            await self._recording.prove(
                task,
                recorded,
                Path(folder) / task.name,
                open_replay=self._open_replay,
                open_folder=self._open_folder,
            )
        trace = recorded.trace
        state = "recorded" if save_trace(task, trace) else "unchanged"
        about = f"{pluralize(sum(map(len, trace.answers)), 'answer')} of {trace.made_by}"
        return state, f"{about}; {pluralize(masked, 'secret value')} masked" if masked else about


def _reason_to_keep(task: Task) -> str:
    """Why a recording must not replace the task's trace; empty if it may."""
    if not (task.folder / GOLDEN).exists():
        return ""
    return {BY_HAND: "was made by hand", "": "cannot be read"}.get(source_of(task), "")
