"""The agent for one host: its settings, its connection, the way to its model, and the conversation."""

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
from newel.app.trusting import has_undecided_server, ignored_message
from newel.config.jexida import NAME, ModelChoice, RemoteSettings, Through, load_remote
from newel.config.settings import Flags, Settings, load_settings
from newel.permissions.nested import enter
from newel.text.sanitize import sanitize

if TYPE_CHECKING:
    from newel.terminal.jexida.ports import ModelBackend
    from newel.terminal.jexida.remote_host import RemoteHost


NO_HOST = f"""\
No host is set, so there is nothing to connect to. Name one:
  jexida --host HOST                       a host, or a name of ~/.ssh/config
or write it into ~/{NAME}:
  [connection]
  host = "server.example\""""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asked for; None is unsaid. ``ssh_config`` is a file that ssh reads instead of the user's."""

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


def run(asked: Options) -> int:
    """Talk with the person until they leave; returns the exit code. Raises ``NewelError`` where nothing can begin."""
    newel = load_settings(asked.flags, cwd=Path.cwd(), environ=os.environ)
    if asked.config is not None and not asked.config.exists():
        raise ConfigError(f"There is no file {asked.config}.")
    enter(newel.approve, attended=True)
    loaded = load_remote(asked.config or Path.home() / NAME, newel.remote)
    remote = _with(loaded.settings, asked)
    if remote.model.through == "api" and has_undecided_server(newel) and newel.ignored is not None:
        loaded.warnings.append(ignored_message(newel.ignored))
    if remote.connection.host is None:
        for warning in loaded.warnings:
            print(f"jexida: {sanitize(warning)}", file=sys.stderr)  # noqa: T201 — it may be why there is no host
        remote = _with(remote, _asked_for_host(asked))
    return anyio.run(_run, newel, remote, loaded.warnings, asked)


def _asked_for_host(asked: Options) -> Options:
    """The same with a host that the person at the terminal names. Raises ``ConfigError`` if nobody does."""
    from newel.workspace.ssh.target import Target

    named = ""
    if all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        sys.stderr.write(
            "No host is set. Which host should jexida look after (host, user@host or a name of ~/.ssh/config)? "
        )
        sys.stderr.flush()
        named = sys.stdin.readline().strip()
    if not named:
        raise ConfigError(NO_HOST)
    there = Target.parse(named)
    kept = f'Keep it: write [connection] and host = "{there.host}" into ~/{NAME}.'
    print(sanitize(kept), file=sys.stderr)  # noqa: T201 — to whom it was asked
    return msgspec.structs.replace(
        asked,
        host=there.host,
        user=there.user or asked.user,
        port=there.port or asked.port,
        directory=there.path or asked.directory,
    )


async def _run(newel: Settings, remote: RemoteSettings, warnings: list[str], asked: Options) -> int:
    from importlib.metadata import version

    from newel.app.lazy_host import remote_host
    from newel.review.tracking.recording_workspace import RecorderRegistry
    from newel.session.manager import SessionManager
    from newel.terminal.jexida.agent import JexidaAgent
    from newel.terminal.jexida.remote_host import recorded
    from newel.terminal.jexida.repl import run_jexida
    from newel.terminal.jexida.routines import Routine
    from newel.terminal.ui.echo import EchoSuppressor
    from newel.workspace.ssh.target import Target

    there = remote.connection
    assert there.host is not None  # noqa: S101 — ``run`` asks for it
    target = Target(there.host, there.user, there.port, there.directory)
    routines = {
        name: Routine(name, each.description, each.template()) for name, each in remote.routines.items()
    }
    ssh_config = asked.ssh_config or os.environ.get(SSH_CONFIG)
    async with AsyncExitStack() as stack:
        stack.enter_context(EchoSuppressor())
        host = await stack.enter_async_context(remote_host(target, config=ssh_config))
        model, path = await _model(stack, newel, remote.model, host, asked)
        session = stack.enter_context(
            SessionManager(
                directory=newel.home / "sessions",
                cwd=await host.project_name() if asked.continue_ else target.url,
                continue_=asked.continue_,
                session=asked.session,
                ephemeral=asked.ephemeral,
            )
        )
        talk = JexidaAgent(
            host,
            path,
            model=model,
            user=there.user,
            routines=routines,
            turns=remote.history.turns,
            session=session,
        )
        if there.directory is not None and newel.record:
            recorders = RecorderRegistry(None if asked.ephemeral else newel.home, noted=newel.home)
            stack.callback(recorders.close)
            host.opens = partial(recorded, talk, recorders)
        return await run_jexida(
            talk,
            title=f"jexida {version('newel')}",
            history=Path.home() / NAME.parent / "history",
            warnings=[*warnings, *session.damage],
        )


async def _model(
    stack: AsyncExitStack, newel: Settings, choice: ModelChoice, host: RemoteHost, asked: Options
) -> tuple[str, ModelBackend]:
    from newel.app.remote_model import api_model, host_model

    if choice.through == "api":
        return await stack.enter_async_context(api_model(newel, asked.model))
    return await stack.enter_async_context(host_model(host, choice))


def _with(settings: RemoteSettings, asked: Options) -> RemoteSettings:
    """The settings, and before them what the command line says."""
    there, model = settings.connection, settings.model
    return msgspec.structs.replace(
        settings,
        connection=msgspec.structs.replace(
            there,
            host=asked.host or there.host,
            user=asked.user or there.user,
            directory=asked.directory or there.directory,
            port=asked.port or there.port,
        ),
        model=msgspec.structs.replace(
            model, name=asked.model or model.name, through=asked.through or model.through
        ),
    )
