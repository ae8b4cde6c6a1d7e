"""Base of the clients of model APIs over HTTP: requests, streamed responses, features that a server rejects, model lists."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypedDict, TypeVar

import anyio
import msgspec

from newel.agent.errors import ConnectionFailed, ProviderError
from newel.agent.events import Retry
from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest, OnDelta, Price
from newel.providers.http.client import HttpClient
from newel.providers.http.urls import is_private
from newel.text.json import as_dict, as_list, parse

if TYPE_CHECKING:
    from newel.providers.errors import EndpointDescription
    from newel.providers.listed_models import ListedModel
    from newel.providers.response_reader import Accumulator

LIST_TIMEOUT_S = 10.0
"""Time for a list of models: the user waits for it before the work starts."""

MAX_LIST_BYTES = 8 * 2**20


class Compat(Protocol):
    """The features of an API that a server supports for a model, learned from its rejections. Immutable."""

    def adapted_to(self, error: ProviderError, request: ModelRequest, /) -> tuple[Self, str] | None:
        """Return the features to try next and a description; None if the rejection has another reason."""
        ...


class ClientOptions(TypedDict, total=False):
    """What all clients accept; see ``ApiClient``."""

    headers: Mapping[str, str]
    timeout: float
    list_timeout: float
    price: Price | None
    is_listed: Callable[[str], bool] | None
    listed_window: Callable[[str], int | None] | None
    key_variable: str


C = TypeVar("C", bound=Compat)


class ApiClient(ABC, Generic[C]):
    """A ``ModelServer`` over HTTP. A subclass has the API's paths, and encodes and decodes its bodies.

    ``base_url`` is the URL before the API's path, with its query; ``secret`` is kept out of messages, and ``key_headers`` carry
    it; ``headers`` go with each request, too. ``timeout`` is in seconds without a byte, ``list_timeout`` for the whole list of models.
    ``price``, ``is_listed`` (whether it knows a model), and ``listed_window`` (the context of a model that the server does not report) run
    in a thread, as they may be slow. ``key_variable`` is named in messages about a missing key. Raises ``ConfigError`` for an invalid URL
    or key.

    Features that a server rejects are omitted from then on; a ``Retry`` without delay reports it.
    """

    way: str
    """The path of requests."""
    list_path = "/models"
    supports_schema = False
    api = "a chat completions server"
    """What the server should be, in messages about one that is not."""
    base_hint = "most end in /v1"
    """What to check about a base URL."""

    def __init__(
        self,
        *,
        base_url: str,
        secret: str,
        name: str,
        key_headers: Mapping[str, str],
        compat: C,
        headers: Mapping[str, str] = MappingProxyType({}),
        timeout: float = 120.0,
        list_timeout: float = LIST_TIMEOUT_S,
        price: Price | None = None,
        is_listed: Callable[[str], bool] | None = None,
        listed_window: Callable[[str], int | None] | None = None,
        key_variable: str = "LLM_AUTH_TOKEN",
    ) -> None:
        self.name = name
        self.is_local = is_private(base_url)
        self._secret = secret
        self._key_hint = f"Set {key_variable} or --api-key"
        sent = {"Accept": "text/event-stream, application/json", "Content-Type": "application/json"}
        self._http = HttpClient(
            base_url,
            headers=sent | {"User-Agent": "newel"} | dict(headers) | dict(key_headers),
            timeout=timeout,
        )
        self._list_timeout = list_timeout
        self._price = price
        self._is_listed = is_listed
        self._listed_window = listed_window
        self._default_compat = compat
        self._compat: dict[str, C] = {}

    # -- what an API defines ---------------------------------------------------------------------

    @abstractmethod
    def _encode(self, request: ModelRequest, compat: C) -> bytes:
        """Return the body of a request."""

    @abstractmethod
    def _accumulator(self, request: ModelRequest) -> Accumulator:
        """Return an accumulator for the response. Called when the request has been sent: it may import modules."""

    def _path(self, request: ModelRequest, compat: C) -> str:  # noqa: ARG002 — for subclasses
        """Return the path of a request, below the base URL."""
        return self.way

    @abstractmethod
    def _listed(self, fields: dict[str, Any]) -> ListedModel | None:
        """Return a model of the server's list; None if it cannot be asked."""

    # -- the model server ------------------------------------------------------------------------

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """Ask the model; see ``Provider.complete``."""
        attempt = 0
        while True:
            compat = self._compat.get(request.model.id, self._default_compat)
            try:
                message = await self._ask(request, compat, on_delta)
            except ProviderError as error:
                adapted = compat.adapted_to(error, request)
                if adapted is None:
                    raise
                attempt += 1
                self._compat[request.model.id] = adapted[0]
                reason = f"the server rejected the request; retrying {adapted[1]}"
                retry = Retry(attempt=attempt, max_attempts=attempt, delay=0.0, reason=reason)
            else:
                return await self._with_cost(message)
            await on_delta(retry)

    async def models(self) -> list[str]:
        """Return the names of the server's models, in its order. Raises ``ProviderError``."""
        return [model.name for model in await self.list_models()]

    async def window(self, model: str) -> int | None:
        """Return the size of a model's context in tokens: by the server's list of models, else by ``listed_window``.

        Raises ``ProviderError``.
        """
        try:
            sizes = [each.context_window for each in await self.list_models() if each.name == model]
        except ProviderError:
            if self._listed_window is None:
                raise
            sizes = []
        size = next(iter(sizes), None)
        if size or self._listed_window is None:
            return size
        return await anyio.to_thread.run_sync(self._listed_window, model, abandon_on_cancel=True)

    async def is_priced(self, model: str) -> bool:
        """Return whether the cost of a model's responses is known. Never raises."""
        if self._is_listed is None:
            return False
        return await anyio.to_thread.run_sync(self._is_listed, model, abandon_on_cancel=True)

    async def list_models(self) -> list[ListedModel]:
        """Return the server's models, in its order. Raises ``ProviderError``."""
        from newel.providers.errors import error_from_foreign_body, read_error

        endpoint = self._endpoint(self.list_path, "")
        progress = "nothing"
        try:
            with anyio.fail_after(self._list_timeout):
                async with self._http.request("GET", self.list_path) as response:
                    progress = "no complete list"
                    if not response.ok:
                        raise await read_error(response, endpoint)
                    body = await response.read(MAX_LIST_BYTES)
        except TimeoutError as error:
            raise ConnectionFailed(f"{endpoint.url} sent {progress} for {self._list_timeout:g} s.") from error
        try:
            fields = as_dict(parse(body))
        except ValueError:
            fields = {}
        if "data" not in fields and "models" not in fields:
            raise error_from_foreign_body(body, response.content_type, endpoint)
        entries = as_list(fields.get("data")) or as_list(fields.get("models"))
        return [model for entry in entries if (model := self._listed(as_dict(entry))) and model.name]

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _ask(self, request: ModelRequest, compat: C, on_delta: OnDelta) -> AssistantMessage:
        path = self._path(request, compat)
        body = self._encode(request, compat)
        async with self._http.request("POST", path, body) as response:
            # What reads the response is loaded when the request has been sent.
            from newel.providers.errors import read_error
            from newel.providers.response_reader import ResponseReader

            endpoint = self._endpoint(path, request.model.id)
            if not response.ok:
                raise await read_error(response, endpoint)
            accumulator = self._accumulator(request)
            await ResponseReader(response, accumulator, endpoint, on_delta).read()
        for delta in accumulator.close():
            await on_delta(delta)
        return accumulator.message(model=request.model.id, provider=self.name)

    async def _with_cost(self, message: AssistantMessage) -> AssistantMessage:
        if self._price is None:
            return message
        cost = await anyio.to_thread.run_sync(self._price, message, abandon_on_cancel=True)
        return message if cost is None else msgspec.structs.replace(message, cost=cost)

    def _endpoint(self, path: str, model: str) -> EndpointDescription:
        from newel.providers.errors import EndpointDescription

        return EndpointDescription(
            self._http.display_url(path), model, self._secret, self.api, self.base_hint, self._key_hint
        )
