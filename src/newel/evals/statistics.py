"""What can be concluded from a number of trials: rates with their uncertainty, percentiles, and differences beyond noise."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

_Z: Final = 1.959964
"""Of a normal distribution, 95 % lie within so many standard deviations."""

_RESAMPLES: Final = 10_000


class Interval(msgspec.Struct, frozen=True):
    """A value that lies between ``low`` and ``high`` with a confidence of 95 %."""

    value: float
    low: float
    high: float


def rate(passed: int, total: int) -> Interval | None:
    """The share of passed trials, with Wilson's interval; None without trials."""
    if not total:
        return None
    share = passed / total
    spread = _Z * math.sqrt(share * (1 - share) / total + _Z**2 / (4 * total**2))
    middle, scale = share + _Z**2 / (2 * total), 1 + _Z**2 / total
    return Interval(share, max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale))


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value below which this share of the values lies, interpolated; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def paired_difference(
    before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]]
) -> Interval | None:
    """How much the mean over tasks is higher ``after`` than ``before``, each with the values of a task's trials; None without a common
    task.

    The interval is that of a bootstrap in two stages: tasks are drawn with replacement, and then trials of each, the same task
    for both sides. So neither an easy task nor a lucky trial counts for more than it is worth.
    """
    tasks = [task for task, values in before.items() if values and after.get(task)]
    if not tasks:
        return None
    generator = random.Random(0)  # noqa: S311 — no secret
    value = _mean([_mean(after[task]) - _mean(before[task]) for task in tasks])
    means: list[float] = []
    for _ in range(_RESAMPLES):
        drawn = generator.choices(tasks, k=len(tasks))
        means.append(
            _mean(
                [_resampled(after[task], generator) - _resampled(before[task], generator) for task in drawn]
            )
        )
    return Interval(value, percentile(means, 0.025) or 0.0, percentile(means, 0.975) or 0.0)


def _resampled(values: Sequence[float], generator: random.Random) -> float:
    return values[0] if len(values) == 1 else _mean(generator.choices(values, k=len(values)))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
