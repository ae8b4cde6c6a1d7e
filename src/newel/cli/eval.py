"""``newel eval``: measure what an agent gets done."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

import anyio

from newel.agent.errors import NewelError, UsageError
from newel.agent.formatting import pluralize
from newel.cli.options import Parser, add_model_options, flags_of, positive, positive_int
from newel.config.settings import Settings, load_settings, newel_home
from newel.evals.task import Task, find_tasks, load_task, select
from newel.text.sanitize import sanitize

DESCRIPTION: Final = """\
Measure what an agent gets done, on tasks whose results are checked.

  newel eval list               the tasks
  newel eval check [TASK…]      prove that tasks measure something
  newel eval run [TASK…]        run the agent on tasks, and check the results
  newel eval show [RUN]         the results of a run (default: the latest)"""

EPILOG: Final = """\
TASK is the name of a task, a tag or a size (S, M, L). Runs are kept in ~/.newel/evals; a run that was
killed goes on with `newel eval run --resume RUN`."""

_NAME_WIDTH: Final = 28


def command_eval(arguments: Sequence[str]) -> int:
    actions = {"list": _list, "check": _check, "run": _run, "show": _show}
    if arguments and arguments[0] in actions:
        return actions[arguments[0]](arguments[1:])
    parser = Parser(
        prog="newel eval",
        usage="newel eval ACTION …",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=list(actions), help=argparse.SUPPRESS)
    parser.parse_args(arguments)
    return 2


def _parser(action: str, description: str) -> Parser:
    parser = Parser(prog=f"newel eval {action}", description=description, epilog=EPILOG)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="only these tasks")
    parser.add_argument(
        "--suite", type=Path, metavar="DIR", help="use the tasks in this folder instead of Newel's"
    )
    return parser


def _list(arguments: Sequence[str]) -> int:
    options = _parser("list", "List the tasks.").parse_args(arguments)
    for task in _tasks(options):
        print(f"{task.name:{_NAME_WIDTH}}  {task.size}  {task.title}  ({', '.join(task.tags)})")
    return 0


def _check(arguments: Sequence[str]) -> int:
    options = _parser(
        "check",
        "Prove that tasks measure something: the reference passes, doing nothing fails, and each wrong answer fails.",
    ).parse_args(arguments)
    settings = load_settings(flags_of_checks(), cwd=Path.cwd(), environ=os.environ)
    bad = anyio.run(_prove_all, _tasks(options), settings)
    return 1 if bad else 0


async def _prove_all(tasks: Sequence[Task], settings: Settings) -> int:
    """The number of tasks with problems, which are printed."""
    from newel.app.evals import check_folder_opener
    from newel.evals.proof import prove

    bad = 0
    for task in tasks:
        with tempfile.TemporaryDirectory(prefix="newel-eval-") as place:
            try:
                problems = await prove(task, Path(place), check_folder_opener(settings))
            except NewelError as error:
                problems = [str(error)]
        bad += bool(problems)
        print(f"{task.name:{_NAME_WIDTH}}  {'FAIL' if problems else 'ok'}", flush=True)
        for problem in problems:
            print(f"    {sanitize(problem)}")
    print(
        f"{pluralize(len(tasks), 'task')}, {bad} with problems"
        if bad
        else f"{pluralize(len(tasks), 'task')}, all good"
    )
    return bad


def flags_of_checks():  # type: ignore
    from newel.config.settings import Flags

    return Flags()


def _tasks(options: argparse.Namespace) -> list[Task]:
    root = options.suite or suite_folder()
    folders = find_tasks(root)
    if not folders:
        raise UsageError(f"There are no tasks in {root}. A task is a folder with a task.toml.")
    return select(map(load_task, folders), options.tasks)


def suite_folder() -> Path:
    """Newel's own tasks: installed with it, or in its checkout."""
    installed = Path(__file__).parents[1] / "evals" / "tasks"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "evals" / "tasks"


def _run(arguments: Sequence[str]) -> int:
    raise NotImplementedError


def _show(arguments: Sequence[str]) -> int:
    raise NotImplementedError
