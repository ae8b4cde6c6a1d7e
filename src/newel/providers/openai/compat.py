"""What one server makes of the protocol: learned from its refusals, remembered per model."""

from __future__ import annotations

import msgspec

from newel.agent.errors import ContextOverflow, ProviderError
from newel.agent.ports import ModelRequest
from newel.text.json import regex

_MENTIONS_LIMIT = r"max_(?:completion_)?tokens"
_MENTIONS_EFFORT = r"(?i)reasoning[_ .]effort|does not support thinking"
_MENTIONS_STREAM = r"(?i)\bstream(?:ing|ed)?\b"
_REFUSES = (
    r"(?i)support|cannot|can't|must|disabled|not (?:allowed|permitted|implemented|available|valid)|invalid"
    r"|unknown|unexpected|unrecognized|extra"
)
_REQUIRES = r"(?i)missing|required|must be|passed back"
_REASONING = "reasoning_content"
_UNRELATED_STATUSES = (401, 403, 429)


class ServerCompat(msgspec.Struct, frozen=True):
    """What may be in a request."""

    stream: bool = True
    stream_options: bool = True
    reasoning_effort: bool = True
    limit: str | None = "max_tokens"
    """The name for the most tokens to write: every server knows this one but the newest models."""
    reasoning_back: str | None = None
    """The field in which the model's earlier reasoning is sent back. Most servers want none, and some
    reject it, so it is sent only to one that has asked for it."""

    def adapted_to(self, error: ProviderError, request: ModelRequest) -> tuple[ServerCompat, str] | None:
        """The dialect to try next and why, in words; None if the refusal is about something else."""
        message = str(error)
        if error.status is None or error.status in _UNRELATED_STATUSES:
            return None
        if request.model.max_output and self.limit and regex(_MENTIONS_LIMIT).search(message):
            other_name = "max_completion_tokens" if self.limit == "max_tokens" else None
            limit = None if isinstance(error, ContextOverflow) else other_name
            return msgspec.structs.replace(self, limit=limit), f"without {self.limit}"
        if isinstance(error, ContextOverflow):
            return None
        if self.stream and self.stream_options and "stream_options" in message:
            return msgspec.structs.replace(self, stream_options=False), "without stream_options"
        if self.reasoning_effort and request.thinking != "off" and regex(_MENTIONS_EFFORT).search(message):
            return msgspec.structs.replace(self, reasoning_effort=False), "without reasoning_effort"
        if not self.reasoning_back and _REASONING in message and regex(_REQUIRES).search(message):
            return msgspec.structs.replace(self, reasoning_back=_REASONING), f"with the earlier {_REASONING}"
        if self.stream and regex(_MENTIONS_STREAM).search(message) and regex(_REFUSES).search(message):
            return msgspec.structs.replace(self, stream=False), "without streaming"
        return None
