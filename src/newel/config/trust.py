"""Which model servers the user trusts: ``<home>/trust.json``, readable by its owner only, without secrets.

There are two kinds of decision. One is about a project: whether the ``.env`` of *this folder* may choose the server at *this
address*. The other is about this machine: whether a server that was found by its port may be used. Both are the user's;
no file of a project can make them.

An address is what ``newel.providers.http.urls.server_address`` makes of a base URL; a folder is its real path. If either changes, nothing
has been decided. A trust file that cannot be read trusts no server.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from newel.agent.errors import ConfigError
from newel.providers.http.urls import server_address
from newel.workspace.disk.state_file import load_state, update_state

FILE: Final = "trust.json"

Place = tuple[str, Mapping[str, object]]


class TrustDecision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``folder`` is empty for a server that was found on this machine. ``trusted`` is False if the user declined."""

    folder: str = ""
    address: str
    trusted: bool
    since: str


class IgnoredServer(msgspec.Struct, frozen=True):
    """The server that a ``.env`` names without the user's trust. ``address`` is empty if nothing can be reached there;
    ``declined`` is whether the user was asked and said no.
    """

    folder: str
    address: str
    declined: bool = False


class _TrustFile(msgspec.Struct):
    version: int = 1
    servers: list[TrustDecision] = []


class ServerTrust:
    """The decisions, read from the file each time, so that all of a user's processes know the same."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE

    def all(self) -> list[TrustDecision]:
        return load_state(self._path, _TrustFile).servers

    def is_trusted(self, folder: str, address: str) -> bool | None:
        """None if the user has not decided. ``folder`` is empty for a server found on this machine."""
        for each in self.all():
            if (each.folder, each.address) == (folder, address):
                return each.trusted
        return None

    def decide(self, folder: str, address: str, *, trusted: bool | None) -> None:
        """Remember a decision; None forgets it. Raises ``ConfigError``."""
        from newel.agent.messages import now

        def change(file: _TrustFile) -> None:
            file.servers = [each for each in file.servers if (each.folder, each.address) != (folder, address)]
            if trusted is not None:
                file.servers.append(
                    TrustDecision(folder=folder, address=address, trusted=trusted, since=now())
                )

        if not _is_utf8(folder):
            raise ConfigError(f"{folder!a} cannot be trusted: its name is not UTF-8 text. Rename the folder.")
        update_state(self._path, _TrustFile, change)


def real_folder(cwd: Path) -> str:
    """The folder as decisions know it, whatever link leads there."""
    return os.path.realpath(cwd)


def trusted_places(
    home: Path, cwd: Path, of_project: Sequence[Place], stronger: Sequence[Place]
) -> tuple[Sequence[Place], IgnoredServer | None]:
    """What of a project's ``.env`` may choose the model: all of it, or nothing if the server is one that the user does not
    trust there. The server of a ``stronger`` place is used in any case, so that it needs no trust in another one.
    """
    address = named_server(of_project)
    if address is None or any(values.get("base_url") for _, values in stronger):
        return of_project, None
    folder = real_folder(cwd)
    trusted = ServerTrust(home).is_trusted(folder, address) if address else None
    if trusted:
        return of_project, None
    return [], IgnoredServer(folder, address, declined=trusted is False)


def named_server(places: Sequence[Place]) -> str | None:
    """The address that the first of some places names; empty if nothing can be reached there, None if none names one."""
    for _, values in places:
        if base_url := values.get("base_url"):
            try:
                return server_address(str(base_url))
            except ConfigError:
                return ""
    return None


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
