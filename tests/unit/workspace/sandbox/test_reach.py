"""If these fail, the address of a page leads into the user's network, or to the keys of their cloud."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import pytest

from newel.workspace.sandbox.domains import IPAddress
from newel.workspace.sandbox.reach import NotReachable, PageAccess, find_reachable
from newel.workspace.sandbox.web_address import parse_web_address

PUBLIC = ipaddress.ip_address("93.184.215.14")
LOCAL = ipaddress.ip_address("127.0.0.1")


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",  # noqa: S104 — is refused
        "127.0.0.1",
        "127.9.9.9",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "169.254.1.1",
        "100.64.0.1",
        "100.100.100.200",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "fe80::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "2002:7f00:1::",
        "64:ff9b::7f00:1",
        "64:ff9b:1::7f00:1",
        "2001:0:7f00:1::",
    ],
)
def test_what_no_page_is_fetched_from(address: str) -> None:
    assert not PageAccess(is_allowed=True).may_reach(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    ("address", "is_named", "is_own"),
    [
        ("10.0.0.1", True, True),
        ("fd12::1", True, True),
        ("127.0.0.1", False, True),
        ("::1", False, True),
        ("169.254.169.254", False, False),
        ("fd00:ec2::254", False, False),
        ("169.254.1.1", False, False),
        ("224.0.0.1", False, False),
        ("100.64.0.1", False, False),
    ],
)
def test_what_the_user_has_written_opens_no_more_than_that(
    address: str, is_named: bool, is_own: bool
) -> None:
    ip = ipaddress.ip_address(address)
    assert PageAccess(is_allowed=True, is_named=True).may_reach(ip) == is_named
    assert PageAccess(is_allowed=True, is_named=True, is_own=True).may_reach(ip) == is_own


@pytest.mark.anyio
async def test_a_name_is_looked_up_once_and_only_its_public_addresses_are_used() -> None:
    """A second look-up could have another answer."""
    asked: list[str] = []

    async def resolve(host: str, _: int) -> Sequence[IPAddress]:
        asked.append(host)
        return [LOCAL, PUBLIC] if host == "mixed.example" else [LOCAL]

    access = PageAccess(is_allowed=True)
    assert await find_reachable("mixed.example", 443, access.may_reach, resolve=resolve) == [PUBLIC]
    with pytest.raises(NotReachable):
        await find_reachable("rebound.example", 443, access.may_reach, resolve=resolve)
    assert asked == ["mixed.example", "rebound.example"]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("docs.python.org/3/", "https://docs.python.org/3/"),
        ("HTTP://Example.ORG:80#part", "http://example.org/"),
        ("https://example.org:8443/a", "https://example.org:8443/a"),
        ("https://bücher.example/ü?q=ü", "https://xn--bcher-kva.example/%C3%BC?q=%C3%BC"),
        ("https://[2001:DB8::1]/", "https://[2001:db8::1]/"),
        ("https://example.org./x", "https://example.org/x"),
        ("https://example.org/%2e%2e/x?a=1&b=%20", "https://example.org/%2e%2e/x?a=1&b=%20"),
    ],
)
def test_addresses_are_plain(text: str, address: str) -> None:
    assert str(parse_web_address(text)) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "https://",
        "ftp://example.org/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://user@example.org/",
        "https://example.org@evil.example/",
        "https://example.org\\@evil.example/",
        "https://exam\u202eple.org/",
        "https://example.org/a b",
        "https://exa\nmple.org/",
        "https://*.example.org/",
        "https://example.org:99999/",
        "https://example.org:x/",
        "https://[::1/",
        "https://" + "a" * 300 + ".example/",
        "https://example.org/" + "a" * 5_000,
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_web_address(text)
