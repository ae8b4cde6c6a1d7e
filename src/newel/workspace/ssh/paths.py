"""Resolves paths on a host. One request checks many parts of a path for links."""

from __future__ import annotations

import os
import posixpath
import re
from itertools import accumulate
from typing import Final

from newel.workspace.port import cannot
from newel.workspace.ssh import port
from newel.workspace.ssh.port import RemoteHostPort, quote

MOST_LINKS: Final = 40
"""Links to follow in one path, as on Linux."""

LONGEST: Final = 16_384
"""Characters of a path, including the targets of its links: more than any system accepts."""

AT_ONCE: Final = 32
"""Parts of a path to check in one request."""

_OF_A_USER: Final = re.compile(r"~([A-Za-z_][A-Za-z0-9_.-]*)?")


async def resolved(host: RemoteHostPort, path: str) -> str:
    """The absolute path with all links followed. The file need not exist.

    A circular link is returned unresolved, so that the system reports it. Raises ``WorkspaceError``.
    """
    found, sought = "", parts(path)
    for _ in range(MOST_LINKS):
        if sum(map(len, sought)) > LONGEST:
            raise cannot("look at", path, "File name too long")
        found, sought = await _followed(host, found, sought)
        if not sought:
            return found or "/"
    return posixpath.normpath(posixpath.join("/", found, *sought))


async def expanded(host: RemoteHostPort, path: str, home: str) -> str:
    """Expand a leading ``~`` or ``~user``; ``~name`` of no user is a file's name."""
    first, slash, rest = path.partition("/")
    if not _OF_A_USER.fullmatch(first):
        return path
    there = home if first == "~" else os.fsdecode((await host.ask(f"printf %s {first}")).data)
    return f"{there}{slash}{rest}" if there.startswith("/") else path


def parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]


async def _followed(host: RemoteHostPort, found: str, sought: list[str]) -> tuple[str, list[str]]:
    """Continue from a path without links to the target of the next link, or to the end."""
    while sought:
        if sought[0] == "..":  # the part before it is not a link, so that `..` is its parent
            found, sought = found.rpartition("/")[0], sought[1:]
            continue
        plain = sought[: sought.index("..")] if ".." in sought else sought
        paths = [found + below for below in accumulate(f"/{part}" for part in plain[:AT_ONCE])]
        words = " ".join(map(quote, paths))
        if link := port.link((await host.ask(f"newel_link {words}")).data, paths):
            number, leads_to = link
            before = "" if leads_to.startswith("/") else paths[number].rpartition("/")[0]
            return before, parts(leads_to) + sought[number + 1 :]
        found, sought = paths[-1], sought[len(paths) :]
    return found, []
