"""Server side of ``newel.providers.proxy``: clients with the server's token use the model with the server's key."""

from __future__ import annotations

import anyio
import msgspec
from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from newel.agent.errors import NewelError
from newel.agent.events import ErrorEvent, ModelRouted, Retry
from newel.agent.ports import ModelRequest, Provider, ProviderEvent
from newel.providers.proxy import PATH
from newel.web.event_stream import Events, EventStream
from newel.web.http_schema import read_body, route


def relay_routes(provider: Provider | None, closing: anyio.Event) -> APIRouter:
    """``provider`` retries and knows prices. With None every request is refused."""
    router = APIRouter()

    streamed = ("delta", "retry", "routed", "message", "error")

    @router.post(PATH, **route("Send a request to the model", None, 503, body=ModelRequest, stream=streamed))
    async def ask(request: Request) -> Response:
        """Streams ``delta``, ``retry`` and ``routed``, and at the end ``message`` or ``error``. Closing the connection cancels the
        request.
        """
        # Which model works is this server's setting, not the client's.
        model_request = msgspec.structs.replace(await read_body(request, ModelRequest), agent_mode=None)
        if provider is None:
            raise HTTPException(503, "This server has no model.")
        complete = provider.complete

        async def produce(events: Events) -> None:
            async def on_delta(event: ProviderEvent) -> None:
                match event:
                    case Retry():
                        await events("retry", event)
                    case ModelRouted():
                        await events("routed", event)
                    case _:
                        await events("delta", event)

            try:
                message = await complete(model_request, on_delta)
            except NewelError as error:
                await events("error", ErrorEvent(code=error.code, message=str(error)))
            else:
                await events("message", message)

        return EventStream(produce, closing)

    return router
