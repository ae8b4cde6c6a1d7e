"""The terminal's program with a scripted model, the real tools and a real session.

Run as ``python -m tests.integration.terminal.program FRONT [PROMPT…]`` with FRONT one of rich, console, simple, json,
one-shot-rich and one-shot-console. ``NEWEL_HOME`` is Newel's home, ``PROGRAM_APPROVE`` the approval mode,
``PROGRAM_SESSION`` the session to resume, ``PROGRAM_EDITING`` whose keys edit the input. The theme and the keys are those of its
``config.toml``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec

from newel.agent.agent import ProviderTransport
from newel.agent.errors import RequestRejected
from newel.agent.events import AgentEnd
from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from newel.agent.ports import Model, ModelRequest, OnDelta, RunConfig
from newel.agent.transform import Transformer
from newel.config.settings import load_terminal_settings
from newel.config.terminal import TerminalSettings
from newel.config.themes import load_theme
from newel.context.file_reader import WorkspaceFolder
from newel.context.prompt_templates import load_templates
from newel.permissions.approval import ApprovalMode, approval_policy
from newel.permissions.secret_paths import SecretPaths
from newel.review.tracking.recording_workspace import RecorderRegistry, RecordingWorkspace
from newel.session.coding_agent import CodingAgent
from newel.session.manager import SessionManager
from newel.session.typed_prompt import Prompt
from newel.terminal.print_mode import run_prompts
from newel.terminal.renderers.console import ConsoleRenderer
from newel.terminal.renderers.rich import on_terminal
from newel.terminal.repl.coding_repl import run_repl
from newel.terminal.rpc.server import run_json
from newel.terminal.simple_repl import run_simple_repl
from newel.terminal.ui.approval import Approver
from newel.tools import coding_tools
from newel.tools.todo import TodoTool
from newel.workspace.local import LocalWorkspace
from tests.scripted_models import ScriptedModels
from tests.scripted_provider import deltas

ESSAY = """\
# A plan

It has *three* parts, and 日本語 🙂 in it:

1. read `a.py`
2. change it

```python
def greet(name: str) -> str:
    return f"Hello, {name}"
```

| what | where |
|---|---|
| code | a.py |

That is all.
"""

LONG = "\n".join(
    [
        "```python",
        *(f"line({number})" for number in range(300)),
        "```",
        "",
        "| row | square |",
        "|---|---|",
        *(f"| row {number} | {number * number} |" for number in range(100)),
        "",
        *(f"- item {number}" for number in range(100)),
        "",
        "That is all.",
    ]
)


def todo(steps: list[str], done: int) -> ToolCall:
    """A call that sets the list, of which the first ``done`` steps are."""
    states = ["done"] * done + ["in_progress"] + ["pending"] * len(steps)
    items = [{"text": text, "status": status} for text, status in zip(steps, states, strict=False)]
    return ToolCall(f"t{done}", "todo", {"items": items})


class Obedient:
    """A model that obeys the prompt: ``run CMD``, ``write FILE``, ``fill FILE`` with 100 lines, ``edit FILE``, ``essay``, ``slow``,
    ``long``, ``fail``, ``cut``, ``empty``, ``todo NUMBER`` (of steps, each of which waits for the file ``goN`` beside the project); it
    repeats anything else. After its tools it says how many results it got.
    """

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        last = request.messages[-1]
        answer = self.after(request) if isinstance(last, ToolResultMessage) else self.begin(last)
        pause = 0.05 if "slow" in str(getattr(last, "content", "")) else 0.002
        for delta in deltas(answer):
            await on_delta(delta)
            await anyio.sleep(pause)
        return answer

    def begin(self, message: Any) -> AssistantMessage:
        text = message.text if isinstance(message, UserMessage) else ""
        verb, _, rest = text.partition(" ")
        match verb:
            case "run":
                return self.call(
                    "I run it.",
                    *(
                        ToolCall(f"c{n}", "bash", {"command": one})
                        for n, one in enumerate(rest.split(" && "))
                    ),
                )
            case "write":
                return self.call("", ToolCall("w", "write", {"file_path": rest, "content": "one\ntwo\n"}))
            case "fill":
                lines = "".join(f"line {number}\n" for number in range(1, 101))
                return self.call("", ToolCall("f", "write", {"file_path": rest, "content": lines}))
            case "edit":
                edit = {"file_path": rest, "old_string": "two", "new_string": "TWO\nthree"}
                return self.call("", ToolCall("r", "read", {"file_path": rest}), ToolCall("e", "edit", edit))
            case "essay" | "slow":
                return self.call(ESSAY)
            case "long":
                return self.call(LONG)
            case "todo":
                steps = [f"Step {number}" for number in range(1, int(rest or 3) + 1)]
                return self.call("", todo(steps, done=0))
            case "cut":
                return msgspec.structs.replace(self.call("The first half"), stop_reason="length")
            case "empty":
                return self.call("")
            case "fail":
                raise RequestRejected("The server refused the request: no such model.")
            case _:
                return self.call(f"You said: {text}")

    def after(self, request: ModelRequest) -> AssistantMessage:
        last = request.messages[-1]
        if isinstance(last, ToolResultMessage) and (items := last.details.get("items")):
            steps = [item["text"] for item in items]
            done = 1 + sum(item["status"] == "done" for item in items)
            if done <= len(steps):
                wait = f"until [ -e ../go{done} ]; do sleep 0.05; done"
                pause = ToolCall(f"p{done}", "bash", {"command": wait})
                return self.call("", pause, todo(steps, done))
        results = sum(isinstance(message, ToolResultMessage) for message in request.messages)
        return self.call(f"Done after {results} results.")

    def call(self, text: str, *calls: ToolCall) -> AssistantMessage:
        content: list[Any] = [TextContent(text), *calls] if text else list(calls)
        return AssistantMessage(content=content, usage=Usage(input=1200, output=34), cost=0.002)


class SlowToEnd(CodingAgent):
    """After its last request, a run takes until the file ``end`` beside the project exists."""

    async def answer(self, prompts: Sequence[AppMessage], **more: Any) -> AgentEnd:
        end = await super().answer(prompts, **more)
        await anyio.Path("../ending").touch()
        while not await anyio.Path("../end").exists():  # noqa: ASYNC110 — no event tells of a file
            await anyio.sleep(0.01)
        return end


async def build(cwd: Path, home: Path, approver: Approver) -> CodingAgent:
    workspace = RecordingWorkspace(LocalWorkspace(str(cwd)), RecorderRegistry(home))

    def open_session(session: str | None) -> SessionManager:
        return SessionManager(directory=home / "sessions", cwd=str(cwd), session=session)

    def find_policy(mode: ApprovalMode) -> Any:
        places = SecretPaths(str(cwd), home=str(cwd))
        return approval_policy(mode, ask=approver, folder=str(cwd), places=places)

    mode: Any = os.environ.get("PROGRAM_APPROVE", "auto")
    agent = (SlowToEnd if "PROGRAM_SLOW_TO_END" in os.environ else CodingAgent)(
        transport=ProviderTransport(Obedient()),
        config=RunConfig(
            model=Model("obedient", "script", 128_000),
            transform=Transformer(),
            tools=[*coding_tools(workspace), TodoTool()],
            policy=find_policy(mode),
        ),
        workspace=workspace,
        approve=mode,
        find_policy=find_policy,
        session=open_session(os.environ.get("PROGRAM_SESSION")),
        open_session=open_session,
        models=ScriptedModels("obedient", "other"),
        templates=await load_templates([WorkspaceFolder(workspace, f"{workspace.root}/.newel/prompts")]),
    )
    workspace.attend(agent)
    return agent


async def main(front: str, prompts: list[str]) -> int:
    home, approver = Path(os.environ["NEWEL_HOME"]), Approver()
    editing: Any = os.environ.get("PROGRAM_EDITING", "emacs")
    own = load_terminal_settings(home)
    agent = await build(Path.cwd(), home, approver)
    given = [Prompt(text) for text in prompts]
    match front:
        case "rich" | "console":
            return await run_repl(
                agent,
                home=home,
                approver=approver,
                screen=front,
                header="newel test",
                first_prompts=given,
                settings=TerminalSettings(
                    notify=os.environ.get("PROGRAM_NOTIFY", "").split(),
                    status_line=os.environ.get("PROGRAM_STATUS_LINE", "").split(),
                    editing=editing,
                    keys=own.keys,
                ),
                theme=load_theme(own.theme, home, os.environ).theme,
            )
        case "simple":
            return await run_simple_repl(agent, 0, sys.stdout, approver=approver)
        case "json":
            return await run_json(agent, 0, sys.stdout.buffer, approver=approver)
        case "one-shot-rich":
            return await run_prompts(agent, given, on_terminal(sys.stdout), approver=approver)
        case _:
            return await run_prompts(agent, given, ConsoleRenderer(sys.stdout), approver=approver)


if __name__ == "__main__":
    sys.exit(anyio.run(main, sys.argv[1], sys.argv[2:]))
