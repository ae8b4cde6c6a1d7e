"""How long a ledger keeps the changes of agents."""

from __future__ import annotations

from newel.agent.messages import Wire


class RetentionPolicy(Wire, frozen=True, kw_only=True):
    """The retention policy: the latest ``runs`` and all of the last ``days`` are kept. Fewer if the ledger takes more than
    ``size`` bytes, but always all of the last day.
    """

    runs: int = 200
    days: int = 30
    size: int = 2 << 30
