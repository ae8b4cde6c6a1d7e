"""Composes jexida: settings, connection, model backend, session and terminal."""

from __future__ import annotations

import os
import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import msgspec

from newel.agent.errors import ConfigError
from newel.app.hosts import SSH_CONFIG
from newel.app.theme import chosen_theme
from newel.app.trusting import has_undecided_server, ignored_message
from newel.config.jexida import NAME, ModelChoice, RemoteSettings, Through, load_remote
from newel.config.settings import Flags, Settings, load_settings
from newel.config.terminal import TerminalSettings
from newel.permissions.nested import enter
from newel.text.sanitize import sanitize
from newel.version import VERSION

if TYPE_CHECKING:
    from newel.terminal.jexida.ports import ModelBackend
    from newel.workspace.ssh.lazy_connection import LazyConnection


NO_HOST = f"""\
No host is set. Name one:
  jexida --host HOST                       a host, or a name of ~/.ssh/config
or write it into ~/{NAME}:
  [connection]
  host = "server.example\""""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command line. ``ssh_config`` is a file that ssh reads instead of the user's."""

    flags: Flags = Flags()
    host: str | None = None
    user: str | None = None
    directory: str | None = None
    port: int | None = None
    model: str | None = None
    through: Through | None = None
    config: Path | None = None
    ssh_config: str | None = None
    continue_: bool = False
    session: str | None = None
    ephemeral: bool = False


def run(options: Options) -> int:
    """Run the conversation; returns the exit code. Raises ``NewelError`` if it cannot start."""
    newel = load_settings(options.flags, cwd=Path.cwd(), environ=os.environ)
    if options.config is not None and not options.config.exists():
        raise ConfigError(f"The file {options.config} does not exist.")
    enter(newel.approve, attended=True)
    loaded = load_remote(options.config or Path.home() / NAME, newel.remote)
    remote = _with(loaded.settings, options)
    if remote.model.through == "api" and has_undecided_server(newel) and newel.ignored is not None:
        loaded.warnings.append(ignored_message(newel.ignored))
    if remote.connection.host is None:
        for warning in loaded.warnings:
            print(f"jexida: {sanitize(warning)}", file=sys.stderr)  # noqa: T201 — it may be the reason
        remote = _with(remote, _enter_host(options))
    return anyio.run(_run, newel, remote, loaded.warnings, options)


def _enter_host(options: Options) -> Options:
    """The same with a host that the user enters. Raises ``ConfigError`` if they do not."""
    from newel.workspace.ssh.target import Target

    entered = ""
    if all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        sys.stderr.write(
            "No host is set. Which host should jexida connect to (host, user@host or a name of ~/.ssh/config)? "
        )
        sys.stderr.flush()
        entered = sys.stdin.readline().strip()
    if not entered:
        raise ConfigError(NO_HOST)
    target = Target.parse(entered)
    hint = f'To save it, write [connection] and host = "{target.host}" into ~/{NAME}.'
    print(sanitize(hint), file=sys.stderr)  # noqa: T201 — for the user
    return msgspec.structs.replace(
        options,
        host=target.host,
        user=target.user or options.user,
        port=target.port or options.port,
        directory=target.path or options.directory,
    )


async def _run(newel: Settings, remote: RemoteSettings, warnings: list[str], options: Options) -> int:
    from newel.app.workspace_factory import open_recorders
    from newel.session.manager import SessionManager
    from newel.terminal.jexida.agent import JexidaAgent
    from newel.terminal.jexida.remote_host import RemoteHost, recorded
    from newel.terminal.jexida.repl import run_jexida
    from newel.terminal.jexida.routines import Routine
    from newel.terminal.ui.echo import EchoSuppressor
    from newel.workspace.ssh.lazy_connection import LazyConnection
    from newel.workspace.ssh.target import Target

    ssh = remote.connection
    assert ssh.host is not None  # noqa: S101 — ``run`` makes sure of it
    target = Target(ssh.host, ssh.user, ssh.port, ssh.directory)
    routines = {
        name: Routine(name, routine.description, routine.template())
        for name, routine in remote.routines.items()
    }
    ssh_config = options.ssh_config or os.environ.get(SSH_CONFIG)
    async with AsyncExitStack() as stack:
        stack.enter_context(EchoSuppressor())
        connection = await stack.enter_async_context(LazyConnection.open(target, config=ssh_config))
        host = RemoteHost(connection)
        model, backend = await _open_model(stack, newel, remote.model, connection, options)
        session = stack.enter_context(
            SessionManager(
                directory=newel.home / "sessions",
                cwd=await host.project_name() if options.continue_ else target.url,
                continue_=options.continue_,
                session=options.session,
                ephemeral=options.ephemeral,
            )
        )
        talk = JexidaAgent(
            host,
            backend,
            model=model,
            user=ssh.user,
            routines=routines,
            turns=remote.history.turns,
            session=session,
        )
        if ssh.directory is not None and newel.record:
            recorders = open_recorders(newel, ephemeral=options.ephemeral)
            stack.callback(recorders.close)
            host.open_workspace = partial(recorded, talk, recorders)
        theme, problems = chosen_theme(newel.terminal.theme, newel.home)
        return await run_jexida(
            talk,
            title=f"jexida {VERSION}",
            history=Path.home() / NAME.parent / "history",
            settings=TerminalSettings(editing=newel.terminal.editing, keys=newel.terminal.keys),
            theme=theme,
            warnings=[*problems, *warnings, *session.damage],
        )


async def _open_model(
    stack: AsyncExitStack, newel: Settings, choice: ModelChoice, connection: LazyConnection, options: Options
) -> tuple[str, ModelBackend]:
    """The name of the model, and the way to it. Raises ``ConfigError`` and ``ProviderError``."""
    from newel.terminal.jexida.model_backends import ApiModels, HostModels

    if choice.through != "api":
        backend = HostModels(connection, choice)
        stack.push_async_callback(backend.aclose)
        return choice.name, backend
    from newel.app.extensions import open_server
    from newel.app.model_resolver import find_endpoint, find_model

    endpoint = await find_endpoint(newel)
    client = open_server(newel, endpoint)
    stack.push_async_callback(client.aclose)
    return await find_model(newel, options.model or newel.model, endpoint, client), ApiModels(client)


def _with(settings: RemoteSettings, options: Options) -> RemoteSettings:
    """The settings, overridden by the command line."""
    ssh, model = settings.connection, settings.model
    return msgspec.structs.replace(
        settings,
        connection=msgspec.structs.replace(
            ssh,
            host=options.host or ssh.host,
            user=options.user or ssh.user,
            directory=options.directory or ssh.directory,
            port=options.port or ssh.port,
        ),
        model=msgspec.structs.replace(
            model, name=options.model or model.name, through=options.through or model.through
        ),
    )
