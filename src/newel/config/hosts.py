"""Named hosts: ``hosts.toml`` in Newel's home, one line for each.

shop = "deploy@shop.example.org:/srv/shop"
"""

from __future__ import annotations

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
"""The name of the host of ``[remote.connection]``, unless the file defines it."""

_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"


def load_hosts(home: Path) -> dict[str, str]:
    """Load the names and addresses, in the order of the file. Raises ``ConfigError``."""
    path = home / FILE
    try:
        data = read_regular(path)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    return _decode(data, path)


def _decode(data: bytes, path: Path) -> dict[str, str]:
    import msgspec.toml

    try:
        return msgspec.toml.decode(data, type=dict[str, str])
    except (msgspec.DecodeError, ValueError) as error:
        raise ConfigError(f'{path}: {error}. Each line is NAME = "user@host:/path".') from error


class HostModel(msgspec.Struct, frozen=True):
    """A model of the host where agents work; ``name`` is None for its only one. Unless ``is_requested``, a model that this
    machine reaches may replace it.
    """

    through: Through
    name: str | None
    port: int
    is_requested: bool


def host_places(home: Path, remote: RemoteSettings) -> dict[str, str]:
    """The address of each named host. Raises ``ConfigError``."""
    connection = remote.connection
    if connection.host is None:
        return load_hosts(home)
    from newel.workspace.ssh.target import Target

    return {
        REMOTE: Target(connection.host, connection.user, connection.port, connection.directory).url
    } | load_hosts(home)


def choose_model(
    typed: tuple[Through | None, str | None, str | None],
    remote: RemoteSettings,
    written: Mapping[str, Any],
    *,
    has_endpoint: bool,
) -> HostModel | None:
    """Choose the model of agents on a host; None for the configured endpoint.

    ``typed`` comes from the command line: the connection, the base URL, the model's name. ``written`` are the keys set under
    ``[remote]``. Raises ``UsageError``.
    """
    through, base_url, name = typed
    if base_url:
        if through not in {None, "api"}:
            raise UsageError(
                f"--base-url names a server, but --through {through} uses a model of the host. Use only one of them."
            )
        through = "api"
    is_written = "model" in written
    if through is None and not is_written and has_endpoint:
        through = "api"
    connection = through or remote.model.through
    if connection == "api":
        return None
    configured = remote.model.name if "name" in written.get("model", {}) else None
    return HostModel(connection, name or configured, remote.model.port, bool(through) or is_written)


def save_host(home: Path, name: str, place: str | None) -> None:
    """Save the address of a host, or remove the name for None. Raises ``ConfigError``."""
    if not re.fullmatch(_NAME, name):
        raise ConfigError(
            f"{name!r} is not a valid name. Use up to 64 letters, digits, - and _, starting with a letter or digit."
        )
    from newel.workspace.disk.state_file import rewrite

    path = home / FILE
    line = f"{name} = {_quoted(place)}\n" if place is not None else ""

    def change(data: bytes) -> bytes:
        hosts = _decode(data, path)
        if place is None and name not in hosts:
            raise ConfigError(f"There is no host named {name}. `newel hosts list` lists all names.")
        return (_without(name, data.decode(), hosts) + line).encode()

    rewrite(path, change)


def _quoted(text: str) -> str:
    """Raises ``ConfigError`` for lone surrogates."""
    if not text.isascii() and text != text.encode(errors="replace").decode():
        raise ConfigError(f"{text!r} is not valid UTF-8, which {FILE} requires.")
    from newel.text.toml import toml_string

    return toml_string(text)


def _without(name: str, text: str, hosts: Mapping[str, str]) -> str:
    """Remove a name from the text of a file. Other lines stay unchanged if possible, or else all are rewritten."""
    import tomllib

    if text and not text.endswith("\n"):
        text += "\n"
    if name not in hosts:
        return text
    others = {key: value for key, value in hosts.items() if key != name}
    rest = "".join(f"{line}\n" for line in text.split("\n")[:-1] if not _defines(line, name))
    try:
        is_same = tomllib.loads(rest) == others
    except tomllib.TOMLDecodeError:
        is_same = False
    return rest if is_same else "".join(f"{key} = {_quoted(value)}\n" for key, value in others.items())


def _defines(line: str, name: str) -> bool:
    import tomllib

    try:
        return name in tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return False
