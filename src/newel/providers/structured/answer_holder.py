"""Holds the last answer of each run to the user's JSON Schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from newel.agent.agent import Agent, AgentTransport, MessageQueue, ProviderTransport
from newel.agent.errors import ConfigError, RequestRejected
from newel.agent.events import AgentEvent, AgentStart
from newel.agent.messages import AppMessage, AssistantMessage, UserMessage
from newel.agent.ports import ModelRequest, OnDelta, Provider
from newel.text.json import to_json
from newel.text.json_schema import AnswerSchema, MisfitAnswer

MAX_OBJECTIONS: Final = 2
"""Corrections of an answer that does not fit, in one run."""

INSTRUCTIONS: Final = """

# Your last answer

A program reads your last answer. When the work is done, answer with one JSON value and nothing else: no other words, no
code block. It has to fit this JSON Schema:

"""

OBJECTION: Final = "Your answer does not fit the JSON Schema: {problem}\n\nAnswer again, with one JSON value that fits it and nothing else."


class AnswerHolder:
    """A ``Provider`` that asks for an answer under a schema, and a ``Queue`` that continues a run whose answer does not fit.

    The model works with its tools first. Where it has none, and after an objection, the server itself holds the answer to the
    schema, if it can.
    """

    def __init__(self, schema: AnswerSchema, provider: Provider, queue: MessageQueue) -> None:
        self.value: Any = UNSET
        self.text = ""
        self.problem = ""
        self._schema = schema
        self._provider = provider
        self._queue = queue
        self._objections = 0
        self._instructions = INSTRUCTIONS + to_json(schema.document).decode()
        self._answer: AssistantMessage | None = None

    def on_event(self, event: AgentEvent) -> None:
        """A subscriber: every run begins anew."""
        if isinstance(event, AgentStart):
            self.value, self.text, self.problem = UNSET, "", ""
            self._objections, self._answer = 0, None

    # -- provider ---------------------------------------------------------------------------------

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """Ask the model; see ``Provider.complete``."""
        short = request.short_prompt
        request = msgspec.structs.replace(
            request,
            system_prompt=request.system_prompt + self._instructions,
            short_prompt=short + self._instructions if short else "",
        )
        self._answer = await self._complete(request, on_delta)
        return self._answer

    async def _complete(self, request: ModelRequest, on_delta: OnDelta) -> AssistantMessage:
        if request.tools and not self._objections:
            return await self._provider.complete(request, on_delta)
        held = msgspec.structs.replace(request, tools=[], response_schema=self._schema.document)
        try:
            return await self._provider.complete(held, on_delta)
        except RequestRejected:
            # It knows no schemas, or not this one, or requires the tools of earlier calls. The answer is checked anyway.
            return await self._provider.complete(request, on_delta)

    # -- queue ------------------------------------------------------------------------------------

    def stop_requested(self) -> bool:
        return self._queue.stop_requested()

    def steering(self) -> list[AppMessage]:
        return self._queue.steering()

    def give_back(self, messages: Sequence[AppMessage]) -> None:
        """Take back messages that a run has taken and not sent."""
        self._queue.give_back(messages)

    def follow_up(self) -> list[AppMessage]:
        """The queued messages; without any, an objection to an answer that does not fit."""
        if messages := self._queue.follow_up():
            return messages
        try:
            self.value, self.text = self._schema.read(self._answer.text if self._answer else "")
        except MisfitAnswer as error:
            self.problem = f"The answer does not fit the schema: {error}"
            if self._objections == MAX_OBJECTIONS:
                return []
            self._objections += 1
            return [UserMessage(OBJECTION.format(problem=error))]
        self.problem = ""
        return []


def hold_answers(agent: Agent, schema: AnswerSchema, transport: AgentTransport) -> AnswerHolder:
    """Hold the last answer of each of the agent's runs to ``schema``. The agent must ask its model itself, by ``transport``."""
    if not isinstance(transport, ProviderTransport):
        raise ConfigError("--schema needs an agent that asks its model itself.")
    holder = AnswerHolder(schema, transport.provider, agent.queue)
    transport.provider = holder
    agent.state.config = msgspec.structs.replace(agent.state.config, queue=holder)
    agent.subscribe(holder.on_event)
    return holder
