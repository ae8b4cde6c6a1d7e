"""How the page and its server prove to each other that they know the token. Neither sends it, nor anything that another server
could use: what the page sends is worth something to this start of this server only.

    key           of the token and the host     the page keeps it in its storage, which browsers separate by port
    page proof    of the key and the nonce      in each request of the page: ``Newel-Page-Proof``, or a subprotocol of its socket
    server proof  of the key, the nonce and a challenge of the page, which sends nothing else before it has seen that

A *nonce* is of one start of a server. Each of these is an HMAC-SHA-256 in hexadecimal digits; ``web/src/page-login.js`` has the
other side.
"""

from __future__ import annotations

import hmac
from typing import Annotated

import msgspec

from newel.agent.messages import Wire

HEADER = b"newel-page-proof"
SUBPROTOCOL = "newel"
"""What a server accepts of the subprotocols of a page, which are this and a proof."""
PROOF_SUBPROTOCOL = "newel-page-proof."
"""Before the proof: browsers let pages choose no other header of a socket."""


class LoginNonce(Wire, frozen=True):
    """A page proves that it knows the token with this nonce, until the next start of the server."""

    nonce: str


class LoginChallenge(Wire, frozen=True):
    challenge: Annotated[str, msgspec.Meta(min_length=16, max_length=64)]


class LoginProof(Wire, frozen=True):
    """It shows that the server knows the token."""

    proof: str


def derive_key(token: str, host: str) -> str:
    """The key for an address, which is the ``Host`` header: a server on another port cannot pass a page's proof on."""
    return _hmac(token, f"key {host}")


def page_proof(key: str, nonce: str) -> str:
    return _hmac(key, f"page {nonce}")


def server_proof(key: str, nonce: str, challenge: str) -> str:
    return _hmac(key, f"server {nonce} {challenge}")


def _hmac(key: str, text: str) -> str:
    return hmac.digest(key.encode(), text.encode(), "sha256").hex()
