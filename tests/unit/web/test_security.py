"""If these fail, somebody other than the owner controls a server that runs commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from newel.web.page_login import derive_key, page_proof
from newel.web.security import MAX_BODY, SecurityMiddleware, ServerAccess

pytestmark = pytest.mark.anyio

ANY = "0.0.0.0"  # noqa: S104 — told to a function, nothing is bound
TOKEN = "correct-horse-battery-staple-0123"
DOOR = ServerAccess(token=TOKEN, host="127.0.0.1", port=8101)
HOST = ("host", "127.0.0.1:8101")
ORIGIN = ("origin", "http://127.0.0.1:8101")
BEARER = ("authorization", f"Bearer {TOKEN}")
KEY = derive_key(TOKEN, "127.0.0.1:8101")
PROOF = page_proof(KEY, DOOR.nonce)
PAGE = ("newel-page-proof", PROOF)
PAGE_SOCKET = ("sec-websocket-protocol", f"newel, newel-page-proof.{PROOF}")
COOKIE = ("cookie", f"theme=dark; newel-8101={TOKEN}")
JSON = ("content-type", "application/json")

Headers = Sequence[tuple[str, str]]


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        return msgspec.json.decode(self.body)["error"]["code"]


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that accepts everything and returns what it received."""
    body = b""
    if scope["type"] == "http":
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-app", b"1")]})
        await send({"type": "http.response.body", "body": body})
    else:
        await receive()
        await send({"type": "websocket.accept"})


async def ask(
    method: str,
    path: str,
    *headers: tuple[str, str],
    body: Sequence[bytes] = (),
    socket: bool = False,
    server: tuple[str, int] = ("127.0.0.1", 8101),
    door: ServerAccess = DOOR,
) -> Answer:
    """One request through the middleware; 101 for an accepted socket."""
    chunks = list(body)

    async def receive() -> Message:
        if socket:
            return {"type": "websocket.connect"}
        chunk = chunks.pop(0) if chunks else b""
        return {"type": "http.request", "body": chunk, "more_body": bool(chunks)}

    sent = await pass_through(
        SecurityMiddleware(echo, door), method, path, *headers, receive=receive, socket=socket, server=server
    )
    if sent[0]["type"] == "websocket.accept":
        return Answer(101, {}, b"")
    return answer_of(sent)


def answer_of(sent: list[Message]) -> Answer:
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], told, b"".join(each.get("body", b"") for each in sent[1:]))


async def pass_through(
    boundary: SecurityMiddleware,
    method: str,
    path: str,
    *headers: tuple[str, str],
    receive: Receive,
    socket: bool = False,
    server: tuple[str, int] = ("127.0.0.1", 8101),
) -> list[Message]:
    """The messages to a client with this request and this ``receive``."""
    scope: dict[str, Any] = {
        "type": "websocket" if socket else "http",
        "method": method,
        "path": path,
        "server": server,
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
        "extensions": {"websocket.http.response": {}},
    }
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await boundary(scope, receive, send)
    return sent


# -- the token ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [BEARER, PAGE, ("authorization", f"bearer  {TOKEN}")])
async def test_requests_with_the_token_are_accepted(way: tuple[str, str]) -> None:
    assert (await ask("GET", "/api/state", HOST, way)).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("authorization", "Bearer ")],
        [("authorization", f"Basic {TOKEN}")],
        [("authorization", f"Bearer {TOKEN}x")],
        [("authorization", f"Bearer {TOKEN[:-1]}")],
        [("authorization", "Bearer wrong"), PAGE],
        [COOKIE],
        [("cookie", f"newel-8101={KEY}; newel-page-proof={PROOF}")],
        [("authorization", f"Bearer {KEY}")],
        [("authorization", f"Bearer {PROOF}")],
        [("newel-page-proof", TOKEN)],
        [("newel-page-proof", KEY)],
        [("newel-page-proof", f"wrong-\xe9{PROOF}")],
        [("newel-page-proof", page_proof(KEY, "the nonce of an earlier start"))],
        [("newel-page-proof", page_proof(derive_key(TOKEN, "127.0.0.1:8102"), DOOR.nonce))],
        [("newel-page-proof", page_proof(derive_key(TOKEN, "localhost:8101"), DOOR.nonce))],
        [PAGE_SOCKET],
    ],
)
async def test_without_the_token_nothing_is_revealed(headers: Headers) -> None:
    answer = await ask("GET", "/api/state", HOST, *headers)
    assert (answer.status, answer.code) == (401, "unauthorized")
    assert TOKEN.encode() not in answer.body


async def test_a_page_may_have_opened_another_name_of_this_machine() -> None:
    host = "localhost:8101"
    proof = ("newel-page-proof", page_proof(derive_key(TOKEN, host), DOOR.nonce))
    assert (await ask("GET", "/api/state", ("host", host.upper()), proof)).status == 200


@given(st.text(min_size=1), st.sampled_from(["GET", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "HEAD"]))
def test_no_path_bypasses_the_token(path: str, method: str) -> None:
    """Only the page, its files, the start of its login and the API's description are public; encoded and doubled slashes, dots and case
    change nothing.
    """
    open_ones = {"/", "/favicon.ico", "/api/login", "/docs", "/openapi.json"}
    wanted = f"/{path}"
    if method in {"GET", "HEAD"} and (wanted in open_ones or wanted.startswith("/static/")):
        return
    assert anyio.run(lambda: ask(method, wanted, HOST, ORIGIN, JSON)).status == 401


# -- the host and the origin --------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1:8101", "localhost:8101", "LOCALHOST:8101", "[::1]:8101"])
async def test_every_name_of_this_machine_is_accepted(host: str) -> None:
    assert (await ask("GET", "/health", ("host", host), BEARER)).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("host", "")],
        [("host", "127.0.0.1")],
        [("host", "127.0.0.1:8102")],
        [("host", "localhost:8101.evil.example")],
        [("host", "evil.example:8101")],
        [("host", "127.0.0.1:8101@evil.example")],
        [("host", "[::ffff:127.0.0.1]:8101")],
        [("host", "192.168.1.5:8101")],
    ],
)
async def test_a_foreign_name_that_resolves_here_is_refused(headers: Headers) -> None:
    """Otherwise a web page could rebind its own name to this machine, and be 'the same origin'."""
    for path in ("/", "/health"):
        assert (await ask("GET", path, *headers, BEARER)).status == 421


async def test_a_request_with_two_hosts_is_refused() -> None:
    assert (await ask("GET", "/health", HOST, HOST, BEARER)).status == 400


@pytest.mark.parametrize(
    ("asked", "address", "host", "status"),
    [
        (ANY, "192.168.1.5", "192.168.1.5:8101", 200),
        (ANY, "192.168.1.5", "localhost:8101", 421),
        (ANY, "127.0.0.1", "localhost:8101", 200),
        ("::", "::ffff:192.168.1.5", "192.168.1.5:8101", 200),
        ("devbox.lan", "192.168.1.5", "devbox.lan:8101", 200),
        ("Devbox.lan", "192.168.1.5", "devbox.lan:8101", 200),
        ("::1", "::1", "[::1]:8101", 200),
    ],
)
async def test_a_public_server_accepts_only_its_own_names(
    asked: str, address: str, host: str, status: int
) -> None:
    door = ServerAccess(token=TOKEN, host=asked, port=8101)
    answer = await ask("GET", "/health", ("host", host), BEARER, server=(address, 8101), door=door)
    assert answer.status == status


async def test_port_80_may_be_omitted() -> None:
    door = ServerAccess(token=TOKEN, host="127.0.0.1", port=80)
    answer = await ask("GET", "/health", ("host", "localhost"), BEARER, server=("127.0.0.1", 80), door=door)
    assert answer.status == 200


PUBLIC = ServerAccess(token=TOKEN, host="127.0.0.1", port=8101, public_url="https://newel.example.com")
PUBLIC_HOST = ("host", "newel.example.com")
PUBLIC_PROOF = page_proof(derive_key(TOKEN, "newel.example.com"), PUBLIC.nonce)
PUBLIC_PAGE = ("newel-page-proof", PUBLIC_PROOF)


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("newel.example.com", "https://newel.example.com", 200),
        ("newel.example.com", "http://newel.example.com", 403),
        ("newel.example.com", "https://evil.example.com", 403),
        ("newel.example.com", "http://127.0.0.1:8101", 403),
        ("newel.example.com:8101", "https://newel.example.com", 421),
        ("evil.newel.example.com", "https://newel.example.com", 421),
    ],
)
async def test_the_public_url_is_the_only_other_name_and_its_page_the_only_other_origin(
    host: str, origin: str, status: int
) -> None:
    headers = (("host", host), PUBLIC_PAGE, JSON, ("origin", origin))
    assert (await ask("POST", "/chat", *headers, door=PUBLIC)).status == status


async def test_a_server_with_a_public_url_still_answers_at_its_own_address() -> None:
    proof = ("newel-page-proof", page_proof(KEY, PUBLIC.nonce))
    assert (await ask("POST", "/chat", HOST, proof, JSON, ORIGIN, door=PUBLIC)).status == 200
    assert (await ask("POST", "/chat", HOST, PUBLIC_PAGE, JSON, ORIGIN, door=PUBLIC)).status == 401


async def test_a_proxy_that_replaces_the_host_header_is_told_what_to_do() -> None:
    """Nginx does so unless it is told otherwise, and a page that says only 'refused' sends its user searching for hours."""
    answer = await ask("POST", "/chat", HOST, PUBLIC_PAGE, JSON, ("origin", PUBLIC.public_url), door=PUBLIC)
    assert answer.status == 403
    assert b"proxy has to pass on the Host header" in answer.body


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "http://evil.example",
        "https://127.0.0.1:8101",
        "http://127.0.0.1:8102",
        "http://localhost:8101",
    ],
)
@pytest.mark.parametrize("way", [BEARER, PAGE])
async def test_another_origin_gets_nothing_even_with_the_token(origin: str, way: tuple[str, str]) -> None:
    headers = (HOST, way, JSON, ("origin", origin))
    assert (await ask("POST", "/chat", *headers)).status == 403
    assert (await ask("GET", "/api/state", *headers)).status == 403
    assert (await ask("GET", "/ws", *headers, PAGE_SOCKET, socket=True)).status == 403


async def test_the_page_needs_its_origin_for_changes_and_programs_need_none() -> None:
    assert (await ask("POST", "/chat", HOST, PAGE, JSON)).status == 403
    assert (await ask("POST", "/chat", HOST, PAGE, JSON, ORIGIN)).status == 200
    assert (await ask("POST", "/chat", HOST, BEARER, JSON)).status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", "strange"])
async def test_requests_that_the_browser_calls_cross_site_are_refused(site: str) -> None:
    where = ("sec-fetch-site", site)
    assert (await ask("GET", "/api/state", HOST, PAGE, where)).status == 403
    assert (await ask("GET", "/api/login", HOST, where)).status == 403
    assert (await ask("GET", "/static/app.js", HOST, where)).status == 403
    assert (await ask("GET", "/ws", HOST, PAGE_SOCKET, ORIGIN, where, socket=True)).status == 403


async def test_a_link_to_the_page_works_from_anywhere_and_a_frame_does_not() -> None:
    elsewhere, going = ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")
    assert (await ask("GET", "/", HOST, elsewhere, going, ("sec-fetch-dest", "document"))).status == 200
    assert (await ask("GET", "/", HOST, elsewhere, going, ("sec-fetch-dest", "iframe"))).status == 403
    docs = await ask("GET", "/docs", HOST, elsewhere, going, ("sec-fetch-dest", "document"))
    assert docs.status == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([PAGE_SOCKET, ORIGIN], 101),
        (
            [
                ("sec-websocket-protocol", "newel"),
                ("sec-websocket-protocol", f"newel-page-proof.{PROOF}"),
                ORIGIN,
            ],
            101,
        ),
        ([BEARER], 101),
        ([PAGE_SOCKET], 403),
        ([PAGE, ORIGIN], 401),
        ([COOKIE, ORIGIN], 401),
        ([("sec-websocket-protocol", f"newel, newel-page-proof.{KEY}"), ORIGIN], 401),
        ([("sec-websocket-protocol", f"newel, {PROOF}"), ORIGIN], 401),
        ([ORIGIN], 401),
        ([], 401),
    ],
)
async def test_a_socket_needs_the_token_and_the_page_its_origin(headers: Headers, status: int) -> None:
    assert (await ask("GET", "/ws", HOST, *headers, socket=True)).status == status
    assert (await ask("GET", "/", HOST, *headers, socket=True)).status == status


# -- what is sent -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
async def test_a_form_of_another_page_cannot_be_submitted(kind: str | None) -> None:
    headers = [HOST, BEARER] if kind is None else [HOST, BEARER, ("content-type", kind)]
    assert (await ask("POST", "/clear", *headers)).status == 415
    assert (await ask("DELETE", "/clear", *headers)).status == 415


async def test_the_body_reaches_the_application_completely() -> None:
    answer = await ask(
        "POST", "/chat", HOST, BEARER, ("content-type", "application/json; charset=utf-8"), body=[b"{", b"}"]
    )
    assert (answer.status, answer.body) == (200, b"{}")


async def test_an_oversized_body_is_refused_before_it_is_read() -> None:
    answer = await ask("POST", "/chat", HOST, BEARER, JSON, ("content-length", str(MAX_BODY + 1)))
    assert (answer.status, answer.code) == (413, "too_large")


async def test_a_body_without_a_length_is_counted_while_it_is_read() -> None:
    """Otherwise a sender in chunks could fill the memory."""
    chunks = [b" " * 2**20] * (MAX_BODY // 2**20)
    assert (await ask("POST", "/chat", HOST, BEARER, JSON, body=chunks)).status == 200
    assert (await ask("POST", "/chat", HOST, BEARER, JSON, body=[*chunks, b" "])).status == 413
    assert (await ask("POST", "/api/login", HOST, BEARER, JSON, body=[b" " * 5000])).status == 413


async def test_a_body_that_does_not_arrive_times_out() -> None:
    async def receive() -> Message:
        await anyio.sleep_forever()
        raise AssertionError

    boundary = SecurityMiddleware(echo, DOOR, body_timeout=0.05)
    answer = answer_of(await pass_through(boundary, "POST", "/chat", HOST, BEARER, JSON, receive=receive))
    assert (answer.status, answer.code) == (408, "too_slow")


async def test_a_request_whose_client_disconnected_midway_is_not_executed() -> None:
    """Otherwise half a message is sent, and answered for money."""
    said: list[Message] = [
        {"type": "http.request", "body": b"{}", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return said.pop(0)

    sent = await pass_through(
        SecurityMiddleware(echo, DOOR), "POST", "/clear", HOST, BEARER, JSON, receive=receive
    )
    assert answer_of(sent).status == 400


@pytest.mark.parametrize("headers", [[HOST, BEARER], [HOST], [("host", "evil.example")]])
async def test_every_response_forbids_caching_and_framing(headers: Headers) -> None:
    told = (await ask("GET", "/health", *headers)).headers
    assert "script-src 'self'" in told["content-security-policy"]
    assert "default-src 'none'" in told["content-security-policy"]
    assert "unsafe" not in told["content-security-policy"]
    assert told["x-content-type-options"] == "nosniff"
    assert told["referrer-policy"] == "no-referrer"
    assert told["cross-origin-opener-policy"] == told["cross-origin-resource-policy"] == "same-origin"
    assert told["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in told
