"""Proves that a task measures something: its reference passes, doing nothing fails, and so does each wrong answer."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from newel.evals.checks import CheckResult, OpenFolder, Reply, attempt, prepare, run_checks
from newel.evals.task import Attempt, Task

_NOTHING: Final = Attempt()


async def prove(task: Task, place: Path, open_folder: OpenFolder) -> list[str]:
    """What is wrong with a task; empty for a good one. ``place`` is an empty folder. Raises ``TaskError`` if a command of the task fails
    that is not a check.
    """
    problems: list[str] = []
    failed = _failed(await _results(task, task.reference, place / "reference", open_folder))
    problems += [f"its reference fails `{result.what}`: {result.problem}" for result in failed]
    if not _failed(await _results(task, _NOTHING, place / "nothing", open_folder)):
        problems.append("doing nothing passes all checks")
    for number, wrong in enumerate(task.wrong, 1):
        if not _failed(await _results(task, wrong, place / f"wrong-{number}", open_folder)):
            problems.append(f"a wrong answer passes all checks: {wrong.why}")
    return problems


async def _results(task: Task, tried: Attempt, project: Path, open_folder: OpenFolder) -> list[CheckResult]:
    before = await prepare(task, project, open_folder)
    await attempt(task, tried, project, open_folder)
    return await run_checks(task, project, before, Reply(tried.answer, int(tried.asked)), open_folder)


def _failed(results: list[CheckResult]) -> list[CheckResult]:
    return [result for result in results if result.problem]
