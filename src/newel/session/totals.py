"""What a conversation has used."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Final

import msgspec

from newel.agent.messages import AppMessage, AssistantMessage, CustomMessage, ToolResultMessage, Usage
from newel.agent.transform import COMPACTION


class SessionTotals(msgspec.Struct, frozen=True):
    """The usage of a conversation: ``cost`` in US dollars, None if no price is known; ``context`` is the size of the last
    request in tokens.
    """

    usage: Usage
    cost: float | None
    context: int


NOTHING_USED: Final = SessionTotals(Usage(), None, 0)


def totals(messages: Iterable[AppMessage], earlier: SessionTotals = NOTHING_USED) -> SessionTotals:
    """Add up the usage of a conversation, including its compactions and subagents. ``earlier`` is that of the messages before these."""
    return reduce(add_message, messages, earlier)


def add_message(earlier: SessionTotals, message: AppMessage) -> SessionTotals:
    """The totals after one more message: the same object if it used nothing."""
    context = earlier.context
    match message:
        case AssistantMessage():
            used, price = message.usage, message.cost
            context = used.total or context
        case ToolResultMessage(usage=used, cost=price) if used.total:
            pass
        case CustomMessage(name=name, data={"usage": counted, **rest}) if name == COMPACTION:
            used, price = msgspec.convert(counted, Usage), msgspec.convert(rest.get("cost"), float | None)
        case _:
            return earlier
    cost = earlier.cost if price is None else (earlier.cost or 0.0) + price
    return SessionTotals(earlier.usage + used, cost, context)
