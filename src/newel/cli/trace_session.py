"""The time line of a conversation, for ``newel trace``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from newel.agent.errors import SessionError
from newel.app.secrets import configured_secrets
from newel.session.masking import Masker
from newel.session.timeline import Timeline, TimelineStep, session_timeline
from newel.storage.files import replace_file
from newel.text.format import format_duration, usage_line
from newel.text.json import to_printable_json
from newel.text.sanitize import escape_line

SAID: Final = 160
"""Characters of a step's text that are listed."""


def show_session(path: Path, home: Path, *, html: str | None, as_json: bool, masked: bool) -> int:
    """Print the steps of a session, or write them to a page."""
    timeline = session_timeline(path, home / "sessions")
    secrets = configured_secrets(home, Path.cwd(), os.environ) if masked else []
    if html:
        return write_html(timeline, html, secrets, masked=masked)
    mask: Callable[[str], str] = Masker(secrets).text if masked else str
    if as_json:
        print(to_printable_json(_masked(timeline, mask)))
        return 0
    print(f"{escape_line(mask(timeline.title), SAID)}\nin {escape_line(timeline.project)}\n")
    for line in _lines(timeline.steps, mask, 0):
        print(line)
    for text in timeline.damage:
        print(f"Left out: {escape_line(text, SAID)}", file=sys.stderr)
    return 0


def write_html(timeline: Timeline, file: str, secrets: Sequence[str], *, masked: bool = True) -> int:
    """Write the page, readable by its owner only; an existing file is never overwritten. Raises ``SessionError``."""
    from newel.app.timeline_html import timeline_html

    target = Path(file).expanduser()
    if target.exists():
        raise SessionError(f"{target} exists already. Name another file.")
    mask: Callable[[str], str] = Masker(secrets).text if masked else str
    page = timeline_html(timeline, mask)
    try:
        replace_file(target, page.encode("utf-8", "replace"))
    except OSError as error:
        raise SessionError(f"The time line cannot be written to {target}: {error.strerror}.") from error
    print(f"Written to {target}")
    return 0


def _masked(timeline: Timeline, mask: Callable[[str], str]) -> Timeline:
    def masked(steps: Sequence[TimelineStep]) -> list[TimelineStep]:
        return [
            msgspec.structs.replace(step, text=mask(step.text), steps=masked(step.steps)) for step in steps
        ]

    return msgspec.structs.replace(timeline, title=mask(timeline.title), steps=masked(timeline.steps))


def _lines(steps: Sequence[TimelineStep], mask: Callable[[str], str], depth: int) -> Iterator[str]:
    from newel.app.timeline_html import retries_text

    for step in steps:
        began = datetime.fromtimestamp(step.start / 1000)  # noqa: DTZ006 — the user's time
        facts = [
            format_duration(step.duration) if step.duration else "",
            usage_line(step.usage, step.cost) if step.usage.total or step.cost is not None else "",
            retries_text(step) if step.retries else "",
            "failed" if step.failed else "",
        ]
        text = f"{'  ' * depth}{escape_line(mask(step.text), SAID)}"
        about = " · ".join(filter(None, facts))
        yield f"{began:%H:%M:%S.%f}"[:12] + f"  {step.kind:<10}  {text}{f'  {about}' if about else ''}"
        yield from _lines(step.steps, mask, depth + 1)
