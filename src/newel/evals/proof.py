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
    solutions = {"the reference": task.reference}
    solutions |= {f"right solution {number}": right for number, right in enumerate(task.right, 1)}
    for name, solution in solutions.items():
        failed = _failed(await _results(task, solution, place / name.replace(" ", "-"), open_folder))
        problems += [f"{name} fails `{result.what}`: {result.problem}" for result in failed]
    if not _failed(await _results(task, _NOTHING, place / "nothing", open_folder)):
        problems.append("doing nothing passes all checks")
    for number, wrong in enumerate(task.wrong, 1):
        failed = _failed(await _results(task, wrong, place / f"wrong-{number}", open_folder))
        if not failed:
            problems.append(f"a wrong answer passes all checks: {wrong.why}")
        elif not any(wrong.fails in result.what for result in failed):
            others = ", ".join(f"`{result.what}`" for result in failed)
            problems.append(f"a wrong answer fails {others} instead of `{wrong.fails}`: {wrong.why}")
    return problems


async def _results(task: Task, tried: Attempt, project: Path, open_folder: OpenFolder) -> list[CheckResult]:
    before = await prepare(task, project, open_folder)
    await attempt(task, tried, project, open_folder)
    return await run_checks(task, project, before, Reply(tried.answer, int(tried.asked)), open_folder)


def _failed(results: list[CheckResult]) -> list[CheckResult]:
    return [result for result in results if result.problem]
