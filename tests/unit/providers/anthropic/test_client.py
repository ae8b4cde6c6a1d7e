"""If these fail, a base URL that works elsewhere does not work here."""

from __future__ import annotations

import pytest

from newel.providers.anthropic.client import AnthropicMessages, split_version


@pytest.mark.parametrize(
    ("base_url", "expected"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1/messages", "https://api.anthropic.com/v1/messages"),
        ("https://host/anthropic", "https://host/anthropic/v1/messages"),
        ("https://host/anthropic/v1/", "https://host/anthropic/v1/messages"),
        ("https://host/a?tenant=x", "https://host/a/v1/messages?tenant=x"),
    ],
)
def test_base_urls_with_and_without_the_version(base_url: str, expected: str) -> None:
    """Otherwise the user gets a 404 for an address copied from the server's own documentation."""
    url, version_path = split_version(base_url)
    url, mark, query = url.partition("?")
    assert f"{url}{version_path}/messages{mark}{query}" == expected
    client = AnthropicMessages(base_url=base_url, api_key="k")
    assert client.way == f"{version_path}/messages"
    assert ("?" in client.list_path) is not ("?" in base_url)
