"""What the project brings that waits for the user's trust, over HTTP. A decision names what was shown, and nothing else is trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Protocol

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from newel.agent.messages import Wire
from newel.web.http_schema import ApiError, Json, read_body, route
from newel.workbench.workbench import Workbench


class TrustItem(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """Hooks of one file, an MCP server, or the skills of the project. ``lines`` are all that runs: commands, arguments, files. Hidden
    characters are written out.
    """

    title: str
    lines: Sequence[str]


class TrustQuestion(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """``digest`` is that of the items and of the files that they name; empty if there is nothing to decide. ``problem`` says why there is
    no question, although something waits.
    """

    items: Sequence[TrustItem] = ()
    digest: str = ""
    problem: str = ""


class TrustAnswer(Wire, frozen=True, kw_only=True):
    """``digest`` is that of the question that the user has read. With ``trusted`` false nothing of it is used, and it is not asked
    again.
    """

    digest: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    trusted: bool


class TrustDesk(Protocol):
    async def ask(self) -> TrustQuestion: ...

    async def decide(self, digest: str, *, trusted: bool) -> bool:
        """False, and nothing is decided, if the question is not the one with this digest any more. Raises ``ConfigError``."""
        ...


CHANGED = "What waits for your trust has changed since it was shown, so nothing was decided. Read it again."

KINDS: list[type] = [TrustItem, TrustQuestion, TrustAnswer]


def trust_routes(desk: TrustDesk, workbench: Workbench) -> APIRouter:
    router = APIRouter()

    @router.get("/api/trust", **route("Get what waits for the user's trust", TrustQuestion))
    async def question() -> Response:
        """Hooks, MCP servers and skills of the project, as they are now."""
        return Json(await desk.ask())

    @router.post("/api/trust", **route("Trust or decline it", TrustQuestion, 409, body=TrustAnswer))
    async def decide(request: Request) -> Response:
        """Returns what is left. It holds from the next run of each conversation on."""
        decision = await read_body(request, TrustAnswer)
        if not await desk.decide(decision.digest, trusted=decision.trusted):
            raise ApiError(409, "changed", CHANGED)
        workbench.renew_agents()
        return Json(await desk.ask())

    return router
