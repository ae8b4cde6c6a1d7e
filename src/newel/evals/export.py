"""Trials as JSON lines, for other programs: prompt, trace, result."""

from __future__ import annotations

from pathlib import Path

import msgspec

from newel.evals.run import RunPlan, trial_folder
from newel.evals.task import Task
from newel.evals.trial import TRACE, TrialResult
from newel.storage.files import read_regular
from newel.text.json import decode_json


class ExportedTrial(msgspec.Struct, frozen=True, kw_only=True):
    """``prompts`` is None if the task is gone. ``trace`` is what the agent printed: Newel's events, or the lines of another agent."""

    run: str
    agent: str
    model: str
    mode: str
    prompts: list[str] | None
    result: TrialResult
    trace: list[msgspec.Raw | str]


def export_line(plan: RunPlan, task: Task | None, result: TrialResult, folder: Path) -> str:
    """A trial of the run in ``folder``."""
    try:
        text = read_regular(trial_folder(folder, result.task, result.repeat) / TRACE, None).decode(
            "utf-8", "replace"
        )
    except OSError:
        text = ""
    line = ExportedTrial(
        run=plan.id,
        agent=plan.agent,
        model=plan.model,
        mode=plan.mode,
        prompts=[task.prompt, *task.then] if task else None,
        result=result,
        trace=[_event(line) for line in text.splitlines()],
    )
    return msgspec.json.encode(line).decode()


def _event(line: str) -> msgspec.Raw | str:
    try:
        return decode_json(line, msgspec.Raw)
    except msgspec.MsgspecError:
        return line
