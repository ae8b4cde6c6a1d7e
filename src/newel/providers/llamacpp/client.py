"""A model file on this machine as a ``ModelServer``."""

from __future__ import annotations

import os
import secrets
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import anyio
import msgspec

from newel.agent.errors import ConnectionFailed, RequestRejected, ServerFailed
from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest, OnDelta
from newel.providers.listed_models import ListedModel
from newel.providers.llamacpp.model_file import ModelFile, available_memory, load_model_file
from newel.providers.llamacpp.process import OnProgress, ServerProcess
from newel.providers.llamacpp.server_main import ServerOptions
from newel.providers.openai.chat import OpenAIChat
from newel.version import install_with

PACKAGE: Final = "xllamacpp"

TIMEOUT_S: Final = 3_600.0
"""Seconds without a byte: a processor may read a long prompt for many minutes, and another request may be before this one. The
end of the process breaks the connection at once.
"""

NO_REUSE: Final = {"Connection": "close"}
"""llama.cpp closes one in ten connections after a stream, without announcing it; the next request on it would fail. A new one to
this machine costs nothing.
"""

MISSING_EXTRA: Final = f"Models in files need the extra `local`, which is not installed. Install Newel with it: {install_with('local')}."

_NO_IMAGES: Final = "image input is not supported"
"""llama.cpp reports it as a failure of its own (500), which would be retried."""


class LlamaCpp:
    """A ``ModelServer`` for the GGUF file at ``path``. ``context`` is the size of its context in tokens; without it, that of the
    first request's model counts, else the largest that suits the file and the memory. ``on_progress`` gets messages while the model
    is being loaded.

    The first request starts a process that loads the model. A process that died is replaced by the next request.
    """

    way = OpenAIChat.way
    is_local = True
    supports_schema = True

    def __init__(
        self,
        path: Path,
        *,
        context: int | None = None,
        name: str = "llamacpp",
        on_progress: OnProgress | None = None,
    ) -> None:
        self.name = name
        self.path = path
        self._context = context
        self._on_progress = on_progress
        self._starting = anyio.Lock()
        self._process: ServerProcess | None = None
        self._chat: OpenAIChat | None = None

    @property
    def process(self) -> ServerProcess | None:
        """The process that serves the model; None if there is none."""
        return self._process if self._process is not None and self._process.is_running else None

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """Ask the model; see ``Provider.complete``. It costs nothing."""
        if request.model.id != self.path.name:
            raise RequestRejected(
                f"llamacpp:{self.path} has no model '{request.model.id}', only '{self.path.name}'. Choose that one."
            )
        process, chat = await self._started(request.model.context_window)
        try:
            message = await chat.complete(request, on_delta)
        except ConnectionFailed as error:
            if self._process is process and await process.wait_for_exit():
                raise process.crash_error() from error
            raise
        except ServerFailed as error:
            if _NO_IMAGES not in str(error):
                raise
            raise RequestRejected(
                f"{self.path.name} does not read images. Remove them from the conversation."
            ) from error
        return msgspec.structs.replace(message, cost=0.0)

    async def models(self) -> list[str]:
        """Return the file's name, if the file can be loaded. Raises ``ProviderError``."""
        return [(await self._checked_file()).name]

    async def list_models(self) -> list[ListedModel]:
        """Return the file with the size of its context, if it can be loaded. Raises ``ProviderError``."""
        return [ListedModel(name, await self.window(name)) for name in await self.models()]

    async def window(self, model: str) -> int | None:
        """Return the size of the context in tokens: the server's, or before it runs the one that it will have. Raises
        ``ProviderError``.
        """
        if self._chat is not None and self.process is not None:
            return await self._chat.window(model)
        file = await self._checked_file()
        return file.plan(self._context, available_memory()).context

    async def is_priced(self, model: str) -> bool:  # noqa: ARG002 — the port's shape
        """Nothing costs anything here."""
        return True

    async def aclose(self) -> None:
        """End the process and wait for it. The next request starts another one."""
        async with self._starting:
            await self._end()

    async def _started(self, context: int | None) -> tuple[ServerProcess, OpenAIChat]:
        """Return the running process and its client, after starting it if necessary."""
        async with self._starting:
            if self._process is not None and self._chat is not None and self._process.is_running:
                return self._process, self._chat
            await self._end()
            self._process, self._chat = await self._start(self._context or context)
            return self._process, self._chat

    async def _start(self, context: int | None) -> tuple[ServerProcess, OpenAIChat]:
        file = await self._checked_file()
        plan = file.plan(context, available_memory())
        options = ServerOptions(
            path=str(file.path),
            alias=file.name,
            key=secrets.token_urlsafe(32),
            context=plan.context,
            cache_mib=plan.cache_mib,
            threads=max(1, _processors() - 1),
        )
        process = ServerProcess(options)
        await process.start(self._on_progress)
        chat = OpenAIChat(
            base_url=f"{process.url}/v1",
            api_key=options.key,
            name=self.name,
            timeout=TIMEOUT_S,
            headers=NO_REUSE,
        )
        return process, chat

    async def _checked_file(self) -> ModelFile:
        if find_spec(PACKAGE) is None:
            raise RequestRejected(MISSING_EXTRA)
        return await anyio.to_thread.run_sync(load_model_file, self.path, abandon_on_cancel=True)

    async def _end(self) -> None:
        chat, process = self._chat, self._process
        self._chat = self._process = None
        if chat is not None:
            await chat.aclose()
        if process is not None:
            with anyio.CancelScope(shield=True):
                await process.end()


def _processors() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
