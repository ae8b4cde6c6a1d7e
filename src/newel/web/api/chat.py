"""A plain chat without tabs: send a message, stream the answer.

POST /chat {"message": "…"}     →  event: text | tool | error, and at the end event: done
POST /clear                     →  {"status": "ok"}
"""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated

import anyio
import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from newel.agent.events import ErrorEvent, MessageEnd, ToolExecutionStart
from newel.agent.messages import AssistantMessage, UserMessage, Wire, now
from newel.jobs.engine import FINAL
from newel.runs.chat_turn import MAX_PENDING
from newel.web.event_stream import Events, EventStream
from newel.web.http_schema import Failure, Json, read_body, route
from newel.workbench.workbench import Workbench


class ChatRequest(Wire, frozen=True):
    """A message by the user."""

    message: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000_000)]


class EmptyBody(Wire, frozen=True):
    """An empty request body; `Content-Type: application/json` is still required."""


class ChatStatus(Wire, frozen=True, omit_defaults=False):
    status: str = "ok"


def chat_routes(workbench: Workbench, closing: anyio.Event) -> APIRouter:
    router = APIRouter()

    streamed = ("text", "tool", "error", "done")

    @router.post(
        "/chat",
        **route("Send a message and stream the answer", None, 409, body=ChatRequest, stream=streamed),
    )
    async def chat(request: Request) -> Response:
        """Events: ``text`` {content} for each text of the assistant, ``tool`` {name, input} when a call starts, ``error``
        {code, message} if the run fails, and ``done`` {} at the end.
        """
        message = UserMessage(content=(await read_body(request, ChatRequest)).message)
        tab = await workbench.default_chat()
        started = now()
        message_id = await tab.send(message)
        runs = await _possible_runs(workbench, tab.state.id, message_id, since=started)

        async def produce(events: Events) -> None:
            for run, after in runs:
                if await _stream_answer(workbench, run, after, message, events):
                    break
            else:
                await events(
                    "error",
                    Failure("not_answered", "The message was not answered because the chat was stopped."),
                )
            await events("done", {})

        return EventStream(produce, closing)

    @router.post("/clear", **route("Clear the conversation", ChatStatus, 409, body=EmptyBody))
    async def clear() -> Response:
        await (await workbench.default_chat()).clear()
        return Json(ChatStatus())

    return router


async def _possible_runs(
    workbench: Workbench, queue: str, message_id: str, *, since: str
) -> list[tuple[str, int]]:
    """The runs that may answer a message, with the number of the event to read from: its own job, and before that the older
    ones of the chat that were live at the time ``since``, each of which may take messages that are queued behind it.
    """
    jobs = await workbench.engine.find(queue=queue, limit=MAX_PENDING)  # the newest first
    ids = [job.id for job in jobs]
    older = jobs[ids.index(message_id) + 1 :] if message_id in ids else []
    return [
        *((job.id, 0) for job in reversed(older) if job.state not in FINAL or job.updated >= since),
        (message_id, 0),
    ]


async def _stream_answer(
    workbench: Workbench, run: str, after: int, message: UserMessage, events: Events
) -> bool:
    """Stream a run's answer to ``message``; False if the run does not contain the message."""
    is_answering = has_failed = False
    async with aclosing(workbench.hub.follow(run, after)) as items:
        async for item in items:
            match item.event:
                case MessageEnd(message=UserMessage(id=message.id)):
                    is_answering = True
                case MessageEnd(message=AssistantMessage(text=text)) if is_answering and text:
                    await events("text", {"content": text})
                case ToolExecutionStart(tool_name=name, args=args) if is_answering:
                    await events("tool", {"name": name, "input": args})
                case ErrorEvent(level="error") as error if is_answering:
                    has_failed = True
                    await events("error", Failure(error.code, error.message))
                case _:
                    pass
    job = await workbench.engine.get(run)
    if job is not None and job.state == "failed" and is_answering and not has_failed:
        await events("error", Failure("run_failed", job.reason))
    return is_answering
