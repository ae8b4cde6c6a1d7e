"""Writes a run as ``stream-json``, or only its results as ``json``."""

from __future__ import annotations

import uuid
from typing import BinaryIO

from newel.agent import events as e
from newel.agent.messages import AppMessage, AssistantMessage, CustomMessage, ToolResultMessage, UserMessage
from newel.agent.transform import COMPACTION
from newel.terminal.renderers.base import Renderer
from newel.terminal.run_result import PromptResult, SessionStarted
from newel.terminal.stdout import write_line
from newel.terminal.stream_json.lines import (
    Line,
    assistant_lines,
    compact_line,
    init_line,
    inserted_line,
    notice_line,
    prompt_line,
    result_line,
    retry_line,
    tool_result_line,
)
from newel.terminal.stream_json.partial import PartialMessages
from newel.text.json import to_json


class ResultPrinter:
    """A ``RunReporter`` that writes each result as one line."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._session_id = ""

    def on_session(self, session: SessionStarted, /) -> None:
        self._session_id = session.session_id

    def on_result(self, result: PromptResult, /) -> None:
        self.write(result_line(result))

    def write(self, line: Line, /) -> None:
        """Add the ids and write the line. Raises ``OSError`` if the reader has gone."""
        write_line(self._out, to_json(line | {"session_id": self._session_id, "uuid": str(uuid.uuid4())}))

    def write_unnamed(self, line: Line, /) -> None:
        """Write a line that belongs to no session."""
        write_line(self._out, to_json(line))


class StreamJsonRenderer(Renderer):
    """A renderer and ``RunReporter``. ``partial`` also writes the pieces of messages; ``key_source`` is where the API key is from.

    Prompts are not repeated: their sender knows them.
    """

    def __init__(self, out: BinaryIO, *, partial: bool = False, key_source: str = "none") -> None:
        super().__init__()
        self._printer = ResultPrinter(out)
        self._partial = PartialMessages() if partial else None
        self._key_source = key_source
        self._takes_prompt = False
        self._context = 0

    def handle(self, event: e.AgentEvent, /) -> None:
        if self._partial is not None:
            for each in self._partial.feed(event):
                self.write({"type": "stream_event", "event": each, "parent_tool_use_id": None})
        match event:
            case e.AgentStart():
                self._takes_prompt = True
            case e.TurnStart():
                self._takes_prompt = False
            case e.MessageEnd():
                self._message(event)
            case e.ToolExecutionUpdate(event=e.MessageEnd(message=message)):
                self._nested(message, event.tool_call_id)
            case e.Retry():
                self.write(retry_line(event))
            case e.ModelRouted():
                self.write(notice_line("model_routed", event.reason, is_error=False))
            case e.ErrorEvent():
                self.write(notice_line(event.code, event.message, is_error=event.level == "error"))
            case _:
                pass

    def _message(self, event: e.MessageEnd) -> None:
        match event.message:
            case AssistantMessage() as message:
                self._context = message.usage.total or self._context
                for line in assistant_lines(message, None):
                    self.write(line)
            case ToolResultMessage() as message:
                self.write(tool_result_line(message, None))
            case UserMessage() as message if not self._takes_prompt:
                self.write(inserted_line(message))
            case CustomMessage(name=name) if name == COMPACTION:
                self.write(compact_line(self._context))
            case _:
                pass

    def _nested(self, message: AppMessage, parent: str) -> None:
        """A message of a subagent, its prompt included."""
        match message:
            case AssistantMessage():
                for line in assistant_lines(message, parent):
                    self.write(line)
            case ToolResultMessage():
                self.write(tool_result_line(message, parent))
            case UserMessage():
                self.write(prompt_line(message, parent))
            case _:
                pass

    def note(self, text: str, code: str = "note", /) -> None:
        self.write(notice_line(code, text, is_error=False))

    def on_session(self, session: SessionStarted, /) -> None:
        self._printer.on_session(session)
        self.write(init_line(session, key_source=self._key_source))

    def on_result(self, result: PromptResult, /) -> None:
        self._printer.on_result(result)

    def write(self, line: Line, /) -> None:
        self._printer.write(line)

    def write_control(self, line: Line, /) -> None:
        """Write a line of the control protocol, which belongs to no session."""
        self._printer.write_unnamed(line)
