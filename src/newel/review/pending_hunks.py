"""Counts the hunks that wait for a decision."""

from __future__ import annotations

from newel.review.store.ledger import Ledger, Revision


class PendingHunks:
    """Counts the pending hunks of a ledger, again and again: a file is read again only when its review has changed."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._counted: dict[str, tuple[Revision, int]] = {}

    def count(self) -> int:
        """Blocks. Raises ``LedgerError``."""
        before, self._counted = self._counted, {}
        for path, revision in self.ledger.revisions().items():
            known = before.get(path)
            if known is None or known[0] != revision:
                known = (revision, self.ledger.hunk_states(path).count("pending"))
            self._counted[path] = known
        return sum(count for _, count in self._counted.values())
