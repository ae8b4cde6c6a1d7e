"""If these fail, the server listens where it must not, or accepts the wrong token."""

from __future__ import annotations

import asyncio
import re
import socket

import pytest

from newel.agent.errors import ConfigError
from newel.web.access_token import choose_token
from newel.web.security import ServerAccess, parse_public_url
from newel.web.server import listen

ANY = "0.0.0.0"  # noqa: S104 — told to functions that bind nothing


def test_each_start_has_a_new_token_of_192_bits() -> None:
    tokens = {choose_token("127.0.0.1", None) for _ in range(100)}
    assert len(tokens) == 100
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{32}", token) for token in tokens)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "localhost", "LocalHost", "::1"])
def test_loopback_needs_no_chosen_token(host: str) -> None:
    assert choose_token(host, "")


@pytest.mark.parametrize("host", [ANY, "::", "192.168.1.5", "devbox.lan", "", "localhost.evil.example"])
def test_other_machines_need_a_chosen_token(host: str) -> None:
    with pytest.raises(ConfigError, match="NEWEL_WEB_TOKEN"):
        choose_token(host, None)
    assert choose_token(host, "x" * 32) == "x" * 32


@pytest.mark.parametrize("token", ["short", "x" * 31, "x" * 257, "x" * 40 + ";", "x" * 40 + " ", "é" * 32])
def test_a_weak_or_invalid_token_is_refused(token: str) -> None:
    with pytest.raises(ConfigError, match="32 to 256") as caught:
        choose_token("127.0.0.1", token)
    assert token not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8101/#token=t"),
        ("localhost", "http://localhost:8101/#token=t"),
        ("::1", "http://[::1]:8101/#token=t"),
        (ANY, "http://127.0.0.1:8101/#token=t"),
        ("::", "http://[::1]:8101/#token=t"),
    ],
)
def test_the_printed_url_can_be_opened(host: str, url: str) -> None:
    assert ServerAccess(token="t", host=host, port=8101).url == url


def test_the_printed_url_is_the_public_one() -> None:
    door = ServerAccess(token="t", host="127.0.0.1", port=8101, public_url="https://newel.example.com")
    assert door.url == "https://newel.example.com/#token=t"
    assert door.local_url == "http://127.0.0.1:8101/"


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://newel.example.com", "https://newel.example.com"),
        ("HTTPS://Newel.Example.com:443/", "https://newel.example.com"),
        ("http://localhost:9000", "http://localhost:9000"),
        ("http://devbox:80", "http://devbox"),
        ("https://devbox:80", "https://devbox:80"),
        ("https://[fd00::1]:8443", "https://[fd00::1]:8443"),
        ("https://bücher.example", "https://xn--bcher-kva.example"),
    ],
)
def test_a_public_url_is_written_as_browsers_write_it(text: str, url: str) -> None:
    """Otherwise the Host and Origin that they send would not match, and the page would be refused."""
    assert parse_public_url(text) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "newel.example.com",
        "newel.example.com:8443",
        "ftp://newel.example.com",
        "https://",
        "https://newel.example.com/newel",
        "https://newel.example.com/?a=b",
        "https://newel.example.com/#token=x",
        "https://me@newel.example.com",
        "https://newel.example.com:99999",
        "https://newel.example.com:port",
        "https://*.example.com",
        "https://newel example.com",
        "https://newel.example.com\n",
        "https://[fd00::1",
        "https://" + "a" * 300,
    ],
)
def test_what_is_no_public_url_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="--public-url takes an address"):
        parse_public_url(text)


def test_a_port_in_use_is_reported_with_a_remedy() -> None:
    first = listen("127.0.0.1", 0)
    with pytest.raises(ConfigError, match=f"Port {first.port} on 127.0.0.1 is in use.* --port N"):
        listen("127.0.0.1", first.port)
    first.close()
    again = listen("127.0.0.1", first.port)
    assert again.port == first.port
    again.close()


@pytest.mark.parametrize("host", ["no.such.host.invalid", "256.1.1.1", "198.51.100.7", "a" * 300, "\0"])
def test_a_foreign_host_is_reported(host: str) -> None:
    with pytest.raises(ConfigError, match="--bind"):
        listen(host, 0)


def test_a_port_out_of_range_is_reported() -> None:
    with pytest.raises(ConfigError, match="70000"):
        listen("127.0.0.1", 70000)


def test_ipv6_is_supported() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    listener = listen("::1", 0)
    assert listener.port > 0
    listener.close()


@pytest.mark.anyio
async def test_a_response_is_not_delayed_by_nagles_algorithm() -> None:
    """Otherwise every answer on a kept connection waits 40 ms, and so does every token of a stream."""
    listener = listen("127.0.0.1", 0)
    made: list[int] = []

    def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken: socket.socket = writer.get_extra_info("socket")
        made.append(taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async with await asyncio.start_server(connected, sock=listener.bound):
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        await reader.read()
        writer.close()
    assert made == [1]
