"""What a project brings that waits for the user's trust: hooks, MCP servers and skills, each with the lines that show it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from newel.app.skills import describe_skills, undecided_project
from newel.config.trust import ProjectTrust
from newel.hooks import project_files, user_files
from newel.mcp import config_files
from newel.text.sanitize import escape_line

if TYPE_CHECKING:
    from pathlib import Path

    from newel.app.hooks import ProjectHooks
    from newel.config.settings import Settings
    from newel.mcp.server_config import ServerConfig

QUESTION: Final = """\
{folder} brings what Newel uses only if you trust it:

{items}

One by one: {commands}.
Trust all of this, until it changes? y yes · n not now (Enter) · never"""

TOO_LONG: Final = (
    "{folder} brings more hooks and MCP servers than a question can show, so nothing of them is used. "
    "To see and decide: newel hooks list, newel mcp list, newel skills list"
)
MAX_ROWS: Final = 60
"""Of a question in a terminal with ``COLUMNS``: what has scrolled far away cannot be judged."""
COLUMNS: Final = 80


class PendingTrust(msgspec.Struct, frozen=True):
    """Hooks of one file, an MCP server, or the skills of a project. ``lines`` are safe to print, ``key`` is what a decision is bound to,
    and ``command`` decides about this alone. ``decide`` trusts (True) or declines (False) what was shown. It raises ``ConfigError``.
    """

    lines: Sequence[str]
    key: str
    command: str
    decide: Callable[[bool], None]


def undecided(settings: Settings, servers: Sequence[ServerConfig] | None = None) -> list[PendingTrust]:
    """What of the project in ``settings.cwd`` the user has not decided about; ``servers`` are those in use, by default those of the files.
    Where a project brings nothing, this looks for a few files.
    """
    return [*_hooks(settings), *_servers(settings, servers), *_skills(settings)]


def trust_question(folder: Path, items: Sequence[PendingTrust]) -> str | None:
    """The question about all of it; None if it is too long to be answered."""
    question = QUESTION.format(
        folder=escape_line(str(folder)),
        items="\n\n".join("\n".join(item.lines) for item in items),
        commands=", ".join(dict.fromkeys(item.command for item in items)),
    )
    return question if rows_of(question, COLUMNS) <= MAX_ROWS else None


def rows_of(text: str, columns: int) -> int:
    """The rows that a text takes in a terminal."""
    from rich.cells import cell_len

    return sum(max(1, math.ceil(cell_len(line) / columns)) for line in text.split("\n"))


# -- hooks ----------------------------------------------------------------------------------------------


def _hooks(settings: Settings) -> Iterator[PendingTrust]:
    own = user_files(home=settings.home, claude_settings=settings.hooks.claude_settings)
    files = project_files(settings.cwd, of_user=own)
    if settings.hooks.disabled or not any(file.is_file() for file in files):
        return
    from newel.app.hooks import load_hooks
    from newel.hooks.hook_trust import HookTrust

    for of_file in load_hooks(settings, settings.cwd).project:
        if of_file.hooks and of_file.state == "undecided":
            decide = partial(HookTrust(settings.home).decide, of_file.file, of_file.fingerprint)
            yield PendingTrust(
                show_hooks(of_file, settings.cwd),
                of_file.fingerprint,
                "newel hooks trust",
                lambda trusted, decide=decide: decide(trusted=trusted),
            )


def show_hooks(of_file: ProjectHooks, project: Path) -> list[str]:
    """Each command of a file with its event, in full, and the files of the project that it names."""
    from newel.hooks.hook_listing import command_of
    from newel.hooks.hook_trust import scripts_of

    lines = [f"{escape_line(str(of_file.file))} runs, as you and outside of the sandbox:"]
    for hook in of_file.hooks:
        matcher = f" of {escape_line(hook.matcher)}" if hook.matcher else ""
        scripts = dict.fromkeys(scripts_of(hook, project))
        lines += [f"  at each {hook.event}{matcher}:", f"    {command_of(hook)}"]
        lines += [f"    with {escape_line(str(script))}" for script in scripts]
    return lines


# -- MCP servers ----------------------------------------------------------------------------------------


def _servers(settings: Settings, servers: Sequence[ServerConfig] | None) -> Iterator[PendingTrust]:
    _own, *of_project = config_files(home=settings.home, cwd=settings.cwd)
    if not any(file.is_file() for file in of_project):
        return
    from newel.mcp.server_config import load_servers
    from newel.mcp.trust import Trust, fingerprint

    trust = Trust(settings.home)
    if servers is None:
        servers, _ = load_servers(home=settings.home, cwd=settings.cwd)
    for server in servers:
        if trust.state(server) == "undecided" and trust.is_enabled(server):
            lines = show_server(server, settings.cwd)
            yield PendingTrust(
                lines, fingerprint(server), "newel mcp trust NAME", partial(trust.decide, server)
            )


def show_server(server: ServerConfig, folder: Path) -> list[str]:
    """What Newel runs or contacts for a server of a project that works in ``folder``."""
    details = [*what_runs(server, folder), *(f"with {escape_line(each)}" for each in server.settings)]
    return [
        f"{escape_line(str(server.origin))} names the MCP server '{escape_line(server.name)}'. To use it, Newel runs or contacts:",
        *(f"  {line}" for line in details),
    ]


def what_runs(server: ServerConfig, folder: Path) -> list[str]:
    """The command line or address of a server, its folder, and the names (never the values) of its settings."""
    lines = [escape_line(server.target)]
    if place := server.folder(folder):
        lines.append(f"in {escape_line(place)}")
    if server.variables:
        lines.append(f"given {escape_line(', '.join(server.variables))}")
    return lines


# -- skills ---------------------------------------------------------------------------------------------


def _skills(settings: Settings) -> Iterator[PendingTrust]:
    if found := undecided_project(settings):
        project, names = found
        decide = partial(ProjectTrust(settings.home).decide, project)
        yield PendingTrust(
            describe_skills(project, names),
            project,
            "newel skills trust",
            lambda trusted: decide(trusted=trusted),
        )
