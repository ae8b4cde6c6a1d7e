"""Finds the server that has a folder already: a workbench is served by one process at a time."""

from __future__ import annotations

import contextlib
import os
import secrets
from http import HTTPStatus
from typing import Final

import anyio
import msgspec

from newel.app.web_server import WebOptions, choose_saved_token, serve_workbench
from newel.config.settings import Settings, load_settings

_START_TIMEOUT_S: Final = 10.0
"""Seconds that another process, which has the folder, may take until it serves it."""
_ANSWER_TIMEOUT_S: Final = 2.0
_POLL_S: Final = 2.0


def join_workbench(options: WebOptions) -> int:
    """If the folder is served already, print that server's address and wait for its end, else serve it; returns the exit code."""
    settings = load_settings(options.flags, cwd=options.cwd, environ=os.environ)
    anyio.run(_join, settings, options)
    return 0


async def _join(settings: Settings, options: WebOptions) -> None:
    if options.ephemeral or (address := await find_running(settings, options)) is None:
        await serve_workbench(settings, options)
        return
    print(address, flush=True)  # noqa: T201 — for the program that started us
    await _wait_for_end(address)


async def find_running(settings: Settings, options: WebOptions) -> str | None:
    """The address, with its token, of the server that has this folder; None if there is none that takes our token."""
    from newel.contracts.run_index import journal_folder
    from newel.jobs.directory_lock import find_holder
    from newel.storage.file_lock import LockHolder

    def holder() -> LockHolder | None:
        return None if settings.host else find_holder(journal_folder(settings.home, str(settings.cwd)))

    with anyio.move_on_after(_START_TIMEOUT_S):
        while (found := holder()) is not None and found.is_running:
            if not found.place:  # it is starting
                await anyio.sleep(0.1)
                continue
            token = options.token or choose_saved_token(settings, options)
            match await _status_of(found.place, token):
                case HTTPStatus.OK:
                    return f"{found.place.rstrip('/')}/#token={token}"
                case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
                    return None
                case _:
                    await anyio.sleep(0.2)
    return None


async def _status_of(address: str, token: str) -> int:
    """The status with which a server of this machine answers to a token; 0 without an answer, or if it does not know the token.
    Another program may have taken the port, so the token is not sent.
    """
    import httpx2

    from newel.web.page_login import HEADER, LoginNonce, LoginProof, derive_key, page_proof, server_proof

    url = httpx2.URL(address)
    if url.scheme != "http" or url.host not in {"127.0.0.1", "::1", "localhost"}:
        return 0
    async with httpx2.AsyncClient(trust_env=False, timeout=_ANSWER_TIMEOUT_S) as client:
        with contextlib.suppress(httpx2.HTTPError, msgspec.DecodeError):
            login = url.join("/api/login")
            nonce = msgspec.json.decode((await client.get(login)).content, type=LoginNonce).nonce
            host = url.netloc.decode()
            key, challenge = derive_key(token, host), secrets.token_urlsafe()
            headers = {HEADER.decode(): page_proof(key, nonce), "Origin": f"http://{host}"}
            answer = await client.post(login, json={"challenge": challenge}, headers=headers)
            if answer.status_code != HTTPStatus.OK:
                return answer.status_code
            proof = msgspec.json.decode(answer.content, type=LoginProof).proof
            return HTTPStatus.OK if proof == server_proof(key, nonce, challenge) else 0
    return 0


async def _wait_for_end(address: str) -> None:
    """Wait until a server no longer answers at its address with a token."""
    place, _, token = address.partition("#token=")
    while await _status_of(place, token) == HTTPStatus.OK:  # noqa: ASYNC110 — it belongs to another process
        await anyio.sleep(_POLL_S)
