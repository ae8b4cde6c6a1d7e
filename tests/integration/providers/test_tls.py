"""If these fail, model servers behind TLS are refused, or accepted without a valid certificate."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest
import trustme

from mock_llm_server import running
from newel.agent.errors import ConnectionFailed, RequestRejected
from newel.agent.messages import UserMessage
from tests.integration.providers.raw import DONE, HELLO, Connect, RawServer, Serve, ask, sse, tunnels

pytestmark = pytest.mark.anyio

NAME = "model.example"
ANSWER = sse(HELLO, DONE)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this machine trust the authority."""
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setitem(os.environ, "SSL_CERT_FILE", str(tmp_path / "authority.pem"))


@pytest.fixture
def server(authority: trustme.CA, serve: Serve) -> RawServer:
    """A server with a certificate for ``NAME`` and for its address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with authority.issue_cert(NAME, "127.0.0.1").private_key_and_cert_chain_pem.tempfile() as path:
        context.load_cert_chain(path)
    return serve(ANSWER, tls=context)


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("said", ["Hi", "word " * 100_000], ids=["short", "long"])
async def test_a_certificate_of_a_trusted_authority_is_accepted(
    said: str, server: RawServer, connect: Connect
) -> None:
    """Otherwise no remote server is usable, or each request pays for a connection."""
    provider = connect(server.url)
    for _ in range(3):
        message, _ = await ask(provider, messages=[UserMessage(said)])
        assert message.text == "Hello, wörld"
    assert server.sent()["messages"][-1]["content"] == said
    assert server.connections == 1


async def test_a_server_with_an_untrusted_certificate_gets_nothing(
    server: RawServer, connect: Connect
) -> None:
    """Otherwise a man in the middle gets the key; and the user must learn what to do."""
    with pytest.raises(
        RequestRejected,
        match=r"is not trusted.*Install its authority on this machine, or use the server.s http:// address\.",
    ):
        await ask(connect(server.url))
    assert server.requests == []


@pytest.mark.usefixtures("trusted")
async def test_a_server_with_another_hosts_certificate_gets_nothing(
    server: RawServer, connect: Connect
) -> None:
    """Otherwise any server with any certificate would get the key."""
    with pytest.raises(RequestRejected, match=r"is not trusted.*localhost"):
        await ask(connect(server.url.replace("127.0.0.1", "localhost")))
    assert server.requests == []


@pytest.mark.usefixtures("trusted")
async def test_https_works_through_a_proxy(
    server: RawServer, serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise users behind one cannot reach remote servers; and the proxy must not see the key."""
    proxy = serve(tunnels(server.port))
    monkeypatch.setitem(os.environ, "https_proxy", f"http://me:word@127.0.0.1:{proxy.port}")
    message, _ = await ask(connect(f"https://{NAME}/v1"))
    assert message.text == "Hello, wörld"
    [(head, body)] = proxy.requests
    assert head.startswith(f"CONNECT {NAME}:443 ".encode())
    assert b"proxy-authorization: basic " in head.lower()
    assert b"sk-test-key" not in head + body
    assert b"sk-test-key" in server.requests[0][0]


async def test_nobody_is_advised_to_disable_tls_for_a_remote_server(
    server: RawServer, serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a user under attack hands over the key and the conversation on Newel's own advice."""
    proxy = serve(tunnels(server.port))
    monkeypatch.setitem(os.environ, "https_proxy", f"http://127.0.0.1:{proxy.port}")
    with pytest.raises(
        RequestRejected, match=r"is not trusted.*Check the host name.*clock.*intercept"
    ) as refused:
        await ask(connect(f"https://{NAME}/v1"))
    assert "http://" not in str(refused.value)
    assert server.requests == []


async def test_a_server_without_tls_is_named_at_once(connect: Connect) -> None:
    """Otherwise who mistypes https:// waits for five attempts, and reads of a wrong version number."""
    with (
        running() as server,
        pytest.raises(
            ConnectionFailed, match=r"answers without TLS.*Begin the base URL with http://\."
        ) as failed,
    ):
        await ask(connect(f"{server.url.replace('http://', 'https://')}/v1"))
    assert not failed.value.retryable
