"""If these fail, the HTTP API answers without a token, or its description is wrong."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from fastapi.routing import iter_route_contexts

from newel.web.security import OPEN, OPEN_FILES
from tests.integration.web.page import page
from tests.integration.web.page_login import hmac, sign_in
from tests.integration.web.served_workbench import TOKEN, Echo, ServedWorkbench, serve_workbench

pytestmark = pytest.mark.anyio

ROUTES = {
    ("GET", "/"),
    ("GET", "/favicon.ico"),
    ("GET", "/api/login"),
    ("POST", "/api/login"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
    ("GET", "/health"),
    ("GET", "/api/state"),
    ("GET", "/api/permissions"),
    ("POST", "/api/permissions/revoke"),
    ("GET", "/api/runs/{run}/events"),
    ("POST", "/api/transport/run"),
    ("POST", "/chat"),
    ("POST", "/clear"),
}
"""All there is, besides the socket and the files. Whoever adds one decides here, too, whether it is open."""
NEEDS_NO_TOKEN = {
    ("GET", "/"),
    ("GET", "/favicon.ico"),
    ("GET", "/api/login"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
}

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def static(tmp_path: Path) -> Path:
    folder = tmp_path / "static"
    folder.mkdir()
    (folder / "index.html").write_text("<!doctype html><title>Newel</title>")
    (folder / "app.js").write_text("export {}")
    (folder / "favicon.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (tmp_path / "secret.txt").write_text("secret")
    return folder


def browser(server: ServedWorkbench, **options: Any) -> httpx2.AsyncClient:
    """A client without a token."""
    return httpx2.AsyncClient(base_url=server.url, headers={"Origin": server.url}, trust_env=False, **options)


async def test_only_the_page_its_files_its_login_and_the_description_are_public(
    tmp_path: Path, static: Path
) -> None:
    """A new route is behind the token, unless it is made public here and in the server."""
    async with serve_workbench(tmp_path, Echo(), static=static) as server, browser(server) as stranger:
        routes = [*iter_route_contexts(server.app.routes)]
        found = {
            (method, route.path) for route in routes for method in route.methods or () if method != "HEAD"
        }
        assert found == ROUTES
        assert {route.path for route in routes if not route.methods} == {"/static", "/ws"}
        assert OPEN == NEEDS_NO_TOKEN
        assert OPEN_FILES == "/static/"
        for method, path in sorted(found):
            answer = await stranger.request(method, path or "", headers=JSON, content="{}")
            assert (answer.status_code != 401) == ((method, path) in NEEDS_NO_TOKEN), path
        for path in (
            "/redoc",
            "/nothing",
            "/static",
            "/api/../api/state",
            "//api/state",
            "/API/STATE",
            "/ws",
            "/docs/",
        ):
            assert (await stranger.get(path)).status_code == 401, path


async def test_the_page_and_its_server_prove_to_each_other_that_they_know_the_token(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server, browser(server) as page:
        nonce = (await page.get("/api/login")).json()["nonce"]
        key = hmac(TOKEN, f"key 127.0.0.1:{server.door.port}")
        proof = {"Newel-Page-Proof": hmac(key, f"page {nonce}")}
        challenge = "a-challenge-of-this-page"
        wrong = {"Newel-Page-Proof": hmac(hmac("wrong", "key"), f"page {nonce}")}
        for headers in ({}, wrong, {"Newel-Page-Proof": TOKEN}, {"Newel-Page-Proof": key}):
            refused = await page.post("/api/login", json={"challenge": challenge}, headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "unauthorized")
        right = await page.post("/api/login", json={"challenge": challenge}, headers=proof)
        assert right.json() == {"proof": hmac(key, f"server {nonce} {challenge}")}
        assert (await page.get("/api/state", headers=proof)).status_code == 200
        assert "set-cookie" not in right.headers
        for body in ("{}", '{"challenge": "short"}', f'{{"challenge": "{"x" * 300}"}}', "[]", ""):
            answer = await page.post("/api/login", content=body, headers=JSON | proof)
            assert answer.status_code == 422, body


async def test_what_the_page_has_sent_is_worth_nothing_after_a_restart(tmp_path: Path) -> None:
    """A program that has taken the port meanwhile knows it."""
    async with serve_workbench(tmp_path, Echo()) as server:
        before = {"Newel-Page-Proof": (await sign_in(server))["Newel-Page-Proof"]}
    (tmp_path / "again").mkdir()
    async with serve_workbench(tmp_path / "again", Echo()) as server, browser(server) as page:
        assert (await page.get("/api/state", headers=before)).status_code == 401
        assert (await page.get("/api/state", headers=await sign_in(server))).status_code == 200


async def test_the_cookies_of_other_programs_lock_no_page_out(tmp_path: Path) -> None:
    """Browsers send the cookies of all ports of a machine."""
    async with serve_workbench(tmp_path, Echo()) as server:
        proof = (await sign_in(server))["Newel-Page-Proof"]
        held = {"Cookie": f"another={'x' * 20_000}", "Origin": server.url}
        async with page(server, "newel", f"newel-page-proof.{proof}", **held) as opened:
            assert (await opened.ask("ping"))["type"] == "reply"


async def test_an_old_cookie_which_was_the_token_opens_nothing_and_is_deleted(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server, browser(server) as page:
        cookie = {"Cookie": f"newel-{server.door.port}={TOKEN}; another=1"}
        assert (await page.get("/api/state", headers=cookie)).status_code == 401
        assert (await page.post("/clear", json={}, headers=cookie)).status_code == 401
        deleted = (await page.get("/api/login", headers=cookie)).headers["set-cookie"]
        assert deleted.startswith(f'newel-{server.door.port}="";')
        assert "Max-Age=0" in deleted
        assert "set-cookie" not in (await page.get("/api/login")).headers


async def test_the_files_of_the_page_are_sent_compressed_and_only_once(tmp_path: Path, static: Path) -> None:
    """Otherwise the page takes three times as long to load over a network."""
    code = "export const words = 'the same words again and again';\n" * 2000
    (static / "app.js").write_text(code)
    plain, zipped = {"Accept-Encoding": "identity"}, {"Accept-Encoding": "br, gzip"}
    async with serve_workbench(tmp_path, Echo(), static=static) as server, browser(server) as page:
        first = await page.get("/static/app.js", headers=zipped)
        assert first.headers["content-encoding"] == "gzip"
        assert int(first.headers["content-length"]) < len(code) / 10
        assert first.text == code
        assert first.headers["content-type"].startswith("text/javascript")
        whole = await page.get("/static/app.js", headers=plain)
        assert "content-encoding" not in whole.headers
        assert whole.text == code
        for answer in (first, whole):
            assert answer.headers["vary"] == "Accept-Encoding"
            assert answer.headers["cache-control"] == "no-cache"
            known = {"If-None-Match": answer.headers["etag"]}
            again = await page.get("/static/app.js", headers=zipped | known)
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["vary"] == "Accept-Encoding"
        head = await page.head("/static/app.js", headers=zipped)
        assert (head.headers["content-encoding"], head.content) == ("gzip", b"")
        part = await page.get("/static/app.js", headers=zipped | {"Range": "bytes=0-5"})
        assert (part.status_code, part.content) == (206, b"export")
        (static / "app.js").write_text(f"{code}// new")
        new = await page.get("/static/app.js", headers=zipped | {"If-None-Match": first.headers["etag"]})
        assert new.text.endswith("// new")


async def test_large_answers_are_compressed_and_streams_are_not(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server, browser(server) as page:
        allowed = {"Authorization": f"Bearer {TOKEN}", "Accept-Encoding": "gzip"}
        large = await page.get("/openapi.json", headers=allowed)
        assert large.headers["content-encoding"] == "gzip"
        assert "content-encoding" not in (await page.get("/health", headers=allowed)).headers
        stream = await page.post("/chat", json={"message": "hello"}, headers=allowed)
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert "content-encoding" not in stream.headers


async def test_only_the_static_files_are_served(tmp_path: Path, static: Path) -> None:
    (static / "link.txt").symlink_to(tmp_path / "secret.txt")
    async with serve_workbench(tmp_path, Echo(), static=static) as server, browser(server) as page:
        first = await page.get("/")
        assert first.headers["content-type"].startswith("text/html")
        assert first.headers["cache-control"] == "no-cache"
        assert "default-src 'none'" in first.headers["content-security-policy"]
        again = await page.get("/", headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert (await page.get("/static/app.js")).headers["content-type"].startswith("text/javascript")
        assert (await page.get("/favicon.ico")).headers["content-type"] == "image/svg+xml"
        assert (await page.head("/")).status_code == 200
        for path in (
            "link.txt",
            "nothing.js",
            "..%2fsecret.txt",
            "%2e%2e/secret.txt",
            "",
            "a%00b",
            "x" * 5000,
        ):
            answer = await page.get(f"/static/{path}")
            assert answer.status_code == 404, path
            assert answer.headers["content-type"] == "application/json"
            assert "secret" not in answer.text
        assert (await page.post("/static/app.js", headers=JSON)).status_code == 401


async def test_path_traversal_is_refused(tmp_path: Path, static: Path) -> None:
    """A client that does not normalize its paths gets no more than others."""
    async with serve_workbench(tmp_path, Echo(), static=static) as server:
        for path in (b"/static/../secret.txt", b"/static/../../../../etc/passwd", b"/static//etc/passwd"):
            async with await anyio.connect_tcp("127.0.0.1", server.door.port) as raw:
                host = f"127.0.0.1:{server.door.port}".encode()
                await raw.send(b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (path, host))
                answer = b""
                with anyio.fail_after(5):
                    try:
                        while True:
                            answer += await raw.receive()
                    except anyio.EndOfStream:
                        pass
            assert answer.startswith(b"HTTP/1.1 404"), path


async def test_the_api_description_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server:
        page = await server.client.get("/docs")
        assert page.headers["content-type"].startswith("text/html")
        assert "<script" not in page.text
        assert "style" not in page.text
        assert "http://" not in page.text
        assert "https://" not in page.text
        whole = (await server.client.get("/openapi.json")).json()
        for path in whole["paths"]:
            assert path in page.text
        described = {
            (method.upper(), path) for path, operations in whole["paths"].items() for method in operations
        }
        assert described == ROUTES - {
            ("GET", "/"),
            ("GET", "/favicon.ico"),
            ("GET", "/docs"),
            ("GET", "/openapi.json"),
        }


async def test_all_errors_have_one_format(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server:
        for answer, status, code in (
            (await server.client.get("/nothing"), 404, "not_found"),
            (await server.client.get("/chat"), 405, "method_not_allowed"),
            (await server.client.post("/chat", content="x"), 415, "not_json"),
            (await server.client.post("/chat", content="x", headers=JSON), 422, "malformed_request"),
        ):
            assert answer.status_code == status
            assert answer.json()["error"]["code"] == code
            assert answer.json()["error"]["message"]


async def test_a_chunked_body_is_stopped_at_its_limit(tmp_path: Path) -> None:
    async def endless() -> AsyncGenerator[bytes]:
        for _ in range(100):
            yield b" " * 2**20

    async with serve_workbench(tmp_path, Echo()) as server:
        answer = await server.client.post("/chat", content=endless(), headers=JSON)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
