"""Renderers: one dispatch from events to the methods that draw them, and a renderer's subscription to an agent.

    event ── Renderer.handle ──> on_prompt, on_text, on_answer, on_call_end, …   a renderer overrides what it draws

``ConsoleRenderer``, ``SimpleRenderer`` and ``ContractRenderer`` write text; ``RichRenderer`` and ``PanelRenderer`` are
``LiveRenderer``s, which also draw unfinished parts; ``JsonRenderer`` writes the events themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, assert_never

import anyio
from anyio.lowlevel import checkpoint

from newel.agent import events as e
from newel.agent.errors import NewelError
from newel.agent.events import MessageEnd
from newel.agent.messages import AssistantMessage, CustomMessage, ToolResultMessage, Usage, UserMessage
from newel.agent.transform import COMPACTION
from newel.terminal.renderers.call_outcome import CallOutcome, ToolCallTracker
from newel.text.format import describe_routing, short_number, usage_line

if TYPE_CHECKING:
    from newel.session.coding_agent import CodingAgent

TICK_S = 0.1
"""Seconds between two ticks of an animated renderer."""

PROMPT_LINES = 6
"""Lines of a long prompt in the scroll-back: the user has the whole of it, and scrolls back to what followed."""

COMPACTED = "The conversation was summarized to free context."


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
        ``diff`` is text with unified diffs in it; lines of ``whole`` are never wrapped, so that they can be copied; ``answer`` is one line
        about an answer of the user.
        """
        raise NotImplementedError

    def show_prompt(self, message: UserMessage, /) -> None:
        """Show a prompt of the user that was sent earlier."""
        self.handle(MessageEnd(message=message))

    def tick(self) -> bool:
        """``TICK_S`` seconds have passed. False if there is more to do after other tasks, such as keys, had their turn."""
        return True

    def show_progress(self, activity: str) -> None:
        """Show how far something is, an inert text, until the next call; empty at its end."""

    def show_stopping(self) -> None:
        """What runs is being stopped, which can take a moment."""

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
            case e.ModelRouted():
                self.on_notice(describe_routing(event))
            case e.ErrorEvent():
                {"error": self.on_error, "warning": self.on_warning, "info": self.on_notice}[event.level](
                    event.message
                )
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

    def on_warning(self, message: str) -> None:
        """Nothing failed, but the user should know."""
        self.on_error(message)

    def on_error(self, message: str) -> None: ...

    def on_run_end(self, event: e.AgentEnd) -> None: ...


class RunSummary:
    """Collects what the closing line of a run reports. ``window`` returns the size of the model's context in tokens."""

    def __init__(self, window: Callable[[], int | None]) -> None:
        self.started_at = ""
        self._window = window
        self._context = 0
        self._used = Usage()

    def start(self, event: e.AgentStart) -> None:
        self.started_at = event.timestamp
        self._context = 0  # that of the run before may be of another conversation
        self._used = Usage()

    def add(self, message: AssistantMessage) -> None:
        self._context = message.usage.total or self._context
        self._used += message.usage

    def tokens(self) -> str:
        """What the run has used so far."""
        return f"{short_number(self._used.total)} tokens" if self._used.total else ""

    def text(self, event: e.AgentEnd) -> str:
        milliseconds = None
        if self.started_at:
            elapsed = datetime.fromisoformat(event.timestamp) - datetime.fromisoformat(self.started_at)
            milliseconds = elapsed.total_seconds() * 1000
        return usage_line(
            event.usage, event.cost, context=self._context, window=self._window(), milliseconds=milliseconds
        )


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
        self.guard(lambda: self._renderer.handle(event))

    def guard(self, show: Callable[[], object]) -> None:
        """Show something else with the renderer, in the same way."""
        if self._failure is None:
            try:
                show()
            except Exception as error:  # noqa: BLE001 — raised by check, when the run has ended
                self._failure = error
                self._stop()

    def check(self) -> None:
        """Raises ``OSError`` if the reader has gone, ``DisplayFailed`` if the renderer failed in another way."""
        error = self._failure
        if isinstance(error, OSError):
            raise error
        if error is not None:
            raise DisplayFailed(
                f"The display failed, so the run was stopped: {type(error).__name__}: {error}. This is a defect in Newel. "
                "The conversation is saved: `newel --continue` resumes it."
            ) from error


def report_start(agent: CodingAgent, renderer: Renderer) -> None:
    """Show the damage found in the file of the agent's session, and what else the user should know at the start."""
    for notice in agent.info.start_notices:
        renderer.note(notice, "left_out")
    for finding in agent.session.damage:
        renderer.note(f"The session's file is damaged: {finding}", "session_damage")


async def animate(renderer: Renderer) -> None:
    """Tick until cancelled; returns at once for a renderer that is not animated."""
    while renderer.animated:
        await anyio.sleep(TICK_S)
        while not renderer.tick():
            await checkpoint()
