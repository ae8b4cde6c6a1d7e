"""One trial: an agent works on a task, in a folder, a home and a process of its own, and its result is checked."""

from __future__ import annotations

import glob
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import anyio
import anyio.to_thread
import msgspec

from newel.agent.errors import NewelError
from newel.agent.messages import new_id
from newel.concurrency import background_tasks
from newel.evals.checks import SETUP_TIMEOUT_S, CheckResult, OpenFolder, Reply, prepare, run_checks
from newel.evals.review_driver import MEANWHILE, MEANWHILE_DONE, ReviewPlan
from newel.evals.task import Task, TaskError
from newel.storage.files import read_regular, replace_file
from newel.storage.folder_removal import remove_folder
from newel.text.json import as_dict, as_list, as_str, decode_json
from newel.text.toml import to_toml
from newel.workspace.local import LocalWorkspace

PROJECT: Final = "project"
"""The folder of the task's project, in that of a trial."""

PROMPT: Final = "{prompt}"
"""Where the prompt goes in the command of another agent."""

TRACE: Final = "trace.jsonl"
"""What the agent wrote to its standard output, in a trial's folder: Newel's events in JSON mode."""

_PLAN: Final = "review.json"
_ERRORS: Final = "stderr.txt"
_PYTHON: Final = (sys.executable, "-P", "-m")
"""Without the working folder on the module path: a task's files there would run outside of the sandbox."""

_MOST_OUTPUT: Final = 64 << 20
_SHOWN: Final = 2_000
_POLL_S: Final = 0.05

End = Literal["done", "timeout", "failed", "invalid"]
"""``failed``: the agent ended with an error, or at a limit. ``invalid``: the trial says nothing about the agent, as its task could not be
prepared.
"""


ConfigTables = Mapping[str, Mapping[str, Any]]
"""Tables of Newel's ``config.toml``, by name; those of models are in ``models``, by the model's name."""


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """Of one trial. ``seconds`` is how long the agent took, ``model_seconds`` what of it was waiting for the model. ``cost`` is in US
    dollars. ``questions`` to the user, hunks and ``conflicts`` with files that changed meanwhile are those of review jobs. ``fallbacks`` is
    how often the remote model took over from the local one. None is unknown, or does not apply.
    """

    seconds: float = 0.0
    model_seconds: float | None = None
    requests: int | None = None
    tool_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    questions: int | None = None
    hunks_proposed: int | None = None
    hunks_accepted: int | None = None
    conflicts: int | None = None
    fallbacks: int | None = None


class AgentReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the output of an agent tells: its last ``answer``, and the ``problem`` for which it gave up, though its
    exit code is 0.
    """

    answer: str = ""
    problem: str = ""
    metrics: Metrics = Metrics()


class AgentSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The agent under test: ``flags`` of Newel, or else the shell ``command`` of another agent, in which ``PROMPT``
    stands for the prompt. ``environ`` is added to its environment; it may have keys, and is stored nowhere. ``files``
    are written to its home, and it is started in ``folder``; both are in the trial's folder. ``read`` reads what it
    has written; without it, all output of another agent is its answer. ``config`` is written to Newel's
    ``config.toml``; ``model`` is the name of the model in use, if known. ``closed`` are paths that Newel may not read.
    """

    flags: Sequence[str] = ()
    command: str = ""
    environ: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    folder: str = PROJECT
    read: Callable[[str], AgentReport] | None = None
    config: ConfigTables = {}
    model: str = ""
    closed: Sequence[str] = ()

    def command_for(self, task: Task) -> str:
        """For a shell, in ``folder``."""
        if self.command:
            return self.command.replace(PROMPT, shlex.quote(task.prompt))
        if task.review is not None:
            return shlex.join([*_PYTHON, "newel.evals.review_driver", f"../{_PLAN}", *self.flags])
        if task.accept:
            words = [*_PYTHON, "newel", "agent", "--json", "--approve", "auto"]
            return shlex.join([*words, "--accept", task.accept, *self.flags, "--", task.prompt])
        words = [*_PYTHON, "newel", "--json", "--approve", "auto", *self.flags]
        for prompt in task.then:
            words += ["--then", prompt]
        return shlex.join([*words, "--", task.prompt])


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


def invalid(task: Task, repeat: int, problem: str) -> TrialResult:
    """The result of a trial that says nothing about the agent."""
    return TrialResult(
        task=task.name, repeat=repeat, size=task.size, end="invalid", passed=False, problem=problem
    )


OpenAgent = Callable[[Task, Path], AbstractAsyncContextManager[AgentSetup]]
"""Opens the agent for a trial of a task in a folder, with what it needs for the time of the trial."""


async def run_trial(
    task: Task, repeat: int, place: Path, *, open_agent: OpenAgent, open_folder: OpenFolder
) -> TrialResult:
    """Run the agent on the task in the folder ``place``; what an earlier attempt left there is removed."""
    project = place / PROJECT
    await anyio.to_thread.run_sync(_make_empty, place)
    try:
        before = await prepare(task, project, open_folder)
    except TaskError as error:
        return invalid(task, repeat, str(error))
    async with open_agent(task, place) as agent:
        if agent.command and (reason := _only_for_newel(task)):
            return invalid(task, repeat, reason)
        await anyio.to_thread.run_sync(_write_home, task, agent, place)
        began = time.monotonic()
        async with background_tasks(partial(_play_meanwhile, task, place, open_folder)):
            end, problem = await _run_agent(task, agent, place)
        seconds = time.monotonic() - began
    report = await anyio.to_thread.run_sync(_read_trace, place / TRACE, agent)
    if end == "done" and report.problem:
        end, problem = "failed", report.problem
    reply = Reply(report.answer, report.metrics.questions or 0)
    checks = await run_checks(task, project, before, reply, open_folder)
    return TrialResult(
        task=task.name,
        repeat=repeat,
        size=task.size,
        end=end,
        passed=not any(check.problem for check in checks),
        checks=checks,
        problem=problem,
        answer=report.answer[:_SHOWN],
        metrics=msgspec.structs.replace(report.metrics, seconds=round(seconds, 3)),
    )


def _make_empty(place: Path) -> None:
    remove_folder(place)
    if place.exists():  # some of it belongs to another user
        place.rename(place.with_name(f"{place.name}.left-{new_id()[:8]}"))
    (place / "home").mkdir(parents=True)


def _only_for_newel(task: Task) -> str:
    """Why another agent cannot be measured with a task; empty if it can."""
    if task.review is not None:
        return "This task is about reviews, which only Newel has."
    if task.host is not None:
        return "This task is about a folder on another host, and other agents work on this machine."
    return "This task has several prompts, and other agents are given one." if task.then else ""


def _write_home(task: Task, agent: AgentSetup, place: Path) -> None:
    """What the agent reads when it starts. It cannot look up how its result is checked."""
    config = dict(agent.config)
    if task.context_window and agent.model:
        models = config.get("models", {})
        facts = {**models.get(agent.model, {}), "context_window": task.context_window}
        config["models"] = {**models, agent.model: facts}
    if not agent.command:  # what is denied cannot be seen by commands in the sandbox, either
        closed = (str(task.folder), *agent.closed)
        config["permissions"] = {"deny": [f"read({glob.escape(path)})" for path in closed]}
    settings = {".newel/config.toml": to_toml(config)} if config else {}
    for name, text in {**settings, **agent.files}.items():
        path = place / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if (review := task.review) is not None:
        plan = ReviewPlan(
            [task.prompt, *task.then], list(review.answers), bool(review.meanwhile), list(review.reject)
        )
        (place / _PLAN).write_bytes(msgspec.json.encode(plan))


async def _play_meanwhile(task: Task, place: Path, open_folder: OpenFolder) -> None:
    """Run the user's command when the driver of a review asks for it: in the sandbox, which the driver has not."""
    if task.review is None or not task.review.meanwhile:
        return
    while not (place / MEANWHILE).exists():  # noqa: ASYNC110 — another process makes it
        await anyio.sleep(_POLL_S)
    async with open_folder(place / "project") as workspace:
        done = await workspace.run(task.review.meanwhile, timeout=SETUP_TIMEOUT_S)
    replace_file(place / MEANWHILE_DONE, str(done.exit_code).encode())


async def _run_agent(task: Task, agent: AgentSetup, place: Path) -> tuple[End, str]:
    environ = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(place / "home"),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        **agent.environ,
    }
    redirected = f"( {agent.command_for(task)} ) </dev/null >../{TRACE} 2>../{_ERRORS}"
    workspace = LocalWorkspace(str(place / agent.folder), environ=environ)
    try:
        done = await workspace.run(redirected, timeout=task.timeout)
    except NewelError as error:
        return "failed", f"It cannot be started: {error}"
    if done.timed_out:
        return "timeout", f"It was ended after {task.timeout:g} s."
    if done.exit_code:
        said = _read(place / _ERRORS).strip().splitlines()
        reasons = [line for line in said if line.startswith("newel: ")] or said[-1:]  # a hint may follow
        reasons = reasons or list(filter(None, [_read_trace(place / TRACE, agent).problem]))
        return "failed", reasons[0][:_SHOWN] if reasons else f"It ended with exit code {done.exit_code}."
    return "done", ""


def _read_trace(path: Path, agent: AgentSetup) -> AgentReport:
    text = _read(path)
    if agent.read is not None:
        return agent.read(text)
    return AgentReport(answer=text.strip()) if agent.command else read_events(text)


def read_events(text: str) -> AgentReport:
    """What Newel's events tell."""
    events = [_decode(line) for line in text.splitlines()]
    results = [event for event in events if event.get("type") == "result"]
    calls = sum(event.get("type") == "tool_execution_start" or _is_call_in_review(event) for event in events)
    fallbacks = _count_fallbacks(events)
    if any("review" in result for result in results):
        metrics = msgspec.structs.replace(_review_metrics(results), tool_calls=calls, fallbacks=fallbacks)
        return AgentReport(answer=as_str(results[-1].get("text")), metrics=metrics)
    answers = [
        message
        for event in events
        if event.get("type") == "message_end"
        and (message := as_dict(event.get("message"))).get("role") == "assistant"
    ]
    ends = [event for event in events if event.get("type") == "agent_end"]
    costs = [float(cost) for end in ends if (cost := end.get("cost")) is not None]
    usage = [as_dict(end.get("usage")) for end in ends]
    metrics = Metrics(
        model_seconds=_total(results, "modelDuration") / 1000 if results else None,
        requests=len(answers),
        tool_calls=calls,
        input_tokens=_total(usage, "input"),
        output_tokens=_total(usage, "output"),
        cost=sum(costs) if costs and len(costs) == len(ends) else None,
        fallbacks=fallbacks,
    )
    problem = as_str(results[-1].get("message")) if results else ""
    return AgentReport(answer=_last_text(answers), problem=problem, metrics=metrics)


def _last_text(messages: Sequence[dict[str, Any]]) -> str:
    texts = (
        "".join(as_str(as_dict(part).get("text")) for part in as_list(message.get("content")))
        for message in reversed(messages)
    )
    return next((text for text in texts if text.strip()), "")


def _count_fallbacks(events: Sequence[dict[str, Any]]) -> int | None:
    """How often the remote model took over; None without a local one."""
    inner = [as_dict(event.get("event")) if event.get("type") == "event" else event for event in events]
    places = [
        as_str(as_dict(event.get("payload", event)).get("place"))
        for event in inner
        if event.get("type") in ("model_routed", "model.routed")
    ]
    return places.count("remote") if places else None


def _is_call_in_review(event: dict[str, Any]) -> bool:
    return as_dict(event.get("event")).get("type") == "tool.call.requested"


def _review_metrics(results: Sequence[dict[str, Any]]) -> Metrics:
    counts = [as_dict(result.get("review")) for result in results]
    return Metrics(
        questions=_total(counts, "questions"),
        hunks_proposed=_total(counts, "proposed"),
        hunks_accepted=_total(counts, "accepted"),
        conflicts=_total(counts, "conflicts"),
    )


def _total(values: Sequence[dict[str, Any]], name: str) -> int:
    return sum(int(value.get(name) or 0) for value in values)


def _decode(line: str) -> dict[str, Any]:
    try:
        return decode_json(line, dict[str, Any])
    except msgspec.MsgspecError:  # cut off, when the agent was ended
        return {}


def _read(path: Path) -> str:
    try:
        return read_regular(path, _MOST_OUTPUT).decode("utf-8", "replace")
    except OSError:
        return ""
