"""The leases that a process holds, by its own clock: the database may not be reachable when one ends."""

from __future__ import annotations

import time
from collections.abc import Sequence

from newel.jobs.engine import Lease, LeaseLost


class HeldLeases:
    """``length`` is that of a lease in seconds. The times are of this process's clock, from before the database was asked: by its clock, a
    lease ends later.
    """

    def __init__(self, length: float) -> None:
        self._length = length
        self._extended: dict[str, float] = {}
        self._leases: dict[str, Lease] = {}

    def add(self, lease: Lease, at: float) -> None:
        self._leases[lease.token] = lease
        self._extended[lease.token] = at

    def remove(self, lease: Lease) -> None:
        self._leases.pop(lease.token, None)
        self._extended.pop(lease.token, None)

    def extend(self, lease: Lease, at: float) -> None:
        if lease.token in self._leases:
            self._extended[lease.token] = at

    def all(self) -> list[Lease]:
        return list(self._leases.values())

    def holds(self, lease: Lease) -> bool:
        return lease.token in self._leases

    def check(self, lease: Lease) -> None:
        """Raises ``LeaseLost``."""
        if not self.holds(lease):
            raise taken_over(lease)

    def is_due(self, lease: Lease) -> bool:
        """Whether a third of it is used."""
        return time.monotonic() > self._extended.get(lease.token, 0.0) + self._length / 3

    def remaining(self, lease: Lease) -> float:
        """The seconds until it may be another's; a tenth less, for what has to be stopped by then."""
        return self._extended.get(lease.token, 0.0) + self._length * 0.9 - time.monotonic()

    def drop_expired(self, leases: Sequence[Lease]) -> set[str]:
        """Remove those that are not surely held any more; returns their jobs."""
        expired = [lease for lease in leases if not self.holds(lease) or self.remaining(lease) <= 0]
        for lease in expired:
            self.remove(lease)
        return {lease.job for lease in expired}


def taken_over(lease: Lease) -> LeaseLost:
    return LeaseLost(f"Run {lease.job} has been taken over by another worker.")
