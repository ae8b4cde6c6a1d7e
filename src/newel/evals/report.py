"""The report of one or several runs as a self-contained HTML page, with plots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from newel.agent.formatting import pluralize
from newel.evals.golden import describe_sources
from newel.evals.matrix import ABOUT_REPLAYS, FIGURES, ReportedRun, labelled, number, passed
from newel.evals.run import REPLAY
from newel.evals.statistics import Interval
from newel.evals.summary import TOTAL, Summary
from newel.evals.trial import TrialResult
from newel.text.html_page import html_page
from newel.text.sanitize import plain_line, plain_text

_WIDTH: Final = 420
_ROW: Final = 28
_MARGIN: Final = 8

_STYLE: Final = """
body { margin: 0 auto; max-width: 1080px; padding: 24px 16px 64px; background: var(--ground); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
header { border-bottom: 1px solid var(--line); padding-bottom: 16px; }
h1 { font-size: 20px; margin: 0 0 4px; }
h2 { font-size: 15px; margin: 32px 0 8px; }
.facts, .dim, caption { color: var(--dim); font-size: 13px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { border-bottom: 1px solid var(--line); padding: 4px 8px; text-align: left; white-space: nowrap; }
th { font-weight: 600; color: var(--dim); vertical-align: bottom; }
th.number { white-space: normal; overflow-wrap: break-word; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td.ok { color: var(--ok); } td.bad { color: var(--bad); }
tr.total td { font-weight: 600; border-top: 1px solid var(--strong); }
svg { display: block; width: 100%; min-width: 280px; max-width: 640px; height: auto; }
svg .axis { stroke: var(--line); } svg .whisker { stroke: var(--dim); stroke-width: 2; }
svg .value { fill: var(--accent); } svg .pass { fill: var(--ok); } svg .fail { fill: none; stroke: var(--bad); stroke-width: 1.5; }
svg text { fill: var(--dim); font: 11px system-ui, sans-serif; paint-order: stroke; stroke: var(--ground); stroke-width: 3px; }
pre { background: var(--sunken); border-radius: 6px; margin: 4px 0; padding: 8px 12px; overflow-x: auto;
  font: 13px/1.5 ui-monospace, monospace; white-space: pre-wrap; }
summary { cursor: pointer; } summary:focus-visible { outline: 2px solid var(--accent); }
"""


def to_html(runs: Sequence[ReportedRun]) -> str:
    """A page about the runs; what came from agents and tasks is escaped."""
    runs = labelled(runs)
    trials = sum(len(run.results) for run in runs)
    facts = [
        pluralize(len(runs), "run"),
        pluralize(trials, "trial"),
        f"newel {runs[0].plan.version}",
        runs[0].plan.started[:10],
    ]
    parts = [
        "<h2>Runs</h2>",
        _matrix(runs),
        f'<p class="dim">{ABOUT_REPLAYS}</p>' if any(run.plan.mode == REPLAY for run in runs) else "",
        *(
            f'<p class="dim">{escape(run.name)}. {escape(plain_line(describe_sources(run.plan.traces)))}</p>'
            for run in runs
            if run.plan.traces
        ),
        "<h2>Success rate, with its 95 % interval</h2>",
        _rate_plot(runs),
        "<h2>Seconds of each trial</h2>",
        '<p class="dim">Filled: passed. Open: failed. The scale is logarithmic.</p>',
        _seconds_plot(runs),
        "<h2>Tasks</h2>",
        _task_table(runs),
        *(_failures(run) for run in runs),
    ]
    return html_page("Evaluation", facts, "\n".join(parts), style=_STYLE)


def _matrix(runs: Sequence[ReportedRun]) -> str:
    """Figures that no run has are left out: the others are to be seen without scrolling."""
    totals = [run.summaries[TOTAL] for run in runs]
    columns = {name: [figure(total) for total in totals] for name, figure in FIGURES.items()}
    columns = {name: cells for name, cells in columns.items() if set(cells) != {"-"}}
    rows = [_row(["run", "agent", *columns], cell="th", text=2)]
    for place, run in enumerate(runs):
        figures = [cells[place] for cells in columns.values()]
        rows.append(_row([run.plan.id, run._replace(label="").name, *figures], text=2))
    return f'<div class="scroll"><table>{"".join(rows)}</table></div>'


def _task_table(runs: Sequence[ReportedRun]) -> str:
    found = [run.summaries for run in runs]
    names = sorted({name for summaries in found for name in summaries if name != TOTAL})
    sizes = {result.task: result.size for run in runs for result in run.results}
    rows = [_row(["task", "size", *(run.name for run in runs)], cell="th", text=2)]
    for name in names:
        cells = [f"<td>{escape(name)}</td><td>{escape(sizes.get(name, ''))}</td>"]
        cells += [_task_cell(summaries.get(name)) for summaries in found]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f'<div class="scroll"><table>{"".join(rows)}</table></div>'


def _task_cell(summary: Summary | None) -> str:
    if summary is None:
        return '<td class="number">-</td>'
    valid = summary.trials - summary.invalid
    kind = " ok" if valid and summary.passed == valid else " bad" if not summary.passed else ""
    calls = (
        f" · {number(summary.calls_per_success, 1)} calls" if summary.calls_per_success is not None else ""
    )
    return f'<td class="number{kind}">{passed(summary)}{calls} · {number(summary.seconds_p50, 1)} s</td>'


def _failures(run: ReportedRun) -> str:
    failed = [result for result in run.results if not result.passed]
    if not failed:
        return ""
    items = "".join(
        f"<details><summary>{escape(result.task)} ({result.repeat}) · {escape(result.end)}</summary>"
        f"<pre>{escape(plain_text(_reason(result)))}</pre></details>"
        for result in failed
    )
    return f"<h2>Failed: {escape(run.name)}</h2>{items}"


def _reason(result: TrialResult) -> str:
    """Without the path of the user's home: a page is made to be shown to others."""
    lines = [result.problem] if result.problem else []
    lines += [f"{check.what}: {check.problem}" for check in result.checks if check.problem]
    lines += ["", "The answer:", result.answer] if result.answer else []
    return "\n".join(lines).replace(str(Path.home()), "~")


# -- plots ----------------------------------------------------------------------------------------


def _rate_plot(runs: Sequence[ReportedRun]) -> str:
    rows: list[str] = []
    for place, run in enumerate(runs):
        if interval := run.summaries[TOTAL].success:
            rows.append(_whisker(interval, _MARGIN + place * _ROW))
        rows.append(_label(run.name, _MARGIN + place * _ROW))
    height = _MARGIN + len(runs) * _ROW
    ticks = [(_x(share), f"{share:.0%}") for share in (0, 0.25, 0.5, 0.75, 1)]
    return _plot("Success rates", rows, ticks, height)


def _whisker(interval: Interval, y: float) -> str:
    low, high, value = _x(interval.low), _x(interval.high), _x(interval.value)
    return (
        f'<line class="whisker" x1="{low:.1f}" x2="{high:.1f}" y1="{y + 20:.1f}" y2="{y + 20:.1f}"/>'
        f'<circle class="value" cx="{value:.1f}" cy="{y + 20:.1f}" r="4"/>'
    )


def _seconds_plot(runs: Sequence[ReportedRun]) -> str:
    seconds = [max(result.metrics.seconds, 0.01) for run in runs for result in run.results]
    least, most = (
        (math.floor(math.log10(min(seconds))), math.ceil(math.log10(max(seconds)))) if seconds else (0, 1)
    )
    span = max(most - least, 1)

    def x_of(value: float) -> float:
        return _x((math.log10(max(value, 0.01)) - least) / span)

    rows: list[str] = []
    for place, run in enumerate(runs):
        y = _MARGIN + place * _ROW
        rows += [
            f'<circle class="{"pass" if result.passed else "fail"}" cx="{x_of(result.metrics.seconds):.1f}" cy="{y + 20}" r="3.5">'
            f"<title>{escape(result.task)}: {result.metrics.seconds:.1f} s</title></circle>"
            for result in run.results
        ]
        rows.append(_label(run.name, y))
    ticks = [(_x(step / span), f"{10.0 ** (least + step):g} s") for step in range(span + 1)]
    return _plot("Seconds of each trial", rows, ticks, _MARGIN + len(runs) * _ROW)


def _plot(title: str, rows: Sequence[str], ticks: Sequence[tuple[float, str]], height: float) -> str:
    axes = "".join(
        f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>'
        f'<text x="{x:.1f}" y="{height + 14}" text-anchor="middle">{escape(label)}</text>'
        for x, label in ticks
    )
    return f'<svg viewBox="0 0 {_WIDTH + 40} {height + 20}" role="img" aria-label="{escape(title)}">{axes}{"".join(rows)}</svg>'


def _label(name: str, y: float) -> str:
    return f'<text x="{_x(0):.1f}" y="{y + 9}">{escape(name)}</text>'


def _x(share: float) -> float:
    return 20 + share * _WIDTH


def _row(cells: Sequence[str], *, text: int, cell: str = "td") -> str:
    """The first ``text`` cells are texts, the others numbers."""
    figure = f'<{cell} class="number">'
    inner = "".join(
        f"{f'<{cell}>' if place < text else figure}{escape(each)}</{cell}>"
        for place, each in enumerate(cells)
    )
    return f"<tr>{inner}</tr>"
