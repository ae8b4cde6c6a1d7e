"""Events of an agent as updates of a session: the answer, thoughts, tool calls with their files and changes, the usage."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from newel.acp import protocol as p
from newel.acp.content import user_blocks
from newel.agent import events as e
from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from newel.text.format import TOLD, describe_call, one_line
from newel.text.json import as_list, as_str
from newel.tools import todo

KINDS: Final[dict[str, p.ToolKind]] = {
    "read": "read",
    "write": "edit",
    "edit": "edit",
    "bash": "execute",
    "grep": "search",
    "find": "search",
    "ls": "read",
    "todo": "think",
    "task": "think",
    "web_fetch": "fetch",
}
"""The kinds of Newel's own tools."""

PLAN_STATUSES: Final[dict[str, p.PlanStatus]] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "done": "completed",
}

OUTPUT_INTERVAL_S: Final = 0.2
"""Between two updates of the output of a running call: each holds its whole end."""

MAX_OUTPUT: Final = 16 * 1024
"""Characters of this output."""

MAX_TITLE: Final = 200

_HUNK = re.compile(r"(?m)^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@.*$")


class UpdateTranslator:
    """Turns the events of one session into updates for ``send``. ``root`` is the folder of relative paths."""

    def __init__(self, root: str, send: Callable[[p.Update], object]) -> None:
        self._root = root
        self._send = send
        self._outputs: dict[str, str] = {}
        self._shown_at: dict[str, float] = {}
        self._in_terminal: set[str] = set()
        self._nested: set[str] = set()
        self.command: str | None = None
        """The call whose command runs: commands run alone."""

    def __call__(self, event: e.AgentEvent) -> None:
        match event:
            case e.MessageUpdate(assistant_message_event=e.TextDelta(delta=text)) if text:
                self._send(p.AgentMessageChunk(content=p.TextBlock(text=text), message_id=event.message_id))
            case e.MessageUpdate(assistant_message_event=e.ThinkingDelta(delta=text)) if text:
                self._send(p.AgentThoughtChunk(content=p.TextBlock(text=text), message_id=event.message_id))
            case e.MessageEnd(message=AssistantMessage() as message):
                for call in message.tool_calls:
                    self._send(p.ToolCallStart(**self._call(call), status="pending"))
            case e.MessageEnd(message=ToolResultMessage() as message):
                self._end(message)
            case e.ToolExecutionStart():
                self.command = event.tool_call_id if event.tool_name == "bash" else self.command
                self._progress(event.tool_call_id, status="in_progress")
            case e.ToolExecutionUpdate():
                self._output(event.tool_call_id, event.delta)
                self._end_nested(event.event)
            case e.Retry():
                self.note(f"{event.reason} Trying again in {event.delay:g} s.")
            case e.ModelRouted():
                self.note(f"{event.model} answers ({event.place}): {event.reason}")
            case e.ErrorEvent() if event.code != "progress":
                self.note(event.message)
            case _:
                pass

    def note(self, text: str) -> None:
        """Show a message of Newel itself, beside the answer."""
        self._send(p.AgentThoughtChunk(content=p.TextBlock(text=f"{text}\n")))

    def in_terminal(self, terminal_id: str) -> None:
        """The running command has this terminal of the client."""
        if self.command is not None:
            self._in_terminal.add(self.command)
            self._progress(self.command, content=[p.TerminalOfCall(terminal_id=terminal_id)])

    def ask_nested(self, call_id: str) -> None:
        """The client asks its user about a call of a subagent: it shows that call, and gets its end, too."""
        self._nested.add(call_id)

    def _end_nested(self, event: e.AgentEvent | None) -> None:
        match event:
            case e.MessageEnd(message=ToolResultMessage() as message) if message.tool_call_id in self._nested:
                self._nested.discard(message.tool_call_id)
                self._end(message)
            case _:
                pass

    def replay(self, messages: Sequence[AppMessage]) -> None:
        """Show the messages of a session that was loaded."""
        for message in messages:
            match message:
                case UserMessage() if message.is_notice:
                    self.note(f"{TOLD} {message.text}")
                case UserMessage():
                    for block in user_blocks(message):
                        self._send(p.UserMessageChunk(content=block, message_id=message.id))
                case AssistantMessage():
                    self._replay_answer(message)
                case ToolResultMessage():
                    self._end(message)
                case _:
                    pass

    def _replay_answer(self, message: AssistantMessage) -> None:
        for part in message.content:
            match part:
                case TextContent(text=text) if text:
                    self._send(p.AgentMessageChunk(content=p.TextBlock(text=text), message_id=message.id))
                case ThinkingContent(thinking=text) if text:
                    self._send(p.AgentThoughtChunk(content=p.TextBlock(text=text), message_id=message.id))
                case ToolCall():
                    self._send(p.ToolCallStart(**self._call(part), status="pending"))
                case _:
                    pass

    # -- tool calls -------------------------------------------------------------------------------

    def _call(self, call: ToolCall) -> dict[str, Any]:
        return {
            "tool_call_id": call.id,
            "title": title_of_call(call),
            "kind": KINDS.get(call.name, "other"),
            "locations": self.locations(call.arguments),
            "raw_input": call.arguments,
        }

    def locations(self, arguments: dict[str, Any], line: int | None = None) -> list[p.Location]:
        """The file that a call names."""
        name = arguments.get("file_path")
        if not isinstance(name, str) or not name:
            return []
        offset = arguments.get("offset")
        line = line or (offset if isinstance(offset, int) and offset > 0 else None)
        path = os.path.normpath(os.path.join(self._root, os.path.expanduser(name)))  # noqa: PTH111, PTH118 — a text for the client
        return [p.Location(path=path, line=line)]

    def _progress(self, call_id: str, **fields: Any) -> None:
        self._send(p.ToolCallProgress(tool_call_id=call_id, **fields))

    def _output(self, call_id: str, delta: str) -> None:
        if call_id in self._in_terminal:
            return
        text = self._outputs[call_id] = (self._outputs.get(call_id, "") + delta)[-MAX_OUTPUT:]
        now = time.monotonic()
        if now - self._shown_at.get(call_id, 0.0) >= OUTPUT_INTERVAL_S:
            self._shown_at[call_id] = now
            self._progress(call_id, content=[_text(fenced(text))])

    def _end(self, result: ToolResultMessage) -> None:
        call_id = result.tool_call_id
        self._outputs.pop(call_id, None)
        self._shown_at.pop(call_id, None)
        self.command = None if self.command == call_id else self.command
        fields: dict[str, Any] = {"status": "failed" if result.is_error else "completed"}
        if call_id not in self._in_terminal:
            fields["content"] = list(self._content(result))
        self._in_terminal.discard(call_id)
        line = result.details.get("firstChangedLine")
        if isinstance(line, int):
            fields["locations"] = self.locations({"file_path": result.details.get("filePath")}, line)
        self._progress(call_id, **fields, raw_output=result.output)
        if result.tool_name == todo.NAME and not result.is_error:
            self._plan(todo.items_of(result.details))

    def _plan(self, items: Sequence[todo.TodoItem]) -> None:
        """Clients show the whole list beside the conversation."""
        entries = [
            p.PlanEntry(content=item.text, status=PLAN_STATUSES[item.status], priority="medium")
            for item in items
        ]
        self._send(p.PlanUpdate(entries=entries))

    def _content(self, result: ToolResultMessage) -> Iterator[p.ContentOfCall | p.DiffOfCall]:
        diff, name = result.details.get("diff"), result.details.get("filePath")
        if isinstance(diff, str) and diff and isinstance(name, str):
            path = self.locations({"file_path": name})[0].path
            yield from diffs(path, diff, is_new=result.details.get("isNew") is True)
            return
        if activity := [as_str(line) for line in as_list(result.details.get("log"))]:
            yield _text(fenced("\n".join(activity)))
        if result.output:
            yield _text(fenced(result.output))
        yield from map(_image, result.images)


def title_of_call(call: ToolCall) -> str:
    """One line: a command itself, or the tool and its file."""
    command = call.arguments.get("command")
    if call.name == "bash" and isinstance(command, str):
        outside = "Outside of the sandbox: " if call.arguments.get("unsandboxed") else ""
        return outside + (one_line(command, MAX_TITLE - len(outside)) or "bash")
    return describe_call(call.name, call.arguments, MAX_TITLE)


def diffs(path: str, diff: str, *, is_new: bool = False) -> Iterator[p.DiffOfCall]:
    """The hunks of a unified diff of one file, each with its lines before and after."""
    starts = list(_HUNK.finditer(diff))
    ends = [following.start() for following in starts[1:]] + [len(diff)]
    for start, end in zip(starts, ends, strict=False):
        old, new = _sides(diff[start.end() + 1 : end])
        yield p.DiffOfCall(path=path, old_text=None if is_new and not old else old, new_text=new)


def _sides(hunk: str) -> tuple[str, str]:
    """The texts before and after a hunk, from its lines."""
    old: list[str] = []
    new: list[str] = []
    sides = {" ": (old, new), "-": (old,), "+": (new,)}
    last: tuple[list[str], ...] = ()
    for line in hunk.split("\n"):
        if line.startswith("\\"):  # no line feed at the end of the file
            for side in last:
                side[-1] = side[-1].removesuffix("\n")
        elif last := sides.get(line[:1], ()):
            for side in last:
                side.append(line[1:] + "\n")
    return "".join(old), "".join(new)


def fenced(text: str) -> str:
    """Text as a code block of Markdown, which nothing in it can end."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text.rstrip()}\n{fence}"


def _text(text: str) -> p.ContentOfCall:
    return p.ContentOfCall(content=p.TextBlock(text=text))


def _image(image: ImageContent) -> p.ContentOfCall:
    return p.ContentOfCall(content=p.ImageBlock(data=image.data, mime_type=image.mime_type))
