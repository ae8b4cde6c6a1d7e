"""The client for MCP's official conformance suite: ``python -m tests.integration.mcp.conformance_client URL``.

The suite appends the URL of its server. The environment names the scenario and its parameters
(``MCP_CONFORMANCE_SCENARIO``, ``MCP_CONFORMANCE_CONTEXT``). Each scenario connects, lists the tools, calls each, and
accepts every question. The exit code is 0 on success.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec

from newel.agent.ports import ToolResult
from newel.mcp import sdk
from newel.mcp.client_handlers import ClientHandlers
from newel.mcp.server_config import ServerConfig
from newel.mcp.tool_call import call_tool
from newel.mcp.transport_http import HttpTransport
from newel.mcp.types import Caller, ElicitAnswer, ElicitRequest, ToolInfo

if TYPE_CHECKING:
    import httpx2
    from mcp.client import Client

REDIRECT = "http://localhost:3030/callback"
METADATA = "https://conformance-test.local/client-metadata.json"
"""Where the suite believes our metadata to be."""
BASIC: Final = "client_secret_basic"


class ConformanceContext(msgspec.Struct, kw_only=True):
    """The parameters of a scenario; see the suite's README."""

    name: str = ""
    client_id: str = ""
    client_secret: str = ""
    private_key_pem: str = ""
    signing_algorithm: str = "RS256"
    idp_client_id: str = ""
    idp_id_token: str = ""
    idp_token_endpoint: str = ""


def main(url: str) -> int:
    context = msgspec.json.decode(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}", type=ConformanceContext)
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    try:
        anyio.run(_play, url, scenario, context)
    except Exception as error:  # noqa: BLE001 — the suite wants an exit code and reads the words
        sys.stderr.write(f"{scenario}: {sdk.describe_error(error)}\n")
        return 1
    return 0


async def _play(url: str, scenario: str, context: ConformanceContext) -> None:
    await sdk.load()
    auth = await _auth(url, scenario, context) if scenario.startswith("auth/") else None
    config = ServerConfig(name="suite", origin=Path("suite"), level="user", url=url, timeout=20)
    link = HttpTransport(config, auth=auth)
    callbacks = ClientHandlers("suite", sample=None, root=Path.cwd())
    async with sdk.client(link.streams(), callbacks, lambda: None, legacy=False) as client:
        for tool in (await sdk.list_tools(client)).tools:
            result = await _call(client, callbacks, tool)
            sys.stdout.write(f"{tool.name}: {result.output}\n")


async def _call(client: Client, callbacks: ClientHandlers, tool: ToolInfo) -> ToolResult:
    async def accept(_: ElicitRequest) -> ElicitAnswer:
        return ElicitAnswer(action="accept", content={})

    async def show(piece: str) -> None:
        sys.stdout.write(piece)

    async def why_lost() -> str:
        return ""

    return await call_tool(
        client,
        callbacks,
        server="suite",
        tool=tool.name,
        arguments=_arguments(tool.parameters),
        timeout=20,
        on_output=show,
        caller=Caller(accept, None, None),
        why_lost=why_lost,
    )


def _arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """A value for each required argument."""
    made_up: dict[str, Any] = {"number": 2, "integer": 2, "boolean": True, "array": [], "object": {}}
    fields: dict[str, Any] = schema.get("properties", {})
    return {name: made_up.get(fields[name].get("type"), "text") for name in schema.get("required", [])}


# -- authorization ------------------------------------------------------------------------------------


async def _auth(url: str, scenario: str, context: ConformanceContext) -> httpx2.Auth:
    from mcp.client.auth.extensions.client_credentials import (
        ClientCredentialsOAuthProvider,
        PrivateKeyJWTOAuthProvider,
        SignedJWTParameters,
    )

    storage = await _storage(context if scenario == "auth/pre-registration" else ConformanceContext())
    match scenario.removeprefix("auth/"):
        case "client-credentials-basic":
            return ClientCredentialsOAuthProvider(
                url, storage, context.client_id, context.client_secret, issuer=await _issuer(url)
            )
        case "client-credentials-jwt":
            signed = SignedJWTParameters(
                issuer=context.client_id,
                subject=context.client_id,
                signing_key=context.private_key_pem,
                signing_algorithm=context.signing_algorithm,
            )
            return PrivateKeyJWTOAuthProvider(
                url, storage, context.client_id, signed.create_assertion_provider(), issuer=await _issuer(url)
            )
        case "cross-app-access-complete-flow":
            return await _cross_app(url, storage, context)
        case _:
            return _by_browser(url, storage)


async def _storage(context: ConformanceContext) -> Any:
    """Tokens and registration in memory; a client with an id is registered beforehand."""
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
    from pydantic import AnyUrl

    class Storage:
        def __init__(self) -> None:
            self._tokens: OAuthToken | None = None
            self._client: OAuthClientInformationFull | None = None

        async def get_tokens(self) -> OAuthToken | None:
            return self._tokens

        async def set_tokens(self, tokens: OAuthToken) -> None:
            self._tokens = tokens

        async def get_client_info(self) -> OAuthClientInformationFull | None:
            return self._client

        async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
            self._client = client_info

    storage = Storage()
    if context.client_id:
        await storage.set_client_info(
            OAuthClientInformationFull(
                client_id=context.client_id,
                client_secret=context.client_secret,
                redirect_uris=[AnyUrl(REDIRECT)],
                token_endpoint_auth_method=BASIC,
            )
        )
    return storage


def _by_browser(url: str, storage: Any) -> httpx2.Auth:
    """The flow with a browser, played by a request: the suite's server consents at once."""
    import httpx2
    from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata
    from pydantic import AnyUrl

    where: list[httpx2.QueryParams] = []

    async def redirect(address: str) -> None:
        async with httpx2.AsyncClient() as browser:
            answer = await browser.get(address)
        where.append(httpx2.URL(answer.headers["location"]).params)

    async def came_back() -> AuthorizationCodeResult:
        found = where.pop()
        return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))

    metadata = OAuthClientMetadata(
        client_name="newel",
        redirect_uris=[AnyUrl(REDIRECT)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )
    return OAuthClientProvider(url, metadata, storage, redirect, came_back, client_metadata_url=METADATA)


async def _issuer(url: str) -> str:
    """The authorization server that the suite's server names; only here that name is trusted."""
    import httpx2

    address = httpx2.URL(url)
    async with httpx2.AsyncClient() as http:
        found = await http.get(address.join(f"/.well-known/oauth-protected-resource{address.path}"))
    return str(found.raise_for_status().json()["authorization_servers"][0])


async def _cross_app(url: str, storage: Any, context: ConformanceContext) -> httpx2.Auth:
    """A company's identity: its token is exchanged for a grant, and that for the server's token."""
    import httpx2
    from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider

    kind = "urn:ietf:params:oauth"

    async def grant(audience: str, resource: str) -> str:
        form = {
            "grant_type": f"{kind}:grant-type:token-exchange",
            "requested_token_type": f"{kind}:token-type:id-jag",
            "subject_token": context.idp_id_token,
            "subject_token_type": f"{kind}:token-type:id_token",
            "audience": audience,
            "resource": resource,
            "client_id": context.idp_client_id,
        }
        async with httpx2.AsyncClient() as http:
            answer = await http.post(context.idp_token_endpoint, data=form)
        return str(answer.raise_for_status().json()["access_token"])

    return IdentityAssertionOAuthProvider(
        url,
        storage,
        context.client_id,
        context.client_secret,
        await _issuer(url),
        grant,
        token_endpoint_auth_method=BASIC,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
