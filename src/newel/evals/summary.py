"""Sums up the results of a run, by task and in total, and compares two runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from newel.evals.statistics import Interval, paired_difference, percentile, rate
from newel.evals.trial import TrialResult

TOTAL: Final = "total"

FEWEST_TASKS: Final = 6
"""In common, for a difference that is beyond noise."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Of a task, or of all. ``success`` is the share of passed trials; ``invalid`` trials count as none. ``calls_per_success`` is the mean
    of the tool calls of passed trials, ``cost`` the mean per trial in US dollars, ``seconds_p50`` and ``seconds_p95`` are of all trials.
    None is unknown.
    """

    name: str
    trials: int
    passed: int
    invalid: int
    success: Interval | None
    calls_per_success: float | None
    seconds_p50: float | None
    seconds_p95: float | None
    cost: float | None
    input_tokens: float | None
    output_tokens: float | None
    accepted_hunks: float | None
    """The share of proposed hunks that were accepted, in review jobs; so are these:"""
    conflicts: float | None
    """The share of trials in which a file had changed meanwhile, so that the agent worked again."""
    questions: float | None
    """The share of trials in which the user was asked."""
    fallbacks: float | None
    """In mode ``hybrid_auto``, the share of trials in which the remote model took over."""


class Difference(msgspec.Struct, frozen=True):
    """How much higher a metric is in the second run, on the ``tasks`` that both have; ``is_noise`` if it may as well be none."""

    metric: str
    tasks: int
    difference: Interval

    @property
    def is_noise(self) -> bool:
        """Of fewer tasks, a bootstrap knows too few resamples: 5 that are all better may be so by chance."""
        return self.tasks < FEWEST_TASKS or self.difference.low <= 0 <= self.difference.high


def summarize(results: Sequence[TrialResult]) -> list[Summary]:
    """One for each task, by name, and the total at the end."""
    by_task: defaultdict[str, list[TrialResult]] = defaultdict(list)
    for result in results:
        by_task[result.task].append(result)
    return [*(_summary(name, by_task[name]) for name in sorted(by_task)), _summary(TOTAL, results)]


def compare(before: Sequence[TrialResult], after: Sequence[TrialResult]) -> list[Difference]:
    """The metrics that both runs know."""
    found: list[Difference] = []
    for metric, value_of in _METRICS.items():
        first, second = _values(before, value_of), _values(after, value_of)
        difference = paired_difference(first, second)
        if difference is not None:
            common = sum(1 for task in first if task in second)
            found.append(Difference(metric, common, difference))
    return found


def changed_tasks(
    before: Sequence[TrialResult], after: Sequence[TrialResult]
) -> list[tuple[str, float, float]]:
    """The tasks that both runs have and whose share of passed trials differs, with both shares; the largest loss first."""
    first, second = _values(before, _passed), _values(after, _passed)
    shares = [(task, _mean(first[task]), _mean(second[task])) for task in first if task in second]
    return sorted((row for row in shares if row[1] != row[2]), key=lambda row: row[2] - row[1])


def _passed(result: TrialResult) -> float | None:
    return float(result.passed)


_METRICS: Final[dict[str, Callable[[TrialResult], float | None]]] = {
    "success rate": _passed,
    "seconds": lambda result: result.metrics.seconds,
    "requests": lambda result: result.metrics.requests,
    "tool calls": lambda result: result.metrics.tool_calls,
    "input tokens": lambda result: result.metrics.input_tokens,
    "output tokens": lambda result: result.metrics.output_tokens,
    "cost": lambda result: result.metrics.cost,
}


def _values(
    results: Sequence[TrialResult], value_of: Callable[[TrialResult], float | None]
) -> dict[str, list[float]]:
    values: defaultdict[str, list[float]] = defaultdict(list)
    for result in results:
        if result.end != "invalid" and (value := value_of(result)) is not None:
            values[result.task].append(value)
    return dict(values)


def _summary(name: str, results: Sequence[TrialResult]) -> Summary:
    valid = [result for result in results if result.end != "invalid"]
    passed = [result for result in valid if result.passed]
    seconds = [result.metrics.seconds for result in valid]
    reviewed = [result.metrics for result in valid if result.metrics.hunks_proposed is not None]
    proposed = sum(metrics.hunks_proposed or 0 for metrics in reviewed)
    return Summary(
        name=name,
        trials=len(results),
        passed=len(passed),
        invalid=len(results) - len(valid),
        success=rate(len(passed), len(valid)),
        calls_per_success=_known_mean([result.metrics.tool_calls for result in passed]),
        seconds_p50=percentile(seconds, 0.5),
        seconds_p95=percentile(seconds, 0.95),
        cost=_known_mean([result.metrics.cost for result in valid]),
        input_tokens=_known_mean([result.metrics.input_tokens for result in valid]),
        output_tokens=_known_mean([result.metrics.output_tokens for result in valid]),
        accepted_hunks=sum(each.hunks_accepted or 0 for each in reviewed) / proposed if proposed else None,
        conflicts=_known_mean([float(bool(each.conflicts)) for each in reviewed]),
        questions=_known_mean([float(bool(each.questions)) for each in reviewed]),
        fallbacks=_known_mean(
            [float(bool(count)) for each in valid if (count := each.metrics.fallbacks) is not None]
        ),
    )


def _known_mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _mean(known) if known else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
