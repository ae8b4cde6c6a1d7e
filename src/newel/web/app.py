"""The web application: the page, its socket, and the HTTP API.

GET  /                         the page; /static/… its files
GET  /api/login                the nonce of this start; POST: the server's proof for the page (page_login.py)
WS   /ws                       the page's socket (docs/protocol.md)
POST /chat, /clear             the default chat
GET  /api/state, /health       tabs and servers, the version
GET  /api/permissions          the rules and servers of the project; POST …/revoke
GET  /api/usage                what models and tools have used
     /api/trust                what the project brings that waits for trust, and the decision
     /api/fleets, fleet-jobs   what runs on the machines of a fleet (docs/fleet.md)
GET  /api/runs/{run}/events    a run's events, in pages or as a stream
     /api/agent/…              jobs that propose changes, and their review (docs/review-api.md)
POST /api/transport/run        the model, for programs without its key
GET  /docs, /openapi.json      this API
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from fastapi import APIRouter, FastAPI, Request, WebSocket
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response

from newel.agent.messages import Wire, new_id
from newel.agent.ports import ModelRequest, Provider
from newel.mcp.types import ServerStatus
from newel.runs.models import Tab
from newel.web.api.chat import ChatRequest, ChatStatus, EmptyBody, chat_routes
from newel.web.api.fleets import KINDS as FLEET_KINDS
from newel.web.api.fleets import FleetDesk, fleet_routes
from newel.web.api.model_proxy import relay_routes
from newel.web.api.permissions import KINDS as PERMISSION_KINDS
from newel.web.api.permissions import permission_routes
from newel.web.api.runs import EventPage, run_routes
from newel.web.api.trust import KINDS as TRUST_KINDS
from newel.web.api.trust import TrustDesk, trust_routes
from newel.web.api.usage import KINDS as USAGE_KINDS
from newel.web.api.usage import ReportUsage, usage_routes
from newel.web.http_schema import ErrorResponse, Json, describe, handle_failures, read_body, route
from newel.web.page_login import LoginChallenge, LoginNonce, LoginProof
from newel.web.security import SEND_TIMEOUT_S, SecurityMiddleware, ServerAccess
from newel.web.static_files import STATIC, page_routes
from newel.web.websocket import ServerInfo, serve_socket
from newel.workbench.workbench import Workbench

if TYPE_CHECKING:
    from newel.review_jobs.service import ReviewService

DESCRIPTION = (
    "A coding agent's workbench. Send the token that the server printed at its start as 'Authorization: Bearer …'. "
    "Bodies are JSON."
)
COMPRESSED_FROM = 16 * 1024
"""Bytes of JSON from which on an answer is compressed. Streams of events never are: each event has to arrive at once."""
COMPRESSION_LEVEL = 3


class AppState(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """The tabs in their order, and the MCP servers."""

    tabs: list[Tab]
    servers: list[ServerStatus]


class Health(Wire, frozen=True, kw_only=True, omit_defaults=False):
    status: str = "ok"
    newel: str
    """The program's version."""


KINDS: list[type] = [
    ErrorResponse,
    LoginNonce,
    LoginChallenge,
    LoginProof,
    ChatStatus,
    AppState,
    Health,
    ChatRequest,
    EmptyBody,
    EventPage,
    ModelRequest,
]


def create_app(
    workbench: Workbench,
    *,
    info: ServerInfo,
    access: ServerAccess,
    closing: anyio.Event,
    relay: Provider | None = None,
    open_review: Callable[[], AbstractAsyncContextManager[ReviewService]] | None = None,
    report_usage: ReportUsage | None = None,
    trust: TrustDesk | None = None,
    fleets: FleetDesk | None = None,
    static: Path = STATIC,
    send_timeout: float = SEND_TIMEOUT_S,
) -> FastAPI:
    """The ASGI application and its security middleware. ``relay`` answers ``/api/transport/run``, the service of ``open_review``
    ``/api/agent/…``, ``report_usage`` ``/api/usage``, ``trust`` ``/api/trust``, ``fleets`` ``/api/fleets``; ``closing`` ends the streams;
    ``send_timeout`` is for readers that take nothing, in seconds.
    """
    app = FastAPI(
        title="Newel",
        version=info.newel,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    for router in (
        page_routes(app, static),
        _login_routes(access),
        _state_routes(workbench, info),
        chat_routes(workbench, closing),
        run_routes(workbench, closing),
        permission_routes(workbench),
        relay_routes(relay, closing),
    ):
        app.include_router(router)
    kinds = [*KINDS, *PERMISSION_KINDS]
    for router, of_router in _optional_routes(workbench, report_usage, trust, fleets, closing):
        app.include_router(router)
        kinds += of_router
    if open_review is not None:
        from newel.web.api import review

        app.state.review, app.state.closing = open_review, closing
        app.include_router(review.router)
        kinds += review.KINDS
    server = new_id()

    @app.websocket("/ws")
    async def socket(websocket: WebSocket) -> None:
        await serve_socket(websocket, workbench, info, server, review=open_review is not None)

    handle_failures(app)
    describe(app, kinds)
    _compress_answers(app)
    app.add_middleware(SecurityMiddleware, access=access, send_timeout=send_timeout)
    return app


def _compress_answers(app: FastAPI) -> None:
    app.add_middleware(
        GZipMiddleware,
        minimum_size=COMPRESSED_FROM,
        compresslevel=COMPRESSION_LEVEL,
        exclude_content_types=("text/*", "image/*", "application/octet-stream"),
    )


def _optional_routes(
    workbench: Workbench,
    report_usage: ReportUsage | None,
    trust: TrustDesk | None,
    fleets: FleetDesk | None,
    closing: anyio.Event,
) -> Iterator[tuple[APIRouter, list[type]]]:
    if report_usage is not None:
        yield usage_routes(report_usage, workbench.folder), USAGE_KINDS
    if trust is not None:
        yield trust_routes(trust, workbench), TRUST_KINDS
    if fleets is not None:
        yield fleet_routes(fleets, closing), FLEET_KINDS


def _login_routes(access: ServerAccess) -> APIRouter:
    router = APIRouter()

    @router.get("/api/login", **route("Get the nonce of this start", LoginNonce))
    async def start(request: Request) -> Response:
        """For the page, which proves with it that it knows the token."""
        answer = Json(LoginNonce(nonce=access.nonce))
        if (cookie := f"newel-{access.port}") in request.cookies:
            answer.delete_cookie(cookie)  # of an earlier version: it is the token, and goes to all ports
        return answer

    @router.post("/api/login", **route("Answer a challenge", LoginProof, body=LoginChallenge))
    async def prove(request: Request) -> Response:
        """For the page, which sends nothing else before it knows that this server has the token."""
        challenge = (await read_body(request, LoginChallenge)).challenge
        return Json(LoginProof(proof=access.prove(challenge, request.headers["host"].lower())))

    return router


def _state_routes(workbench: Workbench, info: ServerInfo) -> APIRouter:
    router = APIRouter()

    @router.get("/api/state", **route("Get the tabs and the MCP servers", AppState))
    async def state() -> Response:
        return Json(AppState(tabs=workbench.tabs, servers=workbench.servers.statuses()))

    @router.get("/health", **route("Check that the server works", Health))
    async def health() -> Response:
        return Json(Health(newel=info.newel))

    return router
