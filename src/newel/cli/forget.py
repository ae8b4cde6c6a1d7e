"""``newel forget``: delete what Newel has stored."""

from __future__ import annotations

import argparse
import os
import posixpath
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from newel.agent.errors import NewelError
from newel.agent.formatting import pluralize
from newel.cli.options import Parser, add_place, open_place
from newel.cli.review_session import DONE, FAILED, Prompter, check_terminal, open_project
from newel.config.settings import newel_home
from newel.terminal.review.review_ui import YES_OR_NO
from newel.text.format import join_names
from newel.text.sanitize import escape_line

if TYPE_CHECKING:
    from newel.review.store.forget import ForgetResult
    from newel.review.store.ledger import Ledger

LAST = "last"

EPILOG = """\
Your own files stay as they are, and so does every backup of Newel's folder.
Deleted changes can no longer be undone. Sessions quote the files that were
read in them, and the record of a run begins with its prompt: forget those,
too, if a secret must go.
exit codes: 0 done, 1 nothing found or in use, 2 wrong usage"""


def command_forget(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel forget",
        description="Delete what Newel has stored: of files or folders their earlier contents and their history, or a run, a session, "
        "or everything about this folder.",
        epilog=EPILOG,
    )
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="forget this file, or all files below this folder")
    add(
        "--run",
        nargs="?",
        const=LAST,
        metavar="CHECKPOINT",
        help="forget a run: its checkpoint's ID or the beginning of it (default: the last one)",
    )
    add("--session", metavar="SESSION", help="forget a session: its ID, the beginning of its ID, or its file")
    add("--all", action="store_true", help="forget everything about this folder")
    add("--yes", action="store_true", help="do not ask for confirmation")
    add_place(parser, "forget what is stored of")
    options = parser.parse_args(arguments)
    if sum([bool(options.files), options.run is not None, options.session is not None, options.all]) != 1:
        parser.error("name either files, or --run, --session or --all")
    if not options.yes:
        check_terminal("--yes skips the question.")
    home = newel_home(os.environ)
    action = _forget_all if options.all else _forget_records

    gone = _missing_folder(options)

    async def run() -> int:
        if options.session is not None:
            return await _forget_session(home, options)
        if gone:
            return await _forget_all(home, gone, options)
        async with open_place(parser, options) as place:
            async with open_project(place):  # what a killed process left pending is completed first
                pass
            return await action(home, place.name, options)

    return anyio.run(run)


def _missing_folder(options: argparse.Namespace) -> str:
    """The folder that ``--all --cwd`` names, if it is gone; what was stored about it may be there still. Else empty."""
    if not options.all or not options.cwd:
        return ""
    try:
        path = Path(options.cwd).expanduser().resolve()
    except (OSError, RuntimeError):  # opening it says why
        return ""
    return "" if path.exists() else str(path)


async def _forget_session(home: Path, options: argparse.Namespace) -> int:
    from newel.app.stored_conversation import find_stored_conversation

    stored = await find_stored_conversation(home, options.session)
    if not await _is_confirmed(stored.describe(), options):
        return FAILED
    await anyio.to_thread.run_sync(stored.delete)
    print("Deleted.")
    return DONE


async def _forget_all(home: Path, project: str, options: argparse.Namespace) -> int:
    from newel.app.stored_data import find_stored_data

    stored = await find_stored_data(home, project)
    lines = stored.describe()
    if not lines:
        print(f"Nothing is stored about {escape_line(project)}.{_remain(stored.worktrees)}")
        return FAILED
    what = f"This deletes everything that Newel has stored about {escape_line(project)}:\n  " + "\n  ".join(
        lines
    )
    if not await _is_confirmed(what, options):
        return FAILED
    await anyio.to_thread.run_sync(stored.delete)
    print(f"Deleted.{_remain(stored.worktrees)}")
    return DONE


def _remain(worktrees: Sequence[str]) -> str:
    """The message about the records of worktrees, which stay."""
    commands = [f"\n  newel forget --all --cwd {escape_line(shlex.quote(path))}" for path in worktrees]
    return f" What was done in worktrees stays. To delete it:{''.join(commands)}" if commands else ""


async def _forget_records(home: Path, project: str, options: argparse.Namespace) -> int:
    from newel.review.store.ledger import Ledger
    from newel.review.tracking.recording_workspace import ledger_folder

    folder = ledger_folder(home, project)
    if not folder.is_dir():
        raise NewelError("Nothing is recorded in this folder yet.")
    with Ledger.open(folder) as ledger:
        what, forget = (
            _plan_run(ledger, options.run) if options.run else _plan_files(ledger, project, options.files)
        )
        if not await _is_confirmed(what, options):
            return FAILED
        done = await anyio.to_thread.run_sync(forget)
    print("Deleted.")
    if done.kept:
        print(
            f"The history of {join_names(done.kept)} stays, because other runs changed "
            f"{'it' if len(done.kept) == 1 else 'them'} too. To delete it: newel forget FILE…"
        )
    return DONE


def _plan_run(ledger: Ledger, checkpoint: str) -> tuple[str, Callable[[], ForgetResult]]:
    """What is forgotten, for the user, and the call that does it."""
    from newel.review.store.forget import forget_run
    from newel.terminal.review.run_format import run_line

    found = ledger.checkpoints(prefix="" if checkpoint == LAST else checkpoint, limit=2)
    if not found or (len(found) > 1 and checkpoint != LAST):
        how_many = "More than one checkpoint begins with" if found else "There is no checkpoint"
        raise NewelError(f"{how_many} {escape_line(checkpoint)}. `newel checkpoints` lists them.")
    what = f"This deletes what Newel has stored of the run {run_line(0, found[0].id, found[0].created, found[0].title)}"
    return what, partial(forget_run, ledger, found[0])


def _plan_files(ledger: Ledger, root: str, names: Sequence[str]) -> tuple[str, Callable[[], ForgetResult]]:
    from newel.review.store.forget import forget_files, stored_files

    base = root.rstrip("/")
    paths: list[str] = []
    for name in names:
        path = posixpath.normpath(posixpath.join(root, name))
        is_inside = bool(name) and (path == base or path.startswith(f"{base}/"))
        found = stored_files(ledger, path[len(base) + 1 :]) if is_inside else []
        if not found:
            raise NewelError(
                f"Nothing is stored about {escape_line(name) or 'an empty name'} in {escape_line(root)}. Nothing was forgotten."
            )
        paths += found
    files = sorted(set(paths))
    pending = [path for path in files if set(ledger.hunk_states(path)) - {"rejected"}]
    what = f"This deletes what Newel has stored of {pluralize(len(files), 'file')}: {join_names(files)}"
    if pending:
        what += f"\nChanges that wait for your decision are deleted with them, in {join_names(pending)}."
    return what, partial(forget_files, ledger, files)


async def _is_confirmed(what: str, options: argparse.Namespace) -> bool:
    ui = Prompter().ui(options)
    ui.show(what, "note")
    # With Enter: what is deleted cannot be had back.
    return options.yes or await ui.choose("Delete it? [y/N] ", YES_OR_NO, at_once=False) == "y"
