"""Errors of job snapshots."""

from __future__ import annotations

from newel.agent.errors import NewelError


class SnapshotError(NewelError):
    """A job's folder cannot be saved, stored or restored. The message names the job, the place and the remedy."""
