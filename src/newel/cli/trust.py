"""``newel trust``: trust in model servers that the user did not configure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from newel.agent.errors import ConfigError, UsageError
from newel.app.trusting import trust_command
from newel.cli.options import Parser
from newel.config.settings import dotenv_server, newel_home
from newel.config.trust import IgnoredServer, ServerTrust, TrustDecision, real_folder
from newel.providers.http.urls import is_loopback, server_address
from newel.text.sanitize import escape_line

DESCRIPTION: Final = """\
Without ADDRESS, list your decisions and the server that the .env of this folder names.
With ADDRESS, trust that server: in this folder if its .env names it. Otherwise it must be a server on \
this machine, http://127.0.0.1:PORT, that Newel detects by its port when nothing is configured."""

EPILOG: Final = """\
A server that you configure yourself (LLM_BASE_URL, config.toml, --base-url) needs no trust.
Decisions are stored in trust.json in Newel's folder."""


def command_trust(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel trust",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("address", nargs="?", metavar="ADDRESS", help="the server, as Newel prints it")
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--decline", action="store_true", help="never use it, and do not mention it again")
    change.add_argument("--remove", action="store_true", help="remove the decision about ADDRESS")
    parser.add_argument("--cwd", metavar="DIR", default=".", help="decide for this folder")
    options = parser.parse_args(arguments)
    cwd = Path(options.cwd).expanduser()
    trust = ServerTrust(newel_home(os.environ))
    if options.address is None:
        if options.remove or options.decline:
            parser.error("ADDRESS is missing")
        return _list(trust, cwd)
    address = server_address(options.address)
    if options.remove:
        return _remove(trust, real_folder(cwd), address)
    return _decide(trust, cwd, address, trusted=not options.decline)


def _list(trust: ServerTrust, cwd: Path) -> int:
    project_server = dotenv_server(cwd)
    folder = real_folder(cwd)
    if project_server is not None:
        state = {True: "trusted", False: "declined", None: "not trusted"}[
            trust.is_trusted(folder, project_server)
        ]
        print(f"The .env of this folder names {project_server or 'no valid address'} ({state}).")
        if state != "trusted" and project_server:
            print(f"To use it: {trust_command(IgnoredServer(folder, project_server))}")
    else:
        print("The .env of this folder names no model server.")
    for server in trust.all():
        print(_line(server))
    return 0


def _line(decision: TrustDecision) -> str:
    state = "trusted" if decision.trusted else "declined"
    where = f"in {escape_line(decision.folder)}" if decision.folder else "found on this machine"
    return f"{state:<9} {escape_line(decision.address)}  {where}  since {escape_line(decision.since[:10])}"


def _decide(trust: ServerTrust, cwd: Path, address: str, *, trusted: bool) -> int:
    folder = real_folder(cwd)
    if address == dotenv_server(cwd):
        trust.decide(folder, address, trusted=trusted)
        may = "Trusted: {} may use {}." if trusted else "Declined: {} may not use {}."
        print(may.format(f"the .env of {escape_line(folder)}", address))
        return 0
    detected = _detected_address(address)
    if detected is None:
        project_server = dotenv_server(cwd)
        named = f"names {project_server}" if project_server else "names no model server"
        raise UsageError(
            f"The .env of {escape_line(folder)} {named}, so there is nothing to trust about {address}. To use that server, "
            "configure it: LLM_BASE_URL in your environment, or base_url in config.toml."
        )
    trust.decide("", detected, trusted=trusted)
    uses = "Newel uses it" if trusted else "Newel does not use it"
    print(f"{'Trusted' if trusted else 'Declined'}: {detected}. {uses} where no server is configured.")
    return 0


def _remove(trust: ServerTrust, project: str, address: str) -> int:
    existing = {(entry.folder, entry.address) for entry in trust.all()}
    requested = {(project, address), ("", _detected_address(address) or address)}
    removed = sorted(requested & existing)
    if not removed:
        raise ConfigError(
            f"There is no decision about {address} for {escape_line(project)}. `newel trust` lists them all."
        )
    for folder, server in removed:
        trust.decide(folder, server, trusted=None)
        print(f"Removed: {server} {f'in {escape_line(folder)}' if folder else 'on this machine'}.")
    return 0


def _detected_address(address: str) -> str | None:
    """The address under which a decision about a detected server is stored; None for others."""
    port = urlsplit(address).port
    return f"http://127.0.0.1:{port}" if port is not None and is_loopback(address) else None
