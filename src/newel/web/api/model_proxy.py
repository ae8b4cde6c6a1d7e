"""The server's side of ``newel.providers.proxy``: whoever has the token asks the model with the server's key."""

from __future__ import annotations

import anyio
from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from newel.agent.errors import ProviderError
from newel.agent.events import Delta, ErrorEvent, Retry
from newel.agent.ports import ModelRequest, Provider
from newel.providers.proxy import PATH
from newel.web.event_stream import Events, EventStream
from newel.web.http_schema import WRITES, answers, body_of, read_body


def relay_routes(provider: Provider | None, closing: anyio.Event) -> APIRouter:
    """``provider`` makes retries and knows prices; None refuses."""
    router = APIRouter()

    @router.post(
        PATH,
        responses=answers(None, 503, *WRITES, stream=("delta", "retry", "message", "error")),
        response_class=Response,
        openapi_extra=body_of(ModelRequest),
        summary="Ask the model",
    )
    async def ask(request: Request) -> Response:
        """The answer as a stream: ``delta`` and ``retry``, and at the end ``message`` or ``error``. Closing the connection
        cancels the request.
        """
        wanted = await read_body(request, ModelRequest)
        if provider is None:
            raise HTTPException(503, "This server has no model to ask.")
        complete = provider.complete

        async def produce(events: Events) -> None:
            async def on_delta(delta: Delta | Retry) -> None:
                await events("retry" if isinstance(delta, Retry) else "delta", delta)

            try:
                message = await complete(wanted, on_delta)
            except ProviderError as error:
                await events("error", ErrorEvent(code=error.code, message=str(error)))
            else:
                await events("message", message)

        return EventStream(produce, closing)

    return router
