"""Renderers: one dispatch from events to the methods that draw them, and a renderer's subscription to an agent.

    event ── Renderer.handle ──> on_prompt, on_text, on_answer, on_call_end, …   a renderer overrides what it draws

``ConsoleRenderer``, ``SimpleRenderer`` and ``ContractRenderer`` write text; ``RichRenderer`` and ``PanelRenderer`` are
``LiveRenderer``s, which also draw unfinished parts; ``JsonRenderer`` writes the events themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, BinaryIO, assert_never

import anyio

from newel.agent import events as e
from newel.agent.errors import NewelError
from newel.agent.messages import AssistantMessage, CustomMessage, ToolResultMessage, UserMessage
from newel.agent.transform import COMPACTION
from newel.terminal.renderers.tool_calls import CallOutcome, ToolCallTracker
from newel.text.json import to_json

if TYPE_CHECKING:
    from newel.session.coding_agent import CodingAgent

TICK_S = 0.1
"""Seconds between two ticks of an animated renderer."""

COMPACTED = "The conversation was summarised to free context."


class Renderer:
    """Draws events. It knows nothing else: neither the agent nor the session."""

    animated = False
    """Whether ``tick`` is to be called."""

    def __init__(self) -> None:
        self._tracker = ToolCallTracker()

    def handle(self, event: e.AgentEvent, /) -> None:
        """Draw one event. Raises ``OSError`` if the reader has gone."""
        if outcome := self._tracker.track(event):
            self.on_call_end(outcome)
        self._dispatch(event)

    def note(self, text: str, code: str = "note", /) -> None:
        """Show a message of the program itself. It may hold foreign text and is made inert. ``code`` tells programs its topic.
        ``diff`` is text with unified diffs in it; lines of ``whole`` are never wrapped, so that they can be copied.
        """
        raise NotImplementedError

    def tick(self) -> None:
        """About ``TICK_S`` seconds have passed."""

    def paused(self) -> AbstractContextManager[None]:
        """Inside, the terminal may be used for a question."""
        return nullcontext()

    def close(self) -> None:
        """Leave the screen as the next program expects it. May be called twice."""

    def _dispatch(self, event: e.AgentEvent) -> None:
        match event:
            case e.AgentStart():
                self.on_run_start(event)
            case e.MessageStart(message=AssistantMessage() as message):
                self.on_answer_start(message)
            case e.MessageUpdate():
                self._dispatch_delta(event)
            case e.MessageEnd(message=AssistantMessage() as message):
                self.on_answer(message)
            case e.MessageEnd(message=UserMessage() as message):
                self.on_prompt(message)
            case e.MessageEnd(message=ToolResultMessage() as message):
                self.on_tool_result(message)
            case e.MessageEnd(message=CustomMessage(name=name)):
                if name == COMPACTION:
                    self.on_compaction()
            case e.ToolExecutionStart():
                self.on_tool_start(event)
            case e.ToolExecutionUpdate():
                self.on_tool_output(event)
            case e.ToolExecutionEnd():
                self.on_tool_end(event)
            case e.Retry():
                self.on_retry(event)
            case e.ErrorEvent():
                (self.on_notice if event.is_notice else self.on_error)(event.message)
            case e.AgentEnd():
                self.on_run_end(event)
            case (
                e.MessageStart()
                | e.MessageEnd()
                | e.TurnStart()
                | e.TurnEnd()
                | e.QueueUpdate()
                | e.StateUpdate()
                | e.Interrupted()
            ):
                pass
            case _:
                assert_never(event)

    def _dispatch_delta(self, event: e.MessageUpdate) -> None:
        match event.assistant_message_event:
            case e.TextDelta(delta=text):
                self.on_text(text)
            case e.ThinkingDelta(delta=text):
                self.on_thinking(text)
            case e.ToolCallDelta() as delta:
                self.on_call_delta(delta)

    # -- what a renderer overrides ------------------------------------------------------------------

    def on_run_start(self, event: e.AgentStart) -> None: ...

    def on_prompt(self, message: UserMessage) -> None: ...

    def on_answer_start(self, message: AssistantMessage) -> None:
        """The model was asked; ``message`` is still empty."""

    def on_text(self, text: str) -> None: ...

    def on_thinking(self, text: str) -> None: ...

    def on_call_delta(self, delta: e.ToolCallDelta) -> None: ...

    def on_answer(self, message: AssistantMessage) -> None:
        """The answer is complete; ``on_text`` had its pieces."""

    def on_tool_start(self, event: e.ToolExecutionStart) -> None: ...

    def on_tool_output(self, event: e.ToolExecutionUpdate) -> None: ...

    def on_tool_end(self, event: e.ToolExecutionEnd) -> None: ...

    def on_call_end(self, outcome: CallOutcome) -> None:
        """A tool call has an outcome, also one that was refused and never ran. Comes before ``on_tool_end``."""

    def on_tool_result(self, message: ToolResultMessage) -> None: ...

    def on_compaction(self) -> None: ...

    def on_retry(self, event: e.Retry) -> None: ...

    def on_notice(self, message: str) -> None:
        self.note(message)

    def on_error(self, message: str) -> None: ...

    def on_run_end(self, event: e.AgentEnd) -> None: ...


class JsonRenderer(Renderer):
    """Writes each event as one line of JSON."""

    def __init__(self, out: BinaryIO) -> None:
        super().__init__()
        self.out = out

    def handle(self, event: e.Event, /) -> None:
        self.out.write(to_json(event) + b"\n")
        self.out.flush()

    def note(self, text: str, code: str = "note", /) -> None:
        self.handle(e.ErrorEvent(code=code, message=text))

    def close(self) -> None:
        self.out.flush()


class DisplayFailed(NewelError):
    """A renderer has a defect."""


class RendererSubscription:
    """Passes an agent's events to a renderer until the renderer fails.

    An exception of a subscriber ends a run at once, and results of tools would be lost. So when the
    screen fails, ``stop`` is called to end the run in good order, nothing more is shown, and ``check``
    raises the failure afterwards.
    """

    def __init__(self, renderer: Renderer, stop: Callable[[], object]) -> None:
        self._renderer = renderer
        self._stop = stop
        self._failure: Exception | None = None

    def handle(self, event: e.AgentEvent) -> None:
        if self._failure is None:
            try:
                self._renderer.handle(event)
            except Exception as error:  # noqa: BLE001 — raised by check, when the run has ended
                self._failure = error
                self._stop()

    def check(self) -> None:
        """Raises ``OSError`` if the reader has gone, ``DisplayFailed`` if the renderer failed in another way."""
        match self._failure:
            case None:
                pass
            case OSError() as gone:
                raise gone
            case error:
                raise DisplayFailed(
                    f"The display failed, so the run was stopped: {type(error).__name__}: {error}. This is a defect in Newel. "
                    "The conversation is saved: `newel --continue` resumes it."
                ) from error


def report_damage(agent: CodingAgent, renderer: Renderer) -> None:
    """Show the damage found in the file of the agent's session."""
    for finding in agent.session.damage:
        renderer.note(f"The session's file is damaged: {finding}", "session_damage")


async def animate(renderer: Renderer) -> None:
    """Tick until cancelled; returns at once for a renderer that is not animated."""
    while renderer.animated:
        await anyio.sleep(TICK_S)
        renderer.tick()
