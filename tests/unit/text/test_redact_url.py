"""If these fail, a password in a URL appears on a screen, in a log or in an error."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newel.agent.errors import ConfigError
from newel.providers.http.urls import ollama_http_url, split_base_url
from newel.text.sanitize import is_clear, redact_url
from tests.properties import examples

HOSTS = st.sampled_from(["host", "api.example:8443", "[::1]:80"])
PATHS = st.sampled_from(["", "/", "/v1", "/v1/models"])
SECRETS = st.text(st.sampled_from("ab1:/?#@%\\ …&=") | st.characters(codec="utf-8"), max_size=8)
SCHEMES = st.sampled_from(["http://", "https://", "ollama+https://", "postgres://"])


@settings(max_examples=examples(200))
@given(SCHEMES, SECRETS, SECRETS, HOSTS, PATHS)
def test_credentials_are_never_shown(scheme: str, user: str, password: str, host: str, path: str) -> None:
    """The shown text is one of two that do not depend on the hidden part."""
    shown = redact_url(f"{scheme}{user}:{password}@{host}{path}")
    assert shown in {f"{scheme}…@{host}{path}", f"{scheme}…"}


@settings(max_examples=examples(200))
@given(SCHEMES, SECRETS, HOSTS, PATHS)
def test_query_values_are_never_shown(scheme: str, key: str, host: str, path: str) -> None:
    assert redact_url(f"{scheme}{host}{path}?key={key}") in {f"{scheme}{host}{path}?…", f"{scheme}…"}


@settings(max_examples=examples(200))
@given(st.sampled_from(["http://", "ollama://"]), SECRETS, SECRETS, HOSTS)
def test_a_request_goes_only_to_the_urls_host_and_an_error_shows_no_password(
    scheme: str, user: str, password: str, host: str
) -> None:
    """Otherwise a request, with the key, goes to a host that is the beginning of a name or password."""
    url = f"{scheme}{user}:{password}@{host}/v1"
    take = ollama_http_url if scheme == "ollama://" else split_base_url
    try:
        take(url)
    except ConfigError as error:
        shown = str(error).partition("' is not ")[0]
        assert shown in {f"'{scheme}…@{host}/v1", f"'{scheme}…"} or "contains a '#'" in shown
    else:
        assert not set("/?#") & set(user + password)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://host/v1", "https://host/v1"),
        ("https://me:pw@host:8/v1?team=a", "https://…@host:8/v1?…"),
        ("https://me:p?w@host/v1", "https://…"),
        ("https://me:p#w@host/v1", "https://…"),
        ("https://me:12/w@host/v1", "https://…@host/v1"),
        ("https://me:p@w@host/v1", "https://…@host/v1"),
        ("https://host/v1?key=p@w", "https://…"),
        ("https://host/v1#part", "https://host/v1#…"),
        ("me:pw@host/v1?key=a", "…@host/v1?…"),
        ("me:a://pw@host", "…@host"),
        ("host/v1", "host/v1"),
        ("", ""),
    ],
)
def test_a_redacted_url_is_still_recognizable(url: str, shown: str) -> None:
    assert redact_url(url) == shown


@pytest.mark.parametrize("url", ["http://host/v1", "http://me:pw@host/v1", "http://me:p@w@host/?a=b", "host"])
def test_a_url_with_an_unambiguous_host_is_accepted(url: str) -> None:
    assert is_clear(url)


def test_an_unencoded_password_gets_a_hint() -> None:
    """Otherwise a URL that looks right to its writer is refused without a remedy."""
    with pytest.raises(ConfigError, match="write / \\? # @ as %2F %3F %23 %40"):
        split_base_url("http://me:12/34@host/v1")
    assert split_base_url("http://me:12%2F34@host/v1") == ("http://me:12%2F34@host/v1", "")
