"""Holds the answers of a whole agent to a JSON Schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from newel.providers.structured.answer_holder import AnswerHolder
    from newel.session.coding_agent import CodingAgent
    from newel.text.json_schema import AnswerSchema


def hold(agent: CodingAgent, schema: AnswerSchema) -> AnswerHolder:
    """Hold the last answer of each of the agent's runs to ``schema``, also where hooks stand before its transport."""
    from newel.hooks.hooked_run import HookedTransport
    from newel.providers.structured.answer_holder import hold_answers

    transport = agent.transport
    if isinstance(transport, HookedTransport):
        transport = transport.inner
    return hold_answers(agent, schema, transport)
