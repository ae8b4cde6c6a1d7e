"""Errors of job snapshots."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path

from newel.agent.errors import NewelError


class SnapshotError(NewelError):
    """A job's folder cannot be saved, stored or restored. The message names the job, the place and the remedy."""


@contextlib.contextmanager
def disk_errors(folder: Path) -> Generator[None]:
    """Turns the errors of the disk into ``SnapshotError``."""
    try:
        yield
    except OSError as error:
        words = error.strerror or str(error)
        raise SnapshotError(
            f"{error.filename or folder} cannot be used: {words}. Free some space, or check the permissions of {folder}."
        ) from error
