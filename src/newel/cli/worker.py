"""``newel worker``: runs the jobs of a fleet on this machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import anyio

from newel.cli.options import Parser, add_server_options, flags_of, positive_int
from newel.config.settings import Settings, load_settings
from newel.providers.retry import UNATTENDED_LIMITS
from newel.text.sanitize import sanitize

DONE = 0


def command_worker(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel worker",
        description="Run jobs of a fleet on this machine until it is stopped.",
        epilog="The database is NEWEL_ENGINE or [engine] url, the store of folders NEWEL_FLEET_STORE or [fleet] store.\n"
        "After SIGTERM or Ctrl+C, it claims no more jobs, and hands those still running over to other workers after 25 s, or at once after a second signal.\n"
        "exit codes: 0 stopped or drained, 1 failed, 2 wrong usage",
    )
    add = parser.add_argument
    add(
        "--slots",
        type=positive_int,
        metavar="N",
        help="run up to N jobs at a time (default: 4, or [fleet] slots)",
    )
    add("--labels", metavar="LABEL,…", help="also run jobs that need these labels, such as gpu,linux")
    add_server_options(parser)
    options = parser.parse_args(arguments)
    labels = (
        None
        if options.labels is None
        else [label.strip() for label in options.labels.split(",") if label.strip()]
    )
    settings = load_settings(flags_of(options), cwd=Path.cwd(), environ=os.environ, retry=UNATTENDED_LIMITS)
    return anyio.run(_run, settings, labels, options.slots)


async def _run(settings: Settings, labels: list[str] | None, slots: int | None) -> int:
    from newel.app.fleet_worker import FleetWorker
    from newel.terminal.signals import die_of, on_signals

    worker = FleetWorker(settings, lambda line: print(sanitize(line), flush=True), labels=labels, slots=slots)
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        received.append(number)
        if len(received) > 2:
            die_of(number)
        worker.stop(now=len(received) > 1)

    async with on_signals(stop):
        await worker.run()
    return DONE
