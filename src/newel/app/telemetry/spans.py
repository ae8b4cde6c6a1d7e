"""Makes spans and metrics of the events of an agent.

invoke_agent newel
  chat <model>                       with an event for each retry
  execute_tool bash
  execute_tool task
    invoke_agent subagent …
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, StatusCode, Tracer, set_span_in_context

from newel.agent.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    ErrorEvent,
    MessageEnd,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from newel.agent.messages import AssistantMessage, CustomMessage, Usage, UserMessage
from newel.agent.transform import COMPACTION
from newel.app.telemetry.attributes import (
    Attributes,
    CapturedText,
    finish_reason,
    provider_name,
    usage_attributes,
)

if TYPE_CHECKING:
    from newel.agent.ports import Model
    from newel.app.telemetry.instruments import Instruments

OTHER: Final = "_OTHER"
"""The conventions' name of an error without one."""
_NS: Final = 1_000_000
"""Nanoseconds of a millisecond."""
TOOL_ERROR: Final = "tool_error"


class RunFacts(msgspec.Struct, frozen=True):
    """What a run is about; ``agent`` is its name. ``model`` and ``conversation`` are asked for at its start; ``content`` captures texts, if
    those are exported.
    """

    agent: str
    model: Callable[[], Model]
    conversation: Callable[[], str]
    server: Attributes
    content: CapturedText | None = None


class SpanRecorder:
    """Follows the runs of one agent, one after another. ``parent`` is the span of the call that runs it, if one does: then the start of the
    run is not among its events.
    """

    def __init__(
        self, tracer: Tracer, instruments: Instruments | None, facts: RunFacts, parent: Span = INVALID_SPAN
    ) -> None:
        self._tracer = tracer
        self._instruments = instruments
        self._facts = facts
        self._parent = parent
        self._run: Span | None = None
        self._began = 0.0
        self._failed: tuple[AssistantMessage, int] | None = None
        self._calls: dict[str, Span] = {}
        self._nested: dict[str, SpanRecorder] = {}
        self._error = ""

    def handle(self, event: AgentEvent) -> None:
        if isinstance(event, AgentStart) or (self._run is None and self._parent is not INVALID_SPAN):
            self._begin_run()
        if self._failed is not None:
            message, ended = self._failed
            self._failed = None
            self._add_chat(message, event.code if isinstance(event, ErrorEvent) else OTHER, ended)
        match event:
            case MessageEnd(message=message):
                self._add_message(message)
            case ToolExecutionStart():
                self._begin_call(event)
            case ToolExecutionUpdate(tool_call_id=call, event=nested) if nested is not None:
                self._handle_nested(call, nested)
            case ToolExecutionEnd():
                self._end_call(event)
            case ErrorEvent(level="error"):
                self._error = event.code
            case AgentEnd():
                self._end_run(event)
            case _:
                pass

    # -- the run ----------------------------------------------------------------------------------

    def _begin_run(self) -> None:
        facts, model = self._facts, self._facts.model()
        self._began, self._error = time.monotonic(), ""
        about: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": provider_name(model.provider),
            "gen_ai.agent.name": facts.agent,
            "gen_ai.request.model": model.id,
        }
        if conversation := facts.conversation():
            about["gen_ai.conversation.id"] = conversation
        context = set_span_in_context(self._parent)
        self._run = self._tracer.start_span(f"invoke_agent {facts.agent}", context, SpanKind.INTERNAL, about)

    def _end_run(self, event: AgentEnd) -> None:
        run, self._run = self._run or INVALID_SPAN, None
        is_failure = event.reason not in {"done", "stopped", "aborted"}
        error = (self._error or event.reason) if is_failure else ""
        run.set_attribute("gen_ai.response.finish_reasons", [event.reason])
        run.set_attributes(usage_attributes(event.usage, event.cost))
        for span in self._calls.values():
            span.end()
        self._calls.clear()
        self._nested.clear()
        _end(run, error)
        if self._instruments is not None:
            about = {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": self._facts.agent,
                "gen_ai.provider.name": provider_name(self._facts.model().provider),
            }
            self._instruments.record_run(about, time.monotonic() - self._began, error)

    # -- the model --------------------------------------------------------------------------------

    def _add_message(self, message: object) -> None:
        match message:
            case AssistantMessage(stop_reason="error"):
                self._failed = message, time.time_ns()  # the next event says which error
            case AssistantMessage():
                self._add_chat(message, "", time.time_ns())
            case CustomMessage(name=name, data={"usage": used, **rest}) if name == COMPACTION:
                self._add_summary(used, rest)
            case UserMessage() if self._facts.content is not None and self._run is not None:
                self._run.set_attribute("gen_ai.input.messages", self._facts.content.of_user(message))
            case _:
                pass

    def _add_summary(self, used: Any, rest: dict[str, Any]) -> None:
        """The request that wrote a summary of the conversation has ended."""
        summary = AssistantMessage(
            [],
            model=str(rest.get("model", "")),
            provider=str(rest.get("provider", "")),
            usage=msgspec.convert(used, Usage),
            cost=rest.get("cost"),
            duration=int(rest.get("duration", 0)),
        )
        self._add_chat(summary, "", time.time_ns(), {"newel.purpose": "compaction"})

    def _add_chat(
        self, message: AssistantMessage, error: str, ended: int, more: Attributes | None = None
    ) -> None:
        """A request that has ended."""
        about: Attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider_name(message.provider),
            "gen_ai.request.model": message.model,
            **self._facts.server,
        }
        began = ended - message.duration * _NS
        span = self._begin(f"chat {message.model}", {**about, **(more or {})}, SpanKind.CLIENT, began)
        for retry in message.retries:
            span.add_event("newel.retry", timestamp=began + retry * _NS)
        span.set_attributes(usage_attributes(message.usage, message.cost))
        span.set_attribute("gen_ai.response.model", message.model)
        span.set_attribute("gen_ai.response.finish_reasons", [finish_reason(message)])
        if self._facts.content is not None and not more:
            output = self._facts.content.of_answer(message)
            for each in filter(None, (span, self._run)):
                each.set_attribute("gen_ai.output.messages", output)
        _end(span, error, ended)
        if self._instruments is not None:
            self._instruments.record_request(about, message.usage, message.duration, error)

    # -- tools ------------------------------------------------------------------------------------

    def _begin_call(self, event: ToolExecutionStart) -> None:
        about: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": event.tool_name,
            "gen_ai.tool.call.id": event.tool_call_id,
            "gen_ai.tool.type": "function",
        }
        if self._facts.content is not None:
            about["gen_ai.tool.call.arguments"] = self._facts.content.json(event.args)
        span = self._begin(f"execute_tool {event.tool_name}", about, SpanKind.INTERNAL)
        self._calls[event.tool_call_id] = span

    def _handle_nested(self, call: str, event: AgentEvent) -> None:
        span = self._calls.get(call)
        if span is None:
            return
        if call not in self._nested:
            facts = msgspec.structs.replace(self._facts, agent="subagent", conversation=str)
            self._nested[call] = SpanRecorder(self._tracer, self._instruments, facts, span)
        self._nested[call].handle(event)

    def _end_call(self, event: ToolExecutionEnd) -> None:
        self._nested.pop(event.tool_call_id, None)
        span = self._calls.pop(event.tool_call_id, INVALID_SPAN)
        error = TOOL_ERROR if event.is_error else ""
        if self._facts.content is not None:
            span.set_attribute("gen_ai.tool.call.result", self._facts.content.text(event.result))
        _end(span, error)
        if self._instruments is not None:
            self._instruments.record_call(event.tool_name, event.duration, error)

    def _begin(self, name: str, about: Attributes, kind: SpanKind, start: int | None = None) -> Span:
        context = set_span_in_context(self._run or INVALID_SPAN)
        return self._tracer.start_span(name, context, kind, about, start_time=start)


def _end(span: Span, error: str, at: int | None = None) -> None:
    if error:
        span.set_attribute("error.type", error)
        span.set_status(StatusCode.ERROR)
    span.end(at)
