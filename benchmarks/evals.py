"""What the evaluation suite costs beside its agents: the suite by replay, and many replays of one task.

    ./run python -m benchmarks.evals [--trials 1000] [--parts suite,many]

``suite``: ``newel eval run --replay -j 2`` of all tasks. Its floor is what the tasks' own commands take: their setups, the
commands of their golden traces and of their checks, one after another by ``sh``, divided by two.
``many``: so many trials of one task with ten commands, sixteen at a time. *own* is the CPU time of the process of the run, with
the scripted model in it, per step; *agents* is that of all its children, per trial. *MiB* is its memory after a tenth of the
trials, and at its peak. Its floor are the same agents with the same scripted model, sixteen at a time, and nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from mock_llm_server import running
from newel.cli.eval_lookup import suite_folder
from newel.evals.checks import prepare
from newel.evals.golden import load_trace
from newel.evals.task import Task, TaskError, find_tasks, load_task
from newel.workspace.local import LocalWorkspace

NEWEL = Path(sys.executable).with_name("newel")
STEPS = 10
AT_ONCE = 16

TASK = """\
title = "Ten commands"
size = "S"
tags = ["benchmark"]
prompt = "Run the steps."
checks = [{ answer = "Done" }]
reference = { answer = "Done" }
wrong = [{ why = "It says nothing." }]
"""


class Cost(NamedTuple):
    """Seconds, and MiB."""

    wall: float
    own_cpu: float
    children_cpu: float
    early_mib: float
    peak_mib: float


def measure(home: Path, *words: str, trials: int) -> Cost:
    """Run ``newel eval run`` with a home of its own."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    tick = os.sysconf("SC_CLK_TCK")
    own = early = peak = 0.0
    with (home / "out").open("w+") as out:
        process = subprocess.Popen(
            [str(NEWEL), "eval", "run", "--replay", *words], env=environ(home), stdout=out, cwd=home
        )
        while process.poll() is None:
            try:
                fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
                own = (int(fields[11]) + int(fields[12])) / tick
                status = Path(f"/proc/{process.pid}/status").read_text()
                rss, peak = (
                    int(re.findall(rf"{name}:\s+(\d+)", status)[0]) / 1024 for name in ("VmRSS", "VmHWM")
                )
            except (OSError, IndexError):  # it has just ended
                break
            ended = (home / "out").read_text().count("  pass  ")
            early = rss if not early and ended >= trials / 10 else early
            time.sleep(0.1)
        code = process.wait()
        wall = time.monotonic() - began
        if code:
            sys.exit((home / "out").read_text()[-2000:])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, own, cpu - own, early, peak)


def environ(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}


async def time_commands(tasks: list[Task], root: Path) -> float:
    """Seconds that the tasks' own commands take."""

    @asynccontextmanager
    async def open_folder(folder: Path) -> AsyncGenerator[LocalWorkspace]:
        yield LocalWorkspace(str(folder))

    began = time.monotonic()
    for task in tasks:
        project = root / task.name
        await prepare(task, project, open_folder)
        commands = [
            str(call.arguments["command"])
            for answers in load_trace(task).answers
            for answer in answers
            for call in answer.tool_calls
            if call.name == "bash" and isinstance(call.arguments, dict) and not answer.cut
        ]
        commands += [check.run for check in task.checks if check.run]
        for command in commands:
            await anyio.run_process(["sh", "-c", command], check=False, cwd=project, stdin=subprocess.DEVNULL)
    return time.monotonic() - began


def measure_suite(root: Path) -> None:
    tasks: list[Task] = []
    for folder in find_tasks(suite_folder()):
        task = load_task(folder)
        try:
            load_trace(task)
        except TaskError:
            continue
        tasks.append(task)
    cost = measure(root, *(task.name for task in tasks), "-j", "2", trials=len(tasks))
    floor = anyio.run(time_commands, tasks, root / "floor")
    print(f"suite: {len(tasks)} tasks by replay in {cost.wall:.1f} s (floor {floor / 2:.1f} s)")


def scripted() -> dict[str, Any]:
    """Ten commands, and an answer."""
    calls = [{"function": {"name": "bash", "arguments": {"command": f"true {n}"}}} for n in range(STEPS)]
    steps = [{"response": {"content": None, "tool_calls": [call]}} for call in calls]
    return {
        "scenarios": [{"name": "steps", "trigger": "", "steps": [*steps, {"response": {"content": "Done."}}]}]
    }


async def run_agents(url: str, root: Path, trials: int) -> None:
    """The agents of the trials alone."""
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def run_one(number: int) -> None:
        async with limiter:
            home, project = root / f"{number}" / "home", root / f"{number}" / "project"
            home.mkdir(parents=True)
            project.mkdir()
            keys = {"LLM_BASE_URL": url, "LLM_AUTH_TOKEN": "x", "LLM_DEFAULT_MODEL": "replay"}
            await anyio.run_process(
                [str(NEWEL), "--json", "--approve", "auto", "--", "Run the steps."],
                cwd=project,
                env=environ(home) | keys,
                stdin=subprocess.DEVNULL,
            )

    async with anyio.create_task_group() as group:
        for number in range(trials):
            group.start_soon(run_one, number)


def measure_many(root: Path, trials: int) -> None:
    task = root / "suite" / "ten-commands"
    task.mkdir(parents=True)
    (task / "task.toml").write_text(TASK)
    calls = [{"tool_calls": [{"name": "bash", "arguments": {"command": f"true {n}"}}]} for n in range(STEPS)]
    (task / "trace.json").write_text(
        json.dumps({"made_by": "hand", "answers": [[*calls, {"content": "Done."}]]})
    )
    cost = measure(root, "--suite", str(task.parent), "-n", str(trials), "-j", str(AT_ONCE), trials=trials)
    with running(scripted()) as server:
        began = time.monotonic()
        asyncio.run(run_agents(f"{server.url}/v1", root / "floor", trials))
        floor = time.monotonic() - began
    steps = trials * (STEPS + 1)
    print(
        f"many: {trials} trials of {STEPS + 1} requests in {cost.wall:.0f} s (floor {floor:.0f} s): "
        f"{(cost.wall - floor) / steps * 1000:.1f} ms a step more; own {cost.own_cpu / steps * 1000:.1f} ms a step, "
        f"agents {cost.children_cpu / trials * 1000:.0f} ms a trial, {cost.early_mib:.0f} and {cost.peak_mib:.0f} MiB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--parts", default="suite,many")
    options = parser.parse_args()
    for part in options.parts.split(","):
        with tempfile.TemporaryDirectory(prefix="newel-benchmark-") as root:
            measure_suite(Path(root)) if part == "suite" else measure_many(Path(root), options.trials)


if __name__ == "__main__":
    main()
