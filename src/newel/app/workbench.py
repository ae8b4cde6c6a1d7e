"""The agents of a folder in the browser: engine, agents, tool servers and web server put together."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from newel import config
from newel.app.parts import connect, find_endpoint, find_model
from newel.config import Flags, Settings
from newel.terminal.safe import safe

if TYPE_CHECKING:
    from newel.jobs.workbench import Workbench
    from newel.mcp.manager import McpManager
    from newel.mcp.questions import Sample
    from newel.web.door import Door


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asked for. ``token`` is None for one that is made anew."""

    flags: Flags
    cwd: Path
    host: str
    port: int
    token: str | None = None
    open_browser: bool = False
    ephemeral: bool = False


def run_workbench(options: Options) -> int:
    """Serve until somebody ends it; returns the exit code."""
    gc.disable()  # loading makes many objects and no garbage
    import anyio

    settings = config.load(options.flags, cwd=options.cwd, environ=os.environ)
    anyio.run(_serve, settings, options)
    return 0


async def _serve(settings: Settings, options: Options) -> None:
    import anyio

    from newel.web.api import create_app
    from newel.web.door import Door, choose_token, listen
    from newel.web.ports import About
    from newel.web.server import serve

    token = choose_token(options.host, options.token)
    listener = listen(options.host, options.port)
    door = Door(token=token, host=listener.host, port=listener.port)
    closing = anyio.Event()
    async with AsyncExitStack() as stack:
        stack.callback(listener.close)
        workbench = await open_workbench(settings, stack, ephemeral=options.ephemeral)
        about = About(
            newel=version("newel"),
            project=str(settings.cwd),
            model=workbench.crew.model,
            approve=settings.approve,
            ephemeral=options.ephemeral,
        )
        app = create_app(workbench, about=about, door=door, closing=closing, relay=workbench.crew.provider)
        gc.freeze()
        gc.enable()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(workbench.run)
            await serve(app, listener, announce=partial(_announce, door, options), closing=closing)
            tasks.cancel_scope.cancel()


async def open_workbench(settings: Settings, stack: AsyncExitStack, *, ephemeral: bool) -> Workbench:
    """The workbench of a folder, with all that it needs open until ``stack`` closes. Raises ``ConfigError``,
    ``EngineError`` and ``ProviderError``.
    """
    from newel.agent.ports import Model
    from newel.app.crew import AppCrew, sampler
    from newel.jobs.feed import Feed
    from newel.jobs.sqlite import open_engine
    from newel.jobs.workbench import Workbench
    from newel.providers.retry import Retrying

    endpoint = await find_endpoint(settings)
    client = connect(endpoint)
    stack.push_async_callback(client.aclose)
    model = await find_model(settings, endpoint, client)
    engine = await stack.enter_async_context(open_engine(None if ephemeral else jobs_folder(settings)))
    feed = await stack.enter_async_context(Feed(engine))
    provider = Retrying(client)
    servers, problems = tool_servers(
        settings,
        on_change=lambda: workbench.tell("servers"),
        # What a tool server asks of the model costs the user's money: unasked only where all else is, too.
        sample=sampler(provider, Model(model, client.name)) if settings.approve == "auto" else None,
    )
    for problem in problems:
        print(f"newel: {safe(problem)}", file=sys.stderr)  # noqa: T201 — a person must know
    crew = AppCrew(settings, client, provider, model, servers, ephemeral=ephemeral)
    workbench = await Workbench.open_with(
        engine, feed, crew, servers, folder=str(settings.cwd), home=settings.home
    )
    await stack.enter_async_context(servers)
    return workbench


def jobs_folder(settings: Settings) -> Path:
    """Where the runs of a project are kept."""
    from newel.session.locate import project_folder

    return project_folder(settings.home / "jobs", str(settings.cwd))


def tool_servers(
    settings: Settings, on_change: Callable[[], None], sample: Sample | None
) -> tuple[McpManager, list[str]]:
    """The MCP servers that the user and the project name, and what is wrong with their files."""
    from newel.mcp.config import load_servers
    from newel.mcp.manager import McpManager
    from newel.mcp.trust import Trust

    configs, problems = load_servers(home=settings.home, cwd=settings.cwd)
    manager = McpManager(
        configs,
        trust=Trust(settings.home),
        roots=[settings.cwd],
        environ=os.environ,
        on_change=on_change,
        sample=sample,
    )
    return manager, problems


def _announce(door: Door, options: Options) -> None:
    print(door.url, flush=True)  # noqa: T201 — the address is what a person, or the program that started us, waits for
    if options.open_browser:
        import webbrowser

        webbrowser.open(door.url)
