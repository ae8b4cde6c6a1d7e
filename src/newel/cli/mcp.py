"""``newel mcp``: manage and test MCP servers."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from newel.agent.errors import ConfigError, UsageError
from newel.app.project_trust import show_server, what_runs
from newel.cli.options import Parser, confirm
from newel.config.settings import newel_home
from newel.mcp import FILE
from newel.mcp.manager import McpManager
from newel.mcp.server_config import ServerConfig, load_servers, parse_entry
from newel.mcp.server_connection import ServerContext
from newel.mcp.trust import PinnedTool, Pins, Trust, differences
from newel.mcp.types import ServerStatus
from newel.text.sanitize import escape_invisible, escape_line
from newel.workspace.disk.state_file import rewrite

START_TIMEOUT_S: Final = 60.0
"""Seconds in which a tested server must have started or failed, a second attempt included."""


def command_mcp(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    runs = {"add": _add, "add-json": _add_json, "remove": _remove, "test": _test, "trust": _trust}
    return runs.get(options.action, _list)(options)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="newel mcp", description="Manage MCP servers, whose tools the agent can use.")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("list", help="list the servers, and problems in their files (default)")
    add = actions.add_parser("add", help="add a server: newel mcp add NAME -- COMMAND ARGUMENT …, or a URL")
    add.add_argument("name", metavar="NAME", help="what you call it; its tools are NAME__TOOL")
    add.add_argument(
        "-e",
        "--env",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set an environment variable of the server",
    )
    add.add_argument(
        "--header", action="append", default=[], metavar="'NAME: VALUE'", help="send a header to the URL"
    )
    add.add_argument(
        "-t",
        "--transport",
        choices=["stdio", "http"],
        help="how the server is reached: a command (stdio) or a URL (http); detected if omitted",
    )
    _add_scope(add, "add it to this project's file, for everyone who works on it")
    add.add_argument("target", nargs="+", metavar="COMMAND", help="a command line after --, or a URL")
    add_json = actions.add_parser("add-json", help="add a server by its entry in a file of servers")
    add_json.add_argument("name", metavar="NAME", help="what you call it; its tools are NAME__TOOL")
    add_json.add_argument(
        "json", metavar="JSON", help='for example {"command": "uvx", "args": ["mcp-server-time"]}'
    )
    _add_scope(add_json, "add it to this project's file, for everyone who works on it")
    remove = actions.add_parser("remove", help="remove a server")
    remove.add_argument("name", metavar="NAME", help="the server, as `newel mcp list` names it")
    _add_scope(remove, "remove it from this project's file")
    test = actions.add_parser("test", help="start all servers or one, and list their tools")
    test.add_argument("name", nargs="?", metavar="NAME", help="only this server")
    trust = actions.add_parser("trust", help="trust a project's server, or accept changed tools of a server")
    trust.add_argument("name", metavar="NAME", help="the server, as `newel mcp list` names it")
    trust.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    change = trust.add_mutually_exclusive_group()
    change.add_argument("--decline", action="store_true", help="never use it, and do not mention it again")
    change.add_argument("--revoke", action="store_true", help="withdraw the decision")
    return parser


def _add_scope(parser: argparse.ArgumentParser, help_text: str) -> None:
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--project", action="store_true", help=help_text)
    scope.add_argument(
        "-s", "--scope", choices=["user", "project"], help="your own file, the default, or as --project"
    )


def _is_for_project(options: argparse.Namespace) -> bool:
    return options.project or options.scope == "project"


def _home() -> Path:
    return newel_home(os.environ)


def _servers() -> list[ServerConfig]:
    """All servers; problems in their files go to standard error."""
    servers, problems = load_servers(home=_home(), cwd=Path.cwd())
    for problem in problems:
        print(f"newel: {escape_line(problem)}", file=sys.stderr)
    return servers


def _find(name: str) -> ServerConfig:
    servers = {server.name: server for server in _servers()}
    if name not in servers:
        raise UsageError(
            f"There is no MCP server named '{name}'. The servers are: {', '.join(servers) or 'none'}."
        )
    return servers[name]


# -- looking ------------------------------------------------------------------------------------------


def _list(_: argparse.Namespace) -> int:
    trust = Trust(_home())
    servers = _servers()
    for server in servers:
        state = "on" if trust.is_enabled(server) else "off"
        if (decision := trust.state(server)) != "trusted":
            state = "declined" if decision == "declined" else "untrusted"
        what, *runs = what_runs(server, Path.cwd())
        more = runs if state in {"untrusted", "declined"} else []
        if server.trust_read_only:
            more.append("trusted about which tools only read: these run without asking")
        if changed := trust.pins.withheld(server):
            more.append(
                f"withheld because they changed: {escape_line(', '.join(changed))}. See: newel mcp trust {escape_line(server.name)}"
            )
        print(f"{escape_line(server.name):<20} {state:<10} {what}")
        for line in [escape_line(str(server.origin)), *more]:
            print(f"{'':31} {line}")
    if not servers:
        print("No servers yet. Add one: newel mcp add NAME -- COMMAND ARGUMENT …")
    return 0


def _test(options: argparse.Namespace) -> int:
    servers = [_find(options.name)] if options.name else _servers()
    statuses = anyio.run(_start, servers)
    for server, status in zip(servers, statuses, strict=True):
        print(
            f"{escape_line(status.name)}: {status.state}{f'. {escape_line(status.reason)}' if status.reason else ''}"
        )
        for tool in status.tools:
            off = "" if tool.enabled else " (off)"
            print(f"  {escape_line(tool.name)}{off}  {escape_line(tool.description, 80)}")
        if status.state == "broken" and status.stderr.strip():
            print("  Its last output:")
            for line in escape_invisible(status.stderr).strip().split("\n")[-10:]:
                print(f"    {line}")
        if status.state == "untrusted":
            for line in what_runs(server, Path.cwd()):
                print(f"    {line}")
            print(f"  newel mcp trust {escape_line(status.name)}")
    states = {"active"} if options.name else {"active", "disabled", "untrusted"}
    return 0 if all(status.state in states for status in statuses) else 1


async def _start(servers: list[ServerConfig]) -> list[ServerStatus]:
    context = ServerContext(trust=Trust(_home()), root=Path.cwd(), environ=os.environ)
    async with McpManager(servers, context) as manager:
        await manager.wait_started(START_TIMEOUT_S)
        return manager.statuses()


# -- changing -----------------------------------------------------------------------------------------


def _trust(options: argparse.Namespace) -> int:
    server = _find(options.name)
    trust = Trust(_home())
    changed = trust.pins.withheld(server)
    if changed and not options.revoke and not options.decline and trust.is_trusted(server):
        return _accept(trust.pins, server, changed, yes=options.yes)
    if server.level == "user":
        print(
            f"'{escape_line(server.name)}' is your own ({escape_line(str(server.origin))}): it is always trusted."
        )
        return 0
    if options.revoke or options.decline:
        trust.decide(server, False if options.decline else None)
        said = "is not used, and not mentioned again" if options.decline else "is no longer trusted"
        print(f"'{escape_line(server.name)}' {said} in this folder.")
        return 0
    print("\n".join(show_server(server, Path.cwd())), end="\n\n")
    if not options.yes and not confirm("Trust it?"):
        print("Nothing was changed.")
        return 1
    trust.decide(server, True)
    print("Trusted, until any of this changes.")
    return 0


def _accept(pins: Pins, server: ServerConfig, changed: dict[str, PinnedTool], *, yes: bool) -> int:
    """Show how a server's tools changed, and ask whether to accept that."""
    print(f"These tools of '{escape_line(server.name)}' have changed since you first used them:\n")
    for name, pinned in changed.items():
        print(f"  {escape_line(name)}")
        for line in differences(pinned):
            print(f"    {escape_line(line)}")
        print()
    if not yes and not confirm("Accept this?"):
        print("Nothing was changed. The tools are still withheld.")
        return 1
    pins.accept(server, changed)
    print("Accepted. Running instances offer them when the server restarts.")
    return 0


def _add(options: argparse.Namespace) -> int:
    return _add_entry(options.name, _entry(options), for_project=_is_for_project(options))


def _add_json(options: argparse.Namespace) -> int:
    try:
        entry = msgspec.json.decode(options.json, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise UsageError(f"This is not the JSON of a server: {error}.") from None
    return _add_entry(options.name, entry, for_project=_is_for_project(options))


def _add_entry(name: str, entry: dict[str, Any], *, for_project: bool) -> int:
    path = _file(for_project)
    try:
        written = msgspec.json.encode(entry)
    except UnicodeEncodeError:
        raise UsageError("A word of the server's command is not valid Unicode.") from None
    server = parse_entry(name, written, path, "project" if for_project else "user")

    def add(servers: dict[str, Any]) -> None:
        if name in servers:
            remedy = f"Remove it first: newel mcp remove {name}{' --project' if for_project else ''}"
            raise UsageError(f"{path} already has a server '{name}'. {remedy}")
        servers[name] = entry

    _change(path, add, private=not for_project)
    Trust(_home()).decide(server, True)
    print(f"Added to {escape_line(str(path))}. Try it: newel mcp test {escape_line(name)}")
    return 0


def _entry(options: argparse.Namespace) -> dict[str, Any]:
    command, *args = options.target
    is_url = re.match(r"https?://", command) is not None
    if options.transport is not None and is_url != (options.transport == "http"):
        found, other = ("a URL", "http") if is_url else ("a command", "stdio")
        raise UsageError(f"{escape_line(command, 80)} is {found}: use --transport {other}, or leave it out.")
    if is_url:
        if args or options.env:
            raise UsageError("A URL takes no arguments and no --env.")
        headers = dict(_pair(header, ":") for header in options.header)
        return {"type": "http", "url": command} | ({"headers": headers} if headers else {})
    if options.header:
        raise UsageError("--header is for a URL; a command takes --env.")
    env = dict(_pair(setting, "=") for setting in options.env)
    return {"command": command, "args": args} | ({"env": env} if env else {})


def _pair(text: str, mark: str) -> tuple[str, str]:
    name, separator, value = text.partition(mark)
    if not separator or not name.strip():
        raise UsageError(f"Expected NAME{mark}VALUE, got: {text}")
    return name.strip(), value.strip()


def _remove(options: argparse.Namespace) -> int:
    path = _file(_is_for_project(options))

    def remove(servers: dict[str, Any]) -> None:
        if options.name not in servers:
            raise UsageError(
                f"{path} has no server '{options.name}'. It has: {', '.join(servers) or 'none'}."
            )
        del servers[options.name]

    if not path.exists():
        raise UsageError(f"Nothing to remove: {path} does not exist.")
    _change(path, remove, private=not _is_for_project(options))
    Trust(_home()).pins.forget(path, options.name)
    print(f"Removed from {escape_line(str(path))}.")
    return 0


def _file(project: bool) -> Path:
    return (Path.cwd() if project else _home()) / FILE


def _change(path: Path, change: Callable[[dict[str, Any]], None], *, private: bool) -> None:
    """Change the servers in a file and keep its other content. A new file is readable by the user alone if ``private``."""

    def update(before: bytes) -> bytes:
        try:
            whole = msgspec.json.decode(before or b"{}", type=dict[str, Any])
            servers = msgspec.convert(whole.get("mcpServers", {}), dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{path} is not a valid list of servers, so it was not changed: {error}."
            ) from error
        change(servers)
        return msgspec.json.format(msgspec.json.encode(whole | {"mcpServers": servers})) + b"\n"

    rewrite(path, update, mode=0o600 if private else 0o666)
