"""The ports of the loop: small protocols, each with its contract.

The loop knows only these: no HTTP, no file system, no screen. Values that pass a port are plain structs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Literal, Protocol, Self

import msgspec

from newel.agent.events import AgentEvent, Delta, ModelRouted, Retry
from newel.agent.messages import AppMessage, AssistantMessage, ImageContent, Message, ToolCall, Usage, Wire

ThinkingLevel = Literal["off", "minimal", "low", "medium", "high"]
AgentMode = Literal["local", "remote", "hybrid_auto"]
"""Which model answers: the one on this machine, the configured one, or first the one on this machine."""

ToolCallMode = Literal["native", "schema"]
"""How a model calls tools: by its server's protocol, or in answers that the server holds to a JSON Schema."""

Emit = Callable[[AgentEvent], Awaitable[None]]
"""Handles one event. The loop awaits it: when it returns, the event is durable. An exception ends the run."""


class Model(Wire, frozen=True):
    """A model, with sizes in tokens; None if unknown."""

    id: str
    provider: str = "openai"
    context_window: int | None = None
    max_output: int | None = None
    tool_calls: ToolCallMode = "native"


# -- the model ------------------------------------------------------------------------------------


class ToolSpec(Wire, frozen=True):
    """A tool as the model sees it; ``parameters`` is a JSON Schema object, ``essential`` those of its arguments that a small model
    is offered, and has to give.

    ``aliases`` are the names of the same tool in other agents; ``argument_aliases`` maps their argument names to ours. Models
    use them out of habit.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    aliases: tuple[str, ...] = ()
    argument_aliases: dict[str, str] = {}
    essential: tuple[str, ...] = ()


class ModelRequest(Wire, frozen=True):
    """A request to a model. ``agent_mode`` None is the configured one. ``short_prompt`` replaces the system prompt for a small
    model; ``response_schema`` is a JSON Schema to which the server has to hold the answer, if it can.
    """

    model: Model
    system_prompt: str
    messages: list[Message]
    tools: list[ToolSpec] = []
    thinking: ThinkingLevel = "off"
    agent_mode: AgentMode | None = None
    short_prompt: str = ""
    response_schema: dict[str, Any] | None = None


ProviderEvent = Delta | Retry | ModelRouted
"""What a provider reports while it answers."""

OnDelta = Callable[[ProviderEvent], Awaitable[None]]


class Provider(Protocol):
    """Access to models."""

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """Make a request, pass on each delta as it arrives, and return the complete message.

        The message's text is the sum of all text deltas since the last ``Retry``, which a provider emits when it repeats a
        request. A call that must not run (cut off, not JSON) has its ``problem`` set. Raises ``ProviderError``; on cancellation
        it closes its connection.
        """
        ...


# -- tools ----------------------------------------------------------------------------------------


class ToolResult(Wire, frozen=True):
    """The result of a tool: ``output`` and ``images`` for the model, ``details`` (JSON) for screens. ``whole`` describes where
    a long output is kept in full, if it is.
    """

    output: str
    details: dict[str, Any] = {}
    images: list[ImageContent] = []
    is_error: bool = False
    whole: str = ""


OnOutput = Callable[[str], Awaitable[None]]
"""Passes a piece of output to the screens: a text, or a ``NestedOutput``."""


class NestedOutput(str):
    """Output of a tool that runs an agent: the text tells of the agent's ``event``. What that agent uses counts towards the limits."""

    __slots__ = ("event",)

    event: AgentEvent

    def __new__(cls, text: str, event: AgentEvent) -> Self:
        output = super().__new__(cls, text)
        output.event = event
        return output


class Touch(Wire, frozen=True):
    """A file or folder that a call itself opens. What a command opens is unknown.

    ``path`` is absolute on the tool's host, with links resolved; ``named`` is the path that the call gives. ``before`` and
    ``after`` are the SHA-256 of the file's content now and after the call, ``absent`` for no file; empty if the call does not
    depend on it.
    """

    path: str
    named: str
    writes: bool = False
    before: str = ""
    after: str = ""


class Preview(Wire, frozen=True):
    """``text`` is exactly what a call would do: a command, a unified diff. ``touches`` are the files it depends on. ``warning`` says why a
    user must approve the call whatever else allows it; empty for most.
    """

    text: str
    touches: Sequence[Touch] = ()
    warning: str = ""


class PlannedCall(Protocol):
    """A call bound to real paths: ``execute`` opens what the policy judged, whatever the names lead to by then."""

    @property
    def touches(self) -> Sequence[Touch]:
        """All files and folders that the call itself would open, without reading them."""
        ...

    async def preview(self) -> Preview:
        """Describe the call's effect, and change nothing. From then on ``execute`` does exactly this or fails. Raises
        ``NewelError`` if the call would fail.
        """
        ...

    async def execute(self, on_output: OnOutput, /) -> ToolResult:
        """Execute the call. Every exception but cancellation becomes an error result for the model."""
        ...


class Planned:
    """A ``PlannedCall`` that does the same whenever it runs. ``touches`` are the folders that it depends on, if any; ``warning`` is that of
    its preview.
    """

    def __init__(
        self,
        describe: Callable[[], Awaitable[str]],
        run: Callable[[OnOutput], Awaitable[ToolResult]],
        touches: Sequence[Touch] = (),
        *,
        warning: str = "",
    ) -> None:
        self.touches = touches
        self._describe = describe
        self._run = run
        self._warning = warning

    async def preview(self) -> Preview:
        return Preview(await self._describe(), self.touches, self._warning)

    async def execute(self, on_output: OnOutput, /) -> ToolResult:
        return await self._run(on_output)


class Tool(Protocol):
    """A tool of the model."""

    @property
    def spec(self) -> ToolSpec:
        """The tool as the model sees it."""
        ...

    @property
    def label(self) -> str:
        """The tool's name for users."""
        ...

    @property
    def read_only(self) -> bool:
        """True if a call changes nothing: it needs no approval and may run again after a crash."""
        ...

    def parse(self, arguments: dict[str, Any], /) -> Any:
        """Check the arguments against the schema; the other methods get the result. Raises ``InvalidArguments`` with a message
        that lets the model fix the call.
        """
        ...

    async def serial_key(self, arguments: Any, /) -> str | None:
        """Which calls of one message may overlap, asked before the policy is, if there are several: None overlaps with all others; calls
        with equal keys run one after the other; ``"*"`` runs alone, after every earlier call and before every later. Every exception but
        cancellation becomes an error result, and the call is not executed.
        """
        ...

    async def plan(self, arguments: Any, /) -> PlannedCall:
        """Bind the call to the files that its arguments name now, and change nothing. Raises ``NewelError`` if the call would
        fail.
        """
        ...


# -- hooks ----------------------------------------------------------------------------------------


class Verdict(msgspec.Struct, frozen=True):
    """With ``allow=False`` the model gets ``reason`` as the call's result. ``planned`` is the call that was judged, and that
    will run; with None the policy judged no files, and the call is planned when it runs. ``arguments`` are those of ``planned``, if they
    are not the model's. ``asked``: the user was asked, so the call runs before they are asked about another one.
    """

    allow: bool
    reason: str = ""
    planned: PlannedCall | None = None
    arguments: dict[str, Any] | None = None
    asked: bool = False


class Policy(Protocol):
    """Decides whether a call may run."""

    async def decide(self, call: ToolCall, tool: Tool, arguments: Any, /) -> Verdict:
        """Decide about one valid call at a time, once the earlier calls with its ``Tool.serial_key`` are done. May wait for the
        user. An exception ends the run.
        """
        ...


class Queue(Protocol):
    """Messages that arrive during a run; each is returned once."""

    def stop_requested(self) -> bool:
        """Called before each request: True ends the run."""
        ...

    def steering(self) -> list[AppMessage]:
        """The messages for the next request, called after each batch of tool calls."""
        ...

    def follow_up(self) -> list[AppMessage]:
        """The messages with which the run continues, called when the model is done."""
        ...


class Limits(Wire, frozen=True):
    """Limits of one prompt; None is no limit. ``max_cost`` is in US dollars and counts known costs."""

    max_turns: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None


Transform = Callable[[Sequence[AppMessage]], list[Message]]
"""Converts an application's messages to those that the model sees. Pure; must not raise."""


class Compact(Protocol):
    """Keeps a conversation within the model's window."""

    async def __call__(
        self, messages: Sequence[AppMessage], usage: Usage, /, *, overflow: bool
    ) -> AppMessage | None:
        """Called before each request with the history and the last response's usage, and again with ``overflow=True`` if the
        server refuses the request as too long. Returns a message to append (a ``compaction``, which the transformer
        understands), or None. An exception ends the run.
        """
        ...


CheckCost = Callable[[Model], Awaitable[None]]
"""Called at the start of a run with a cost limit. Raises ``NewelError`` if the model's price is unknown."""

Shorten = Callable[[ToolCall, ToolResult], Awaitable[ToolResult]]
"""Shortens a result for the model. Must not raise."""


Price = Callable[[AssistantMessage], float | None]
"""The cost of a response in US dollars, None if unknown. Must not raise."""


class AllowAll:
    """A policy that allows every call."""

    async def decide(self, call: ToolCall, tool: Tool, arguments: Any, /) -> Verdict:  # noqa: ARG002 — the port's shape
        return Verdict(allow=True)


class NoQueue:
    """A queue that is always empty."""

    def stop_requested(self) -> bool:
        return False

    def steering(self) -> list[AppMessage]:
        return []

    def follow_up(self) -> list[AppMessage]:
        return []


class RunConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a run, apart from the conversation and the provider."""

    model: Model
    transform: Transform
    system_prompt: str = ""
    short_prompt: str = ""
    """The system prompt for a small model; empty if it is the same."""
    tools: Sequence[Tool] = ()
    thinking: ThinkingLevel = "off"
    agent_mode: AgentMode = "remote"
    policy: Policy = AllowAll()
    queue: Queue = NoQueue()
    limits: Limits = Limits()
    compact: Compact | None = None
    shorten: Shorten | None = None
    check_cost: CheckCost | None = None
    finish: Callable[[], Awaitable[None]] | None = None
    """Awaited when the model is done, before queued messages are looked for, and at any other end of the run. It must not raise."""
    now: Callable[[], RunConfig] | None = None
    """Returns the configuration as it is now: before each request, the run takes the tools, the model, ``thinking`` and
    ``agent_mode`` from it, and before each call the policy. A tool server may become ready during the run, and the user may choose
    another model."""
    never_begun: Collection[str] = ()
    """Ids of open calls in the conversation that are known not to have started; the state of other open calls is unknown."""

    def refreshed(self) -> RunConfig:
        """This configuration with what may have changed since the run began; see ``now``."""
        if self.now is None:
            return self
        now = self.now()
        return msgspec.structs.replace(
            self,
            model=now.model,
            tools=now.tools,
            thinking=now.thinking,
            agent_mode=now.agent_mode,
            policy=now.policy,
            check_cost=now.check_cost,
        )
