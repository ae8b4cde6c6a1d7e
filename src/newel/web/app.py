"""The application: the page, its socket, and the HTTP interface for everybody else.

GET  /                         the page; /static/… its files
POST /api/login                the page's way in
WS   /ws                       the page's socket (docs/protocol.md)
POST /chat, /clear             a plain chat
GET  /api/state, /health       how things stand
GET  /api/runs/{run}/events    a run's events, in pages or as a stream
     /api/agent/…              jobs that propose changes, and their review (docs/review-api.md)
POST /api/transport/run        the model, for who has no key
GET  /docs, /openapi.json      all this
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import anyio
import msgspec
from fastapi import APIRouter, FastAPI, Request, WebSocket
from starlette.responses import Response

from newel.agent.messages import Wire, new_id
from newel.agent.ports import ModelRequest, Provider
from newel.mcp.server_status import ServerStatus
from newel.runs.models import Tab
from newel.web.access import ServerAccess
from newel.web.api.chat import ChatRequest, ChatStatus, EmptyBody, chat_routes
from newel.web.api.model_proxy import relay_routes
from newel.web.api.runs import EventPage, run_routes
from newel.web.http_schema import (
    WRITES,
    Failed,
    Json,
    answers,
    body_of,
    describe,
    failed,
    handle_failures,
    read_body,
)
from newel.web.ports import Desk, ServerInfo, WorkbenchPort
from newel.web.security import PATIENCE, SecurityMiddleware
from newel.web.static_files import STATIC, page_routes
from newel.web.websocket import serve_socket

DESCRIPTION = (
    "A coding agent's workbench. Programs send the token that the server printed at its start as 'Authorization: "
    "Bearer …'; bodies are JSON."
)
WRONG_TOKEN_DELAY = 0.25
"""Seconds that the answer to a wrong token takes."""


class Login(Wire, frozen=True):
    token: Annotated[str, msgspec.Meta(max_length=256)]


class AppState(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """The tabs in their order, and the MCP servers."""

    tabs: list[Tab]
    servers: list[ServerStatus]


class Health(Wire, frozen=True, kw_only=True, omit_defaults=False):
    status: str = "ok"
    newel: str
    """The program's version."""


def create_app(
    board: WorkbenchPort,
    *,
    about: ServerInfo,
    door: ServerAccess,
    closing: anyio.Event,
    relay: Provider | None = None,
    desk: Desk | None = None,
    static: Path = STATIC,
    patience: float = PATIENCE,
) -> FastAPI:
    """The ASGI application, its gate included. ``relay`` answers ``/api/transport/run``, ``desk`` whatever
    begins with ``/api/agent/``; ``closing`` ends the streams; ``patience`` is for readers that take nothing, in seconds.
    """
    app = FastAPI(
        title="Newel",
        version=about.newel,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.include_router(page_routes(app, static))
    app.include_router(_login_routes(door))
    app.include_router(_state_routes(board, about))
    app.include_router(chat_routes(board, closing))
    app.include_router(run_routes(board, closing))
    app.include_router(relay_routes(relay, closing))
    kinds: list[type] = [
        Failed,
        Login,
        ChatStatus,
        AppState,
        Health,
        ChatRequest,
        EmptyBody,
        EventPage,
        ModelRequest,
    ]
    if desk is not None:
        from newel.web.api import review

        app.state.review, app.state.closing = desk, closing
        app.include_router(review.router)
        kinds += review.KINDS
    server = new_id()

    @app.websocket("/ws")
    async def socket(websocket: WebSocket) -> None:
        await serve_socket(websocket, board, about, server, review=desk is not None)

    handle_failures(app)
    describe(app, kinds)
    app.add_middleware(SecurityMiddleware, door=door, patience=patience)
    return app


def _login_routes(door: ServerAccess) -> APIRouter:
    router = APIRouter()

    @router.post(
        "/api/login",
        responses=answers(ChatStatus, *WRITES),
        response_class=Response,
        openapi_extra=body_of(Login),
        summary="Change the token for a cookie",
    )
    async def login(request: Request) -> Response:
        """For the page, which finds the token in its URL."""
        if not door.opens([(await read_body(request, Login)).token]):
            await anyio.sleep(WRONG_TOKEN_DELAY)
            return failed(
                401, "unauthorized", "This token is not the server's. Open the URL that it printed."
            )
        answer = Json(ChatStatus())
        answer.set_cookie(door.cookie, door.token, httponly=True, samesite="strict", path="/")
        return answer

    return router


def _state_routes(board: WorkbenchPort, about: ServerInfo) -> APIRouter:
    router = APIRouter()

    @router.get(
        "/api/state", responses=answers(AppState), response_class=Response, summary="The tabs and the servers"
    )
    async def state() -> Response:
        return Json(AppState(tabs=board.tabs, servers=board.statuses()))

    @router.get("/health", responses=answers(Health), response_class=Response, summary="Whether it works")
    async def health() -> Response:
        return Json(Health(newel=about.newel))

    return router
