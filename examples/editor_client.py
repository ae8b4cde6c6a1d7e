"""The part of an editor's extension that talks to Newel: prompts, cancellation, approval of each change.

    python examples/editor_client.py [FOLDER]

Standard input plays the editor: a line is a prompt for the agent, or a message to it while it works. `cancel` stops it,
`yes` and `no` answer its question.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import anyio
from anyio.abc import TaskGroup

import newel
from newel.agent.events import AgentEnd, MessageUpdate, TextDelta, ToolExecutionEnd, ToolExecutionStart
from newel.agent.messages import UserMessage


class Extension:
    """``show`` appends to the editor's output, ``notify`` shows a message box."""

    def __init__(self, show: Callable[[str], object], notify: Callable[[str], object]) -> None:
        self._show = show
        self._notify = notify
        self._send_answer, self._answers = anyio.create_memory_object_stream[str](1)

    async def ask(self, request: newel.ApprovalRequest) -> newel.Approval:
        """Called before each change. A real editor would show the preview, a diff or a command, in a tab."""
        self._notify(f"Allow {request.label}? (yes or no)\n{request.preview}")
        return newel.Approval("once" if await self._answers.receive() == "yes" else "no")

    async def execute_prompt(self, agent: newel.CodingAgent, prompt: str) -> None:
        try:
            async with agent.stream(prompt) as events:
                async for event in events:
                    match event:
                        case MessageUpdate(assistant_message_event=TextDelta(delta=text)):
                            self._show(text)
                        case ToolExecutionStart():
                            self._notify(f"Running: {event.tool_name}")
                        case ToolExecutionEnd(is_error=True):
                            self._notify(f"Tool failed: {event.result}")
                        case AgentEnd():
                            self._notify(f"Ended: {event.reason}")
                        case _:
                            pass
        except newel.NewelError as error:
            self._notify(f"Failed: {error}")

    async def on_input(self, line: str, agent: newel.CodingAgent, tasks: TaskGroup) -> None:
        if line == "cancel":
            agent.abort()
        elif line in {"yes", "no"}:
            await self._send_answer.send(line)
        elif agent.state.is_streaming:
            await agent.queue_message(UserMessage(line))
        else:
            tasks.start_soon(self.execute_prompt, agent, line)


async def main(folder: str) -> None:
    extension = Extension(partial(print, end="", flush=True), lambda text: print(f"\n[{text}]", flush=True))
    options = newel.open_coding_agent(
        working_directory=folder, continue_=True, approve="ask", ask=extension.ask
    )
    async with options as agent, anyio.create_task_group() as tasks:
        async for line in anyio.wrap_file(sys.stdin):
            await extension.on_input(line.strip(), agent, tasks)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else ".")
