"""What agents may do in the project, over HTTP: rules and servers, of which those that answers have allowed can be revoked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from newel.agent.messages import Wire
from newel.permissions.rule_book import RuleRow
from newel.web.http_schema import ApiError, Json, read_body, route
from newel.workbench.workbench import Workbench


class PermissionPage(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """``rows`` are the rules, the strongest first, then the servers that commands in the sandbox may reach. Those with an ``id`` can be
    revoked. ``problems`` say why rules are missing: those of the project itself, or what answers have allowed.
    """

    rows: Sequence[RuleRow]
    problems: Sequence[str]


class Revocation(Wire, frozen=True):
    """``ids`` are those of the rows that are to be revoked."""

    ids: Annotated[list[Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{8}$")]], msgspec.Meta(max_length=1000)]


GONE = "This is not kept for the project any more: it was revoked elsewhere."

KINDS: list[type] = [PermissionPage, Revocation]


def permission_routes(workbench: Workbench) -> APIRouter:
    router = APIRouter()

    async def page() -> Response:
        listed = await workbench.permissions.list()
        return Json(PermissionPage(rows=listed.rows, problems=listed.problems))

    @router.get("/api/permissions", **route("Get the rules and servers of the project", PermissionPage))
    async def permissions() -> Response:
        """The socket says ``permissions`` when they have changed."""
        return await page()

    @router.post(
        "/api/permissions/revoke",
        **route("Revoke what answers have allowed", PermissionPage, 404, 409, body=Revocation),
    )
    async def revoke(request: Request) -> Response:
        """Returns what is left. Only what is kept for this project can be revoked."""
        if not await workbench.revoke((await read_body(request, Revocation)).ids):
            raise ApiError(404, "not_found", GONE)
        return await page()

    return router
