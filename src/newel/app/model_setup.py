"""A workbench without a model, and the server that its user names in the page: for this process, kept nowhere."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack

import msgspec

from newel.agent.errors import ConfigError, ProviderError
from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest, OnDelta
from newel.app.model_resolver import ResolvedModel
from newel.config.settings import Settings
from newel.providers.http.urls import HTTP, OLLAMA, is_loopback
from newel.storage.sqlite import connect
from newel.text.sanitize import redact_url

UNSET = "No model is set up yet. Choose Set up a model, then try again."


class NoServer:
    """Fulfils ``ModelServer`` where there is none."""

    name = "none"
    way = None

    async def complete(self, _request: ModelRequest, _on_delta: OnDelta, /) -> AssistantMessage:
        raise ProviderError(UNSET)

    async def models(self) -> list[str]:
        raise ProviderError(UNSET)

    async def window(self, model: str) -> int | None:  # noqa: ARG002 — the shape of a server
        return None

    async def is_priced(self, model: str) -> bool:  # noqa: ARG002 — the shape of a server
        return False

    async def aclose(self) -> None:
        pass


def no_model(settings: Settings) -> ResolvedModel:
    nobody = NoServer()
    return ResolvedModel(server=nobody, provider=nobody, name="", facts=settings.models)


class CurrentModel:
    """A ``Provider`` that asks whichever model is in use now; a request that was made for none is made for that one."""

    def __init__(self, in_use: Callable[[], ResolvedModel]) -> None:
        self._in_use = in_use

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        now = self._in_use()
        if not request.model.id:
            request = msgspec.structs.replace(request, model=now.model)
        return await now.provider.complete(request, on_delta)


async def connect_named(
    settings: Settings, base_url: str, api_key: str | None, model: str | None, stack: AsyncExitStack
) -> ResolvedModel | list[str]:
    """The server at an address that the user named, which ``stack`` closes; the names of its models where it has several and
    none was chosen. Raises ``ConfigError`` for an address that no key may be sent to, and ``ProviderError``.
    """
    from newel.providers.retry import Retrying

    base_url = base_url.strip().rstrip("/")
    scheme = base_url.partition("://")[0].lower()
    if scheme not in {*HTTP, *OLLAMA}:
        raise ConfigError(
            "An address begins with http://, https:// or ollama://, like http://127.0.0.1:11434/v1."
        )
    if not scheme.endswith("https") and not is_loopback(base_url):
        raise ConfigError(
            f"{redact_url(base_url)} is another machine, and what is sent there could be read on the way. Use its https:// "
            "address, or set LLM_BASE_URL before the start if you mean it."
        )
    async with AsyncExitStack() as undo:
        server = connect(base_url, api_key or None)
        undo.push_async_callback(server.aclose)
        if model is None:
            names = await server.models()
            if len(names) > 1:
                return names
            if not names:
                raise ConfigError(f"{redact_url(base_url)} names no model. Write the name of one.")
            model = names[0]
        stack.push_async_exit(undo.pop_all())
    return ResolvedModel(server=server, provider=Retrying(server), name=model, facts=settings.models)
