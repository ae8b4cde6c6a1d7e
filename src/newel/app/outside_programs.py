"""The programs of the project that Newel starts outside of the sandbox: commands in it must not change them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from newel.hooks import project_files, user_files
from newel.mcp import FILE as SERVERS

if TYPE_CHECKING:
    from newel.config.settings import Settings


def find_outside_programs(settings: Settings, project: Path, folder: str) -> Sequence[str]:
    """The programs of the project, such as scripts, that commands of the user name: hooks, which run in ``folder``, and the user's own tool
    servers without a sandbox. Never raises.
    """
    return list(dict.fromkeys([*_of_hooks(settings, project, folder), *_of_servers(settings.home, project)]))


def _of_hooks(settings: Settings, project: Path, folder: str) -> Iterator[str]:
    """Those of the user's hooks, and of hooks that the user has trusted, even if they have changed since. A process could otherwise swap a
    script between the comparison of its content and its start.
    """
    own = settings.hooks
    of_user = user_files(home=settings.home, claude_settings=own.claude_settings)
    of_project = project_files(project, of_user=of_user)
    if own.disabled or not (own.entries() or any(os.path.lexists(file) for file in (*of_user, *of_project))):
        return
    from newel.app.hooks import hooks_of_settings
    from newel.hooks.hook_files import read_hook_files
    from newel.hooks.hook_trust import HookTrust, programs_of, texts_of

    trust = HookTrust(settings.home)
    trusted = [file for file in of_project if trust.has_trusted(file)]
    sets = (
        hooks_of_settings(settings),
        read_hook_files(of_user, "user"),
        read_hook_files(trusted, "project"),
    )
    for hook in (hook for each in sets for hook in each.hooks):
        yield from programs_of(texts_of(hook), project, folder)
        for program in programs_of(texts_of(hook), project, ""):
            yield program
            # The copy of a review does not exist yet when its policy is asked for.
            yield os.path.join(folder, os.path.relpath(program, project))  # noqa: PTH118 — a text


def _of_servers(home: Path, project: Path) -> Iterator[str]:
    if not os.path.lexists(home / SERVERS):
        return
    from newel.hooks.hook_trust import programs_of
    from newel.mcp.server_config import WORKSPACE, load_servers

    for server in load_servers(home=home, cwd=project)[0]:
        if server.level == "user" and server.command is not None and not server.is_confined:
            words = [
                word.replace(f"${{{WORKSPACE}}}", str(project)) for word in (server.command, *server.args)
            ]
            found = programs_of(words, project, server.folder(project))
            yield from (program for program in found if Path(program).is_relative_to(project))
