"""``newel eval``: measure what an agent gets done."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from newel.agent.errors import NewelError, UsageError
from newel.agent.formatting import pluralize
from newel.app.evals import (
    allow_agents,
    check_folder_opener,
    newel_flags,
    recording,
    replay_opener,
    sandbox_of,
)
from newel.cli.eval_lookup import (
    EPILOG,
    eval_parser,
    find_run,
    raise_errors,
    selected_tasks,
    suite_folder,
    task_folders,
)
from newel.cli.eval_record import RunRecorder
from newel.cli.eval_run import run_suite
from newel.cli.eval_tables import (
    NAME_WIDTH,
    print_comparison,
    print_failures,
    print_json_lines,
    print_matrix,
    print_request_changes,
    print_results,
)
from newel.cli.options import Parser, positive_int
from newel.concurrency import task_group
from newel.config.settings import Flags, load_settings, newel_home
from newel.evals.checks import OpenFolder
from newel.evals.export import export_line
from newel.evals.golden import source_of
from newel.evals.matrix import ReportedRun
from newel.evals.report import to_html
from newel.evals.requests import compare_requests, same_tasks
from newel.evals.run import REPLAY, RunPlan, load_plan, read_results
from newel.evals.task import Task, find_tasks, load_task, load_tasks, select
from newel.text.sanitize import sanitize

DESCRIPTION: Final = """\
Measure what an agent gets done, on tasks whose results are checked.

  newel eval list               the tasks
  newel eval check [TASK…]      prove that tasks measure something
  newel eval run [TASK…]        run the agent on tasks, and check the results
  newel eval show [RUN…]        the results of runs, side by side
  newel eval report [RUN…]      a page about runs, with plots
  newel eval compare A B        what differs between two runs, beyond noise
  newel eval export [RUN]       prompts, traces and results as JSON lines
  newel eval record [RUN]       make golden traces of a run, for replays"""


def command_eval(arguments: Sequence[str]) -> int:
    actions = {
        "list": _list,
        "check": _check,
        "run": run_suite,
        "show": _show,
        "report": _report,
        "compare": _compare,
        "export": _export,
        "record": _record,
    }
    if arguments and arguments[0] in actions:
        return actions[arguments[0]](arguments[1:])
    parser = Parser(
        prog="newel eval",
        usage="newel eval ACTION …",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("action", choices=list(actions), help=argparse.SUPPRESS)
    parser.parse_args(arguments)
    return 2


def _list(arguments: Sequence[str]) -> int:
    options = eval_parser(
        "list", "List the tasks: name, size, what a replay takes its answers from, and what they are about."
    ).parse_args(arguments)
    found, errors = load_tasks(task_folders(options.suite or suite_folder()), options.tasks)
    tasks = select(found, options.tasks) if found else []
    sources = [sanitize(source_of(task)) or "-" for task in tasks]
    width = max(map(len, sources), default=0)
    for task, source in zip(tasks, sources, strict=True):
        about = sanitize(f"{task.title}  ({', '.join(task.tags)})", keep_newlines=False)
        print(f"{task.name:{NAME_WIDTH}}  {task.size}  {source:{width}}  {about}")
    raise_errors(errors)
    return 0


def _check(arguments: Sequence[str]) -> int:
    parser = eval_parser(
        "check",
        "Prove that tasks measure something: the reference and other correct solutions pass, doing nothing fails, and each wrong answer fails.",
    )
    parser.add_argument(
        "-j", "--jobs", type=positive_int, default=1, metavar="N", help="prove N tasks at a time"
    )
    options = parser.parse_args(arguments)
    settings = load_settings(Flags(), cwd=Path.cwd(), environ=os.environ)
    tasks = selected_tasks(options)
    bad = anyio.run(_prove_all, tasks, check_folder_opener(settings), options.jobs)
    print(f"{pluralize(len(tasks), 'task')}, {f'{bad} with problems' if bad else 'all good'}")
    return 1 if bad else 0


async def _prove_all(tasks: Sequence[Task], open_folder: OpenFolder, slots: int) -> int:
    """The number of tasks with problems, which are printed."""
    limiter = anyio.CapacityLimiter(slots)
    bad: list[Task] = []

    async def prove_one(task: Task) -> None:
        async with limiter:
            problems = await _problems(task, open_folder)
        print(f"{task.name:{NAME_WIDTH}}  {'FAIL' if problems else 'ok'}", flush=True)
        for problem in problems:
            print(f"    {sanitize(problem)}")
        if problems:
            bad.append(task)

    async with task_group() as group:
        for task in tasks:
            group.start_soon(prove_one, task)
    return len(bad)


async def _problems(task: Task, open_folder: OpenFolder) -> list[str]:
    from newel.evals.proof import prove

    with tempfile.TemporaryDirectory(prefix="newel-eval-") as place:
        try:
            return await prove(task, Path(place), open_folder)
        except NewelError as error:
            return [str(error)]


# -- runs -----------------------------------------------------------------------------------------


def _runs_parser(action: str, description: str) -> Parser:
    parser = Parser(prog=f"newel eval {action}", description=description, epilog=EPILOG)
    parser.add_argument(
        "runs", nargs="*", metavar="RUN", help="names, or beginnings of them (default: the latest)"
    )
    return parser


def _run_parser(action: str, description: str) -> Parser:
    parser = Parser(prog=f"newel eval {action}", description=description, epilog=EPILOG)
    parser.add_argument(
        "run", nargs="?", metavar="RUN", help="its name, or the beginning of it (default: the latest)"
    )
    return parser


def _show(arguments: Sequence[str]) -> int:
    parser = _runs_parser("show", "Show the results of a run, or of several side by side.")
    parser.add_argument("--json", action="store_true", help="print trials and figures as JSON lines")
    parser.add_argument("--failed", action="store_true", help="say why trials have failed")
    options = parser.parse_args(arguments)
    folders = [find_run(newel_home(os.environ), name) for name in options.runs or [""]]
    runs = [ReportedRun(load_plan(folder), anyio.run(read_results, folder)) for folder in folders]
    if options.json:
        for run in runs:
            print_json_lines(run)
        return 0
    if len(runs) == 1:
        only = runs[0]
        print_results(*only[:2])
        total, ended = len(only.plan.tasks) * only.plan.repeats, len(only.results)
        if ended < total and only.plan.max_cost is None:
            print(
                f"{ended} of {total} trials have ended. Resume it with `newel eval run --resume {only.plan.id}`."
            )
    else:
        print_matrix(runs)
    for run, folder in zip(runs, folders, strict=True) if options.failed else ():
        for result in run.results:
            print_failures(result, folder)
    return 0


def _report(arguments: Sequence[str]) -> int:
    parser = _runs_parser(
        "report",
        "Write a page about one run or several, side by side: a matrix, plots, and why trials have failed.",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the page (default: RUN.html here)")
    options = parser.parse_args(arguments)
    folders = [find_run(newel_home(os.environ), name) for name in options.runs or [""]]
    runs = [ReportedRun(load_plan(folder), anyio.run(read_results, folder)) for folder in folders]
    target = options.output or Path(f"{runs[0].plan.id}.html")
    target.write_text(to_html(runs), encoding="utf-8")
    print(f"Written to {target}")
    return 0


def _compare(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel eval compare",
        description="Compare two runs on the tasks that both have: what is beyond noise.",
        epilog=EPILOG,
    )
    parser.add_argument("before", metavar="A", help="the run before")
    parser.add_argument("after", metavar="B", help="the run after")
    parser.add_argument(
        "--diff", action="store_true", help="for replays, show how what was sent to the model differs"
    )
    options = parser.parse_args(arguments)
    home = newel_home(os.environ)
    before, after = find_run(home, options.before), find_run(home, options.after)
    first, second = anyio.run(read_results, before), anyio.run(read_results, after)
    print_comparison(first, second)
    _warn_of_changed_tasks(load_plan(before), load_plan(after))
    changes = compare_requests(same_tasks(first, second), before, after)
    print_request_changes(changes, is_whole=options.diff)
    return 0


def _warn_of_changed_tasks(before: RunPlan, after: RunPlan) -> None:
    names = [name for name, digest in before.tasks.items() if after.tasks.get(name, digest) != digest]
    if names:
        more = " …" if len(names) > 5 else ""
        print(
            f"Changed between the runs, so that their results differ for that, too: {', '.join(names[:5])}{more}"
        )


def _export(arguments: Sequence[str]) -> int:
    parser = _run_parser(
        "export", "Write a JSON line for each trial of a run: its prompt, its trace and its result."
    )
    options = parser.parse_args(arguments)
    folder = find_run(newel_home(os.environ), options.run or "")
    plan = load_plan(folder)
    tasks = {path.name: load_task(path) for path in find_tasks(Path(plan.suite))}
    for result in anyio.run(read_results, folder):
        sys.stdout.write(export_line(plan, tasks.get(result.task), result, folder) + "\n")
    return 0


def _record(arguments: Sequence[str]) -> int:
    parser = _run_parser(
        "record",
        "Make golden traces of a run: for each task the answers in its first trial that has passed, if their replay passes, too.",
    )
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="only these tasks")
    parser.add_argument(
        "--suite",
        type=Path,
        metavar="DIR",
        help="write to the tasks in this folder instead of those of the run",
    )
    parser.add_argument("--force", action="store_true", help="replace traces that were made by hand, too")
    options = parser.parse_args(arguments)
    allow_agents()
    folder = find_run(newel_home(os.environ), options.run or "")
    plan = load_plan(folder)
    if plan.agent != "newel" or plan.mode == REPLAY:
        what = "was a replay" if plan.mode == REPLAY else f"was of {plan.agent}"
        raise UsageError(
            f"The run {plan.id} {what}: golden traces are made of Newel's own runs with a model."
        )
    known = map(load_task, task_folders(options.suite or Path(plan.suite)))
    tasks = select([task for task in known if task.name in plan.tasks], options.tasks)
    settings = load_settings(Flags(sandbox=sandbox_of(plan)), cwd=Path.cwd(), environ=os.environ)
    recorder = RunRecorder(
        folder,
        plan,
        recording(settings),
        open_replay=partial(replay_opener, settings, newel_flags(settings, is_replay=True)),
        open_folder=check_folder_opener(settings),
        is_forced=options.force,
    )
    return anyio.run(recorder.record, tasks)
