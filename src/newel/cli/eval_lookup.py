"""What the commands of ``newel eval`` share: their options, and how they find tasks and runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from newel.agent.errors import NewelError, UsageError
from newel.cli.options import Parser
from newel.evals.run import PLAN
from newel.evals.task import Task, find_tasks, load_tasks, select

EPILOG: Final = """\
TASK is the name of a task, a tag or a size (S, M, L). Runs are kept in ~/.newel/evals; resume a killed run with `newel eval run --resume RUN`."""


def eval_parser(action: str, description: str) -> Parser:
    parser = Parser(prog=f"newel eval {action}", description=description, epilog=EPILOG)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="only these tasks")
    parser.add_argument(
        "--suite", type=Path, metavar="DIR", help="use the tasks in this folder instead of Newel's"
    )
    return parser


def selected_tasks(options: argparse.Namespace) -> list[Task]:
    tasks, errors = load_tasks(task_folders(options.suite or suite_folder()), options.tasks)
    raise_errors(errors)
    return select(tasks, options.tasks)


def raise_errors(errors: Sequence[NewelError]) -> None:
    if errors:
        raise UsageError("\n".join(map(str, errors)))


def task_folders(root: Path) -> list[Path]:
    folders = find_tasks(root)
    if not root.is_dir():
        raise UsageError(f"There is no folder {root}. Name that of a task, or the one above tasks.")
    if not folders:
        raise UsageError(f"There are no tasks in {root}. A task is a folder with a `task.toml`.")
    return folders


def suite_folder() -> Path:
    """Newel's own tasks: installed with it, or in its checkout."""
    installed = Path(__file__).parents[1] / "evals" / "tasks"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "evals" / "tasks"


def runs_folder(home: Path) -> Path:
    return home / "evals"


def find_run(home: Path, prefix: str) -> Path:
    """The folder of the run whose name begins with ``prefix``; without one, the latest."""
    found = sorted(
        path.parent for path in runs_folder(home).glob(f"*/{PLAN}") if path.parent.name.startswith(prefix)
    )
    if not found:
        latest = sorted(path.parent.name for path in runs_folder(home).glob(f"*/{PLAN}"))[-3:]
        raise UsageError(
            f"There is no run `{prefix}`. The latest are {', '.join(latest)}."
            if prefix and latest
            else "There are no runs yet: `newel eval run`."
        )
    if prefix and len(found) > 1:
        raise UsageError(
            f"{len(found)} runs begin with `{prefix}`: {', '.join(path.name for path in found[-5:])}."
        )
    return found[-1]
