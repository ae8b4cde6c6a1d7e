"""The workbench of a folder in a window of its own: ``newel desktop``.

The process serves the workbench and has the window as its child; each ends with the other. A folder that is served already, by
another ``newel desktop`` or by ``newel web``, gets a window on that server.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from newel.app.desktop_window import DesktopWindow, WindowKind
from newel.app.running_server import find_running
from newel.app.web_server import WebOptions, project_key, serve_workbench
from newel.config.settings import Settings, load_settings
from newel.storage.files import make_private, read_regular, replace_file

if TYPE_CHECKING:
    from newel.web.security import ServerAccess

_LOOPBACK: Final = "127.0.0.1"


def run_desktop(options: WebOptions, kind: WindowKind) -> int:
    """Show the workbench until its window is closed; returns the exit code. Port 0 takes the last one of this folder, whose
    drafts the browser keeps, or else a free one. Raises ``ConfigError``, ``EngineError`` and ``WindowError``.
    """
    import anyio

    settings = load_settings(options.flags, cwd=options.cwd, environ=os.environ)
    folder = settings.home / "desktop" / project_key(settings)
    make_private(folder)
    anyio.run(_show, settings, options, folder, kind)
    return 0


async def _show(settings: Settings, options: WebOptions, folder: Path, kind: WindowKind) -> None:
    window = DesktopWindow(folder / "profile", kind=kind, title=settings.cwd.name or "newel")
    if not options.ephemeral and (address := await find_running(settings, options)):
        _say(f"This folder is served already; this window is on the same server: {address.partition('#')[0]}")
        await window.show(address)
        return
    ports = _LastPort(folder / "port")

    async def show(access: ServerAccess) -> None:
        ports.write(access.port)
        await window.show(access.url)

    port = options.port or ports.read_free()
    await serve_workbench(settings, msgspec.structs.replace(options, port=port), show)


class _LastPort:
    """The port of the last window of a folder: browsers keep drafts and settings by address."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read_free(self) -> int:
        """The last port if it is free now, else 0."""
        try:
            port = int(read_regular(self._path, 16))
        except (OSError, ValueError):
            return 0
        if not 1024 <= port <= 65535:
            return 0
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_LOOPBACK, port))
            except OSError:
                return 0
        return port

    def write(self, port: int) -> None:
        with contextlib.suppress(OSError):  # the next start takes another port
            replace_file(self._path, f"{port}\n".encode())


def _say(words: str) -> None:
    from newel.text.sanitize import sanitize

    print(f"newel: {sanitize(words)}", file=sys.stderr)  # noqa: T201 — for the user
