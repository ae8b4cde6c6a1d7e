r"""``jexida`` with this machine as its host: a scripted model, real commands, a real session.

Run as ``python -m tests.integration.jexida.program``. The model obeys the prompt: ``run CMD`` proposes it, ``raw
WORDS`` replies exactly that (``\n`` is a line break), ``fail`` refuses, ``count`` says how many prompts it got; it
repeats anything else. It answers a result with the exit code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio

from newel.agent.errors import RequestRejected
from newel.agent.messages import AssistantMessage, TextContent, UserMessage
from newel.agent.ports import ModelRequest, OnDelta, Provider
from newel.session.manager import SessionManager
from newel.terminal.jexida.agent import JexidaAgent
from newel.terminal.jexida.protocol import AnswerReply, ShellReply, render
from newel.terminal.jexida.repl import run_jexida
from newel.terminal.jexida.routines import Routine
from newel.text.shell_template import ShellTemplate
from newel.workspace.local import LocalWorkspace
from newel.workspace.port import CommandResult, OnOutput
from tests.scripted_provider import deltas


class Here:
    """This machine, as a host."""

    name = "me@here"
    state = "up"
    latency = 12.0

    def __init__(self, workspace: LocalWorkspace) -> None:
        self._workspace = workspace

    @property
    def directory(self) -> str:
        return self._workspace.root

    def watch(self, watcher: Callable[[], None], /) -> None:
        pass

    async def connect(self) -> None:
        pass

    async def project_name(self) -> str:
        return "ssh://me@here/"

    async def run(self, command: str, /, *, on_output: OnOutput | None = None) -> CommandResult:
        return await self._workspace.run(command, on_output=on_output)

    async def project(self) -> None:
        return None

    async def shell(self) -> Sequence[str]:
        return ["sh", "-c", os.environ.get("PROGRAM_SHELL", "stty raw -echo; echo in the shell; kill -9 $$")]


class Obedient:
    """The model; see above."""

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        said = [message.text for message in request.messages if isinstance(message, UserMessage)]
        words = self.reply(said)
        answer = AssistantMessage(content=[TextContent(words)])
        for delta in deltas(answer):
            await on_delta(delta)
            await anyio.sleep(0.002)
        return answer

    def reply(self, said: list[str]) -> str:
        verb, _, rest = said[-1].partition(" ")
        match verb:
            case "run":
                return render(ShellReply(rest, "You asked for it."))
            case "raw":
                return rest.replace("\\n", "\n")
            case "count":
                return render(AnswerReply(f"I was shown {len(said)} prompts."))
            case "fail":
                raise RequestRejected("phi3 is not on me@here. Pull it there: ollama pull phi3")
            case _ if verb == "Command:":
                return render(AnswerReply(f"It ended with `{said[-1].splitlines()[1]}`."))
            case _:
                return render(AnswerReply(f"You said: {said[-1]}"))


class Path3:
    description = "scripted"
    pull = None
    provider: Provider = Obedient()

    async def models(self) -> list[str]:
        return ["phi3", "llama3.2"]

    async def check(self, model: str, /) -> None:
        pass


async def main() -> int:
    home = Path(os.environ["NEWEL_HOME"])
    routines = [
        Routine("greet", "Say hello", ShellTemplate("echo hello from a routine")),
        Routine("grow", "", ShellTemplate("echo 1; echo 2")),
        Routine("logs", "", ShellTemplate("printf '<%s>' -{lines} {name}", ["name", "lines=100"])),
    ]
    talk = JexidaAgent(
        Here(LocalWorkspace(".")),
        Path3(),
        model="phi3",
        user="me",
        routines={each.name: each for each in routines},
        turns=4,
        session=SessionManager(directory=home / "sessions", cwd="me@here"),
    )
    return await run_jexida(talk, title="jexida test", history=home / "history")


if __name__ == "__main__":
    sys.exit(anyio.run(main))
