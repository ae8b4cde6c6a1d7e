"""What models and tools have used, over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from newel.session.usage.report import By, UsageQuery, UsageReport
from newel.web.http_schema import Json, route

ReportUsage = Callable[[UsageQuery], Awaitable[UsageReport]]

KINDS: list[type] = [UsageReport]


def usage_routes(report: ReportUsage, project: str) -> APIRouter:
    """``project`` is the one that the workbench has open."""
    router = APIRouter()

    @router.get("/api/usage", **route("Get what models and tools have used", UsageReport, 422))
    async def usage(
        *,
        by: Annotated[By, Query(description="What a row is about.")] = "model",
        since: Annotated[
            str,
            Query(
                pattern=r"^(\d{4}-\d\d-\d\d)?$",
                description="The first day, such as 2026-11-01; empty for all.",
            ),
        ] = "",
        scope: Annotated[
            Literal["project", "all"], Query(description="The project of this workbench, or all.")
        ] = "project",
    ) -> Response:
        """Sums are made from the files on this machine at each request."""
        query = UsageQuery(by=by, since=since, project=project if scope == "project" else None)
        return Json(await report(query))

    return router
