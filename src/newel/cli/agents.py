"""``newel agent`` and ``newel agents``: unattended agents on a contract, and their runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing
from datetime import datetime
from pathlib import Path

import anyio
import msgspec

from newel.agent.errors import ConfigError, UsageError
from newel.app.project_notices import warn_of_project
from newel.cli.options import (
    Parser,
    add_list_options,
    add_model_options,
    flags_of,
    folder,
    nothing_listed,
    positive,
    positive_int,
    project_of,
)
from newel.config.settings import Settings, load_settings, newel_home
from newel.contracts.run_index import (
    INTERRUPTED,
    AgentRun,
    find_run,
    follow_run,
    journals,
    list_runs,
    open_spare_engine,
)
from newel.providers.retry import UNATTENDED_LIMITS
from newel.runs.models import Contract
from newel.terminal.renderers.contract import SHORT_ID, ContractRenderer, watch
from newel.terminal.renderers.json_renderer import JsonRenderer
from newel.terminal.stdout import text_stdout
from newel.text.format import one_line
from newel.text.sanitize import sanitize

DONE = 0


# -- newel agent ----------------------------------------------------------------------------------


def command_agent(arguments: Sequence[str]) -> int:
    parser = _agent_parser()
    options = parser.parse_args(arguments)
    options.contract = " ".join(options.contract)
    if bool(options.contract) == bool(options.resume):
        parser.error("give either a contract or --resume ID; `newel agents` lists the runs")
    settings = load_settings(
        flags_of(options), cwd=folder(parser, options.cwd), environ=os.environ, retry=UNATTENDED_LIMITS
    )
    text = sys.stdin.read() if options.contract == "-" else options.contract
    contract = None if options.resume else contract_of(text, options)
    warn_of_project(settings)
    return anyio.run(_run_agent, settings, contract, options)


def _agent_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="newel agent",
        description="Run an agent unattended until its contract is fulfilled or a limit is reached.",
        epilog="The agent cannot ask: calls that need approval under --approve ask are declined. "
        "Ctrl+C stops before the next request, a second Ctrl+C at once.\n"
        "exit codes: 0 completed, 1 stopped or failed, 2 wrong usage, 130 interrupted",
    )
    add = parser.add_argument
    add(
        "contract",
        nargs="*",
        metavar="CONTRACT",
        help="the goal; unquoted words make one contract, - reads standard input",
    )
    add_contract_limits(parser)
    add("--worktree", action="store_true", help="work in a new git worktree")
    add("--name", metavar="NAME", default="agent", help="name of the log and the worktree (default: agent)")
    add("--resume", metavar="ID", help="resume an interrupted run")
    add_model_options(parser)
    add("--json", action="store_true", help="print one JSON object per event")
    return parser


def add_contract_limits(parser: argparse.ArgumentParser) -> None:
    """Add options for the acceptance and the limits of a contract."""
    add = parser.add_argument
    add(
        "--accept",
        metavar="CMD",
        help="acceptance test: a shell command that must succeed",
    )
    add("--max-turns", type=positive_int, metavar="N", help="work at most N turns (default: 50)")
    add("--max-tokens", type=positive_int, metavar="N", help="use at most N tokens")
    add("--max-cost", type=positive, metavar="USD", help="spend at most this many US dollars")
    add("--max-minutes", type=positive, metavar="M", help="work at most M minutes (default: 60)")
    add(
        "--small-judge",
        action="store_true",
        help="have the small model judge whether the contract is fulfilled",
    )


def contract_of(text: str, options: argparse.Namespace) -> Contract:
    """The contract of the command line: of ``add_contract_limits``. Raises ``UsageError``."""
    fields = {
        "text": text.strip(),
        "accept": options.accept,
        "maxTurns": options.max_turns,
        "maxTokens": options.max_tokens,
        "maxCost": options.max_cost,
        "maxMinutes": options.max_minutes,
        "smallModel": options.small_judge,
        "worktree": getattr(options, "worktree", None),
    }
    if not text.strip():
        raise UsageError("The contract is empty. Say what the agent is to do.")
    named_fields = {name: value for name, value in fields.items() if value is not None}
    try:
        return msgspec.convert(named_fields, Contract)
    except msgspec.ValidationError as error:
        raise UsageError(f"Invalid contract: {error}.") from error


async def _run_agent(given: Settings, contract: Contract | None, options: argparse.Namespace) -> int:
    from newel.app.agent_place import open_agent_place
    from newel.app.workbench_agents import open_agent_factory
    from newel.contracts.contract_job import HeadlessRun, submit
    from newel.jobs.engine import EngineError
    from newel.jobs.sqlite import open_engine
    from newel.runs.event_hub import EventHub

    async with AsyncExitStack() as stack:
        place = await stack.enter_async_context(open_agent_place(given, attended=False))
        settings, host = place.settings, place.host
        run_to_resume = (
            await find_run(journals(settings.home, host.name), options.resume) if options.resume else None
        )
        if run_to_resume is not None:
            # Its approval mode may run commands unasked, where that of the settings does not.
            settings = place.decide(_settings_of(run_to_resume, given, options))
        factory = await stack.enter_async_context(
            open_agent_factory(settings, host, ephemeral=False, attended=False)
        )
        if run_to_resume is not None:
            engine = await stack.enter_async_context(open_engine(run_to_resume.journal))
            job = await engine.get(run_to_resume.job.id)
        else:
            assert contract is not None  # noqa: S101 — the command line has one of the two
            engine = await stack.enter_async_context(open_spare_engine(settings.home, host.name))
            run = await submit(
                engine,
                factory.apply_limits(contract),
                factory,
                project=host.name,
                home=settings.home,
                name=options.name,
                approve=settings.approve,
            )
            job = await engine.get(run)
        if job is None:
            raise EngineError("The run is no longer in its journal.")
        hub = await stack.enter_async_context(EventHub(engine))
        solo = HeadlessRun(engine, hub, factory, job)
        screen = JsonRenderer(sys.stdout.buffer) if options.json else ContractRenderer(text_stdout())
        return await watch(solo, hub, job, screen)


def _settings_of(run: AgentRun, settings: Settings, options: argparse.Namespace) -> Settings:
    """The settings to resume a run: it keeps its approval mode and its agent mode, unless the command line has others."""
    from newel.providers.routing import read_agent_mode

    params = run.params
    mode = None if options.agent_mode else params.contract.agent_mode
    return msgspec.structs.replace(
        settings,
        approve=(options.approve or params.approve or settings.approve),
        agent_mode=read_agent_mode(mode) if mode else settings.agent_mode,
    )


# -- newel agents ---------------------------------------------------------------------------------


def command_agents(arguments: Sequence[str]) -> int:
    parser = Parser(prog="newel agents", description="List the runs of agents, newest first.")
    add_list_options(parser, "agents")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    for name, help_line in (("tail", "show a run's events and follow it"), ("log", "print a run's log")):
        actions.add_parser(name, help=help_line).add_argument(
            "id", metavar="ID", help="the beginning of its ID"
        )
    options = parser.parse_args(arguments)
    home = newel_home(os.environ)
    if options.action is None:
        return anyio.run(_list, journals(home, None if options.all else project_of(parser, options)), options)
    return anyio.run({"tail": _tail, "log": _log}[options.action], journals(home, None), options.id)


async def _list(folders: list[Path], options: argparse.Namespace) -> int:
    runs = await list_runs(folders, limit=options.n)
    for run in runs:
        print(_line(run, folder=options.all))
    if not runs:
        print(nothing_listed("agents", options))
    return DONE


def _line(run: AgentRun, *, folder: bool) -> str:
    when = datetime.fromisoformat(run.job.created).astimezone().strftime("%Y-%m-%d %H:%M")
    lines = [f"{run.job.id[:SHORT_ID]}  {when}  {run.state:<11}  {one_line(run.params.contract.text, 80)}"]
    if run.reason:
        lines.append(one_line(run.reason))
    if run.state == INTERRUPTED:
        lines.append(f"Resume it: newel agent --resume {run.job.id[:SHORT_ID]}")
    if folder:
        lines.append(sanitize(run.params.folder))
    return f"\n{'':10}".join(lines)


async def _tail(folders: list[Path], run_id: str) -> int:
    run = await find_run(folders, run_id)
    screen = ContractRenderer(text_stdout())
    async with aclosing(follow_run(run)) as events:
        async for event in events:
            screen.handle(event)
    screen.close()
    return DONE


async def _log(folders: list[Path], run_id: str) -> int:
    run = await find_run(folders, run_id)
    path = anyio.Path(run.params.log)
    if not await path.is_file():
        raise ConfigError(
            f"The log {path} does not exist. `newel agents tail {run_id}` shows the run's journal."
        )
    async with await path.open(errors="replace") as log:
        async for line in log:
            print(sanitize(line), end="")
    return DONE
