"""A ``Provider`` for models that call tools badly: it asks for one step at a time, which the server holds to a JSON Schema."""

from __future__ import annotations

from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest, OnDelta, Provider


class StructuredProvider:
    """A ``Provider`` that asks models whose ``tool_calls`` are ``schema`` for steps, and any other model as it is."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """Ask the model; see ``Provider.complete``."""
        if request.model.tool_calls != "schema" or not request.tools:
            return await self._provider.complete(request, on_delta)
        from newel.providers.structured.step_request import request_step  # most models need none of it

        return await request_step(self._provider, request, on_delta)
