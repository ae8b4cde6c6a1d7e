"""``newel eval run``: on this machine, or with ``--fleet`` on the workers of a fleet."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import anyio

from newel.agent.errors import UsageError
from newel.agent.formatting import pluralize
from newel.agent.messages import now
from newel.app.evals import (
    agent_opener,
    allow_agents,
    check_folder_opener,
    newel_flags,
    trial_config,
    with_server,
)
from newel.app.fleet_eval_run import check_fleet_settings, open_fleet_trials
from newel.app.model_resolver import real_name
from newel.cli.eval_fleet import (
    INTERRUPTED,
    add_fleet_options,
    check_fleet_options,
    check_resumed_on_fleet,
    check_sendable,
)
from newel.cli.eval_lookup import (
    eval_parser,
    find_run,
    runs_folder,
    selected_tasks,
    suite_folder,
    task_folders,
)
from newel.cli.eval_tables import ProgressTable, print_results
from newel.cli.options import Parser, add_server_options, flags_of, positive, positive_int
from newel.concurrency import background_tasks
from newel.config.settings import Settings, load_settings
from newel.evals.agents import PRESETS, choose_agent
from newel.evals.golden import replay_digest, source_of
from newel.evals.run import REPLAY, RunPlan, SuiteRun, TryTask, load_plan, read_results, save_plan
from newel.evals.task import Task, load_task
from newel.evals.trial import PROMPT, TrialResult, run_trial
from newel.version import VERSION

OpenTrials = Callable[[Callable[[str], None], Callable[[str], None]], AbstractAsyncContextManager[TryTask]]
"""Opens what makes trials, by what is called with the name of a task when a trial of it begins, and with lines for the user."""


def run_suite(arguments: Sequence[str]) -> int:
    parser = eval_parser("run", "Run an agent on tasks, each in a folder, a home and a process of its own.")
    parser.add_argument(
        "-n", "--repeats", type=positive_int, default=1, metavar="N", help="try each task N times"
    )
    parser.add_argument(
        "-j",
        "--jobs",
        type=positive_int,
        metavar="N",
        help="run N trials at a time (default: 1; with --fleet, as many as the workers take)",
    )
    parser.add_argument(
        "--agent",
        metavar="AGENT",
        help=f"run another agent instead of Newel: {', '.join(PRESETS)}, or a shell command in which {PROMPT} is the prompt",
    )
    parser.add_argument(
        "--budget", type=positive, metavar="USD", help="start no trial once this much is spent"
    )
    parser.add_argument(
        "--timeout",
        type=positive,
        metavar="SECONDS",
        help="stop a trial after this long instead of its task's own limit, for a slow model",
    )
    parser.add_argument(
        "--replay",
        action="store_true",
        help="replay golden traces instead of asking a model: measures the harness alone",
    )
    parser.add_argument("--resume", metavar="RUN", help="resume an interrupted run")
    add_fleet_options(parser)
    add_server_options(parser)
    options = parser.parse_args(arguments)
    allow_agents()
    check_fleet_options(options)
    settings = load_settings(flags_of(options), cwd=Path.cwd(), environ=os.environ)
    if options.resume:
        _check_resumed(parser, options)
        folder = find_run(settings.home, options.resume)
        plan = load_plan(folder)
        check_resumed_on_fleet(plan, options)
    else:
        if options.fleet:
            check_fleet_settings(settings)
        elif not (options.replay or options.agent):
            settings = anyio.run(with_server, settings)
        plan = _plan(settings, options)
        folder = runs_folder(settings.home) / plan.id
    open_trials = partial(open_fleet_trials if plan.on_fleet else _open_trials, settings, plan)
    slots = options.jobs or (len(plan.tasks) * plan.repeats if plan.on_fleet else 1)
    try:
        return anyio.run(partial(_run_plan, folder, plan, open_trials, slots, is_new=not options.resume))
    except KeyboardInterrupt:
        interrupted = (
            INTERRUPTED if plan.on_fleet else "Interrupted. Resume it with `newel eval run --resume {run}`."
        )
        print(interrupted.format(run=plan.id), file=sys.stderr)
        raise


@asynccontextmanager
async def _open_trials(
    settings: Settings, plan: RunPlan, begin: Callable[[str], None], _: Callable[[str], None]
) -> AsyncGenerator[TryTask]:
    """What makes the trials of a plan here. Raises ``ConfigError``."""
    open_folder, open_agent = check_folder_opener(settings), agent_opener(settings, plan)

    async def try_task(task: Task, repeat: int, place: Path) -> TrialResult:
        begin(task.name)
        return await run_trial(task, repeat, place, open_agent=open_agent, open_folder=open_folder)

    yield try_task


def _check_resumed(parser: Parser, options: argparse.Namespace) -> None:
    """Raises ``UsageError`` for what the plan of the run has settled: it would be ignored."""
    settled = {"TASK": "tasks", "--suite": "suite", "-n": "repeats", "--agent": "agent"}
    settled |= {"--budget": "budget", "--replay": "replay", "--label": "label"}
    for name, field in settled.items():
        if getattr(options, field) != parser.get_default(field) and getattr(options, field):
            raise UsageError(f"A run is resumed as it was planned: leave out {name}, or start another run.")


def _plan(settings: Settings, options: argparse.Namespace) -> RunPlan:
    tasks = selected_tasks(options)
    if options.replay and options.agent:
        raise UsageError("--replay is for Newel itself, not for --agent.")
    if options.fleet:
        return _fleet_plan(settings, options, tasks)
    command: str = options.agent or ""
    is_preset = options.agent is not None and choose_agent(command) is not None
    return RunPlan(
        id=_new_run_id(),
        started=now(),
        agent="newel" if options.agent is None else options.agent.split()[0],
        model="" if options.replay else _model_name(settings),
        mode=REPLAY if options.replay else settings.agent_mode,
        flags=newel_flags(settings, is_replay=options.replay),
        command="" if is_preset else command,
        preset=command.strip() if is_preset else "",
        base_url=settings.endpoint.base_url if is_preset and settings.endpoint else "",
        repeats=options.repeats,
        tasks={task.name: _digest(task, is_replay=options.replay) for task in tasks},
        traces={task.name: source_of(task) for task in tasks} if options.replay else {},
        suite=str((options.suite or suite_folder()).resolve()),
        version=VERSION,
        max_cost=options.budget,
        timeout=options.timeout,
        config={} if options.replay or options.agent else trial_config(settings),
    )


def _fleet_plan(settings: Settings, options: argparse.Namespace, tasks: Sequence[Task]) -> RunPlan:
    check_sendable(tasks)
    return RunPlan(
        id=_new_run_id(),
        started=now(),
        agent="newel",
        model=real_name(settings.models, settings.model or ""),
        mode=settings.agent_mode,
        flags=[],
        command="",
        repeats=options.repeats,
        tasks={task.name: task.digest for task in tasks},
        suite=str((options.suite or suite_folder()).resolve()),
        version=VERSION,
        max_cost=options.budget,
        timeout=options.timeout,
        on_fleet=True,
        labels=options.label,
        thinking=settings.thinking,
        tool_calls=settings.tool_calls,
    )


def _new_run_id() -> str:
    """Sorts by time, also within a second."""
    seconds, rest = divmod(time.time_ns(), 10**9)
    return f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(seconds))}-{rest * 0x10000 // 10**9:04x}"


def _model_name(settings: Settings) -> str:
    """The models that work, for readers, as far as the settings name them."""
    local, remote = settings.local.model or "", settings.model or ""
    by_mode = {"local": [local or remote], "remote": [remote], "hybrid_auto": [local, remote]}
    return " + ".join(filter(None, by_mode[settings.agent_mode]))


def _digest(task: Task, *, is_replay: bool) -> str:
    return replay_digest(task) if is_replay else task.digest


async def _run_plan(folder: Path, plan: RunPlan, open_trials: OpenTrials, slots: int, *, is_new: bool) -> int:
    tasks = {path.name: load_task(path) for path in task_folders(Path(plan.suite)) if path.name in plan.tasks}
    for name, digest in plan.tasks.items():
        if name not in tasks or _digest(tasks[name], is_replay=plan.mode == REPLAY) != digest:
            raise UsageError(f"The task {name} has changed since the run started. Start another run.")
    with ProgressTable(len(tasks) * plan.repeats) as table:
        async with background_tasks(table.tick), open_trials(table.begin, table.note) as try_task:
            if is_new:
                save_plan(folder, plan)
            await SuiteRun(folder, plan, list(tasks.values()), try_task, table.add).run(slots=slots)
    results = await read_results(folder)
    print_results(plan, results)
    if missing := len(tasks) * plan.repeats - len(results):
        print(f"{pluralize(missing, 'trial')} not started: the budget of the run is spent.")
    return 0 if results and all(result.passed for result in results) else 1
