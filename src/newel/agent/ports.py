"""What the loop needs from others: small protocols, each with its contract beside it.

The loop knows these and nothing behind them: no HTTP, no file system, no screen. Values that go
through a port are plain structs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Literal, Protocol

import msgspec

from newel.agent.events import AgentEvent, Delta, Retry
from newel.agent.messages import AppMessage, AssistantMessage, ImageContent, Message, ToolCall, Usage, Wire

ThinkingLevel = Literal["off", "minimal", "low", "medium", "high"]

Emit = Callable[[AgentEvent], Awaitable[None]]
"""Takes one event. The loop waits for it: when it returns, the event is as durable as its reader makes
it. What it raises ends the run."""


class Model(Wire, frozen=True):
    """A model by name and what is known of it; sizes are in tokens, None where unknown."""

    id: str
    provider: str = "openai"
    context_window: int | None = None
    max_output: int | None = None


# -- the model ------------------------------------------------------------------------------------


class ToolSpec(Wire, frozen=True):
    """A tool as the model sees it; ``parameters`` is a JSON Schema object.

    ``aliases`` are other agents' usual names for the tool, ``argument_aliases`` maps their names for an
    argument to ours. A model that uses one means this tool.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    aliases: tuple[str, ...] = ()
    argument_aliases: dict[str, str] = {}


class ModelRequest(Wire, frozen=True):
    """One question to a model."""

    model: Model
    system_prompt: str
    messages: list[Message]
    tools: list[ToolSpec] = []
    thinking: ThinkingLevel = "off"


OnDelta = Callable[[Delta | Retry], Awaitable[None]]


class Provider(Protocol):
    """A way to ask a model."""

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """Ask, pass on each delta as it arrives, and return the whole message.

        The message's text is the sum of the text deltas since the last ``Retry``: a provider that tries
        again says so, and what came before is void. A call that must not run (cut off, not JSON) has its
        ``problem`` set. Raises ``ProviderError``; on cancellation it closes its connection.
        """
        ...


# -- tools ----------------------------------------------------------------------------------------


class ToolResult(Wire, frozen=True):
    """What a tool answers: ``output`` and ``images`` for the model, ``details`` (JSON) for screens. ``whole`` says in words
    where all of a long output can be read, if the tool knows that.
    """

    output: str
    details: dict[str, Any] = {}
    images: list[ImageContent] = []
    is_error: bool = False
    whole: str = ""


OnOutput = Callable[[str], Awaitable[None]]


class Touch(Wire, frozen=True):
    """A file or folder that a call itself opens; what a command opens is not known.

    ``path`` is real (absolute, links followed) and of the host that the tool works on; ``named`` is the path as the call
    gives it. ``before`` and ``after`` are the SHA-256 of a file's content now and once the call is done, ``absent`` for
    no file; empty where the call does not depend on it.
    """

    path: str
    named: str
    writes: bool = False
    before: str = ""
    after: str = ""


class Preview(Wire, frozen=True):
    """``text`` is exactly what a call would do: a command, a unified diff. ``touches`` is what the text rests on."""

    text: str
    touches: Sequence[Touch] = ()


class PlannedCall(Protocol):
    """A call bound to real paths: what a policy judged is what ``execute`` opens, whatever its names lead to by then."""

    @property
    def touches(self) -> Sequence[Touch]:
        """All files and folders that the call itself would open. Known without reading them."""
        ...

    async def preview(self) -> Preview:
        """What would be done. Changes nothing; may raise ``NewelError`` where the call would fail. From then on
        ``execute`` does exactly this or fails.
        """
        ...

    async def execute(self, on_output: OnOutput, /) -> ToolResult:
        """Do it. Every exception but cancellation becomes an error result for the model."""
        ...


class Tool(Protocol):
    """Something that the model can do."""

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def label(self) -> str:
        """The tool's name for people."""
        ...

    @property
    def read_only(self) -> bool:
        """True if a call changes nothing: it needs no approval and may run again after a crash."""
        ...

    def parse(self, arguments: dict[str, Any], /) -> Any:
        """Check the arguments against the schema; what is returned goes into the other methods.
        Raises ``InvalidArguments`` with words that let a model mend the call.
        """
        ...

    async def serial_key(self, arguments: Any, /) -> str | None:
        """Which calls of one message may overlap, asked before the policy is, if there are several: None overlaps with all others; calls with equal keys
        run one after the other; ``"*"`` runs alone, after every earlier call and before every later.
        Every exception but cancellation becomes an error result, and the call is not executed.
        """
        ...

    async def plan(self, arguments: Any, /) -> PlannedCall:
        """Bind the call to the files that its arguments name now. Changes nothing. May raise ``NewelError`` where the
        call would fail.
        """
        ...


# -- hooks ----------------------------------------------------------------------------------------


class Verdict(msgspec.Struct, frozen=True):
    """``allow=False`` gives ``reason`` to the model as the call's result. ``planned`` is the call that was judged: it
    runs as it is. With None the policy looked at no files, and the call is planned when it runs.
    """

    allow: bool
    reason: str = ""
    planned: PlannedCall | None = None


class Policy(Protocol):
    """Decides whether a call may run."""

    async def decide(self, call: ToolCall, tool: Tool, arguments: Any, /) -> Verdict:
        """Asked once for each valid call, one at a time, as soon as the calls before it that it must wait for
        (``Tool.serial_key``) are done. May wait for a person. What it raises ends the run.
        """
        ...


class Queue(Protocol):
    """What arrives while a run is under way; each message is returned once."""

    def stop_requested(self) -> bool:
        """Asked before each request: True ends the run there."""
        ...

    def steering(self) -> list[AppMessage]:
        """Taken after each batch of tools, before the next request."""
        ...

    def follow_up(self) -> list[AppMessage]:
        """Taken when the model is done; if there are any, the run goes on with them."""
        ...


class Limits(Wire, frozen=True):
    """What one prompt may use; None is no limit. ``max_cost`` is in US dollars and counts what is known."""

    max_turns: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None


Transform = Callable[[Sequence[AppMessage]], list[Message]]
"""Makes of an application's messages what the model sees. Pure; must not raise."""


class Compact(Protocol):
    """Keeps a conversation inside the model's window."""

    async def __call__(
        self, messages: Sequence[AppMessage], usage: Usage, /, *, overflow: bool
    ) -> AppMessage | None:
        """Asked before each request, with the history and the last response's usage, and once more with
        ``overflow=True`` if the server refused the request as too long: a message to append (a
        ``compaction``, which the transformer understands), or None. What it raises ends the run.
        """
        ...


CheckCost = Callable[[Model], Awaitable[None]]
"""Asked at the begin of a run whose cost is limited. Raises ``NewelError`` if the cost of a model is not known."""

Shorten = Callable[[ToolCall, ToolResult], Awaitable[ToolResult]]
"""Bounds what the model gets of a call's result. Must not raise."""


Price = Callable[[AssistantMessage], float | None]
"""The cost of a response in US dollars, None if not known. Must not raise."""


class AllowAll:
    """The policy of a run that asks nobody."""

    async def decide(self, call: ToolCall, tool: Tool, arguments: Any, /) -> Verdict:  # noqa: ARG002 — the port's shape
        return Verdict(allow=True)


class NoQueue:
    """The queue of a run that nobody interrupts."""

    def stop_requested(self) -> bool:
        return False

    def steering(self) -> list[AppMessage]:
        return []

    def follow_up(self) -> list[AppMessage]:
        return []


class RunConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run needs beside the conversation and the provider."""

    model: Model
    transform: Transform
    system_prompt: str = ""
    tools: Sequence[Tool] = ()
    thinking: ThinkingLevel = "off"
    policy: Policy = AllowAll()
    queue: Queue = NoQueue()
    limits: Limits = Limits()
    compact: Compact | None = None
    shorten: Shorten | None = None
    check_cost: CheckCost | None = None
    tools_now: Callable[[], Sequence[Tool]] | None = None
    """The tools as they are before each request, in place of ``tools``: a tool server may be ready late."""
    never_begun: Collection[str] = ()
    """Ids of calls that the conversation leaves open and that are known not to have begun; of others nothing is known."""
