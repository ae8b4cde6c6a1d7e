"""Composes the workbench of a folder and its web server."""

from __future__ import annotations

import gc
import os
import secrets
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, nullcontext, suppress
from functools import partial
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING

import msgspec

from newel.app.agent_place import AgentPlace, open_agent_place
from newel.app.extensions import extensions_of
from newel.app.project_notices import project_notices, warn_of_project
from newel.app.sandbox_choice import warn_of_sandbox
from newel.concurrency import background_tasks
from newel.config.settings import Flags, Settings, load_settings
from newel.version import VERSION

if TYPE_CHECKING:
    from anyio import Event
    from starlette.types import ASGIApp

    from newel.agent.agent import Subscriber
    from newel.agent.ports import Model
    from newel.app.page_fleets import PageFleets
    from newel.app.workbench_agents import WorkbenchAgentFactory
    from newel.jobs.engine import Engine
    from newel.permissions.rules import RuleSet
    from newel.review_jobs.dependencies import ReviewLimits
    from newel.review_jobs.service import ReviewService
    from newel.web.security import ServerAccess
    from newel.web.websocket import ServerInfo
    from newel.workbench.workbench import Workbench
    from newel.workspace.execution_host import ExecutionHost


class WebOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command line. Without ``token`` the project's saved token is used, which ``new_token`` replaces."""

    flags: Flags
    cwd: Path
    bind: str
    port: int
    public_url: str = ""
    token: str | None = None
    new_token: bool = False
    open_browser: bool = False
    ephemeral: bool = False


def run_workbench(options: WebOptions) -> int:
    """Serve until the process is asked to end; returns the exit code."""
    gc.disable()  # loading makes many objects and no garbage
    import anyio

    settings = load_settings(options.flags, cwd=options.cwd, environ=os.environ)
    anyio.run(serve_workbench, settings, options)
    return 0


async def serve_workbench(
    settings: Settings,
    options: WebOptions,
    show: Callable[[ServerAccess], Awaitable[object]] | None = None,
) -> None:
    """Serve until a signal, or until ``show`` returns, which is called once connections are accepted. Raises ``ConfigError``,
    ``EngineError``, and what ``show`` raises.
    """
    import anyio

    from newel.app.page_fleets import PageFleets
    from newel.app.user_browser import open_in_browser
    from newel.web.access_token import choose_token
    from newel.web.security import ServerAccess
    from newel.web.server import listen, serve

    warn_of_project(settings)
    extensions_of(settings)  # one that is left out is named now, not in the middle of a conversation
    async with AsyncExitStack() as stack:
        place = await stack.enter_async_context(open_agent_place(settings, attended=True))
        settings = place.settings
        warn_of_sandbox(settings.sandbox_problem)
        token = choose_token(options.bind, options.token, partial(choose_saved_token, settings, options))
        listener = listen(options.bind, options.port)
        stack.callback(listener.close)
        access = ServerAccess(
            token=token, host=listener.host, port=listener.port, public_url=options.public_url
        )
        closing = anyio.Event()
        workbench = await open_workbench(place, stack, ephemeral=options.ephemeral, address=access.local_url)
        fleets = PageFleets(settings, workbench.review)
        app = _create_app(settings, workbench, options, access, fleets=fleets, closing=closing)
        gc.freeze()
        gc.enable()
        async with background_tasks(fleets.run) as tasks:

            async def show_and_end() -> None:
                if show is not None:
                    await show(access)
                    serving.cancel()

            def announce() -> None:
                _announce(access)
                if options.open_browser:
                    file = settings.home / "web" / f"{project_key(settings)}.html"
                    tasks.start_soon(open_in_browser, access.url, file)
                tasks.start_soon(workbench.run)  # not earlier: loading the review takes a while
                tasks.start_soon(show_and_end)

            with anyio.CancelScope() as serving:
                _say_stopped(await serve(app, listener, announce=announce, closing=closing), options)


def _create_app(
    settings: Settings,
    workbench: Workbench,
    options: WebOptions,
    access: ServerAccess,
    *,
    fleets: PageFleets,
    closing: Event,
) -> ASGIApp:
    from newel.app.page_trust import PageTrust
    from newel.app.usage import report_usage
    from newel.web.app import create_app

    return create_app(
        workbench,
        info=_server_info(settings, workbench, options),
        access=access,
        closing=closing,
        relay=workbench.factory.provider,
        open_review=workbench.review,
        report_usage=partial(report_usage, settings.home),
        trust=PageTrust(settings, workbench.servers),
        fleets=fleets,
    )


def _server_info(settings: Settings, workbench: Workbench, options: WebOptions) -> ServerInfo:
    from newel.web.websocket import ServerInfo

    return ServerInfo(
        newel=VERSION,
        project=workbench.folder,
        home=os.path.expanduser("~"),  # noqa: PTH111 — an unknown home stays as it is
        approve=settings.approve,
        thinking=settings.thinking,
        sandbox=settings.sandbox.mode or "read-only",
        sandbox_problem=settings.sandbox_problem,
        ephemeral=options.ephemeral,
        fleets=settings.engine.is_set(os.environ),
        notice="\n".join(filter(None, (*project_notices(settings), settings.sandbox_problem))),
    )


def project_key(settings: Settings) -> str:
    """32 hexadecimal digits that name the project in file names."""
    from hashlib import sha256

    project = f"{settings.host}:{settings.cwd}" if settings.host else str(settings.cwd)
    return sha256(os.fsencode(project)).hexdigest()[:32]


def choose_saved_token(settings: Settings, options: WebOptions) -> str:
    """The token of this project; a new one if none is to be saved, or can be."""
    from newel.web.access_token import load_token

    if options.ephemeral:
        return secrets.token_urlsafe(24)
    folder, key = settings.home / "web", project_key(settings)
    path = folder / f"{key}.2.token"
    try:
        # Earlier versions had their tokens in cookies, which any server of this machine could read.
        (folder / f"{key}.token").unlink(missing_ok=True)
        return load_token(path, new=options.new_token)
    except OSError as error:
        message = f"newel: The page's token cannot be saved, so a restart needs a new address: {error.strerror}: {path}"
        print(message, file=sys.stderr)  # noqa: T201 — for the user
        return secrets.token_urlsafe(24)


async def open_workbench(
    place: AgentPlace, stack: AsyncExitStack, *, ephemeral: bool, address: str = ""
) -> Workbench:
    """The workbench of a place; ``stack`` closes all its parts. A second process that opens the folder gets
    ``address`` in its error message. The workbench opens without a model, too: the user can name one later. Raises
    ``ConfigError`` and ``EngineError``.
    """
    from newel.app.agent_factory import open_rule_book
    from newel.app.extra_tools import for_conversation
    from newel.app.review_limits import review_limits
    from newel.app.workbench_agents import open_agent_factory
    from newel.contracts.run_index import journal_folder
    from newel.jobs.sqlite import open_engine
    from newel.permissions.project_permissions import ProjectPermissions
    from newel.runs.event_hub import EventHub
    from newel.workbench.tab_log import TabLog
    from newel.workbench.workbench import Workbench

    settings, host = place.settings, place.host
    limits = review_limits(settings)
    directory = None if ephemeral else journal_folder(settings.home, host.name)
    engine = await stack.enter_async_context(open_engine(directory))
    engine.set_holder_info(address)
    hub = await stack.enter_async_context(EventHub(engine))
    factory = await stack.enter_async_context(
        open_agent_factory(for_conversation(settings), host, ephemeral=ephemeral, attended=True)
    )
    workbench = Workbench(
        engine,
        hub,
        factory,
        factory.servers,
        log=await TabLog.open(engine),
        folder=host.name,
        home=settings.home,
        permissions=ProjectPermissions(
            partial(_load_project_rules, host), partial(open_rule_book, settings, host=host)
        ),
        open_review=partial(_open_review, settings, factory, engine, limits, ephemeral=ephemeral),
        monitor=host.monitor,
    )
    await workbench.load()
    if host.monitor is not None:
        await stack.enter_async_context(host.monitor.notices(workbench.record_notice))
    factory.servers_changed = lambda: workbench.notify("servers")
    return workbench


async def _load_project_rules(host: ExecutionHost) -> RuleSet:
    """The rules that the project has now. Raises ``ConfigError``, and ``HostUnreachable`` if a user would have to wait for the host."""
    from newel.permissions.project_rules import load_project_rules
    from newel.workspace.process.output import OutputLimits

    with host.monitor.request_deadline() if host.monitor is not None else nullcontext():
        return await load_project_rules(host.workspace(host.name, OutputLimits()))


async def _open_review(
    settings: Settings,
    factory: WorkbenchAgentFactory,
    engine: Engine,
    limits: ReviewLimits,
    *,
    ephemeral: bool,
) -> ReviewService:
    """Call it before a worker claims jobs of ``engine``. The factory closes the ledger. Raises ``LedgerError`` and
    ``EngineError``.
    """
    from newel.agent.ports import RunConfig
    from newel.agent.transform import Transformer
    from newel.app.workspace_factory import project_secret_paths
    from newel.review_jobs.dependencies import ReviewDependencies
    from newel.review_jobs.service import ReviewService
    from newel.review_jobs.traces import Traces
    from newel.workspace.process.output import OutputLimits

    workspace = factory.host.workspace(factory.host.name, OutputLimits())
    project = (await factory.recorders.recorder_of(workspace)).project
    traces = (
        None
        if ephemeral
        else Traces(engine, settings.home / "traces", project.workspace.name, factory.secrets)
    )
    return await ReviewService.open(
        ReviewDependencies(
            engine=engine,
            ledger=project.ledger,
            workspace=project.workspace,
            saver=project.saver,
            checkpoints=project.checkpoints,
            provider=factory.provider,
            config=RunConfig(
                model=factory.in_use.model,
                transform=Transformer(),
                thinking=settings.thinking,
                agent_mode=settings.agent_mode,
            ),
            limits=limits,
            traces=traces,
            secret_paths=project_secret_paths(settings, factory.host, project.workspace.root),
            find_model=factory.find_model,
            follow=_review_telemetry(settings, factory),
        )
    )


def _review_telemetry(
    settings: Settings, factory: WorkbenchAgentFactory
) -> Callable[[str, Model], Subscriber] | None:
    signals = settings.otel.signals(os.environ)
    if not signals:
        return None
    from newel.app.telemetry import review_telemetry

    return review_telemetry(settings, signals, lambda: factory.secrets)


def _say_stopped(ended_by: Signals | None, options: WebOptions) -> None:
    """A closing line in a terminal, which has echoed ^C: the shell's prompt would follow it on the same line."""
    if ended_by is None or not sys.stderr.isatty():
        return
    kept = "" if options.ephemeral else " Its tabs are kept."
    start = "\n" if ended_by is Signals.SIGINT else ""
    with suppress(OSError):  # the terminal may have gone
        print(f"{start}newel: The workbench has stopped.{kept}", file=sys.stderr, flush=True)  # noqa: T201 — for the user


def _announce(access: ServerAccess) -> None:
    try:
        print(access.url, flush=True)  # noqa: T201 — the user, or the program that started us, waits for it
    except OSError as error:
        message = f"newel: The address could not be written to standard output: {error.strerror}. It is {access.url}"
        print(message, file=sys.stderr)  # noqa: T201 — as above
