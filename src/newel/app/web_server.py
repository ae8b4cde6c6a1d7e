"""The agents of a folder in the browser: engine, agents, tool servers and web server put together."""

from __future__ import annotations

import gc
import os
import secrets
import sys
from contextlib import AsyncExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from newel.agent.errors import NewelError
from newel.app.model_resolver import project_server_notice, warn_of_strangers
from newel.config.settings import Flags, Settings, load_settings

if TYPE_CHECKING:
    from newel.web.access import ServerAccess
    from newel.workbench.workbench import Workbench


class WebOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asked for. ``token`` is the one to be used; None for the one that the project keeps, which
    ``new_token`` replaces.
    """

    flags: Flags
    cwd: Path
    bind: str
    port: int
    token: str | None = None
    new_token: bool = False
    open_browser: bool = False
    ephemeral: bool = False


def run_workbench(options: WebOptions) -> int:
    """Serve until somebody ends it; returns the exit code."""
    gc.disable()  # loading makes many objects and no garbage
    import anyio

    settings = load_settings(options.flags, cwd=options.cwd, environ=os.environ)
    anyio.run(_serve, settings, options)
    return 0


async def _serve(settings: Settings, options: WebOptions) -> None:
    import anyio

    from newel.web.access import ServerAccess, choose_token, listen
    from newel.web.app import create_app
    from newel.web.ports import ServerInfo
    from newel.web.server import serve

    warn_of_strangers(settings)
    token = choose_token(options.bind, options.token, partial(_kept_token, settings, options))
    listener = listen(options.bind, options.port)
    door = ServerAccess(token=token, host=listener.host, port=listener.port)
    closing = anyio.Event()
    async with AsyncExitStack() as stack:
        stack.callback(listener.close)
        place = door.url.partition("#")[0]
        workbench = await open_workbench(settings, stack, ephemeral=options.ephemeral, place=place)
        about = ServerInfo(
            newel=version("newel"),
            project=workbench.folder,
            approve=settings.approve,
            ephemeral=options.ephemeral,
            notice=project_server_notice(settings),
        )
        app = create_app(
            workbench,
            about=about,
            door=door,
            closing=closing,
            relay=workbench.crew.provider,
            desk=workbench.desk,
        )
        gc.freeze()
        gc.enable()
        failures: list[NewelError] = []
        async with anyio.create_task_group() as tasks:

            async def work() -> None:
                try:
                    await workbench.run()
                except NewelError as error:
                    failures.append(error)
                    tasks.cancel_scope.cancel()

            def announce() -> None:
                _announce(door)
                if options.open_browser:
                    _open_browser(door.url)
                tasks.start_soon(work)  # only now: what it loads first takes its time

            await serve(app, listener, announce=announce, closing=closing)
            tasks.cancel_scope.cancel()
        for failure in failures:
            raise failure


def _kept_token(settings: Settings, options: WebOptions) -> str:
    """The token of this project; a new one where nothing is to be kept, or can be."""
    from hashlib import sha256

    from newel.web.saved_token import load_token

    if options.ephemeral:
        return secrets.token_urlsafe(24)
    project = f"{settings.host}:{settings.cwd}" if settings.host else str(settings.cwd)
    path = settings.home / "web" / f"{sha256(os.fsencode(project)).hexdigest()[:32]}.token"
    try:
        return load_token(path, new=options.new_token)
    except OSError as error:
        words = (
            f"newel: the page's token is not kept, so a restart needs a new address: {error.strerror}: {path}"
        )
        print(words, file=sys.stderr)  # noqa: T201 — a person must know
        return secrets.token_urlsafe(24)


async def open_workbench(
    settings: Settings, stack: AsyncExitStack, *, ephemeral: bool, place: str = ""
) -> Workbench:
    """The workbench of a folder, with all that it needs open until ``stack`` closes. ``place`` is told to who wants to
    open it a second time. Where there is no model it opens all the same: one can be named later. Raises ``ConfigError`` and
    ``EngineError``.
    """
    from newel.app.hosts import open_host
    from newel.app.review_limits import review_limits
    from newel.app.workbench_agents import open_agent_factory
    from newel.contracts.run_index import journal_folder
    from newel.jobs.sqlite import open_engine
    from newel.runs.event_hub import EventHub
    from newel.terminal.repl.repl import open_desk
    from newel.workbench.workbench import Workbench

    limits = review_limits(settings)
    ground = await stack.enter_async_context(open_host(settings.cwd, settings.host))
    directory = None if ephemeral else journal_folder(settings.home, ground.name)
    engine = await stack.enter_async_context(open_engine(directory))
    engine.leave_note(place)
    feed = await stack.enter_async_context(EventHub(engine))
    crew = await stack.enter_async_context(
        open_agent_factory(settings, ground, ephemeral=ephemeral, attended=True)
    )
    workbench = await Workbench.open_with(
        engine,
        feed,
        crew,
        crew.servers,
        folder=ground.name,
        home=settings.home,
        open_desk=partial(open_desk, settings, crew, engine, limits, ephemeral=ephemeral),
        line=ground.line,
    )
    await stack.enter_async_context(ground.telling(workbench.note))
    crew.servers_changed = lambda: workbench.tell("servers")
    return workbench


def _open_browser(url: str) -> None:
    """Beside everything else: some browsers, those of a terminal above all, keep their caller waiting until they end."""
    import webbrowser
    from threading import Thread

    Thread(target=webbrowser.open, args=(url,), daemon=True).start()


def _announce(door: ServerAccess) -> None:
    try:
        print(door.url, flush=True)  # noqa: T201 — a person, or the program that started us, waits for it
    except OSError as error:
        words = (
            f"newel: the address could not be written to standard output: {error.strerror}. It is {door.url}"
        )
        print(words, file=sys.stderr)  # noqa: T201 — as above
