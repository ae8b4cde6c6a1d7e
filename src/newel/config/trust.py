"""What the user trusts: ``<home>/trust.json``, readable by its owner only, without secrets.

There are three kinds of decision: whether the ``.env`` of *this folder* may choose the server at *this address*, whether a
server that was found on a port of this machine may be used, and whether the model may use the skills of *this project*. All are the user's;
no file of a project can make them.

An address is what ``newel.providers.http.urls.server_address`` makes of a base URL; a folder is its real path. If either changes, nothing
has been decided. A trust file that cannot be read trusts no server.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from newel.agent.errors import ConfigError
from newel.config.endpoint import Place
from newel.providers.http.urls import server_address
from newel.workspace.disk.state_file import load_state, update_state

FILE: Final = "trust.json"


class TrustDecision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``folder`` is empty for a server of this machine. ``trusted`` is False if the user declined."""

    folder: str = ""
    address: str
    trusted: bool
    since: str


class IgnoredServer(msgspec.Struct, frozen=True):
    """The server of an untrusted ``.env``. ``address`` is empty if it is invalid; ``declined`` is true if the user declined."""

    folder: str
    address: str
    declined: bool = False


class ProjectDecision(msgspec.Struct, frozen=True, kw_only=True):
    """``project`` is the real path of a project's root, with ``ssh://…`` before it on a host. ``trusted`` is False if the user declined."""

    project: str
    trusted: bool
    since: str


class _TrustedFile(msgspec.Struct):
    version: int = 1
    servers: list[TrustDecision] = []
    projects: list[ProjectDecision] = []


class ServerTrust:
    """The decisions, read from the file each time, because other processes may change it."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE

    def all(self) -> list[TrustDecision]:
        return load_state(self._path, _TrustedFile).servers

    def is_trusted(self, folder: str, address: str) -> bool | None:
        """None if the user has not decided. ``folder`` is empty for a server of this machine."""
        for server in self.all():
            if (server.folder, server.address) == (folder, address):
                return server.trusted
        return None

    def decide(self, folder: str, address: str, *, trusted: bool | None) -> None:
        """Save a decision; None removes it. Raises ``ConfigError``."""
        from newel.agent.messages import now

        def change(file: _TrustedFile) -> None:
            file.servers = [
                server for server in file.servers if (server.folder, server.address) != (folder, address)
            ]
            if trusted is not None:
                file.servers.append(
                    TrustDecision(folder=folder, address=address, trusted=trusted, since=now())
                )

        if not _is_utf8(folder):
            raise ConfigError(f"{folder!a} cannot be trusted: its name is not UTF-8 text. Rename the folder.")
        update_state(self._path, _TrustedFile, change)


class ProjectTrust:
    """The decisions about projects whose skills the model may use, read from the file each time."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE

    def is_trusted(self, project: str) -> bool | None:
        """None if the user has not decided."""
        decisions = load_state(self._path, _TrustedFile).projects
        return next((each.trusted for each in decisions if each.project == project), None)

    def decide(self, project: str, *, trusted: bool | None) -> None:
        """Save a decision; None removes it. Raises ``ConfigError``."""
        from newel.agent.messages import now

        def change(file: _TrustedFile) -> None:
            file.projects = [each for each in file.projects if each.project != project]
            if trusted is not None:
                file.projects.append(ProjectDecision(project=project, trusted=trusted, since=now()))

        if not _is_utf8(project):
            raise ConfigError(
                f"{project!a} cannot be trusted: its name is not UTF-8 text. Rename the folder."
            )
        update_state(self._path, _TrustedFile, change)


def real_folder(cwd: Path) -> str:
    """The folder of a decision, with links resolved."""
    return os.path.realpath(cwd)


def trusted_places(
    home: Path, cwd: Path, of_project: Sequence[Place], stronger: Sequence[Place]
) -> tuple[Sequence[Place], IgnoredServer | None]:
    """The places of a project's ``.env`` that may choose the model: all, or none if the user does not trust its server. If a
    ``stronger`` place names a server, the project's is not used and needs no trust.
    """
    address = named_server(of_project)
    if address is None or any(place.values.get("base_url") for place in stronger):
        return of_project, None
    folder = real_folder(cwd)
    trusted = ServerTrust(home).is_trusted(folder, address) if address else None
    if trusted:
        return of_project, None
    return [], IgnoredServer(folder, address, declined=trusted is False)


def named_server(places: Sequence[Place]) -> str | None:
    """The first address that some places name: empty if it is invalid, None if there is none."""
    for place in places:
        if base_url := place.values.get("base_url"):
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
