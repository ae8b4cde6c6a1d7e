"""The files and repositories of a host, for commands that only read."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from newel.agent.errors import WorkspaceError
from newel.workspace.snapshots.ignore_rules import BUILD_DIRS
from newel.workspace.ssh import port
from newel.workspace.ssh.port import quote
from newel.workspace.ssh.snapshots.rooted_shell import RootedShell
from newel.workspace.ssh.thread_bridge import ThreadBridge

if TYPE_CHECKING:
    from newel.workspace.git import RunGit
    from newel.workspace.ssh.connection import SshConnection

T = TypeVar("T")

MAX_NAMES: Final = 8 << 20
"""Bytes of the names below folders; where there are more, not all are listed."""

_BUILD: Final = " -o ".join(f"-name {quote(name)}" for name in sorted(BUILD_DIRS))

BELOW: Final = (
    f"{{{{ find {{folders}} -mindepth 1 -type d \\( {_BUILD} \\) -prune -print0 -o ! -type l -print0 && "
    f"find {{folders}} -mindepth 1 -type d \\( {_BUILD} \\) -prune -o -type l -exec "
    'sh -c \'for f do r=$(readlink -f -- "$f" && echo .) || exit; printf "%s\\0" "${{r%??}}"; done\' sh {{}} +; printf \'%s\' "$?"; }} '
    f"2>/dev/null | head -c {MAX_NAMES}"
)
"""Prints what is below folders, each with a NUL after it, then what links lead to, and at last the status: what is cut off has none."""


LED_TO: Final = (
    '{{ real() {{ for f do r=$(readlink -f -- "$f" && echo .) || return; printf \'%s\\0\' "${{r%??}}"; done; }}; '
    "cd -P -- {folder} && real . && find . {skipped} -type l -exec "
    'sh -c \'for f do r=$(readlink -f -- "$f" && echo .) || exit; printf "%s\\0" "${{r%??}}"; done\' sh {{}} +; printf \'%s\' "$?"; }} '
    f"2>/dev/null | head -c {MAX_NAMES}"
)
"""Prints the real path of a folder, then what the links below it lead to, as ``BELOW`` does."""


class HostViewedFiles:
    """Implements ``newel.permissions.commands.project_view.ViewedFiles``."""

    def __init__(self, connection: SshConnection) -> None:
        self._connection = connection
        self._bridge = ThreadBridge(connection)
        self._shell = RootedShell(self._bridge, "/")

    @property
    def home(self) -> str:
        return self._connection.info.home

    @property
    def run_git(self) -> RunGit:
        return self._shell.run_git

    @property
    def names_repository(self) -> bool:
        return False  # the environment of a login names none, unless its user wants that

    async def in_thread(self, work: Callable[[], T], /) -> T:
        return await self._bridge.run_in_thread(work)

    def is_own_program(self, name: str, folder: str, /) -> bool:
        del name, folder  # the PATH of a login leads into no project, unless its user wants that
        return True

    def below(self, folders: Sequence[str], /) -> Iterator[str]:
        if not folders:
            return
        yield from self._listed(BELOW.format(folders=" ".join(map(quote, folders))))

    def led_to(self, folder: str, skipped: Collection[str], /) -> Iterator[str]:
        tests = " -o ".join(f"-path ./{quote(name)}" for name in skipped)
        yield from self._listed(
            LED_TO.format(folder=quote(folder), skipped=f"\\( {tests} \\) -prune -o" if tests else "")
        )

    def _listed(self, text: str) -> Iterator[str]:
        *paths, status = self._shell.ask(text).data.split(b"\0")
        if status != b"0":
            raise WorkspaceError("Not all files could be listed on the host.")
        return map(os.fsdecode, paths)

    def stamps(self, paths: Sequence[str], /) -> list[tuple[int, ...] | None]:
        answer = self._shell.ask(f"newel_stats {' '.join(map(quote, paths))}")
        infos = port.infos(answer.data, len(paths))
        if infos is None:
            raise WorkspaceError("A file was deleted on the host while it was looked at.")
        return [None if info is None else (info.size, info.mode, info.modified_ns) for info in infos]
