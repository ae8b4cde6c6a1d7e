"""Features of the Messages API that a server refuses, learned from its rejections."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from newel.agent.errors import ContextOverflow, ProviderError
from newel.agent.messages import AssistantMessage, Message, ThinkingContent, UserMessage
from newel.agent.ports import ModelRequest
from newel.providers.anthropic.thinking import thinking_style, thinking_type
from newel.text.json import regex

DEFAULT_MAX_TOKENS = 32_000
"""The output limit for a model whose own is unknown; the API requires one."""

THINKING_FIELD = "anthropic"
REDACTED_FIELD = "anthropic-redacted"
"""``ThinkingContent.field`` of readable thoughts, and of those whose text the server keeps in ``signature``."""

_STATUSES = (400, 413, 422, 500, 501)
_REFUSES = (
    r"(?i)support|cannot|can't|must|disabled|not (?:allowed|permitted|implemented|available|valid)|invalid"
    r"|unknown|unexpected|unrecognized|extra|does not match|should be"
)
_TOO_MUCH_OUTPUT = r"(?i)max_tokens.{0,80}?(?:>|<=|\[\d+,|less than or equal to|at most)\s*(\d{2,7})"
_TOO_MUCH_IN_ALL = r"(\d{1,8})\s*\+\s*(\d{1,8})\s*>\s*(\d{1,8})"
_LACKS_THOUGHT = r"(?i)expected .?thinking.? or .?redacted_thinking.?, but found"
_REFUSES_THOUGHT = (
    r"(?i)signature.{0,40}thinking|bound to a different|thinking.{0,20} blocks.{0,40} cannot be modified"
    r"|messages\.\d+\.content.{0,200}thinking"
)
_ROLES = r"(?i)roles must alternate|alternat\w+ .{0,40}roles|consecutive .{0,20}messages"
_STREAM = r"(?i)\bstream(?:ing|ed)?\b"


class MessagesCompat(msgspec.Struct, frozen=True):
    """``refused`` are values and fields: of ``thinking.type``, and ``display``, ``effort``, ``stream``, ``automatic caching``,
    ``explicit caching`` and ``consecutive roles``.
    """

    refused: frozenset[str] = frozenset()
    max_tokens: int | None = None
    """The largest output limit that the server accepts, if it has named one."""
    stale_until: str = ""
    """The id of a message; thoughts up to it are not sent back."""
    unthinking_turn: str = ""
    """The id of a user message: no thinking until the next one."""

    def adapted_to(self, error: ProviderError, request: ModelRequest) -> tuple[MessagesCompat, str] | None:
        """Return the features to try next and a description; None if the rejection has another reason."""
        if error.status not in _STATUSES:
            return None
        message = str(error)
        lessons = (_smaller_limit,) if isinstance(error, ContextOverflow) else _LESSONS
        return next((found for learn in lessons if (found := learn(self, message, request))), None)

    def limit(self, request: ModelRequest) -> int:
        """Return the output limit of a request."""
        wanted = request.model.max_output or DEFAULT_MAX_TOKENS
        return min(wanted, self.max_tokens or wanted)

    def without(self, feature: str) -> MessagesCompat:
        return replace(self, refused=self.refused | {feature})


Lesson = Callable[[MessagesCompat, str, ModelRequest], tuple[MessagesCompat, str] | None]


def last_user_id(messages: Sequence[Message]) -> str:
    return next((message.id for message in reversed(messages) if isinstance(message, UserMessage)), "")


def _smaller_limit(
    compat: MessagesCompat, message: str, request: ModelRequest
) -> tuple[MessagesCompat, str] | None:
    """Learn the maximum of ``max_tokens``; also from a short conversation that has no room for so large an answer."""
    limit = 0
    if match := regex(_TOO_MUCH_OUTPUT).search(message):
        limit = int(match[1])
    if match := regex(_TOO_MUCH_IN_ALL).search(message):
        used, _, window = map(int, match.groups())
        limit = window // 2 if used < window // 2 else 0
    if not 0 < limit < compat.limit(request):
        return None
    return replace(compat, max_tokens=limit), f"with at most {limit:,} tokens of output"


def _stale_thoughts(
    compat: MessagesCompat, message: str, request: ModelRequest
) -> tuple[MessagesCompat, str] | None:
    """Learn that the thoughts of a changed conversation, or any at all, are not accepted back."""
    if regex(_LACKS_THOUGHT).search(message) or not regex(_REFUSES_THOUGHT).search(message):
        return None
    newest = next((each.id for each in reversed(request.messages) if _has_thoughts(each)), "")
    if newest in {"", compat.stale_until}:
        return None
    return replace(compat, stale_until=newest), "without the earlier thinking"


def _has_thoughts(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and any(
        isinstance(part, ThinkingContent) and part.field in {THINKING_FIELD, REDACTED_FIELD}
        for part in message.content
    )


def _lacking_thoughts(
    compat: MessagesCompat, message: str, request: ModelRequest
) -> tuple[MessagesCompat, str] | None:
    """Learn that the current turn began without thoughts, so that the model cannot think in the rest of it."""
    turn = last_user_id(request.messages)
    if not regex(_LACKS_THOUGHT).search(message) or turn in {"", compat.unthinking_turn}:
        return None
    return replace(compat, unthinking_turn=turn), "without thinking in this turn"


def _feature(
    compat: MessagesCompat, message: str, request: ModelRequest
) -> tuple[MessagesCompat, str] | None:
    """Learn which feature the server refuses."""
    refused = compat.refused
    kind = thinking_type(thinking_style(request.model.id), request.thinking, refused)
    mentions: list[tuple[str, str]] = []
    if kind:
        # The rejection of one kind of thinking may recommend another one, and its effort.
        named = rf"(?i)thinking.type.{{0,3}}{kind}|{kind}.thinking|thinking\.{kind}"
        mentions += [("display", r"(?i)\bdisplay\b")] if kind == "adaptive" else []
        mentions.append((kind, named))
    mentions += [
        ("effort", r"(?i)output_config|\beffort\b"),
        ("automatic caching", r"(?i)cache_control"),
        ("explicit caching", r"(?i)cache_control"),
        ("consecutive roles", _ROLES),
    ]
    mentions += [(kind, r"(?i)\bthinking\b|budget_tokens")] if kind else []
    mentions.append(("stream", _STREAM))
    if not regex(_REFUSES).search(message):
        return None
    for feature, pattern in mentions:
        if feature not in refused and regex(pattern).search(message):
            return compat.without(feature), f"without {_NAMES.get(feature, feature)}"
    return None


_NAMES = {
    "adaptive": "adaptive thinking",
    "enabled": "a thinking budget",
    "disabled": "turning thinking off",
    "between_tools": "turning thinking off",
    "display": "thinking.display",
    "effort": "output_config.effort",
    "stream": "streaming",
}
_LESSONS: tuple[Lesson, ...] = (_smaller_limit, _stale_thoughts, _lacking_thoughts, _feature)
