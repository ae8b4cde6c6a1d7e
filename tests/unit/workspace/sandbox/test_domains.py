"""If these fail, a command in the sandbox reaches a server that nobody allowed, or not one that the user did allow."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import socket

import pytest

from newel.agent.errors import ConfigError
from newel.workspace.sandbox.domains import is_reachable, parse_domain, parse_host


@pytest.mark.parametrize(
    ("rule", "host", "port", "is_allowed"),
    [
        ("example.org", "example.org", 443, True),
        ("example.org", "example.org", 80, True),
        ("example.org", "example.org", 22, False),
        ("example.org", "a.example.org", 443, False),
        ("example.org", "example.org.evil.test", 443, False),
        ("example.org", "evilexample.org", 443, False),
        ("*.example.org", "a.example.org", 443, True),
        ("*.example.org", "a.b.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "evilexample.org", 443, False),
        ("example.org:8443", "example.org", 8443, True),
        ("example.org:8443", "example.org", 443, False),
        ("Example.ORG.", "example.org", 443, True),
        ("*", "anything.test", 443, True),
        ("*", "anything.test", 25, False),
    ],
)
def test_a_rule_allows_exactly_what_it_names(rule: str, host: str, port: int, is_allowed: bool) -> None:
    assert parse_domain(rule).matches(host, port) is is_allowed


@pytest.mark.parametrize(
    "text",
    ["", "http://example.org", "example.org/path", "exa mple.org", "*.*.org", "a.*.org", "example.org:0", "example.org:99999",
     "example.org:x", "-a.org", "example..org", "user@example.org", "bücher.example", "example.org:80:80", "a" * 300],
)  # fmt: skip
def test_what_is_no_domain_is_an_error_that_shows_one(text: str) -> None:
    with pytest.raises(ConfigError, match=r"example\.org"):
        parse_domain(text)


@pytest.mark.parametrize("text", ["", "*", "*.org", "a b", "a/b", "[::1", "a\r\nb", "a@b", "[fe80::1%eth0]x"])
def test_what_is_no_host_is_not_judged_at_all(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_host(text)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "0.0.0.0",  # noqa: S104 — bound by nobody
        "::1", "::", "169.254.169.254", "169.254.1.1", "fe80::1", "fd00:ec2::254",
        "100.100.100.200", "224.0.0.1", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1",
        "2002:7f00:1::", "255.255.255.255", "168.63.129.16", "::ffff:168.63.129.16", "::127.0.0.1", "64:ff9b:1::7f00:1", "fe80::1%1",
        "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42",
        "fd00:ec2::254%1", "2606:2800:220:1::1%1", "::1%1",  # a zone leads nowhere else: the kernel ignores it
    ],
)  # fmt: skip
def test_this_machine_and_its_cloud_are_never_reached(address: str) -> None:
    parsed = ipaddress.ip_address(address)
    assert not is_reachable(parsed, is_named=False)
    assert not is_reachable(parsed, is_named=True)


def test_the_other_addresses_of_this_machine_are_not_reached_either() -> None:
    """Its services listen there, too, and any name may lead there."""
    own: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has none of IPv4
                answer = fcntl.ioctl(asked, 0x8915, name.encode().ljust(256, b"\0"))  # SIOCGIFADDR
                own.append(socket.inet_ntoa(answer[20:24]))
    assert own
    assert not [each for each in own if is_reachable(ipaddress.ip_address(each), is_named=True)]


@pytest.mark.parametrize(
    "address", ["10.0.0.5", "192.168.1.1", "172.16.3.4", "fd12:3456::1", "fec0::1", "::ffff:10.0.0.5"]
)
def test_a_private_network_is_reached_only_by_a_name_in_a_rule(address: str) -> None:
    parsed = ipaddress.ip_address(address)
    assert not is_reachable(parsed, is_named=False)
    assert is_reachable(parsed, is_named=True)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1"])
def test_the_internet_is_reached(address: str) -> None:
    assert is_reachable(ipaddress.ip_address(address), is_named=False)
