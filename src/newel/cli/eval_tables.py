"""Prints progress and results for people."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import anyio
import msgspec

from newel.evals.golden import describe_sources
from newel.evals.matrix import ABOUT_REPLAYS, FIGURES, ReportedRun, passed
from newel.evals.requests import RequestChange
from newel.evals.run import REPLAY, RunPlan, trial_folder
from newel.evals.statistics import Interval
from newel.evals.summary import TOTAL, Summary, changed_tasks, compare, summarize
from newel.evals.trial import TrialResult
from newel.text.json import to_printable_json
from newel.text.sanitize import sanitize

_NAME: Final = 30
_FIGURES: Final = 46
"""Columns to the right of a task's name."""

_TICK_S: Final = 1.0

NAME_WIDTH: Final = 28
"""Of a task's name in lists."""


class ProgressTable:
    """Prints a line for each trial that has ended. On a terminal, how many there are, and which ones run, is below them."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._passed = 0
        self._running: list[str] = []
        self._began = time.monotonic()
        self._is_terminal = sys.stderr.isatty()

    def __enter__(self) -> Self:
        self._show()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()

    async def tick(self) -> None:
        """Keep the time up to date until cancelled."""
        while self._is_terminal:
            await anyio.sleep(_TICK_S)
            self._clear()
            self._show()

    def begin(self, task: str) -> None:
        """A trial of the task begins."""
        self._running.append(task)

    def add(self, result: TrialResult) -> None:
        if result.task in self._running:
            self._running.remove(result.task)
        self._done += 1
        self._passed += result.passed
        self._clear()
        print(_line(result), flush=True)
        self._show()

    def note(self, line: str) -> None:
        """Tell the user something about the run."""
        self._clear()
        print(f"newel: {sanitize(line)}", file=sys.stderr, flush=True)
        self._show()

    def _show(self) -> None:
        if self._is_terminal:
            minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
            counts = f"{self._done} of {self._total} trials, {self._passed} passed · {minutes}:{seconds:02d}"
            print(_fit(" · ".join([counts, *self._running])), end="", file=sys.stderr, flush=True)

    def _clear(self) -> None:
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _line(result: TrialResult) -> str:
    verdict = "pass" if result.passed else "invalid" if result.end == "invalid" else "FAIL"
    metrics = result.metrics
    figures = [f"{metrics.seconds:.1f} s"]
    figures += [f"{metrics.tool_calls} calls"] if metrics.tool_calls is not None else []
    figures += [f"${metrics.cost:.4f}"] if metrics.cost else []
    return _fit(f"{_name(_named(result))}  {verdict:7}  {'  '.join(figures):24}  {_why(result)}".rstrip())


def _columns() -> int | None:
    """The width of the terminal; None where the output goes elsewhere, and lines may be long."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _fit(line: str) -> str:
    columns = _columns()
    return line if columns is None or len(line) < columns else f"{line[: columns - 2]}…"


def _name(text: str) -> str:
    """A name in its column, which is narrower in a narrow terminal."""
    columns = _columns()
    width = _NAME if columns is None else min(max(columns - _FIGURES, 12), _NAME)
    shown = text if columns is None or len(text) <= width else f"{text[: width - 1]}…"
    return f"{shown:{width}}"


def _named(result: TrialResult) -> str:
    return result.task if result.repeat == 1 else f"{result.task} ({result.repeat})"


def _why(result: TrialResult) -> str:
    failed = [f"{check.what}: {check.problem}" for check in result.checks if check.problem]
    reasons = [result.problem] if result.problem else failed
    first = " ".join(sanitize(reasons[0]).split()) if reasons else ""
    return first if len(first) <= 90 else f"{first[:89]}…"


def print_results(plan: RunPlan, results: Sequence[TrialResult]) -> None:
    """A row for each task, and the total."""
    model = f" with {plan.model}" if plan.model else ""
    print(f"\n{plan.id}: {plan.agent}{model} ({plan.mode})")
    print(f"{_name('task')}  {'passed':>8}  {'calls':>6}  {'p50 s':>7}  {'p95 s':>7}  {'cost':>9}")
    for summary in summarize(results):
        print(_row(summary))
        if summary.name == TOTAL and summary.success:
            print(f"success rate {_percent(summary.success)}")
    total = summarize(results)[-1]
    shares = {
        "accepted hunks": total.accepted_hunks,
        "trials with conflicts": total.conflicts,
        "trials with questions": total.questions,
    }
    if total.fallbacks is not None and plan.mode == "hybrid_auto":
        print(f"the remote model took over in {total.fallbacks:.0%} of the trials")
    if any(share is not None for share in shares.values()):
        reviews = ", ".join(f"{name} {share:.0%}" for name, share in shares.items() if share is not None)
        print(f"in reviews: {reviews}")
    if plan.mode == REPLAY:
        print(ABOUT_REPLAYS)
        if plan.traces:
            print(sanitize(describe_sources(plan.traces)))


def print_matrix(runs: Sequence[ReportedRun]) -> None:
    """A column for each run: its figures, and the passed trials of each task."""
    totals = [run.summaries for run in runs]
    plans = [run.plan for run in runs]
    rows: list[tuple[str, list[str]]] = [
        ("", [plan.id for plan in plans]),
        ("agent", [plan.agent for plan in plans]),
        ("model", [plan.model or "-" for plan in plans]),
        ("mode", [plan.mode for plan in plans]),
    ]
    rows += [(name, [figure(found[TOTAL]) for found in totals]) for name, figure in FIGURES.items()]
    rows = [row for row in rows if set(row[1]) != {"-"}]
    tasks = sorted({name for found in totals for name in found if name != TOTAL})
    rows += [("", [""] * len(runs))]
    rows += [(task, [passed(found[task]) if task in found else "-" for found in totals]) for task in tasks]
    widths = [max(len(cells[column]) for _, cells in rows) for column in range(len(runs))]
    for name, cells in rows:
        figures = "  ".join(f"{sanitize(cell):>{width}}" for cell, width in zip(cells, widths, strict=True))
        print(f"{name:{_NAME}}  {figures}".rstrip())
    if any(plan.mode == REPLAY for plan in plans):
        print(ABOUT_REPLAYS)


def print_json_lines(run: ReportedRun) -> None:
    """Each trial of a run, and the figures of each task and of all."""
    plan = run.plan
    about = {"run": plan.id, "agent": plan.agent, "model": plan.model, "mode": plan.mode}
    lines = [{"type": "trial", **about, **msgspec.to_builtins(result)} for result in run.results]
    lines += [{"type": "summary", **about, **msgspec.to_builtins(found)} for found in run.summaries.values()]
    for line in lines:
        print(to_printable_json(line))


def _row(summary: Summary) -> str:
    passed = f"{summary.passed}/{summary.trials - summary.invalid}"
    return (
        f"{_name(summary.name)}  {passed:>8}  {_number(summary.calls_per_success, 1):>6}  "
        f"{_number(summary.seconds_p50, 1):>7}  {_number(summary.seconds_p95, 1):>7}  {_number(summary.cost, 4):>9}"
    )


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _percent(share: Interval) -> str:
    return f"{share.value:.0%} (95 %: {share.low:.0%} to {share.high:.0%})"


def print_failures(result: TrialResult, folder: Path) -> None:
    """Why a trial has failed, and where its files are."""
    if result.passed and not result.problem:
        return
    print(f"\n{_named(result)}: {trial_folder(folder, result.task, result.repeat)}")
    if result.problem:
        print(f"    {sanitize(result.problem)}")
    for check in result.checks:
        if check.problem:
            print(f"    {sanitize(f'{check.what}: {check.problem}')}")


def print_comparison(before: Sequence[TrialResult], after: Sequence[TrialResult]) -> None:
    """The metrics with their differences, and the tasks that are better or worse."""
    differences = compare(before, after)
    if not differences:
        print("The runs have no task in common.")
        return
    print(f"{'metric':14}  {'tasks':>5}  {'difference':>11}  {'95 %':>22}")
    for one in differences:
        found = one.difference
        mark = "" if one.is_noise else "  *"
        spread = f"{found.low:+.3f} to {found.high:+.3f}"
        print(f"{one.metric:14}  {one.tasks:>5}  {found.value:>+11.3f}  {spread:>22}{mark}")
    print("* beyond noise")
    for task, first, second in changed_tasks(before, after):
        print(f"{_name(task)}  {first:.0%} → {second:.0%}")


def print_request_changes(changes: Sequence[RequestChange], *, is_whole: bool) -> None:
    """What the model was sent otherwise than before, of replays."""
    if not changes:
        return
    print("\nWhat the model was sent has changed:")
    for change in changes:
        tasks = change.tasks[0] if len(change.tasks) == 1 else f"{len(change.tasks)} tasks"
        added = sum(line.startswith("+") for line in change.diff)
        removed = sum(line.startswith("-") for line in change.diff)
        print(f"{_name(change.what)}  {tasks:24}  +{added} -{removed}")
        for line in change.diff if is_whole else ():
            print(f"    {sanitize(line)}")
