"""``newel eval run --fleet``: its options, and what cannot go with them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from newel.agent.errors import UsageError
from newel.evals.packed_files import PackingError, pack_task
from newel.evals.run import RunPlan
from newel.evals.task import Task

INTERRUPTED = "Interrupted. The workers go on: collect their results with `newel eval run --resume {run}`, or end the trials with `newel fleet cancel {run}`."

_REFUSED = {
    "agent": "runs another agent without Newel's sandbox, which workers do not allow",
    "replay": "asks no model, and is made quickly on this machine",
    "base_url": "names a server; the workers ask that of their own settings",
    "api": "is about a server; the workers ask that of their own settings",
    "api_key": "would give a key away; the workers have keys of their own",
    "sandbox": "is about this machine; the workers have sandboxes of their own",
}


def add_fleet_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fleet", action="store_true", help="run the trials on the workers of a fleet, see `newel fleet`"
    )
    parser.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="LABEL",
        help="with --fleet, run only on workers with this label; repeat it for several",
    )


def check_fleet_options(options: argparse.Namespace) -> None:
    """Raises ``UsageError`` for options that go without ``--fleet`` only, or with it only."""
    if not options.fleet:
        if options.label and not options.resume:
            raise UsageError("--label chooses among the workers of a fleet: add --fleet.")
        return
    for name, reason in _REFUSED.items():
        if getattr(options, name):
            raise UsageError(f"--{name.replace('_', '-')} {reason}: leave it out, or leave out --fleet.")


def check_resumed_on_fleet(plan: RunPlan, options: argparse.Namespace) -> None:
    """Raises ``UsageError`` if a run is to be resumed elsewhere than it began."""
    if options.fleet and not plan.on_fleet:
        raise UsageError(f"The run {plan.id} began on this machine, and goes on here: leave out --fleet.")


def check_sendable(tasks: Sequence[Task]) -> None:
    """Raises ``UsageError`` for a task that cannot be sent to workers."""
    for task in tasks:
        try:
            pack_task(task.folder)
        except PackingError as error:
            raise UsageError(
                f"The task {task.name} cannot be sent to workers. {error} Make its large files in `setup`, or leave out --fleet."
            ) from error
