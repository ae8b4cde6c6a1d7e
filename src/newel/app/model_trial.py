"""A trial of a model server: one request for one token, and remedies for what goes wrong."""

from __future__ import annotations

from typing import Final, NamedTuple

import anyio

from newel.agent.errors import NewelError, ProviderError, RateLimited, RequestRejected
from newel.agent.messages import UserMessage
from newel.agent.ports import Model, ModelRequest
from newel.config.endpoint import EndpointSettings
from newel.providers.errors import KeyRejected
from newel.providers.http.urls import is_loopback
from newel.providers.model_server import ModelServer

TIMEOUT_S: Final = 20.0
"""For one token; a server may load its model first."""

ADDRESSES: Final = "Most end in /v1; Ollama's own is ollama://host:11434."


class ModelTrial(NamedTuple):
    """``works`` is None if it is unknown. ``rejection`` is the server's reason to refuse the key, empty if it does not."""

    works: bool | None
    message: str
    rejection: str = ""


async def try_model(endpoint: EndpointSettings, client: ModelServer, name: str) -> ModelTrial:
    """Request one token: many servers list their models without a valid key. Ollama loads the model first."""
    untested = "The key was not tested" if endpoint.api_key else "Not tested"
    request = ModelRequest(Model(name, client.name, max_output=1), "", [UserMessage("Hi")])
    try:
        with anyio.fail_after(TIMEOUT_S):
            await client.complete(request, _ignore)
    except TimeoutError:
        loading = " The server may still be loading it." if is_loopback(endpoint.base_url) else ""
        return ModelTrial(None, f"{untested}: {name} did not answer within {TIMEOUT_S:g} s.{loading}")
    except KeyRejected as error:
        return ModelTrial(False, str(error), error.reason)
    except (RateLimited, RequestRejected) as error:
        if error.status not in {401, 402, 403, 404}:  # some reject so short an answer, or are busy
            return ModelTrial(None, f"{untested}. {error}")
        return ModelTrial(False, str(error))
    except ProviderError as error:
        return ModelTrial(False, f"{error}{remedy(error)}")
    return ModelTrial(True, f"{name} answers {'with this key' if endpoint.api_key else 'without a key'}")


async def _ignore(_: object) -> None:
    """The answer does not matter."""


def remedy(error: NewelError) -> str:
    """What to do about an error, on a line of its own; empty if the server answered, as its message says that."""
    if isinstance(error, ProviderError) and error.status:
        return ""
    return f"\nCheck that the server is running and that the base URL is right. {ADDRESSES}"
