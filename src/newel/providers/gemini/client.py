"""Client of Google's Gemini API, ``generateContent``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack
from urllib.parse import quote

from newel.agent.ports import ModelRequest
from newel.providers.api_client import ApiClient, ClientOptions
from newel.providers.gemini.encoder import GeminiCompat, GeminiEncoder, model_name
from newel.text.json import as_count, as_list, as_str, regex

if TYPE_CHECKING:
    from newel.providers.listed_models import ListedModel
    from newel.providers.response_reader import Accumulator

VERSION = "/v1beta"
METHOD = "generateContent"

_HAS_VERSION = r"/v\d+\w*$"


class Gemini(ApiClient[GeminiCompat]):
    """A ``ModelServer`` that speaks the Gemini API. ``base_url`` is the URL before ``/models``, with or without the API's version;
    for the rest see ``ApiClient``.

    Models may reject settings of thinking, schemas of tools, ids of calls, and the output limit.
    """

    way = f"/models/NAME:{METHOD}"
    list_path = "/models?pageSize=1000"
    api = "the Gemini API"
    base_hint = "Google's is https://generativelanguage.googleapis.com"

    def __init__(
        self, *, base_url: str, api_key: str | None, name: str = "gemini", **options: Unpack[ClientOptions]
    ) -> None:
        secret = (api_key or "").strip()
        headers = {"x-goog-api-key": secret} if secret else {}
        super().__init__(
            base_url=versioned_url(base_url),
            secret=secret,
            name=name,
            key_headers=headers,
            compat=GeminiCompat(),
            **options,
        )
        self._encoder = GeminiEncoder(name)

    def _encode(self, request: ModelRequest, compat: GeminiCompat) -> bytes:
        return self._encoder.body(request, compat)

    def _accumulator(self, request: ModelRequest) -> Accumulator:
        from newel.providers.gemini.stream import GeminiAccumulator

        return GeminiAccumulator(request.tools)

    def _path(self, request: ModelRequest, compat: GeminiCompat) -> str:
        model = model_name(request)
        collection = "" if model.startswith("tunedModels/") else "models/"
        method = "streamGenerateContent?alt=sse" if compat.stream else METHOD
        return f"/{collection}{quote(model)}:{method}"

    def _listed(self, fields: dict[str, Any]) -> ListedModel | None:
        from newel.providers.listed_models import ListedModel

        methods = fields.get("supportedGenerationMethods")
        if methods is not None and METHOD not in as_list(methods):
            return None
        return ListedModel(
            as_str(fields.get("name")).removeprefix("models/"),
            as_count(fields.get("inputTokenLimit")) or None,
            as_count(fields.get("outputTokenLimit")) or None,
        )


def versioned_url(base_url: str) -> str:
    """Return a base URL with the version of the API, if it has none."""
    url, mark, query = base_url.strip().partition("?")
    url = url.rstrip("/")
    return f"{url}{'' if regex(_HAS_VERSION).search(url) else VERSION}{mark}{query}"
