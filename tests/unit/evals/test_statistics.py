"""If these fail, a report claims a difference that is noise, or hides one that is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.evals.statistics import paired_difference, percentile, rate


def test_a_rate_has_wilsons_interval() -> None:
    """Values of the literature: 5 of 10, and 0 of 10."""
    half, none = rate(5, 10), rate(0, 10)
    assert half is not None
    assert none is not None
    assert (round(half.low, 4), round(half.high, 4)) == (0.2366, 0.7634)
    assert (none.low, round(none.high, 4)) == (0.0, 0.2775)
    assert rate(0, 0) is None


@given(st.integers(0, 200).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total))))
def test_a_rate_lies_in_its_interval(counts: tuple[int, int]) -> None:
    found = rate(*counts)
    if found is not None:
        assert 0 <= found.low <= found.value + 1e-12
        assert found.value - 1e-12 <= found.high <= 1


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_percentiles_lie_between_the_values(values: list[float]) -> None:
    middle, high = percentile(values, 0.5), percentile(values, 0.95)
    assert middle is not None
    assert high is not None
    assert min(values) <= middle <= high <= max(values)
    assert percentile(values, 1.0) == max(values)


def test_percentiles_are_interpolated() -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert percentile([], 0.5) is None


def test_a_large_difference_is_beyond_noise_and_none_is_not() -> None:
    before = {f"task-{n}": [1.0, 1.0] for n in range(20)}
    worse = {task: [0.0, 1.0] if n % 2 else [0.0, 0.0] for n, task in enumerate(before)}
    lost = paired_difference(before, worse)
    same = paired_difference(before, before)
    assert lost is not None
    assert same is not None
    assert lost.value == pytest.approx(-0.75)
    assert lost.high < 0
    assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)


def test_one_task_among_many_is_noise() -> None:
    before = {f"task-{n}": [1.0] for n in range(20)}
    after = before | {"task-3": [0.0]}
    found = paired_difference(before, after)
    assert found is not None
    assert found.low < 0 <= found.high


def test_only_common_tasks_count() -> None:
    found = paired_difference({"a": [0.0], "b": [1.0], "empty": []}, {"a": [1.0], "c": [0.0], "empty": [1.0]})
    assert found is not None
    assert found.value == 1.0
    assert paired_difference({"a": [1.0]}, {"b": [1.0]}) is None
