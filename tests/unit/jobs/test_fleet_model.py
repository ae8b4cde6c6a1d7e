"""If these fail, the sizes that the documentation names for a fleet are not what was measured."""

from __future__ import annotations

import pytest
from benchmarks.fleet_model import (
    Costs,
    Simulation,
    Site,
    append_p95_ms,
    capacity,
    percentile,
    predict,
    table,
)
from hypothesis import given
from hypothesis import strategies as st

COSTS, SITE = Costs(), Site()


def test_the_measured_time_of_a_thousand_jobs_is_reproduced() -> None:
    """``fleet_engine.py`` measured 20.5 s, of which 20 are the steps."""
    simulation = Simulation(COSTS, workers=4, slots=64, steps=5, step_s=1.0)
    simulation.run(1000)
    assert simulation.seconds == pytest.approx(20.5, rel=0.05)
    assert len(simulation.latencies) == 5000


def test_the_measured_latency_of_a_hundred_jobs_is_reproduced() -> None:
    """``fleet_engine.py`` measured a median of 1.4 ms and a p95 of 2.1."""
    simulation = Simulation(COSTS, workers=1, slots=100, steps=20, step_s=1.0)
    simulation.run(100, spread=1.0)
    assert percentile(simulation.latencies, 0.95) * 1000 == pytest.approx(2.1, rel=0.5)


@given(st.integers(1, 200_000), st.integers(1, 200_000))
def test_more_agents_use_no_less_of_any_part(one: int, other: int) -> None:
    fewer, more = sorted((one, other))
    before, after = predict(fewer, COSTS, SITE), predict(more, COSTS, SITE)
    for less, greater in zip(before.parts, after.parts, strict=True):
        assert less.use <= greater.use * 1.000001, less.name


@pytest.mark.parametrize("name", [part.name for part in predict(1, COSTS, SITE).parts])
def test_a_part_gives_out_just_above_its_capacity(name: str) -> None:
    count = capacity(name, COSTS, SITE)

    def load(agents: int) -> float:
        return next(part.use / part.limit for part in predict(agents, COSTS, SITE).parts if part.name == name)

    assert load(count) <= 1 < load(count + 1)


def test_an_overloaded_database_has_no_latency() -> None:
    overloaded = capacity(predict(1, COSTS, SITE).parts[0].name, COSTS, SITE) * 2
    assert append_p95_ms(overloaded, COSTS, SITE) == float("inf")
    assert append_p95_ms(100, COSTS, SITE) < 10


def test_each_part_that_gives_out_has_a_remedy() -> None:
    lines = table(COSTS, SITE)
    for part in predict(1, COSTS, SITE).parts:
        assert any(line.startswith(f"| {part.name} |") and part.remedy in line for line in lines)
