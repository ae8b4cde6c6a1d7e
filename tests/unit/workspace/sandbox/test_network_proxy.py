"""If these fail, a command in the sandbox reaches what the user has not allowed, or hangs, or gets another server's answer."""

from __future__ import annotations

import http.server
import ipaddress
import socket
import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from newel.concurrency import background_tasks
from newel.workspace.sandbox.domains import Domain, IPAddress, is_reachable, parse_host
from newel.workspace.sandbox.network_proxy import MAX_HEAD, NetworkProxy, allow_none
from newel.workspace.sandbox.proxy_socket import serve_proxy

pytestmark = pytest.mark.anyio

HERE = ipaddress.ip_address("127.0.0.1")


class _Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"{self.path} {self.headers['Host']} {self.headers['Proxy-Authorization']} {self.headers['Connection']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[int]:
    """The port of a server on this machine."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Pages) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield httpd.server_port
        httpd.shutdown()


class Proxy:
    """A proxy whose names all lead to this machine, which it may reach."""

    def __init__(self, folder: Path, domains: Sequence[Domain], **options: Any) -> None:
        async def resolve(_host: str, _port: int) -> list[IPAddress]:
            return [HERE]

        self.path = folder / "proxy.sock"

        def reachable(_: IPAddress, *, is_named: bool) -> bool:
            del is_named
            return True

        known: dict[str, Any] = {"resolve": resolve, "is_reachable": reachable} | options
        self.proxy = NetworkProxy(lambda: domains, **known)

    async def say(self, *pieces: bytes) -> bytes:
        """All that comes back for these pieces."""
        return await anyio.to_thread.run_sync(self._say, pieces)

    def _say(self, pieces: tuple[bytes, ...]) -> bytes:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5)
            client.connect(str(self.path))
            answer = b""
            for piece in pieces:
                client.sendall(piece)
                if piece.startswith(b"CONNECT"):
                    answer += client.recv(1 << 16)
            client.shutdown(socket.SHUT_WR)
            while data := client.recv(1 << 16):
                answer += data
            return answer


@asynccontextmanager
async def serving(folder: Path, *allow: Domain, **options: Any) -> AsyncGenerator[Proxy]:
    proxy = Proxy(folder, allow, **options)
    async with _serving(proxy.proxy, proxy.path):
        yield proxy


@asynccontextmanager
async def _serving(proxy: NetworkProxy, path: Path) -> AsyncGenerator[None]:
    async with (
        await anyio.create_unix_listener(path) as listener,
        background_tasks(partial(proxy.serve, listener)),
    ):
        yield


async def test_an_allowed_server_answers_through_a_tunnel(tmp_path: Path, server: int) -> None:
    async with serving(tmp_path, Domain("ok.test", server)) as proxy:
        answer = await proxy.say(
            f"CONNECT ok.test:{server} HTTP/1.1\r\n\r\n".encode(), b"GET /deep HTTP/1.0\r\nHost: x\r\n\r\n"
        )
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"/deep x" in answer


@pytest.mark.parametrize(
    ("path", "asked"), [("/a?b=c", "/a?b=c"), ("", "/"), ("?b=/c", "/?b=/c"), ("/a//?b?c", "/a//?b?c")]
)
async def test_a_plain_request_reaches_an_allowed_server_without_the_proxys_headers(
    tmp_path: Path, server: int, path: str, asked: str
) -> None:
    async with serving(tmp_path, Domain("ok.test", server)) as proxy:
        answer = await proxy.say(
            f"GET http://ok.test:{server}{path} HTTP/1.1\r\nHost: ok.test\r\nProxy-Authorization: secret\r\n"
            "Connection: keep-alive\r\n\r\n".encode()
        )
    assert f"\n{asked} ok.test None close".encode() in answer


@pytest.mark.parametrize(
    "request_line",
    ["CONNECT evil.test:443 HTTP/1.1", "GET http://evil.test/ HTTP/1.1", "CONNECT ok.test:22 HTTP/1.1"],
)
async def test_any_other_server_is_refused_in_words(tmp_path: Path, request_line: str) -> None:
    async with serving(tmp_path, Domain("ok.test")) as proxy:
        answer = await proxy.say(f"{request_line}\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"[sandbox] domains" in answer


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "[::1]", "0x7f.1", "2130706433", "169.254.169.254", "[::ffff:127.0.0.1]"],
)
async def test_no_name_leads_to_this_machine_or_its_cloud(tmp_path: Path, host: str, server: int) -> None:
    """Even if the user allows every name."""
    async with serving(tmp_path, Domain("*", server), is_reachable=is_reachable) as proxy:
        proxy.proxy = NetworkProxy(lambda: [Domain("*", server)])
        proxy.path = tmp_path / "real.sock"
        async with _serving(proxy.proxy, proxy.path):
            answer = await proxy.say(f"CONNECT {host}:{server} HTTP/1.1\r\n\r\n".encode())
    assert answer[9:12] in {b"403", b"502"}, answer


async def test_the_address_that_was_judged_is_the_one_that_is_connected_to(
    tmp_path: Path, server: int
) -> None:
    """A name may have another address at its second look-up."""
    asked: list[str] = []

    async def rebinding(host: str, _port: int) -> list[IPAddress]:
        asked.append(host)
        return [ipaddress.ip_address("203.0.113.1" if len(asked) == 1 else "127.0.0.1")]

    async with serving(tmp_path, Domain("*", server), resolve=rebinding, is_reachable=is_reachable) as proxy:
        answer = await proxy.say(f"CONNECT rebind.test:{server} HTTP/1.1\r\n\r\n".encode())
    assert answer[9:12] in {b"403", b"502"}
    assert asked == ["rebind.test"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"CONNECT ok.test HTTP/1.1\r\n\r\n", b"CONNECT :443 HTTP/1.1\r\n\r\n",
        b"CONNECT ok.test:x HTTP/1.1\r\n\r\n", b"CONNECT ok.test:443\r\n\r\n", b"\xff\xfe\x00\r\n\r\n", b"GET ftp://ok.test/ HTTP/1.1\r\n\r\n",
        b"GET http://[::1/ HTTP/1.1\r\n\r\n", b"GET http://ok.test:x/ HTTP/1.1\r\n\r\n", b"GET http://a b/ HTTP/1.1\r\n\r\n",
        b"CONNECT ok.test@evil.test:443 HTTP/1.1\r\n\r\n",
    ],
)  # fmt: skip
async def test_garbage_is_answered_and_reaches_nobody(tmp_path: Path, garbage: bytes) -> None:
    async with serving(tmp_path, Domain("ok.test")) as proxy:
        answer = await proxy.say(garbage)
    assert answer.startswith(b"HTTP/1.1 4"), answer


async def test_a_request_without_end_is_cut_off(tmp_path: Path) -> None:
    async with serving(tmp_path, Domain("ok.test")) as proxy:
        answer = await proxy.say(b"GET http://ok.test/ HTTP/1.1\r\nX: " + b"x" * (2 * MAX_HEAD))
    assert answer.startswith(b"HTTP/1.1 431 ")


async def test_a_server_that_cannot_be_reached_is_named_with_the_reason(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    async with serving(tmp_path, Domain("ok.test", port)) as proxy:
        answer = await proxy.say(f"CONNECT ok.test:{port} HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"ok.test cannot be reached: " in answer


async def test_the_socket_is_closed_to_other_users(tmp_path: Path) -> None:
    path = tmp_path / "proxy.sock"
    async with background_tasks() as group:
        await group.start(serve_proxy, path, (), tuple, allow_none)
        assert path.stat().st_mode & 0o777 == 0o600


async def test_a_server_that_the_user_allows_is_reached(tmp_path: Path, server: int) -> None:
    async def allows(rule: str) -> bool:
        return rule == f"asked.test:{server}"

    async with serving(tmp_path, allows=allows) as proxy:
        answer = await proxy.say(f"GET http://asked.test:{server}/a HTTP/1.1\r\n\r\n".encode())
        other = await proxy.say(f"GET http://other.test:{server}/a HTTP/1.1\r\n\r\n".encode())
    assert b"/a" in answer
    assert other.startswith(b"HTTP/1.1 403 Not allowed by the sandbox\r\n")


@pytest.mark.parametrize(
    ("host", "opens"),
    [
        ("10.0.0.7", True),
        ("[fd00::7]", True),
        ("wiki", True),
        ("git.corp", True),
        ("nas.home.arpa", True),
        ("evil.example", False),  # its owner decides where it leads to, also after the answer
        ("3232235777", False),  # nobody recognizes 192.168.1.1
        ("0xc0.0xa80101", False),
    ],
)
@pytest.mark.parametrize("is_kept", [True, False])
async def test_an_answer_opens_the_private_network_only_by_a_name_that_says_so(
    tmp_path: Path, host: str, opens: bool, is_kept: bool
) -> None:
    """Who says yes to a server on the internet has not opened the router to commands."""
    named: list[bool] = []

    def reachable(_: IPAddress, *, is_named: bool) -> bool:
        named.append(is_named)
        return True

    async def allows(_: str) -> bool:
        return not is_kept

    kept = [Domain(parse_host(host), 1)] if is_kept else []
    async with serving(tmp_path, allows=allows, kept=lambda: kept, is_reachable=reachable) as proxy:
        await proxy.say(f"CONNECT {host}:1 HTTP/1.1\r\n\r\n".encode())
    assert named == [opens]
