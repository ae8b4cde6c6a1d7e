"""Rows of jobs as the engine's records."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from newel.jobs.engine import Job
from newel.jobs.placement import Placement

JOBS: Final = (
    "SELECT j.id, j.kind, j.queue, j.params, j.state, j.attempts, j.created, j.updated, j.reason,"
    " coalesce((SELECT max(seq) FROM newel.events WHERE job = j.n), 0) AS seq,"
    " coalesce(j.fleet, '') AS fleet, j.result, j.worker, j.machine, q.labels"
    " FROM newel.jobs j JOIN newel.task_queues q ON q.name = j.task_queue"
)
"""Selects what these functions need."""


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


def iso(when: datetime) -> str:
    return when.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
