"""``newel trust``: which model servers may be used that the user did not configure."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from newel.agent.errors import ConfigError, UsageError
from newel.app.trusting import trust_command
from newel.cli.parser import Parser
from newel.config.settings import dotenv_server, newel_home
from newel.config.trust import IgnoredServer, ServerTrust, TrustDecision, real_folder
from newel.providers.http.urls import address_of, is_loopback
from newel.text.sanitize import escape_line

DESCRIPTION: Final = """\
Without ADDRESS: the servers that you decided on, and what the .env of this folder wants.
With ADDRESS: trust it. If the .env of this folder names that server, it may be used in this folder.
Otherwise it is a server of this machine, http://127.0.0.1:PORT, that Newel finds by its port when nothing is configured."""

EPILOG: Final = """\
A server that you configure yourself (LLM_BASE_URL, toml, --base-url) needs no trust.
The decisions are kept in trust.json in Newel's folder."""


def command_trust(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel trust",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("address", nargs="?", metavar="ADDRESS", help="the server, as Newel names it")
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--decline", action="store_true", help="do not use it, and do not mention it again")
    change.add_argument("--remove", action="store_true", help="forget the decision about ADDRESS")
    parser.add_argument("--cwd", metavar="DIR", default=".", help="decide for this folder")
    given = parser.parse_args(arguments)
    cwd = Path(given.cwd).expanduser()
    trust = ServerTrust(newel_home(os.environ))
    if given.address is None:
        if given.remove or given.decline:
            parser.error("give the ADDRESS")
        return _list(trust, cwd)
    address = address_of(given.address)
    if given.remove:
        return _remove(trust, real_folder(cwd), address)
    return _decide(trust, cwd, address, trusted=not given.decline)


def _list(trust: ServerTrust, cwd: Path) -> int:
    wanted = dotenv_server(cwd)
    here = real_folder(cwd)
    if wanted is not None:
        state = {True: "trusted", False: "declined", None: "not trusted"}[trust.is_trusted(here, wanted)]
        print(f"The .env of this folder names {wanted or 'no valid address'} ({state}).")
        if state != "trusted" and wanted:
            print(f"To use it: {trust_command(IgnoredServer(here, wanted))}")
    else:
        print("The .env of this folder names no model server.")
    for each in trust.all():
        print(_line(each))
    return 0


def _line(decision: TrustDecision) -> str:
    state = "trusted" if decision.trusted else "declined"
    where = f"in {escape_line(decision.folder)}" if decision.folder else "found on this machine"
    return f"{state:<9} {escape_line(decision.address)}  {where}  since {escape_line(decision.since[:10])}"


def _decide(trust: ServerTrust, cwd: Path, address: str, *, trusted: bool) -> int:
    here = real_folder(cwd)
    if address == dotenv_server(cwd):
        trust.decide(here, address, trusted=trusted)
        may = "Trusted: {} may use {}." if trusted else "Declined: {} may not use {}."
        print(may.format(f"the .env of {escape_line(here)}", address))
        return 0
    found = _of_this_machine(address)
    if found is None:
        wanted = dotenv_server(cwd)
        named = f"names {wanted}" if wanted else "names no model server"
        raise UsageError(
            f"The .env of {escape_line(here)} {named}, so there is nothing to trust about {address}. To use that server, "
            "configure it: LLM_BASE_URL in your environment, or base_url in toml."
        )
    trust.decide("", found, trusted=trusted)
    uses = "Newel uses it" if trusted else "Newel does not use it"
    print(f"{'Trusted' if trusted else 'Declined'}: {found}. {uses} where no server is configured.")
    return 0


def _remove(trust: ServerTrust, here: str, address: str) -> int:
    known = {(each.folder, each.address) for each in trust.all()}
    meant = {(here, address), ("", _of_this_machine(address) or address)}
    forgotten = sorted(meant & known)
    if not forgotten:
        raise ConfigError(
            f"No decision about {address} for {escape_line(here)} is known. newel trust lists them all."
        )
    for folder, server in forgotten:
        trust.decide(folder, server, trusted=None)
        print(f"Forgotten: {server} {f'in {escape_line(folder)}' if folder else 'on this machine'}.")
    return 0


def _of_this_machine(address: str) -> str | None:
    """The address as decisions know a server that was found by its port."""
    port = urlsplit(address).port
    return f"http://127.0.0.1:{port}" if port is not None and is_loopback(address) else None
