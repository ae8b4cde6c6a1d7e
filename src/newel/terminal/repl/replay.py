"""The end of a conversation as it was shown, for a user who resumes it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from newel.agent.events import MessageEnd, MessageUpdate, TextDelta, ToolExecutionEnd
from newel.agent.formatting import pluralize
from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    CustomMessage,
    TextContent,
    ToolResultMessage,
    UserMessage,
)
from newel.terminal.renderers.base import PROMPT_LINES
from newel.terminal.renderers.screen import terminal_size
from newel.text.format import one_line

if TYPE_CHECKING:
    from newel.agent.events import AgentEvent
    from newel.session.coding_agent import CodingAgent
    from newel.terminal.renderers.base import Renderer

SCREENS: Final = 2
"""Screens of a conversation that are shown again, about."""

NO_ANSWER: Final = "This prompt has no answer. `/rewind` puts it back into the input."
NO_END: Final = "This run did not come to its end. Say how it should go on, such as `continue`."

EARLIER: Final = "… the beginning of this message is left out\n\n"


def show_resumed(agent: CodingAgent, renderer: Renderer) -> None:
    """Show the last turns of a resumed conversation, and a line that says so."""
    messages = agent.history()
    columns, rows = terminal_size(sys.stdout)
    shown = last_turns(messages, columns, SCREENS * rows)
    if earlier := len(messages) - len(shown):
        renderer.note(f"… {pluralize(earlier, 'earlier message')}")
    for event in _events(shown):
        if isinstance(event, MessageEnd) and isinstance(event.message, UserMessage):
            renderer.show_prompt(event.message)
        else:
            renderer.handle(event)
    renderer.close()  # nothing is running
    name = agent.session.get_name() or agent.session.get_id()[:8]
    renderer.note(f"── Resumed {name}: {pluralize(len(messages), 'message')}. ──")
    if unanswered := _unanswered(shown[-1] if shown else None):
        renderer.note(unanswered)
    answered, current = _last_model(messages), one_line(agent.state.model.id)
    if answered not in {"", agent.state.model.id} and agent.state.agent_mode == "remote":
        renderer.note(
            f"The last answer came from {one_line(answered)}; the next prompt goes to {current} (/model)."
        )


def _unanswered(last: AppMessage | None) -> str:
    """What to do about a last message that the model has not answered, because Newel was killed, for example. Empty if it has."""
    match last:
        case UserMessage() if not last.is_notice:
            from newel.hooks.hooked_run import BLOCKED_PROMPT

            return "" if last.text == BLOCKED_PROMPT else NO_ANSWER
        case ToolResultMessage():
            return NO_END
        case _:
            return ""


def _last_model(messages: Sequence[AppMessage]) -> str:
    """The model that answered last; empty if none has."""
    answers = (message for message in reversed(messages) if isinstance(message, AssistantMessage))
    return next((answer.model for answer in answers if answer.model), "")


def last_turns(messages: Sequence[AppMessage], columns: int, rows: int) -> list[AppMessage]:
    """The last messages that take about ``rows`` rows, from a prompt on if there is one among them; the first one may be cut."""
    shown: list[AppMessage] = []
    for message in reversed(messages):
        size = _size(message, columns)
        if size > rows:
            if not shown:
                shown.append(_cut(message, columns, rows))
            break
        shown.append(message)
        rows -= size
    shown.reverse()
    first = next((at for at, message in enumerate(shown) if isinstance(message, UserMessage)), 0)
    return shown[first:] if len(shown) < len(messages) else shown


def _size(message: AppMessage, columns: int) -> int:
    """About the rows that a message takes."""
    match message:
        case UserMessage():
            return min(_rows(message.text, columns), PROMPT_LINES + 1) + 1
        case AssistantMessage():
            return _rows(message.text, columns) + 1 if message.text else 0
        case ToolResultMessage():
            diff = message.details.get("diff")
            return 1 + (_rows(diff, columns) if isinstance(diff, str) and diff else 0)
        case _:
            return 1


def _rows(text: str, columns: int) -> int:
    return sum(1 + len(line) // max(columns, 1) for line in text.split("\n"))


def _cut(message: AppMessage, columns: int, rows: int) -> AppMessage:
    """The end of a long answer; any other message takes few rows or is cut where it is shown."""
    if not isinstance(message, AssistantMessage):
        return message
    lines = message.text.split("\n")
    while len(lines) > 1 and rows < _rows("\n".join(lines), columns):
        del lines[: max(len(lines) // 8, 1)]
    calls = [content for content in message.content if not isinstance(content, TextContent)]
    return msgspec.structs.replace(message, content=[TextContent(EARLIER + "\n".join(lines)), *calls])


def _events(messages: Sequence[AppMessage]) -> Iterator[AgentEvent]:
    """The events that once showed these messages."""
    for message in messages:
        match message:
            case AssistantMessage():
                if message.text:
                    yield MessageUpdate(
                        message_id=message.id, assistant_message_event=TextDelta(message.text)
                    )
                yield MessageEnd(message=message)
            case ToolResultMessage() if message.duration or not message.is_error:
                yield from _execution(message)
            case UserMessage() | ToolResultMessage() | CustomMessage():
                yield MessageEnd(message=message)


def _execution(message: ToolResultMessage) -> Iterator[AgentEvent]:
    """A call that ran, as the tracker of calls knows it from the answer before."""
    yield ToolExecutionEnd(
        tool_call_id=message.tool_call_id,
        tool_name=message.tool_name,
        result=message.output,
        is_error=message.is_error,
        duration=message.duration,
        details=message.details,
    )
