"""The login of a page without a screen, written from docs/protocol.md rather than with the server's own functions."""

from __future__ import annotations

import hashlib
import hmac as of_python

import httpx2

from tests.integration.web.served_workbench import TOKEN, ServedWorkbench


def hmac(key: str, text: str) -> str:
    return of_python.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


async def sign_in(server: ServedWorkbench) -> dict[str, str]:
    """The headers of a page that knows the token."""
    async with httpx2.AsyncClient(trust_env=False) as client:
        nonce = (await client.get(f"{server.url}/api/login")).json()["nonce"]
    key = hmac(TOKEN, f"key 127.0.0.1:{server.door.port}")
    return {"Newel-Page-Proof": hmac(key, f"page {nonce}"), "Origin": server.url}
