"""The tables of a journal, its changes and its queries.

Each change runs in a transaction; one that raises ``NewelError`` has changed nothing.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import msgspec

from newel.agent.messages import new_id, now
from newel.jobs.engine import (
    FINAL,
    EngineError,
    Job,
    JobCancelled,
    JobOutcome,
    JobState,
    JournalEntry,
    Lease,
    LeaseLost,
)
from newel.storage.sqlite import Format

MAX_READ_BYTES = 8 << 20
"""Of events, after which a read returns."""

_SUSPENDED = {"waiting", "asking"}
_JOB_FIELDS = ("id", "kind", "queue", "params", "state", "attempts", "created", "updated", "reason", "seq")
_JOBS = (
    "SELECT id, kind, queue, params, state, attempts, created, updated, reason,"
    " ifnull((SELECT max(seq) FROM events WHERE job = n), 0) FROM jobs "
)

FILE = "journal.db"
APPLICATION_ID = 0x6E65776C
"""``newl``"""

MIGRATIONS: tuple[Sequence[str], ...] = (
    (
        # The parameters come last: reads and updates of the other columns do not touch them.
        """
        CREATE TABLE jobs (
            n INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            key TEXT UNIQUE,
            kind TEXT NOT NULL,
            queue TEXT NOT NULL,
            state TEXT NOT NULL,
            attempts INTEGER NOT NULL,
            not_before REAL NOT NULL,
            cancelled TEXT,
            reason TEXT NOT NULL,
            created TEXT NOT NULL,
            updated TEXT NOT NULL,
            params BLOB NOT NULL
        )
        """,
        "CREATE INDEX jobs_by_state ON jobs (state, queue, n)",
        """
        CREATE TABLE events (
            job INTEGER NOT NULL,
            seq INTEGER NOT NULL,
            data BLOB NOT NULL,
            PRIMARY KEY (job, seq)
        ) WITHOUT ROWID
        """,
    ),
)
"""Each migrates to the next version, the first from an empty file. Only append to them."""

JOURNAL = Format(
    "journal",
    APPLICATION_ID,
    MIGRATIONS,
    error=EngineError,
    kept="the sessions are kept elsewhere and stay",
)


# -- changes ------------------------------------------------------------------------------------------


def submit(connection: sqlite3.Connection, kind: str, params: bytes, queue: str, key: str | None) -> str:
    if key is not None:
        row = connection.execute("SELECT n, id, state FROM jobs WHERE key = ?", (key,)).fetchone()
        if row is not None:
            n, job, state = row
            if state in _SUSPENDED:  # its worker released it, so no attempt has failed
                connection.execute("UPDATE jobs SET attempts = 0 WHERE n = ?", (n,))
                _set_state(connection, n, "queued")
            return str(job)
    job, time_now = new_id(), now()
    connection.execute(
        "INSERT INTO jobs (id, key, kind, queue, state, attempts, not_before, reason, created, updated, params)"
        " VALUES (?, ?, ?, ?, 'queued', 0, 0, '', ?, ?, ?)",
        (job, key, kind, queue, time_now, time_now, params),
    )
    return job


def claim(
    connection: sqlite3.Connection, free: int, worker: str, queues: Sequence[str] | None
) -> tuple[list[Lease], float | None]:
    """The leases; without any, the seconds until a delayed job may run, if there is one."""
    parameters = {"now": time.time(), "free": free, "queues": _json(queues)}
    heads = (
        " FROM jobs AS j WHERE state = 'queued'"
        " AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))"
        " AND NOT EXISTS (SELECT 1 FROM jobs WHERE state IN ('running', 'asking') AND queue = j.queue)"
        " AND NOT EXISTS (SELECT 1 FROM jobs WHERE state = 'queued' AND queue = j.queue AND n < j.n)"
    )
    columns = (
        "n, id, kind, queue, attempts + 1, ifnull((SELECT max(seq) FROM events WHERE job = n), 0), params"
    )
    runnable = "SELECT " + columns + heads + " AND not_before <= :now ORDER BY n LIMIT :free"
    rows = connection.execute(runnable, parameters).fetchall()
    leases: list[Lease] = []
    for n, job, kind, queue, attempt, seq, params in rows:
        connection.execute(
            "UPDATE jobs SET state = 'running', attempts = ?, updated = ? WHERE n = ?", (attempt, now(), n)
        )
        leases.append(
            Lease(job=job, kind=kind, queue=queue, params=params, attempt=attempt, seq=seq, worker=worker)
        )
    if leases:
        return leases, None
    due = connection.execute("SELECT min(not_before) - :now" + heads, parameters).fetchone()[0]
    return [], due


def append(connection: sqlite3.Connection, lease: Lease, events: Sequence[bytes], expect_seq: int) -> int:
    n, cancelled = _current(connection, lease)
    if cancelled is not None:
        raise JobCancelled(cancelled)
    return _add(connection, n, lease.job, events, expect_seq)


def annotate(
    connection: sqlite3.Connection,
    job: str,
    events: Sequence[bytes],
    expect_seq: int,
    outcome: JobOutcome | None,
) -> int:
    row = connection.execute(
        "SELECT n, state FROM jobs WHERE id = ? AND state NOT IN ('queued', 'running')", (job,)
    ).fetchone()
    if row is None:
        raise LeaseLost(
            f"Run {job} is queued or running, or does not exist; only its worker may add to its journal."
        )
    seq = _add(connection, row[0], job, events, expect_seq)
    if outcome is not None and row[1] in _SUSPENDED:
        _set_state(connection, row[0], outcome.state, outcome.reason)
    return seq


def purge(connection: sqlite3.Connection, job: str) -> bool:
    row = connection.execute("SELECT n, state FROM jobs WHERE id = ?", (job,)).fetchone()
    if row is None or row[1] not in FINAL:
        return False
    connection.execute("DELETE FROM events WHERE job = ?", (row[0],))
    connection.execute("DELETE FROM jobs WHERE n = ?", (row[0],))
    return True


def finish(connection: sqlite3.Connection, lease: Lease, outcome: JobOutcome) -> None:
    n, cancelled = _current(connection, lease)
    if cancelled is not None:
        _set_state(connection, n, "cancelled", cancelled)
    elif outcome.state == "retry":
        _set_state(connection, n, "queued", outcome.reason, not_before=time.time() + outcome.delay)
    else:
        _set_state(connection, n, outcome.state, outcome.reason)


def cancel(connection: sqlite3.Connection, job: str, reason: str) -> bool:
    row = connection.execute("SELECT n, state FROM jobs WHERE id = ?", (job,)).fetchone()
    match row:
        case (n, "queued" | "waiting" | "asking"):
            _set_state(connection, n, "cancelled", reason)
        case (n, "running"):
            connection.execute(
                "UPDATE jobs SET cancelled = ifnull(cancelled, ?) WHERE n = ?", (_utf8_safe(reason), n)
            )
        case _:
            return False
    return True


def suspend(connection: sqlite3.Connection, jobs: Sequence[str], reason: str) -> None:
    query = "SELECT n FROM jobs WHERE state = 'queued' AND id IN (SELECT value FROM json_each(?))"
    for (n,) in connection.execute(query, (_json(jobs),)).fetchall():
        _set_state(connection, n, "waiting", reason)


def take_over(connection: sqlite3.Connection) -> None:
    """Queue the jobs that the previous owner left running again; end those that were cancelled."""
    connection.execute(
        "UPDATE jobs SET state = 'cancelled', reason = cancelled, updated = ?"
        " WHERE state = 'running' AND cancelled IS NOT NULL",
        (now(),),
    )
    connection.execute("UPDATE jobs SET state = 'queued' WHERE state = 'running'")


def release_owner(connection: sqlite3.Connection) -> None:
    """An owner that closes properly has not died: its attempts do not count."""
    connection.execute("UPDATE jobs SET attempts = 0 WHERE state = 'running'")


def _add(connection: sqlite3.Connection, n: int, job: str, events: Sequence[bytes], expect_seq: int) -> int:
    last = connection.execute("SELECT ifnull(max(seq), 0) FROM events WHERE job = ?", (n,)).fetchone()[0]
    if last != expect_seq:
        raise LeaseLost(
            f"The journal of run {job} has {last} events instead of {expect_seq}: another worker has written to it."
        )
    connection.executemany(
        "INSERT INTO events (job, seq, data) VALUES (?, ?, ?)",
        ((n, seq, data) for seq, data in enumerate(events, last + 1)),
    )
    return int(last) + len(events)


def _current(connection: sqlite3.Connection, lease: Lease) -> tuple[int, str | None]:
    """The row of a leased job, and the reason if it was cancelled. Raises ``LeaseLost``."""
    row = connection.execute(
        "SELECT n, cancelled FROM jobs WHERE id = ? AND state = 'running' AND attempts = ?",
        (lease.job, lease.attempt),
    ).fetchone()
    if row is None:
        raise LeaseLost(f"Run {lease.job} has been taken over by another worker.")
    return row


def _set_state(
    connection: sqlite3.Connection, n: int, state: str, reason: str = "", *, not_before: float = 0.0
) -> None:
    connection.execute(
        "UPDATE jobs SET state = ?, reason = ?, not_before = ?, updated = ? WHERE n = ?",
        (state, _utf8_safe(reason), not_before, now(), n),
    )


def _utf8_safe(text: str) -> str:
    """A reason may quote invalid Unicode: replace it by question marks."""
    return text.encode("utf-8", "replace").decode()


# -- queries ------------------------------------------------------------------------------------------


def get(connection: sqlite3.Connection, job: str) -> Job | None:
    row = connection.execute(_JOBS + "WHERE id = ?", (job,)).fetchone()
    return _job(row) if row is not None else None


def find(
    connection: sqlite3.Connection,
    kind: str | None,
    queue: str | None,
    states: Sequence[JobState] | None,
    limit: int,
) -> list[Job]:
    matching = (
        "WHERE (:kind IS NULL OR kind = :kind) AND (:queue IS NULL OR queue = :queue)"
        " AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))"
        " ORDER BY n DESC LIMIT :limit"
    )
    parameters = {"kind": kind, "queue": queue, "states": _json(states), "limit": limit}
    return [_job(row) for row in connection.execute(_JOBS + matching, parameters).fetchall()]


def read(
    connection: sqlite3.Connection, job: str, after_seq: int, limit: int
) -> tuple[list[JournalEntry], bool]:
    """Events, and whether no more can come: the job has ended or does not exist."""
    # The state first: a job that has ended by now gets no more events.
    row = connection.execute("SELECT n, state FROM jobs WHERE id = ?", (job,)).fetchone()
    if row is None:
        return [], True
    events: list[JournalEntry] = []
    size = 0
    rows = connection.execute(
        "SELECT seq, data FROM events WHERE job = ? AND seq > ? ORDER BY seq LIMIT ?",
        (row[0], after_seq, limit),
    )
    with closing(rows):  # an open cursor would keep SQLite from truncating its log
        for seq, data in rows:
            events.append(JournalEntry(job=job, seq=seq, data=data))
            size += len(data)
            if size > MAX_READ_BYTES:
                break
    return events, row[1] in FINAL


def events_of_kind(connection: sqlite3.Connection, kind: str, beginning: bytes) -> list[tuple[bytes, bytes]]:
    """The events that begin so, of all jobs of a kind, each with its job's parameters."""
    return connection.execute(
        "SELECT params, data FROM jobs JOIN events ON job = n WHERE kind = ? AND substr(data, 1, ?) = ?",
        (kind, len(beginning), beginning),
    ).fetchall()


def valid_leases(connection: sqlite3.Connection, leases: Sequence[Lease]) -> set[str]:
    """The jobs whose lease is valid and which are not cancelled."""
    rows = connection.execute(
        "SELECT jobs.id FROM json_each(?) AS held JOIN jobs ON jobs.id = json_extract(held.value, '$[0]')"
        " WHERE attempts = json_extract(held.value, '$[1]') AND state = 'running' AND cancelled IS NULL",
        (_json([(lease.job, lease.attempt) for lease in leases]),),
    )
    return {row[0] for row in rows.fetchall()}


def _job(row: tuple[Any, ...]) -> Job:
    return Job(**dict(zip(_JOB_FIELDS, row, strict=True)))


def _json(values: Sequence[object] | None) -> str | None:
    """Values as one parameter, for ``json_each``; None stays NULL."""
    return None if values is None else msgspec.json.encode(values).decode()
