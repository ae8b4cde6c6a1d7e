"""The files of the page, and a self-contained page about the HTTP API."""

from __future__ import annotations

import gzip
from html import escape
from pathlib import Path
from typing import Any, Final

import anyio.to_thread
from fastapi import APIRouter, FastAPI, Request
from starlette.datastructures import Headers
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

STATIC = Path(__file__).parent / "static"
COMPRESSIBLE: Final = (".js", ".css", ".html", ".svg", ".txt")


class AssetFiles(StaticFiles):
    """Static files that a browser revalidates each time, compressed once for clients that accept it."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory=directory, check_dir=False)
        self._compressed: dict[str, tuple[str, bytes]] = {}
        """The entity tag and the compressed content by path."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        headers, request = response.headers, Headers(scope=scope)
        headers["cache-control"] = "no-cache"
        if "etag" not in headers or not path.endswith(COMPRESSIBLE):
            return response
        headers["vary"] = "Accept-Encoding"
        if "gzip" not in request.get("accept-encoding", "") or "range" in request:
            return response
        tag = headers["etag"]
        headers["etag"] = f"W/{tag}"  # the same content in other bytes
        if not isinstance(response, FileResponse):
            return response  # not modified
        known, body = self._compressed.get(path, ("", b""))
        if known != tag:
            body = await anyio.to_thread.run_sync(_compress, Path(response.path))
            self._compressed[path] = tag, body
        del headers["content-length"]
        return Response(body, headers={**headers, "content-encoding": "gzip"})


def _compress(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), mtime=0)


def page_routes(app: FastAPI, folder: Path = STATIC) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    files = AssetFiles(folder)
    app.mount("/static", files)

    @router.api_route("/", methods=["GET", "HEAD"])
    async def page(request: Request) -> Response:
        return await files.get_response("index.html", request.scope)

    @router.api_route("/favicon.ico", methods=["GET", "HEAD"])
    async def icon(request: Request) -> Response:
        return await files.get_response("favicon.svg", request.scope)

    @router.get("/docs")
    async def docs() -> Response:
        return HTMLResponse(documentation(app.openapi()))

    return router


def documentation(openapi: dict[str, Any]) -> str:
    """An OpenAPI document as a page without scripts and styles, which works under any content security policy."""
    info = openapi["info"]
    routes = [
        _route(method, path, operation)
        for path, operations in openapi["paths"].items()
        for method, operation in operations.items()
    ]
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="color-scheme" content="light dark">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{escape(info['title'])}: HTTP API</title></head><body><main>",
            f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>",
            f"<p>{escape(info['description'])}</p>",
            '<p>Also available as <a href="/openapi.json">OpenAPI</a>.</p>',
            *routes,
            "</main></body></html>",
        )
    )


def _route(method: str, path: str, operation: dict[str, Any]) -> str:
    rows = [
        f"<dt><code>{escape(parameter['name'])}</code> ({escape(parameter['in'])})</dt>"
        f"<dd>{escape(parameter.get('description', ''))}</dd>"
        for parameter in operation.get("parameters", [])
    ]
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        kind = content["schema"].get("$ref", "").rpartition("/")[2]
        rows.append(f"<dt>body</dt><dd>{escape(media)}: <code>{escape(kind)}</code></dd>")
    rows += [
        f"<dt>{escape(status)}</dt><dd>{escape(answer['description'])}</dd>"
        for status, answer in operation["responses"].items()
    ]
    return (
        f"<section><h2><code>{escape(method.upper())} {escape(path)}</code></h2>"
        f"<p>{escape(operation.get('summary', ''))}. {escape(operation.get('description', ''))}</p>"
        f"<dl>{''.join(rows)}</dl></section>"
    )
