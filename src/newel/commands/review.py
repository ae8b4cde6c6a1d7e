"""``newel review``, ``checkpoints``, ``undo`` and ``rollback``: what agents changed, and how it is taken back."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import msgspec

from newel import config
from newel.agent.errors import UsageError
from newel.commands.arguments import folder, positive_int
from newel.review.recording import ledger_folder
from newel.terminal import review as words

if TYPE_CHECKING:
    from newel.review.checkpoints import Plan
    from newel.review.runs import Project

DONE, FAILED = 0, 1
CODES = "exit codes: 0 done, 1 nothing was taken back or not all of it, 2 wrong usage, 130 interrupted"


def command_review(arguments: Sequence[str]) -> int:
    parser = _parser(
        "review", "What agents changed in this folder, by run and file, and what waits to be decided."
    )
    parser.add_argument("-n", type=positive_int, default=10, metavar="N", help="at most so many runs (10)")
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    given = parser.parse_args(arguments)

    async def show(project: Project | None) -> int:
        runs: list[Any] = []
        if project is not None:
            from newel.review.runs import look_back

            runs = await look_back(project, limit=given.n)
        left_out = project.left_out if project else []
        _print(words.describe_runs(runs, left_out), runs, as_json=given.json)
        return DONE

    if not config.load(config.Flags(), cwd=folder(parser, given.cwd), environ=os.environ).record:
        print(f"newel: {words.OFF}", file=sys.stderr)
    return _run(parser, given, show)


def command_checkpoints(arguments: Sequence[str]) -> int:
    parser = _parser("checkpoints", "The runs that can be taken back, the latest first.")
    parser.add_argument("--json", action="store_true", help="as one JSON object, with files and hunks")
    given = parser.parse_args(arguments)

    async def show(project: Project | None) -> int:
        found = await anyio.to_thread.run_sync(project.ledger.checkpoints) if project else []
        views: list[Any] = []
        if given.json and project is not None:
            from newel.review.views import checkpoint_view

            views = [
                checkpoint_view(each, [project.ledger.get(file.path) for file in each.files])
                for each in found
            ]
        _print(words.list_checkpoints(found), views, as_json=given.json)
        return DONE

    return _run(parser, given, show)


def command_undo(arguments: Sequence[str]) -> int:
    parser = _parser(
        "undo",
        "Take back what the last run changed. What was changed since stays; an undo can be undone.",
        epilog=CODES,
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    given = parser.parse_args(arguments)

    async def undo(project: Project | None) -> int:
        if project is None:
            from newel.review.history import NothingToUndo

            raise NothingToUndo(words.NOTHING)
        return await _take_back(project, await project.undo(), yes=given.yes)

    return _run(parser, given, undo)


def command_rollback(arguments: Sequence[str]) -> int:
    parser = _parser(
        "rollback",
        "Make the files of a run what they were before it, whatever was changed since; with --hunk only take back hunks of it.",
        epilog=CODES,
    )
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", help="its id, or the beginning of it (newel checkpoints)")
    add(
        "--hunk",
        dest="hunks",
        action="append",
        default=[],
        metavar="ID",
        help="only this hunk of it; newer changes stay (newel review --json; may be given several times)",
    )
    add("--yes", action="store_true", help="do not ask")
    given = parser.parse_args(arguments)

    async def rollback(project: Project | None) -> int:
        if project is None:
            from newel.review.checkpoints import UnknownCheckpoint

            raise UnknownCheckpoint(f"There is no checkpoint {given.checkpoint}. {words.NOTHING}")
        plan = await project.rollback(await project.find(given.checkpoint), given.hunks)
        return await _take_back(project, plan, yes=given.yes)

    return _run(parser, given, rollback)


async def _take_back(project: Project, plan: Plan, *, yes: bool) -> int:
    async def confirm(about: str) -> bool:
        print(about)
        return yes or _asked()

    if not plan.files:
        print(words.describe_plan(plan) or "The files are as they were already.")
        return FAILED if plan.conflicts else DONE
    saved = await words.take_back(project, plan, confirm)
    print(words.describe_saved(saved) if saved else "Nothing was changed.")
    return DONE if saved and not plan.conflicts else FAILED


def _asked() -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("There is nobody to ask, so nothing was changed. --yes takes it back unasked.")
    print("Take this back? [y/N] ", end="", flush=True)  # `input` would put it to standard error
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _parser(name: str, description: str, *, epilog: str | None = None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"newel {name}", description=description, epilog=epilog)
    parser.add_argument("--cwd", metavar="DIR", help="of this folder")
    return parser


def _run(
    parser: argparse.ArgumentParser,
    given: argparse.Namespace,
    action: Callable[[Project | None], Awaitable[int]],
) -> int:
    cwd = folder(parser, given.cwd)

    async def run() -> int:
        async with _opened(cwd) as project:
            return await action(project)

    return anyio.run(run)


@asynccontextmanager
async def _opened(cwd: Path) -> AsyncGenerator[Project | None]:
    """The ledger of a folder; None if there is none."""
    from newel.workspace.local import LocalWorkspace

    home = config.newel_home(os.environ)
    workspace = LocalWorkspace(str(cwd))
    where = ledger_folder(home, workspace.root)
    if not await anyio.Path(where).is_dir():
        yield None
        return
    from newel.review.recorder import Recorder

    recorder = await Recorder.open(workspace, where, left_out=[str(home)])
    try:
        yield recorder.project
    finally:
        recorder.close()


def _print(text: str, views: Sequence[Any], *, as_json: bool) -> None:
    print(msgspec.json.encode({"checkpoints": views}).decode() if as_json else text)
