"""Runs the command of a hook: with JSON as its input, until it has ended or its time is over, in bounded memory.

It is the user's own program, so it runs outside of the sandbox. It ends with Newel, and gets none of the variables that hold keys.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from typing import Any, Final

from newel.agent.errors import WorkspaceError
from newel.hooks.hook import Hook
from newel.hooks.hook_output import HookReply, read_reply
from newel.hooks.hook_trust import PROJECT
from newel.workspace.git import without_other_repository
from newel.workspace.port import TimeLimit
from newel.workspace.process.environment import child_env, without_own_python
from newel.workspace.process.output import Capture
from newel.workspace.process.own_programs import SAFE_PYTHON, with_project_last
from newel.workspace.process.runner import ChildProcess, wait_for_exit

MAX_OUTPUT: Final = 1 << 20
"""Bytes of each output; the middle of a longer one is dropped."""

VARIABLE: Final = "CLAUDE_PROJECT_DIR"


class _CapturedOutput:
    """Fulfils ``OutputSink``: keeps both outputs in memory, and nothing else."""

    due = float("inf")

    def __init__(self) -> None:
        self.stdout = Capture(MAX_OUTPUT)
        self.stderr = Capture(MAX_OUTPUT)

    def add(self, stream: str, chunk: bytes, /) -> None:
        (self.stdout if stream == "stdout" else self.stderr).add(chunk)

    async def flush(self, now: float, /, *, final: bool = False) -> None:
        """A hook's output is not shown as it arrives."""

    def close(self) -> None:
        pass


async def run_hook(hook: Hook, given: Mapping[str, Any], *, project: str, folder: str) -> HookReply:
    """Run a hook in ``folder``; ``given`` is its input. What is wrong with it is its reply; only a cancellation is raised."""
    environ = without_own_python(SAFE_PYTHON | child_env(os.environ), folder)
    environ = with_project_last(without_other_repository(environ, folder), folder)
    output = _CapturedOutput()
    try:
        child = ChildProcess(
            _argv(hook, project, environ["PATH"]), folder, environ | {VARIABLE: project}, output, stdin=b""
        )
    except WorkspaceError as error:
        return HookReply(problem=str(error))
    child.send(json.dumps(given).encode())  # not msgspec: an argument may hold a lone surrogate
    child.end_input()
    ending = await wait_for_exit(child, TimeLimit(hook.limit))
    if ending.timed_out:
        return HookReply(problem=f"it did not finish within {hook.limit:g} s and was stopped")
    return read_reply(
        hook.event,
        exit_code=ending.exit_code,
        stdout=output.stdout.text("it is too long"),
        stderr=output.stderr.text("it is too long"),
        is_cut=output.stdout.truncated,
    )


def _argv(hook: Hook, project: str, path: str) -> list[str]:
    if hook.args is None:
        bash = shutil.which("bash", path=path)
        shell = [bash, "--norc"] if bash else ["/bin/sh"]
        return [*shell, "-c", "--", hook.command]
    words = [PROJECT.sub(lambda _: project, word) for word in (hook.command, *hook.args)]
    return [shutil.which(words[0], path=path) or words[0], *words[1:]]
