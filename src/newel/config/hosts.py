"""The hosts that a user has given names to: ``hosts.toml`` in Newel's home, a line for each.

shop = "deploy@shop.example.org:/srv/shop"
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from newel.agent.errors import ConfigError, UsageError
from newel.config.jexida import RemoteSettings, Through
from newel.storage.files import read_regular

FILE: Final = "hosts.toml"
REMOTE: Final = "remote"
"""The name of the host of ``[remote.connection]``, unless the file gives it to another one."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def load_hosts(home: Path) -> dict[str, str]:
    """Each name with the place it stands for, in the order of the file. Raises ``ConfigError``."""
    path = home / FILE
    try:
        data = read_regular(path)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    return _decoded(data, path)


def _decoded(data: bytes, path: Path) -> dict[str, str]:
    import msgspec.toml

    try:
        return msgspec.toml.decode(data, type=dict[str, str])
    except (msgspec.DecodeError, ValueError) as error:
        raise ConfigError(f'{path}: {error}. Each line is NAME = "user@host:/path".') from error


class HostModel(msgspec.Struct, frozen=True):
    """A model of the host where agents work; ``name`` is None for its only one. Where nobody asked for one of the host and it
    has none (``is_asked_for``), one that this machine reaches is as good.
    """

    through: Through
    name: str | None
    port: int
    is_asked_for: bool


def host_places(home: Path, remote: RemoteSettings) -> dict[str, str]:
    """Each name with its place. Raises ``ConfigError``."""
    there = remote.connection
    if there.host is None:
        return load_hosts(home)
    from newel.workspace.ssh.target import Target

    return {REMOTE: Target(there.host, there.user, there.port, there.directory).url} | load_hosts(home)


def choose_model(
    typed: tuple[Through | None, str | None, str | None],
    remote: RemoteSettings,
    written: Mapping[str, Any],
    *,
    has_endpoint: bool,
) -> HostModel | None:
    """Which model agents on a host have; None for the one that they have on this machine too.

    ``typed`` is what the command line says: the way, the address of a server, the name of a model. ``written`` is what
    stands under ``[remote]``. Raises ``UsageError``.
    """
    through, base_url, name = typed
    if base_url:
        if through not in {None, "api"}:
            raise UsageError(
                f"--base-url names a server, and --through {through} wants a model of the host. Give one of them."
            )
        through = "api"
    is_written = "model" in written
    if through is None and not is_written and has_endpoint:
        through = "api"
    wanted = through or remote.model.through
    if wanted == "api":
        return None
    named = remote.model.name if "name" in written.get("model", {}) else None
    return HostModel(wanted, name or named, remote.model.port, is_asked_for=bool(through) or is_written)


def save_host(home: Path, name: str, place: str | None) -> None:
    """Give a place a name, or for None forget the name. Raises ``ConfigError``."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot be a name: take up to 64 letters, digits, - and _, a letter or digit first."
        )
    from newel.workspace.disk.state_file import rewrite

    path = home / FILE
    line = f"{name} = {_toml(place)}\n" if place is not None else ""

    def change(data: bytes) -> bytes:
        known = _decoded(data, path)
        if place is None and name not in known:
            raise ConfigError(f"There is no host named {name}. `newel hosts list` shows those there are.")
        return (_without(name, data.decode(), known) + line).encode()

    rewrite(path, change)


def _toml(text: str) -> str:
    """A string of TOML: JSON's, in which a DEL is escaped too. Raises ``ConfigError`` for what UTF-8 cannot hold."""
    if not text.isascii() and text != text.encode(errors="replace").decode():
        raise ConfigError(f"{text!r} is not valid UTF-8, and {FILE} can hold nothing else.")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _without(name: str, text: str, known: Mapping[str, str]) -> str:
    """The text of a file without a name: the other lines as they are, or, where that cannot be, written anew."""
    import tomllib

    if text and not text.endswith("\n"):
        text += "\n"
    if name not in known:
        return text
    others = {key: value for key, value in known.items() if key != name}
    kept = "".join(f"{line}\n" for line in text.split("\n")[:-1] if not _gives(line, name))
    try:
        is_same = tomllib.loads(kept) == others
    except tomllib.TOMLDecodeError:
        is_same = False
    return kept if is_same else "".join(f"{key} = {_toml(value)}\n" for key, value in others.items())


def _gives(line: str, name: str) -> bool:
    """Whether a line alone gives a place this name."""
    import tomllib

    try:
        return name in tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return False
