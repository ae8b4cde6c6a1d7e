"""If these fail, a report shows other figures than were measured, or runs what an agent wrote."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from newel.evals.checks import CheckResult
from newel.evals.report import ReportedRun, to_html
from newel.evals.run import REPLAY, RunPlan
from newel.evals.summary import changed_tasks, compare, summarize
from newel.evals.trial import Metrics, TrialResult

EVIL = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>"


def plan(**fields: Any) -> RunPlan:
    values: dict[str, Any] = {
        "id": "20261127-100000-abcd",
        "started": "2026-11-27T10:00:00.000Z",
        "agent": "newel",
        "model": "small",
        "mode": "remote",
        "flags": [],
        "command": "",
        "repeats": 1,
        "tasks": {},
        "suite": "tasks",
        "version": "0.1.0",
    }
    return RunPlan(**(values | fields))


def result(task: str, *, passed: bool, repeat: int = 1, **fields: Any) -> TrialResult:
    metrics = fields.pop("metrics", Metrics(seconds=2.0, tool_calls=3, cost=0.01))
    end = fields.pop("end", "done")
    return TrialResult(task=task, repeat=repeat, size="S", end=end, passed=passed, metrics=metrics, **fields)


def test_a_task_and_the_total_are_summed_up() -> None:
    results = [
        result("a", passed=True, metrics=Metrics(seconds=1.0, tool_calls=2, cost=0.02)),
        result("a", passed=False, repeat=2, metrics=Metrics(seconds=3.0, tool_calls=9)),
        result("b", passed=True, metrics=Metrics(seconds=5.0, tool_calls=4)),
        result("b", passed=False, repeat=2, end="invalid", metrics=Metrics()),
    ]
    a, b, total = summarize(results)
    assert (a.name, a.passed, a.trials, a.calls_per_success, a.seconds_p50, a.cost) == (
        "a",
        1,
        2,
        2.0,
        2.0,
        0.02,
    )
    assert (b.passed, b.trials, b.invalid, b.seconds_p95) == (1, 2, 1, 5.0)
    assert total.success is not None
    assert (total.name, total.success.value, total.calls_per_success) == ("total", pytest.approx(2 / 3), 3.0)


def test_without_results_nothing_is_claimed() -> None:
    (total,) = summarize([])
    assert total.success is None
    assert total.cost is None
    assert to_html([ReportedRun(plan(), [])]).startswith("<!doctype html>")


def test_a_loss_is_beyond_noise_and_named() -> None:
    before = [result(f"task-{n}", passed=True) for n in range(12)]
    after = [result(f"task-{n}", passed=n > 7) for n in range(12)]
    success = next(each for each in compare(before, after) if each.metric == "success rate")
    assert (round(success.difference.value, 2), success.is_noise) == (-0.67, False)
    assert [row[0] for row in changed_tasks(before, after)] == [f"task-{n}" for n in range(8)]
    assert compare(before, before)[0].is_noise


def test_the_page_has_the_figures() -> None:
    results = [
        result("good", passed=True),
        result("bad", passed=False, checks=[CheckResult("run x", "exit code 1")]),
    ]
    page = to_html(
        [ReportedRun(plan(), results), ReportedRun(plan(id="other", mode=REPLAY, model=""), results)]
    )
    assert "1/2" in page
    assert "50%" in page
    assert "$0.0100" in page
    assert "run x: exit code 1" in page
    assert "A replay measures the harness" in page
    assert page.count("<circle") == 2 * (1 + 2)


def test_figures_that_no_run_has_take_no_room() -> None:
    """Else those that are known are out of sight."""
    page = to_html([ReportedRun(plan(), [result("good", passed=True)])])
    assert "tool calls per success" in page
    assert "accepted hunks" not in page
    reviewed = result("good", passed=True, metrics=Metrics(hunks_proposed=2, hunks_accepted=1))
    page = to_html([ReportedRun(plan(), [result("good", passed=True)]), ReportedRun(plan(), [reviewed])])
    assert "accepted hunks" in page


def test_the_page_says_where_the_answers_of_a_replay_came_from() -> None:
    replayed = plan(mode="replay", model="", traces={"good": "qwen3:8b", "other": "hand"})
    page = to_html([ReportedRun(replayed, [result("good", passed=True)])])
    assert "newel · replay. Answers: 1 task of qwen3:8b, 1 by hand." in page


def test_runs_that_look_alike_are_told_apart() -> None:
    results = [result("good", passed=True)]
    page = to_html([ReportedRun(plan(), results), ReportedRun(plan(id="20261127-110000-ef01"), results)])
    assert "newel · small · 20261127-110000-ef01" in page
    assert "newel · small · 2026" not in to_html([ReportedRun(plan(), results)])


def test_what_agents_and_tasks_say_stays_text() -> None:
    results = [result(EVIL, passed=False, problem=EVIL, answer=EVIL, checks=[CheckResult(EVIL, EVIL)])]
    page = to_html([ReportedRun(plan(agent=EVIL, model=EVIL), results)])
    assert "<script" not in page
    assert "<img" not in page
    ET.fromstring("<main>" + page.partition("<main>")[2].partition("</main>")[0] + "</main>")  # noqa: S314 — ours


def test_a_page_for_others_does_not_name_the_home_of_its_author() -> None:
    failed = result("fix", passed=False, problem=f"{Path.home()}/.newel/evals/r/trials/fix.1: gone")
    page = to_html([ReportedRun(plan(), [failed])])
    assert "~/.newel/evals/r/trials/fix.1: gone" in page
    assert str(Path.home()) not in page
