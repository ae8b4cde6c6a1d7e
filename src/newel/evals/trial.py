"""One trial: an agent works on a task, in a folder, a home and a process of its own, and its result is checked."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final, Literal

import anyio
import anyio.to_thread
import msgspec

from newel.agent.errors import NewelError
from newel.evals.checks import CheckResult, OpenFolder, prepare, run_checks
from newel.evals.task import Task, TaskError
from newel.storage.files import read_regular
from newel.text.json import as_dict
from newel.workspace.local import LocalWorkspace

PROMPT: Final = "{prompt}"
"""Where the prompt goes in the command of another agent."""

TRACE: Final = "trace.jsonl"
"""What the agent wrote to its standard output, in a trial's folder: Newel's events in JSON mode."""

_ERRORS: Final = "stderr.txt"
_MOST_OUTPUT: Final = 64 << 20
_SHOWN: Final = 2_000

End = Literal["done", "timeout", "failed", "invalid"]
"""``failed``: the agent ended with an error, or at a limit. ``invalid``: the trial says nothing about the agent, as its task could not be
prepared.
"""


class AgentSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The agent under test: ``flags`` of Newel, or else the shell ``command`` of another agent, in which ``PROMPT`` stands for the prompt.
    ``environ`` is added to its environment; it may have keys, and is stored nowhere.
    """

    flags: Sequence[str] = ()
    command: str = ""
    environ: Mapping[str, str] = {}

    def command_for(self, task: Task) -> str:
        """For a shell, in the folder of a trial's project."""
        if self.command:
            return self.command.replace(PROMPT, shlex.quote(task.prompt))
        words = [sys.executable, "-m", "newel", "--json", "--approve", "auto", *self.flags]
        for prompt in task.then:
            words += ["--then", prompt]
        return shlex.join([*words, "--", task.prompt])


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """Of one trial. ``seconds`` is how long the agent took, ``model_seconds`` what of it was waiting for the model. ``cost`` is in US dollars.
    None is unknown.
    """

    seconds: float = 0.0
    model_seconds: float | None = None
    requests: int | None = None
    tool_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None


class TrialResult(msgspec.Struct, frozen=True, kw_only=True):
    """``problem`` says why the agent did not end as it should."""

    task: str
    repeat: int
    size: str
    end: End
    passed: bool
    checks: list[CheckResult] = []
    problem: str = ""
    answer: str = ""
    metrics: Metrics = Metrics()


OpenAgent = Callable[[Task, Path], AbstractAsyncContextManager[AgentSetup]]
"""Opens the agent for a trial of a task in a folder, with what it needs for the time of the trial."""


async def run_trial(
    task: Task, repeat: int, place: Path, *, open_agent: OpenAgent, open_folder: OpenFolder
) -> TrialResult:
    """Run the agent on the task in the folder ``place``; what an earlier attempt left there is removed."""
    project = place / "project"
    await anyio.to_thread.run_sync(_make_empty, place)
    result = TrialResult(task=task.name, repeat=repeat, size=task.size, end="invalid", passed=False)
    try:
        before = await prepare(task, project, open_folder)
    except TaskError as error:
        return msgspec.structs.replace(result, problem=str(error))
    async with open_agent(task, place) as agent:
        began = time.monotonic()
        end, problem = await _run_agent(task, agent, place)
        seconds = time.monotonic() - began
    answer, metrics = await anyio.to_thread.run_sync(_read_trace, place / TRACE, not agent.command)
    checks = await run_checks(task, project, before, answer, open_folder)
    return msgspec.structs.replace(
        result,
        end=end,
        passed=not any(check.problem for check in checks),
        checks=checks,
        problem=problem,
        answer=answer[:_SHOWN],
        metrics=msgspec.structs.replace(metrics, seconds=round(seconds, 3)),
    )


def _make_empty(place: Path) -> None:
    if place.exists():
        shutil.rmtree(place)
    (place / "home").mkdir(parents=True)


async def _run_agent(task: Task, agent: AgentSetup, place: Path) -> tuple[End, str]:
    environ = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(place / "home"),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        **agent.environ,
    }
    redirected = f"( {agent.command_for(task)} ) </dev/null >../{TRACE} 2>../{_ERRORS}"
    workspace = LocalWorkspace(str(place / "project"), environ=environ)
    try:
        done = await workspace.run(redirected, timeout=task.timeout)
    except NewelError as error:
        return "failed", f"It cannot be started: {error}"
    if done.timed_out:
        return "timeout", f"It was ended after {task.timeout:g} s."
    if done.exit_code:
        said = _read(place / _ERRORS).strip().splitlines()
        return "failed", said[-1][:_SHOWN] if said else f"It ended with exit code {done.exit_code}."
    return "done", ""


def _read_trace(path: Path, is_newel: bool) -> tuple[str, Metrics]:
    """The last answer, and what the events tell. Of another agent only the output is known."""
    text = _read(path)
    if not is_newel:
        return text.strip(), Metrics()
    answers: list[str] = []
    requests = calls = tokens_in = tokens_out = 0
    milliseconds = 0.0
    cost: float | None = 0.0
    for line in text.splitlines():
        event = _decode(line)
        if event.get("type") == "tool_execution_start":
            calls += 1
        elif event.get("type") == "result":
            answers.append(str(event.get("text", "")))
            requests += int(event.get("turns", 0))
            milliseconds += float(event.get("modelDuration", 0))
            usage = as_dict(event.get("usage"))
            tokens_in += int(usage.get("input", 0))
            tokens_out += int(usage.get("output", 0))
            spent = event.get("cost")
            cost = None if cost is None or spent is None else cost + float(spent)
    metrics = Metrics(
        model_seconds=round(milliseconds / 1000, 3),
        requests=requests,
        tool_calls=calls,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cost=cost if answers else None,
    )
    return answers[-1] if answers else "", metrics


def _decode(line: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}  # cut off, when the agent was ended


def _read(path: Path) -> str:
    try:
        return read_regular(path, _MOST_OUTPUT).decode("utf-8", "replace")
    except OSError:
        return ""
