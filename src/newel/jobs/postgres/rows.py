"""Rows of jobs as the engine's records."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from newel.jobs.engine import Job, JournalEntry
from newel.jobs.placement import Placement
from newel.jobs.queries import MAX_READ_BYTES

JOBS: Final = (
    "SELECT j.id, j.kind, j.queue, j.params, j.state, j.attempts, j.created, j.updated, j.reason,"
    " coalesce((SELECT max(seq) FROM newel.events WHERE job = j.n), 0) AS seq,"
    " coalesce(j.fleet, '') AS fleet, j.result, j.worker, j.machine, q.labels"
    " FROM newel.jobs j JOIN newel.task_queues q ON q.name = j.task_queue"
)
"""Selects what these functions need."""
_ENTRIES: Final = """
    SELECT seq, data FROM (
        SELECT seq, data, sum(length(data)) OVER (ORDER BY seq) - length(data) AS before FROM (
            SELECT seq, data FROM newel.events WHERE job = $1 AND seq > $2::bigint ORDER BY seq LIMIT $3
        ) AS page
    ) AS sized WHERE before <= $4 ORDER BY seq
"""


def job_of(row: Any) -> Job:
    values: dict[str, Any] = {name: row[name] for name in Job.__struct_fields__}
    values["created"], values["updated"] = iso(row["created"]), iso(row["updated"])
    return Job(**values)


def placement_of(row: Any) -> Placement:
    return Placement(
        job=job_of(row),
        fleet=row["fleet"],
        result=row["result"],
        labels=list(row["labels"]),
        worker=row["worker"],
        machine=row["machine"],
    )


async def fetch_entries(
    connection: Any, number: int, job: str, after_seq: int, limit: int
) -> list[JournalEntry]:
    """The events of job ``job``, whose row has that ``number``, after an event. A page of long ones is shorter than ``limit``: only an
    empty page is the last.
    """
    rows = await connection.fetch(_ENTRIES, number, after_seq, limit, MAX_READ_BYTES)
    return [JournalEntry(job=job, seq=seq, data=data) for seq, data in rows]


def iso(when: datetime) -> str:
    return when.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
