"""A provider of an extension as a model server."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from newel.agent.errors import ConfigError, NewelError, ProviderError
from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest, OnDelta
from newel.concurrency import isolated
from newel.extensions.api import ExtensionProvider
from newel.hooks.user_function import describe_failure
from newel.text.sanitize import escape_line

if TYPE_CHECKING:
    from newel.providers.listed_models import ListedModel


class ExtensionServer:
    """Fulfils ``ModelServer``. Raises ``ConfigError`` if the extension cannot open its provider."""

    way: str | None = "extension"
    is_local = False
    supports_schema = False

    def __init__(self, registered: ExtensionProvider, api_key: str | None) -> None:
        self.name = registered.name
        self._registered = registered
        try:
            self._provider = registered.open(api_key)
        except (Exception, SystemExit) as error:
            raise ConfigError(
                f"The provider {registered.name} cannot be opened. {describe_failure(error, registered.file)}"
            ) from error

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        try:
            answer = cast("object", await isolated(lambda: self._provider.complete(request, on_delta)))
        except NewelError:
            raise
        except (Exception, SystemExit) as error:
            raise ProviderError(
                f"The provider {self.name} failed. {describe_failure(error, self._registered.file)}"
            ) from error
        if isinstance(answer, AssistantMessage):
            return answer
        raise ProviderError(
            f"The provider {self.name} returned a {type(answer).__name__}, not an AssistantMessage."
        )

    async def models(self) -> list[str]:
        return [*self._registered.models]

    async def list_models(self) -> list[ListedModel]:
        from newel.providers.listed_models import ListedModel

        return [ListedModel(name, self._registered.context_window) for name in self._registered.models]

    async def window(self, model: str) -> int | None:
        return self._registered.context_window if model in self._registered.models else None

    async def is_priced(self, model: str) -> bool:
        del model
        return False

    async def aclose(self) -> None:
        close: Callable[[], object] | None = getattr(self._provider, "aclose", None)
        if close is not None:
            try:
                closed = close()
                if inspect.isawaitable(closed):
                    await closed
            except (Exception, SystemExit) as error:  # noqa: BLE001 — of the user's code; all work is done
                failure = describe_failure(error, self._registered.file)
                told = escape_line(f"The provider {self.name} cannot be closed. {failure}", 2_000)
                print(f"newel: {told}", file=sys.stderr)  # noqa: T201 — no screen is left
