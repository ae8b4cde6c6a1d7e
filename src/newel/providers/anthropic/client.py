"""Client of servers that speak Anthropic's Messages API, exactly or nearly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from newel.agent.ports import ModelRequest
from newel.providers.anthropic.compat import MessagesCompat
from newel.providers.anthropic.encoder import MessagesEncoder
from newel.providers.api_client import ApiClient, ClientOptions
from newel.text.json import as_count, as_str

if TYPE_CHECKING:
    from newel.providers.listed_models import ListedModel
    from newel.providers.response_reader import Accumulator

VERSION = "2023-06-01"
INTERLEAVED_THINKING = "interleaved-thinking-2025-05-14"
"""Lets models with a thinking budget think between calls. The API ignores it for all others."""

OAUTH = "oauth-2025-04-20"
OAUTH_PREFIX = "sk-ant-oat"
"""A key that begins like this is an OAuth token, for which the server wants another header."""

LIST_LIMIT = 1000
"""Models on one page, the most that the API allows."""


class AnthropicMessages(ApiClient[MessagesCompat]):
    """A ``ModelServer`` that speaks the Messages API. ``base_url`` is the URL before ``/v1/messages``, with or without the
    ``/v1``; for the rest see ``ApiClient``. A header ``anthropic-beta`` in ``headers`` replaces this client's own.
    """

    api = "a Messages API server"
    base_hint = "it is the part before /v1/messages"

    def __init__(
        self, *, base_url: str, api_key: str | None, name: str = "anthropic", **options: Unpack[ClientOptions]
    ) -> None:
        secret = (api_key or "").strip()
        base_url, version_path = split_version(base_url)
        self.way = f"{version_path}/messages"
        # The server's own query, if its URL has one, would follow ours.
        self.list_path = f"{version_path}/models" + ("" if "?" in base_url else f"?limit={LIST_LIMIT}")
        betas = [INTERLEAVED_THINKING]
        key_headers = {"anthropic-version": VERSION}
        if secret.startswith(OAUTH_PREFIX):
            betas.append(OAUTH)
            key_headers["Authorization"] = f"Bearer {secret}"
        elif secret:
            key_headers["x-api-key"] = secret
        options["headers"] = {"anthropic-beta": ",".join(betas)} | dict(options.get("headers", {}))
        super().__init__(
            base_url=base_url,
            secret=secret,
            name=name,
            key_headers=key_headers,
            compat=MessagesCompat(),
            **options,
        )
        self._encoder = MessagesEncoder(name)

    def _encode(self, request: ModelRequest, compat: MessagesCompat) -> bytes:
        return self._encoder.body(request, compat)

    def _accumulator(self, request: ModelRequest) -> Accumulator:
        from newel.providers.anthropic.stream import AnthropicAccumulator

        return AnthropicAccumulator(request.tools)

    def _listed(self, fields: dict[str, Any]) -> ListedModel | None:
        from newel.providers.listed_models import ListedModel

        window = as_count(fields.get("max_input_tokens")) or None
        return ListedModel(as_str(fields.get("id")), window, as_count(fields.get("max_tokens")) or None)


def split_version(base_url: str) -> tuple[str, str]:
    """Return the base URL without a pasted ``/messages``, and the version's path if the URL lacks it."""
    url, mark, query = base_url.strip().partition("?")
    url = url.rstrip("/").removesuffix("/messages").rstrip("/")
    return url + mark + query, "" if url.endswith("/v1") else "/v1"
