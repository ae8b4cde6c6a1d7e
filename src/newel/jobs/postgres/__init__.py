"""The engine for many machines: jobs in PostgreSQL, leased by absurd. Needs the extra `newel[fleet]`."""
