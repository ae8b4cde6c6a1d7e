"""``newel keys``: API keys of model servers, stored for the user."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from newel.agent.errors import ConfigError
from newel.cli.options import Parser
from newel.config.keys import KeyStore, key_name, vendors
from newel.config.settings import mask_secret, newel_home
from newel.text.sanitize import escape_line

DESCRIPTION: Final = """\
Store, list and remove API keys of model servers.
NAME is a vendor ({}) or the address of a server. A key is sent to that vendor or server only.
Environment variables take precedence over stored keys."""

EPILOG: Final = """\
Keys are stored in keys.json in Newel's folder, which only you can read; with --keyring, in the keyring of the system. \
`newel keys set NAME < FILE` reads the key from a file."""


def command_keys(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel keys",
        description=DESCRIPTION.format(", ".join(vendors())),
        epilog=EPILOG,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("list", help="list the stored keys (default)")
    add = actions.add_parser("set", help="store a key; it is asked for, or read from standard input")
    of = f"a vendor ({', '.join(vendors())}), or the address of a server"
    add.add_argument("name", metavar="NAME", help=of)
    add.add_argument("--keyring", action="store_true", help="store it in the keyring of the system")
    remove = actions.add_parser("remove", help="remove a stored key")
    remove.add_argument("name", metavar="NAME", help=of)
    options = parser.parse_args(arguments)
    store = KeyStore(newel_home(os.environ))
    match options.action:
        case "set":
            return _set(store, key_name(options.name), in_keyring=options.keyring)
        case "remove":
            return _remove(store, key_name(options.name))
        case _:
            return _list(store)


def _set(store: KeyStore, name: str, *, in_keyring: bool) -> int:
    if sys.stdin.isatty():
        from getpass import getpass

        key = getpass(f"Key for {_describe(name)} (hidden): ")
    else:
        key = sys.stdin.readline()
    store.set(name, key, in_keyring=in_keyring)
    where = "the system's keyring" if in_keyring else "keys.json in Newel's folder"
    print(f"Stored the key for {_describe(name)} in {where}.")
    return 0


def _remove(store: KeyStore, name: str) -> int:
    if not store.remove(name):
        raise ConfigError(f"No key is stored for {name}. `newel keys` lists all.")
    print(f"Removed the key for {_describe(name)}.")
    return 0


def _list(store: KeyStore) -> int:
    stored = store.all()
    if not stored:
        print(f"No keys are stored. To store one: newel keys set {next(iter(vendors()))}")
    width = max((len(escape_line(entry.name)) for entry in stored), default=0)
    for entry in stored:
        shown = "in the system's keyring" if entry.in_keyring else mask_secret(entry.key)
        print(f"{escape_line(entry.name):<{width}}  {shown}  since {escape_line(entry.since[:10])}")
    return 0


def _describe(name: str) -> str:
    family = vendors().get(name)
    return f"{name} ({family.base_url})" if family else name
