"""Runs side by side: the figures of each, for a table in the terminal and for the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from newel.evals.run import RunPlan
from newel.evals.summary import Summary, summarize
from newel.evals.trial import TrialResult
from newel.text.sanitize import plain_line

ABOUT_REPLAYS: Final = (
    "A replay measures the harness: the answers were recorded, so its success says nothing about a model."
)


class ReportedRun(NamedTuple):
    """A run with its results so far; ``label`` tells it from others of the same agent, model and mode."""

    plan: RunPlan
    results: Sequence[TrialResult]
    label: str = ""

    @property
    def name(self) -> str:
        """What was measured: the agent, its model, and the mode."""
        plan = self.plan
        model = f" · {plan.model}" if plan.model else ""
        mode = "" if plan.mode == "remote" else f" · {plan.mode}"
        label = f" · {self.label}" if self.label else ""
        return plain_line(f"{plan.agent}{model}{mode}{label}")

    @property
    def summaries(self) -> dict[str, Summary]:
        return {summary.name: summary for summary in summarize(self.results)}


def labelled(runs: Sequence[ReportedRun]) -> list[ReportedRun]:
    """The runs, with labels where their names are the same."""
    names = Counter(run.name for run in runs)
    return [run._replace(label=run.plan.id if names[run.name] > 1 else "") for run in runs]


def passed(summary: Summary) -> str:
    """How many of the valid trials passed."""
    return f"{summary.passed}/{summary.trials - summary.invalid}"


def number(value: float | None, digits: int, unit: str = "") -> str:
    """A figure, or a hyphen if it is unknown."""
    return "-" if value is None else f"{value:,.{digits}f}{unit}"


def _success(summary: Summary) -> str:
    return "-" if summary.success is None else f"{summary.success.value:.0%}"


def _interval(summary: Summary) -> str:
    found = summary.success
    return "-" if found is None else f"{found.low:.0%} to {found.high:.0%}"


def _cost(summary: Summary) -> str:
    return "-" if summary.cost is None else f"${summary.cost:.4f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


FIGURES: Final[dict[str, Callable[[Summary], str]]] = {
    "passed": passed,
    "success rate": _success,
    "95 % interval": _interval,
    "tool calls per success": lambda summary: number(summary.calls_per_success, 1),
    "p50": lambda summary: number(summary.seconds_p50, 1, " s"),
    "p95": lambda summary: number(summary.seconds_p95, 1, " s"),
    "cost per trial": _cost,
    "tokens in": lambda summary: number(summary.input_tokens, 0),
    "tokens out": lambda summary: number(summary.output_tokens, 0),
    "accepted hunks": lambda summary: _share(summary.accepted_hunks),
    "conflicts": lambda summary: _share(summary.conflicts),
    "questions": lambda summary: _share(summary.questions),
    "fallbacks": lambda summary: _share(summary.fallbacks),
}
"""The figures of a run, as texts."""
