"""The schema of the journal's file, and its migrations."""

from __future__ import annotations

from collections.abc import Sequence

from newel.jobs.engine import EngineError
from newel.storage.sqlite import Format

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
