"""A conversation for those who know no tabs: say something, read what comes of it.

POST /chat {"message": "…"}     →  event: text | tool | error, and at the end event: done
POST /clear                     →  {"status": "ok"}
"""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated, Any

import anyio
import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from newel.agent.events import ErrorEvent, MessageEnd, ToolExecutionStart
from newel.agent.messages import AssistantMessage, UserMessage, Wire
from newel.web.event_stream import Events, EventStream
from newel.web.http_schema import WRITES, Failure, Json, answers, body_of, read_body
from newel.workbench.workbench import Workbench


class ChatRequest(Wire, frozen=True):
    """What the user says."""

    message: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000_000)]


class EmptyBody(Wire, frozen=True):
    """A body that nobody reads; it must be said to be JSON all the same."""


class ChatStatus(Wire, frozen=True, omit_defaults=False):
    status: str = "ok"


class TextEvent(Wire, frozen=True):
    content: str


class ToolEvent(Wire, frozen=True):
    name: str
    input: dict[str, Any]


def chat_routes(workbench: Workbench, closing: anyio.Event) -> APIRouter:
    router = APIRouter()

    @router.post(
        "/chat",
        responses=answers(None, 409, *WRITES, stream=("text", "tool", "error", "done")),
        response_class=Response,
        openapi_extra=body_of(ChatRequest),
        summary="Say something and stream the answer",
    )
    async def chat(request: Request) -> Response:
        """Events: ``text`` {content} for each text of the assistant, ``tool`` {name, input} as each call begins, ``error``
        {code, message} if the run failed, ``done`` {} at the end.
        """
        message = UserMessage(content=(await read_body(request, ChatRequest)).message)
        tab = await workbench.default_chat()
        under_way = await workbench.engine.get(tab.state.run) if tab.state.run else None
        runs = [(await tab.send(message), 0)]
        if under_way is not None and under_way.id != runs[0][0]:
            runs.insert(0, (under_way.id, under_way.seq))  # it may take the message along

        async def produce(events: Events) -> None:
            for run, after in runs:
                if await _tell(workbench, run, after, message, events):
                    break
            else:
                await events(
                    "error", Failure("not_answered", "The message was not answered: it was stopped.")
                )
            await events("done", {})

        return EventStream(produce, closing)

    @router.post(
        "/clear",
        responses=answers(ChatStatus, 409, *WRITES),
        response_class=Response,
        openapi_extra=body_of(EmptyBody),
        summary="Begin the conversation anew",
    )
    async def clear() -> Response:
        await (await workbench.default_chat()).clear()
        return Json(ChatStatus())

    return router


async def _tell(workbench: Workbench, run: str, after: int, message: UserMessage, events: Events) -> bool:
    """Tell what a run does about ``message``, to its end; False if it does not know it."""
    said = failed = False
    async with aclosing(workbench.hub.follow(run, after)) as items:
        async for item in items:
            match item.event:
                case MessageEnd(message=UserMessage(id=message.id)):
                    said = True
                case MessageEnd(message=AssistantMessage(text=text)) if said and text:
                    await events("text", TextEvent(text))
                case ToolExecutionStart(tool_name=name, args=args) if said:
                    await events("tool", ToolEvent(name, args))
                case ErrorEvent() as error if said and not error.is_notice:
                    failed = True
                    await events("error", Failure(error.code, error.message))
                case _:
                    pass
    job = await workbench.engine.get(run)
    if job is not None and job.state == "failed" and said and not failed:
        await events("error", Failure("run_failed", job.reason))
    return said
