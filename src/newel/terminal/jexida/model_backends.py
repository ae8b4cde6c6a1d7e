"""Ways to jexida's model: Ollama on the host, or an API that this machine reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from newel.providers.ollama.cli import OllamaCli
from newel.providers.ollama.remote import RemoteOllama
from newel.providers.retry import Retrying
from newel.terminal.jexida.protocol import SCHEMA
from newel.text.format import as_clause

if TYPE_CHECKING:
    from newel.agent.messages import AssistantMessage
    from newel.agent.ports import ModelRequest, OnDelta, Provider
    from newel.config.jexida import ModelChoice
    from newel.providers.model_server import ModelServer
    from newel.workspace.ssh.lazy_connection import LazyConnection


class HostModels:
    """A ``ModelBackend`` to the models of the host, and the ``Provider`` behind it. A host that cannot be reached is not
    retried: the reason was already reported.
    """

    def __init__(self, lazy: LazyConnection, choice: ModelChoice) -> None:
        self._lazy = lazy
        self._ollama = (
            OllamaCli(lazy) if choice.through == "run" else RemoteOllama(lazy.tunnel, lazy, port=choice.port)
        )
        self._retrying = Retrying(self._ollama)
        self.pull = self._ollama.pull
        self.aclose = self._ollama.aclose

    @property
    def provider(self) -> Provider:
        return self

    async def models(self) -> list[str]:
        """The names of the host's models. Raises ``ProviderError`` and ``WorkspaceError``."""
        await self._lazy.get()
        return await self._ollama.models()

    async def check(self, model: str) -> None:
        """Raises ``ModelMissing`` for a model that the host does not have, and the errors of ``models``."""
        await self._lazy.get()
        await self._ollama.window(model)  # fails for a missing model

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """See ``Provider``. Raises ``WorkspaceError`` too."""
        await self._lazy.get()
        held = msgspec.structs.replace(request, response_schema=SCHEMA)
        return await self._retrying.complete(held, on_delta)

    @property
    def description(self) -> str:
        way, reason = self._ollama.way, self._ollama.reason
        if way is None:
            return f"not reached ({as_clause(reason)})" if reason else "not asked yet"
        return f"{way} ({as_clause(reason)})" if reason else way


class ApiModels:
    """A ``ModelBackend`` to a server that this machine reaches directly; its key stays here."""

    pull = None

    def __init__(self, client: ModelServer) -> None:
        self.provider = Retrying(client)
        self.description = f"API of {client.name}"
        self.models = client.models

    async def check(self, model: str) -> None:
        """Servers may have models that they do not list: a wrong name is reported by the first request."""
