"""What models and tools have used, from all that Newel has stored on this machine."""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread

from newel.contracts.usage import count_judges
from newel.review_jobs.usage import count_traces
from newel.session.usage.report import Tally, UsageQuery, UsageReport
from newel.session.usage.sessions import count_sessions


async def report_usage(home: Path, query: UsageQuery) -> UsageReport:
    """Add up the use in Newel's folder ``home``. It reads only; what cannot be read is named in the report."""
    tally = Tally(query)

    def count() -> None:
        count_sessions(home / "sessions", tally)
        count_traces(home / "traces", tally)

    await anyio.to_thread.run_sync(count)
    await count_judges(home, tally)
    return tally.report()
