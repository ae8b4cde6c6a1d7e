"""A time line as one self-contained HTML page: no script, no request to anywhere, everything escaped.

Where nothing happened for long, the axis is cut, so that the steps of a conversation of days can be told apart. Bars are SVG: the
page's policy allows no style but that of its head.
"""

from __future__ import annotations

import html
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final

from newel.agent.messages import Usage, add_costs
from newel.session.timeline import Timeline, TimelineStep
from newel.text.format import format_cost, format_duration, short_number, usage_line
from newel.text.html_page import html_page
from newel.text.sanitize import escape_line

MAX_ROWS: Final = 5_000
MAX_TEXT: Final = 300
WIDTH: Final = 1000
"""Units of the axis."""
LONGEST_GAP_MS: Final = 5_000
"""Of the axis that a time without any step takes."""
NARROWEST: Final = 2.0

_STYLE: Final = """
:root { --model: #0b6e6e; --tool: #6b3fa8; --wait: #c9a04a; --compaction: #5c6066; }
@media (prefers-color-scheme: dark) { :root { --model: #4fc3c3; --tool: #c3a1f2; --wait: #b08a3a; --compaction: #9aa0a8; } }
body { margin: 0 auto; max-width: 1400px; padding: 24px 16px 64px; background: var(--ground); color: var(--text);
  font: 14px/1.5 system-ui, sans-serif; }
header { border-bottom: 1px solid var(--line); padding-bottom: 12px; }
h1 { font-size: 20px; margin: 0 0 4px; overflow-wrap: anywhere; }
.facts, .legend, .took, time, .note { color: var(--dim); font-size: 13px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; padding: 12px 0; margin: 0; list-style: none; }
.legend svg { width: 12px; height: 12px; vertical-align: -1px; margin-right: 6px; }
.scroll { overflow-x: auto; }
.scroll:focus-visible { outline: 2px solid var(--accent); }
table { width: 100%; min-width: 760px; border-collapse: collapse; table-layout: fixed; }
th, td { padding: 3px 8px; border-top: 1px solid var(--line); text-align: left; vertical-align: top; }
thead th { border-top: 0; color: var(--dim); font-size: 13px; font-weight: 400; }
.c-time { width: 108px; } .c-step { width: 34%; } .c-took { width: 96px; } .c-used { width: 176px; }
.step { font: 13px/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
.kind { color: var(--dim); }
.prompt .step { color: var(--accent); font-weight: 600; }
.failed .step { color: var(--bad); }
.d1 .step { padding-left: 24px; } .d2 .step { padding-left: 40px; } .d3 .step { padding-left: 56px; }
.axis svg { display: block; width: 100%; height: 16px; background: var(--sunken); border-radius: 2px; }
.model rect, rect.model { fill: var(--model); } .tool rect, rect.tool { fill: var(--tool); }
.wait rect, rect.wait { fill: var(--wait); } .compaction rect, rect.compaction { fill: var(--compaction); }
.prompt rect, .note-step rect, rect.prompt { fill: var(--strong); }
svg rect.retry { fill: var(--bad); }
th.c-took, th.c-used, td.took { text-align: right; }
@media print { .scroll { overflow: visible; } table { min-width: 0; } }
"""

_LEGEND: Final = (
    ("model", "request to a model"),
    ("tool", "tool call"),
    ("wait", "wait for the user"),
    ("compaction", "compaction"),
    ("retry", "retry"),
)


def timeline_html(timeline: Timeline, mask: Callable[[str], str]) -> str:
    """The page; ``mask`` replaces secrets in texts."""
    rows = list(_rows(timeline.steps, 0))
    axis = _Axis([step for step, _ in rows])
    body = [_legend(), _table(rows[:MAX_ROWS], axis, mask)]
    if len(rows) > MAX_ROWS:
        body.append(f'<p class="note">{len(rows) - MAX_ROWS:,} further steps are left out.</p>')
    body += [f'<p class="note">Left out: {_text(mask(each))}</p>' for each in timeline.damage]
    facts = [escape_line(timeline.project, MAX_TEXT), *_facts(timeline.steps, rows)]
    title = escape_line(mask(timeline.title), 100)
    return html_page(title, [fact for fact in facts if fact], "\n".join(body), style=_STYLE)


def _rows(steps: Sequence[TimelineStep], depth: int) -> Iterator[tuple[TimelineStep, int]]:
    for step in steps:
        yield step, depth
        yield from _rows(step.steps, depth + 1)


def _facts(steps: Sequence[TimelineStep], rows: Sequence[tuple[TimelineStep, int]]) -> list[str]:
    """What the conversation used; calls that ran an agent have the agent's use, whose steps are not counted again."""
    usage, cost = Usage(), None
    for step in steps:
        usage, cost = usage + step.usage, add_costs(cost, step.cost)

    def time_of(*kinds: str) -> float:
        return sum(step.duration for step in steps if step.kind in kinds)

    retries = sum(len(step.retries) for step, _ in rows)
    return [
        _formatted(steps[0].start, "%Y-%m-%d %H:%M") if steps else "",
        usage_line(usage, cost),
        f"model {format_duration(time_of('model', 'compaction'))}",
        f"tools {format_duration(time_of('tool'))}",
        f"waits {format_duration(time_of('wait'))}",
        _retries(retries) if retries else "",
    ]


class _Axis:
    """Places times on the axis, with long gaps cut."""

    def __init__(self, steps: Sequence[TimelineStep]) -> None:
        self._begins: list[float] = []
        self._places: list[float] = []
        place, end = 0.0, 0.0
        for step in sorted(steps, key=lambda step: step.start):
            if not self._begins or step.start - end > LONGEST_GAP_MS:
                place += (end - self._begins[-1] + LONGEST_GAP_MS) if self._begins else 0.0
                self._begins.append(step.start)
                self._places.append(place)
                end = step.start
            end = max(end, step.end)
        total = place + (end - self._begins[-1] if self._begins else 0.0)
        self._scale = WIDTH / total if total > 0 else 0.0

    def at(self, time: float) -> float:
        part = max(bisect_right(self._begins, time) - 1, 0)
        return (self._places[part] + time - self._begins[part]) * self._scale


def _legend() -> str:
    items = (
        f'<li><svg viewBox="0 0 12 12" aria-hidden="true"><rect class="{kind}" width="12" height="12"/></svg>{words}</li>'
        for kind, words in _LEGEND
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def _table(rows: Sequence[tuple[TimelineStep, int]], axis: _Axis, mask: Callable[[str], str]) -> str:
    lines: list[str] = []
    day = _day(rows[0][0].start) if rows else ""
    for step, depth in rows:
        today = _day(step.start)
        lines.append(_row(step, depth, axis, mask, day=today if today != day else ""))
        day = today
    heads = "".join(
        f'<th scope="col" class="c-{name}">{title}</th>'
        for name, title in (
            ("time", "Time"),
            ("step", "Step"),
            ("axis", "Time axis"),
            ("took", "Duration"),
            ("used", "Tokens"),
        )
    )
    return f"""<div class="scroll" tabindex="0" role="region" aria-label="Steps"><table>
<thead><tr>{heads}</tr></thead>
<tbody>
{chr(10).join(lines)}
</tbody></table></div>"""


def _row(step: TimelineStep, depth: int, axis: _Axis, mask: Callable[[str], str], *, day: str) -> str:
    """``day`` is the heading of a new day, "" within one."""
    kind = "note-step" if step.kind == "note" else step.kind
    classes = f"{kind}{f' d{min(depth, 3)}' if depth else ''}{' failed' if step.failed else ''}"
    start, end = axis.at(step.start), axis.at(step.end)
    bar = f'<rect x="{min(start, WIDTH - NARROWEST):.2f}" width="{max(end - start, NARROWEST):.2f}" y="2" height="12"/>'
    ticks = "".join(
        f'<rect class="retry" x="{axis.at(step.start + after):.2f}" width="3" y="0" height="16"/>'
        for after in step.retries[:100]
    )
    words = _text(mask(step.text)) + (" (failed)" if step.failed else "")
    if step.retries:
        words += f" · {retries_text(step)}"
    took = format_duration(step.duration) if step.duration else ""
    return (
        f'<tr class="{classes}"><td><time>{f"{day} {_clock(step.start)}".strip()}</time></td>'
        f'<td class="step"><span class="kind">{step.kind}</span> {words}</td>'
        f'<td class="axis"><svg viewBox="0 0 {WIDTH} 16" preserveAspectRatio="none" aria-hidden="true">{bar}{ticks}</svg></td>'
        f'<td class="took">{took}</td><td class="took">{_used(step)}</td></tr>'
    )


def _used(step: TimelineStep) -> str:
    parts: list[str] = []
    if step.usage.total:
        cached = f" ({short_number(step.usage.cache_read)} cached)" if step.usage.cache_read else ""
        parts += [f"{short_number(step.usage.input)} in{cached}", f"{short_number(step.usage.output)} out"]
    if step.cost is not None:
        parts.append(format_cost(step.cost))
    return html.escape(" · ".join(parts))


def _text(text: str) -> str:
    return html.escape(escape_line(text, MAX_TEXT))


def retries_text(step: TimelineStep) -> str:
    return _retries(len(step.retries))


def _retries(count: int) -> str:
    return "1 retry" if count == 1 else f"{count:,} retries"


def _clock(milliseconds: float) -> str:
    return _formatted(milliseconds, "%H:%M:%S.%f")[:12]


def _day(milliseconds: float) -> str:
    return _formatted(milliseconds, "%Y-%m-%d")


def _formatted(milliseconds: float, form: str) -> str:
    """A time here; empty for one that no calendar has."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000).strftime(form)  # noqa: DTZ006 — the user's time
    except (ValueError, OverflowError, OSError):
        return ""
