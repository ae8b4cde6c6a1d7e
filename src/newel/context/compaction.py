"""Keeps a conversation within the model's window by summarizing older messages.

The messages stay in the session. A ``compaction`` message is appended, and the transformer shows the model its summary in place
of everything before the first message that is kept.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import anyio.to_thread
import msgspec

from newel.agent.errors import BadResponse, NewelError
from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    CustomMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolResultMessage,
    Usage,
    UserMessage,
    new_id,
)
from newel.agent.ports import AgentMode, Model, ModelRequest, Provider, ProviderEvent
from newel.agent.tool_executor import milliseconds_since
from newel.agent.transform import COMPACTION, Transformer

IMAGE = 1_200
MESSAGE = 4
"""Tokens of a message in addition to its content."""


def estimate_text(text: str) -> int:
    """Four bytes a token: right for English and code, and close for other scripts."""
    return (len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))) // 4


def estimate_message(message: AppMessage) -> int:
    match message:
        case UserMessage():
            parts = [TextContent(message.content)] if isinstance(message.content, str) else message.content
            tokens = sum(
                IMAGE if isinstance(part, ImageContent) else estimate_text(part.text) for part in parts
            )
            for attachment in message.attachments:
                tokens += (
                    IMAGE if attachment.type == "image" else estimate_text(attachment.extracted_text or "")
                )
        case AssistantMessage():
            tokens = 0
            for part in message.content:
                match part:
                    case TextContent():
                        tokens += estimate_text(part.text)
                    case ThinkingContent():
                        tokens += estimate_text(part.thinking)
                    case _:
                        tokens += estimate_text(part.name) + estimate_text(repr(part.arguments)) + MESSAGE
        case ToolResultMessage():
            tokens = estimate_text(message.output) + IMAGE * len(message.images)
        case CustomMessage():
            return 0
    return tokens + MESSAGE


Reason = Literal["full", "overflow", "asked"]
FindWindow = Callable[[str], Awaitable[int | None]]
"""Finds the context size of a model in tokens, None if unknown. Must not raise."""

MayCompact = Callable[[Reason, str], Awaitable[bool]]
"""Whether a compaction may begin. Must not raise."""

MAX_ACCOUNT_CHARS = 16_000
MAX_QUESTION_CHARS = 400_000
SHORT = 3_000
"""Tokens that fit every model's window: a shorter conversation does not look it up."""
COMPOSED = 100
"""Tokens of the fixed text around a summary."""
UNKNOWN_WINDOW = 32_000
"""Tokens assumed for the window of the summarizing model if it is unknown."""


class Compactor:
    """Implements ``ports.Compact``, and compacts on request.

    ``provider`` and ``model`` write the summaries (a small model suffices), in the mode ``agent_mode``. ``context_window`` is that of the
    conversation's model in tokens; if it is None, only an overflow or the user triggers a compaction. ``follow`` sets the conversation's
    model, whose window ``find_window`` looks up once.

    The ``data`` of the message holds ``summary`` and ``firstKept`` for the transformer, ``account`` (the part that the model
    wrote, on which the next summary builds), ``reason``, ``tokensBefore``, and ``usage`` and ``cost`` of the request, or the
    ``problem`` if no model gave a summary.
    """

    def __init__(
        self,
        provider: Provider,
        model: Model,
        *,
        context_window: int | None,
        threshold: float = 0.8,
        keep_tokens: int = 20_000,
        overhead_tokens: int = 2_000,
        find_window: FindWindow | None = None,
        agent_mode: AgentMode | None = None,
    ) -> None:
        """``threshold`` is the fraction of the window that may fill before a compaction, ``keep_tokens`` the most that is kept
        of the latest messages, ``overhead_tokens`` the size of system prompt and tools.
        """
        self.provider = provider
        self.model = model
        self.context_window = context_window
        self.agent_mode: AgentMode | None = agent_mode
        self._find_window = find_window
        self._unknown: str | None = None
        self._threshold = threshold
        self._keep_tokens = keep_tokens
        self._overhead_tokens = overhead_tokens
        self.earlier: Callable[[], Sequence[AppMessage]] = tuple
        """Returns the messages before those that it is given, without the results' texts. Called in a thread: a session reads them."""
        self.may_begin: MayCompact | None = None
        """Asked before each compaction, with its reason and the user's wishes."""
        self.on_writing: Callable[[bool], None] | None = None
        """Called when a model begins to write a summary, and when it ends. Must not raise."""

    async def __call__(
        self, messages: Sequence[AppMessage], _usage: Usage, /, *, overflow: bool
    ) -> CustomMessage | None:
        """Compact if the window is nearly full, or with ``overflow``. The usage is read from the messages: the count of a
        response is void once a compaction follows it.
        """
        if overflow:
            return await self.compact_now(messages, reason="overflow")
        window = await self._window(messages)
        if window is None or self.size(messages) < window * self._threshold:
            return None
        view = _HistoryView(messages)
        cut = view.cut(min(self._keep_tokens, window // 4), at_most=max(window // 2 - COMPOSED, 0))
        if sum(view.sizes[:cut]) < window // 10:
            return None  # it would free so little that the next request would compact again
        return await self._compact(messages, view, cut, "full", "")

    def follow(self, model: Model, *, before: Model | None = None) -> None:
        """Continue with ``model``. It writes the summaries, too, if the model ``before`` did."""
        if self.model == before:
            self.model = model
        self.context_window = model.context_window
        self._unknown = model.id if model.context_window is None else None

    def change_writer(self, model: Model, find_window: FindWindow | None) -> None:
        """Have another model write the summaries. ``find_window`` replaces the one before; call ``follow`` afterwards."""
        self.model = model
        self._find_window = find_window

    async def _window(self, messages: Sequence[AppMessage]) -> int | None:
        """The window; an unknown one is looked up once, when the conversation is no longer short."""
        if self._unknown and self._find_window and self.size(messages) > SHORT:
            name, self._unknown = self._unknown, None
            self.context_window = await self._find_window(name)
        return self.context_window

    async def compact_now(
        self, messages: Sequence[AppMessage], instructions: str = "", *, reason: Reason = "asked"
    ) -> CustomMessage | None:
        """Compact however full the window is; None if there is nothing to summarize. ``instructions`` are the user's wishes for
        the summary.
        """
        view = _HistoryView(messages)
        total = sum(view.sizes)
        cut = view.cut(min(self._keep_tokens, total // 4), at_most=total // 2)
        return await self._compact(messages, view, cut, reason, instructions) if cut else None

    def size(self, messages: Sequence[AppMessage]) -> int:
        """Estimate the tokens of the next request: the count of the last response plus an estimate of later messages, or an
        estimate of everything if no server has counted.
        """
        since = 0
        for message in reversed(messages):
            if isinstance(message, AssistantMessage) and message.usage.total:
                return message.usage.total + since
            if isinstance(message, CustomMessage) and message.name == COMPACTION:
                view = _HistoryView(messages)
                return self._overhead_tokens + estimate_text(view.summary) + sum(view.sizes)
            since += estimate_message(message)
        return self._overhead_tokens + since

    @contextmanager
    def _writing(self) -> Generator[None]:
        if self.on_writing is not None:
            self.on_writing(True)
        try:
            yield
        finally:
            if self.on_writing is not None:
                self.on_writing(False)

    async def _compact(
        self, messages: Sequence[AppMessage], view: _HistoryView, cut: int, reason: Reason, wishes: str
    ) -> CustomMessage | None:
        from newel.context import compaction_summary

        if self.may_begin is not None and not await self.may_begin(reason, wishes):
            return None
        identity = new_id()  # known in advance: if no message is kept, the summary itself is the first one
        gone, remaining = view.messages[:cut], view.messages[cut:]
        before = self.size(messages)
        data: dict[str, Any] = {
            "firstKept": remaining[0].id if remaining else identity,
            "tokensBefore": before,
            "reason": reason,
        }
        window = min(self.context_window or UNKNOWN_WINDOW, before)
        began = time.monotonic()
        try:
            with self._writing():
                answer = await self._ask(gone, view.account, wishes, window)
        except NewelError as error:
            data["problem"] = (
                f"No model summarized the conversation ({error}), so messages and commands are listed."
            )
            account = compaction_summary.fallback_account(gone, before=view.account)
        else:
            account = answer.text.strip()
            data |= {"usage": msgspec.to_builtins(answer.usage), "cost": answer.cost, "model": answer.model}
            data |= {"provider": answer.provider, "duration": milliseconds_since(began)}
        earlier = await anyio.to_thread.run_sync(self.earlier)
        # At four characters a token, this and what compose adds take at most a third of the window.
        data["account"] = compaction_summary.cut_middle(account, min(MAX_ACCOUNT_CHARS, window // 2))
        data["summary"] = compaction_summary.compose(
            data["account"], [*earlier, *messages], limit=min(compaction_summary.USER_CHARS, window // 4)
        )
        return CustomMessage(name=COMPACTION, data=data, id=identity)

    async def _ask(self, gone: Sequence[Message], before: str, wishes: str, window: int) -> AssistantMessage:
        from newel.context import compaction_summary

        # Two of a token's four characters: the rest is for the answer, and for scripts with longer tokens.
        limit = min((self.model.context_window or window) * 2, MAX_QUESTION_CHARS)
        question = compaction_summary.build_question(gone, before=before, wishes=wishes, limit=limit)
        request = ModelRequest(
            self.model,
            compaction_summary.SYSTEM_PROMPT,
            [UserMessage(question)],
            agent_mode=self.agent_mode,
        )
        answer = await self.provider.complete(request, _ignore)
        if not answer.text.strip() or answer.is_incomplete:
            raise BadResponse(answer.error_message or f"{self.model.id} gave an empty answer")
        return answer


class _HistoryView:
    """The messages that the model sees, their sizes in tokens, and the summary before them."""

    def __init__(self, messages: Sequence[AppMessage]) -> None:
        sources = {message.id: message for message in messages}
        self.summary = self.account = ""
        self.messages: list[Message] = []
        for visible in Transformer()(messages):
            source = sources[visible.id]
            if isinstance(source, CustomMessage):
                self.summary = str(source.data.get("summary", ""))
                self.account = str(source.data.get("account", self.summary))
            else:
                self.messages.append(source)
        self.sizes = [estimate_message(message) for message in self.messages]

    def cut(self, keep: int, *, at_most: int) -> int:
        """The index of the first message to keep: the latest ``keep`` tokens, or at least the last turn if it has at most
        ``at_most``; otherwise the end. No result is kept without its call.
        """
        best = len(self.messages)
        unanswered: set[str] = set()
        total = 0
        for index in range(len(self.messages) - 1, -1, -1):
            message = self.messages[index]
            total += self.sizes[index]
            if isinstance(message, ToolResultMessage):
                unanswered.add(message.tool_call_id)
            elif isinstance(message, AssistantMessage):
                unanswered.difference_update(call.id for call in message.tool_calls)
            # The last turn is kept even beyond `keep`; earlier ones only within it.
            if total > (keep if best < len(self.messages) else at_most):
                break
            if not unanswered:
                best = index
        return best


async def _ignore(_event: ProviderEvent) -> None:
    """A summary is read when it is complete."""
