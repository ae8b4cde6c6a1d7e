"""The hosts that a user has given names to: ``hosts.toml`` in Newel's home, a line for each.

shop = "deploy@shop.example.org:/srv/shop"
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from newel.agent.errors import ConfigError

FILE: Final = "hosts.toml"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def known_hosts(home: Path) -> dict[str, str]:
    """Each name with the place it stands for, in the order of the file. Raises ``ConfigError``."""
    path = home / FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    import msgspec.toml

    try:
        return msgspec.toml.decode(data, type=dict[str, str])
    except (msgspec.DecodeError, ValueError) as error:
        raise ConfigError(f'{path}: {error}. Each line is NAME = "user@host:/path".') from error


def named(home: Path, text: str) -> str:
    """The place that a name stands for; what is no name of a known host stands for itself. Raises ``ConfigError``."""
    return known_hosts(home).get(text, text)


def keep(home: Path, name: str, place: str | None) -> None:
    """Give a place a name, or for None forget the name. Raises ``ConfigError``."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot be a name: take up to 64 letters, digits, - and _, a letter or digit first."
        )
    known = known_hosts(home)
    if place is None:
        if known.pop(name, None) is None:
            raise ConfigError(f"There is no host named {name}. `newel hosts list` shows those there are.")
    else:
        known[name] = place
    path = home / FILE
    beside = path.with_name(f".{FILE}.tmp")
    text = "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in known.items())
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error
