"""The capabilities of a model on an Ollama server: reported by the server, and learned from its errors.

Facts from Ollama's ``docs/api.md``, ``api/types.go`` and ``server/routes.go`` at v0.33.0 and the versions named:

- Without ``num_ctx`` the context has 4096 tokens, more with much graphics memory. Excess messages are dropped silently
  from the beginning, unless ``truncate`` and ``shift`` are false (since v0.12.6).
- A request with another ``num_ctx`` than that of the loaded model reloads it, which takes seconds and its cache.
  ``/api/ps`` reports the loaded size (since v0.10.0).
- ``/api/show`` reports the context that the model was trained for under ``model_info``, and its ``capabilities`` (since
  v0.6.4): ``tools``, ``vision``, ``thinking``. The server rejects requests for others.
- ``think`` is true or false since v0.9.0, and a level since v0.11.0, which some models reject.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec.structs import replace

from newel.agent.errors import ContextOverflow, ProviderError, RequestRejected
from newel.agent.ports import ModelRequest
from newel.text.json import as_count, as_dict, as_list, as_str, regex

if TYPE_CHECKING:
    from newel.providers.listed_models import ListedModel

DEFAULT_MAX_CONTEXT = 32_768
"""The maximum context in tokens, unless the model's settings set another one. A context uses memory on the host, and
few hosts have enough for all that a model was trained for.
"""

MIN_CONTEXT = 8_192
OUTPUT_RESERVE = 4_096
THINKING_RESERVE = 8_192
"""Tokens reserved for the response and thoughts before it, if the settings have no limit."""

BYTES_PER_TOKEN = 3
"""Fewer than in most text: too large a context costs memory, too small a one costs another request."""

_NUM_CTX = r"(?m)^num_ctx\s+(\d{1,9})\s*$"
_NO_TOOLS = r"does not support tools"
_THINK = r"\bthink"
_NO_THINKING = r"does not support thinking"
_BAD_REQUEST = 400

Think = Literal["level", "switch", "none"]


def is_cloud_model(model: str) -> bool:
    """Whether Ollama runs a model in its cloud: ``gpt-oss:120b-cloud``."""
    return model.endswith(("-cloud", ":cloud"))


class ModelMissing(RequestRejected):
    """The server does not have the ``model``; the user decides whether to download it."""

    def __init__(
        self, message: str, *, model: str = "", status: int | None = 404, retry_after: float | None = None
    ) -> None:
        super().__init__(message, status=status, retry_after=retry_after)
        self.model = model


def missing_model_error(model: str, place: str) -> ModelMissing:
    """The error for a model that the server ``place`` does not have."""
    message = f"{place} does not have the model '{model}'. Get it there: ollama pull {model}"
    return ModelMissing(message, model=model)


class ModelProfile(msgspec.Struct, frozen=True):
    """The settings of requests to a model; sizes are in tokens."""

    trained: int | None = None
    """The context that the model was trained for; None if unknown."""
    num_ctx: int = 0
    """The requested context; before the first request that of the loaded model, or 0."""
    tools: bool = True
    images: bool = True
    think: Think = "level"

    def limit(self, configured: int | None) -> int:
        """The largest context to request; ``configured`` is that of the settings."""
        maximum = configured or max(DEFAULT_MAX_CONTEXT, self.num_ctx)
        return min(maximum, self.trained or maximum)

    def with_room_for(self, size: int, request: ModelRequest) -> ModelProfile:
        """With a context for a body of ``size`` bytes and the response. It grows by doubling, and never shrinks."""
        thoughts = THINKING_RESERVE if request.thinking != "off" and self.think != "none" else 0
        need = size // BYTES_PER_TOKEN + (request.model.max_output or OUTPUT_RESERVE + thoughts)
        return self._grow(need, request)

    def adapted_to(self, error: ProviderError, request: ModelRequest) -> tuple[ModelProfile, str] | None:
        """The profile to try next after a refusal, and the reason; None if the refusal is about something else."""
        if isinstance(error, ContextOverflow):
            grown = self._grow(self.num_ctx + 1, request)
            if grown.num_ctx <= self.num_ctx:
                return None
            return grown, f"with a context of {grown.num_ctx:,} tokens in place of {self.num_ctx:,}"
        if error.status != _BAD_REQUEST:
            return None
        message = str(error)
        if self.tools and request.tools and regex(_NO_TOOLS).search(message):
            return replace(self, tools=False), "with the tools described in the prompt"
        if self.think != "none" and regex(_THINK).search(message):
            if (
                self.think == "level"
                and request.thinking != "off"
                and not regex(_NO_THINKING).search(message)
            ):
                return replace(self, think="switch"), "without a thinking level"
            return replace(self, think="none"), "without `think`"
        return None

    def _grow(self, need: int, request: ModelRequest) -> ModelProfile:
        size = max(self.num_ctx, MIN_CONTEXT)
        while size < need:
            size *= 2
        return replace(self, num_ctx=min(size, self.limit(request.model.context_window)))


def parse_profile(details: dict[str, Any], loaded_models: dict[str, Any], model: str) -> ModelProfile:
    """Parse the answers of ``/api/show`` and ``/api/ps``."""
    info = as_dict(details.get("model_info"))
    trained = as_count(info.get(f"{as_str(info.get('general.architecture'))}.context_length"))
    parameter = regex(_NUM_CTX).search(as_str(details.get("parameters")))
    models = [as_dict(entry) for entry in as_list(loaded_models.get("models"))]
    sizes = [
        as_count(entry.get("context_length")) for entry in models if entry.get("name") == full_name(model)
    ]
    profile = ModelProfile(
        trained=trained or None, num_ctx=max([int(parameter[1]) if parameter else 0, *sizes])
    )
    capabilities = details.get("capabilities")
    if not isinstance(capabilities, list):  # older than v0.6.4, so it does not support thinking either
        return replace(profile, think="none")
    return replace(
        profile,
        tools="tools" in capabilities,
        images="vision" in capabilities,
        think="level" if "thinking" in capabilities else "none",
    )


def describe_model(model: str, details: dict[str, Any]) -> ListedModel:
    """A model with the facts in the answer of ``/api/show``. Its context is the largest that will be requested."""
    from newel.providers.listed_models import ListedModel

    window = parse_profile(details, {}, model).limit(None) if details else None
    capabilities = details.get("capabilities")
    if not isinstance(capabilities, list):
        return ListedModel(model, window)
    return ListedModel(
        model,
        window,
        tools="tools" in capabilities,
        thinking="thinking" in capabilities,
        images="vision" in capabilities,
    )


def full_name(model: str) -> str:
    """A model's name with its tag, as servers list it."""
    return model if ":" in model.rpartition("/")[2] else f"{model}:latest"
