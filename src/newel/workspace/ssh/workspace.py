"""The workspace on a host, over one connection (``host.sh`` is the host's side), and the host as a place where agents work."""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import stat
from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import partial
from itertools import accumulate, islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

import msgspec

from newel.agent.errors import ConnectionLost, StaleFile, WorkspaceError
from newel.workspace.disk.dir_fd import temporary_name
from newel.workspace.port import (
    ABSENT,
    CommandResult,
    CommandTerminal,
    DirectoryEntry,
    Doing,
    FileInfo,
    FileNode,
    RunOptions,
    WriteResult,
    cannot,
    check_path,
    leads_elsewhere,
    not_regular,
    stale,
)
from newel.workspace.process.output import ON_HOST, OutputLimits, save_spill_on_host
from newel.workspace.ssh import port
from newel.workspace.ssh.connection import SshConnection
from newel.workspace.ssh.host_monitor import HostMonitor
from newel.workspace.ssh.in_terminal import run_in_terminal_on_host
from newel.workspace.ssh.port import AskHost, HostAnswer, quote
from newel.workspace.ssh.process import HostSandboxEnded, run_on_host
from newel.workspace.ssh.target import Target

if TYPE_CHECKING:
    from newel.workspace.mirror.mirror import Mirror, MirrorLimits
    from newel.workspace.sandbox.policy import SandboxPolicy
    from newel.workspace.snapshots.ignore_rules import GitView
    from newel.workspace.snapshots.port import BlobStore, SnapshotSource
    from newel.workspace.ssh.sandbox.host_sandbox import HostSandboxes
    from newel.workspace.ssh.thread_bridge import ThreadBridge

ANY: Final = "any"
"""Tells ``host.sh`` to expect any content."""

PATHS_PER_REQUEST: Final = 256
"""Paths to stat in one request."""

MOST_LINKS: Final = 40
"""Links to follow in one path, as on Linux."""

LONGEST_PATH: Final = 16_384
"""Characters of a path, including the targets of its links: more than any system accepts."""

PARTS_AT_ONCE: Final = 32
"""Parts of a path to check in one request."""

_OF_A_USER: Final = re.compile(r"~([A-Za-z_][A-Za-z0-9_.-]*)?")

_NO_FILE: Final = "No such file or directory"
_NOT_THERE: Final = frozenset({_NO_FILE, "Not a directory"})


class RefusalStatus(IntEnum):
    """Exit statuses of the functions of ``host.sh`` for a refused request."""

    DIRECTORY = 10
    NOT_REGULAR = 11
    LEADS_ELSEWHERE = 12
    NOT_EXPECTED = 13
    NOT_PERMITTED = 14


class SshWorkspace:
    """Files and processes of a host, relative to the target's directory, or to ``root``: one connection can serve several
    workspaces. ``limits`` bound the output of commands; long outputs are stored on this machine. Commands run in ``sandboxes``, if given.
    """

    def __init__(
        self,
        connection: SshConnection,
        *,
        root: str | None = None,
        limits: OutputLimits | None = None,
        sandboxes: HostSandboxes | None = None,
    ) -> None:
        self.connection = connection
        self._sandboxes = sandboxes
        self._limits = limits or OutputLimits()
        self._root = root or connection.info.root
        self._name = msgspec.structs.replace(connection.target, path=self._root).url

    @property
    def root(self) -> str:
        return self._root

    @property
    def name(self) -> str:
        return self._name

    async def resolve(self, path: str, /) -> str:
        check_path(path)
        ask = self.connection.ask_quick
        whole = await _expand(ask, path, self.connection.info.home)
        return await _resolve(ask, posixpath.join(self._root, whole))

    async def stat(self, path: str, /) -> FileInfo | None:
        answer = await self._ask("newel_stat", path)
        if answer.status == 0:
            return port.info(answer.data)
        if port.reason(answer) in _NOT_THERE:
            return None
        raise cannot("look at", path, port.reason(answer))

    async def stats(self, sought: Sequence[str], /) -> list[FileInfo | None]:
        results: list[FileInfo | None] = []
        for start in range(0, len(sought), PATHS_PER_REQUEST):
            some = sought[start : start + PATHS_PER_REQUEST]
            together = port.infos((await self._ask("newel_stats", *some)).data, len(some))
            results += together or [await self._stat_or_none(path) for path in some]
        return results

    async def list(
        self, path: str, /, *, limit: int = 10_000, nofollow: bool = False
    ) -> list[DirectoryEntry]:
        answer = await self._ask("newel_list", path, str(limit), "nofollow" if nofollow else "")
        self._check("list", path, answer)
        return sorted(port.entries(answer.data)[:limit], key=lambda entry: entry.name)

    async def read_bytes(
        self, path: str, /, *, start: int = 0, size: int | None = None, nofollow: bool = False
    ) -> bytes:
        # Not every `head` accepts a count of 0.
        most = "-" if size is None else str(max(1, size))
        args = ["newel_read", path, str(start + 1), most]
        if nofollow:
            folder, name = posixpath.split(path)
            args = ["newel_read_there", name or ".", *args[2:], folder, *_parts(folder)]
        answer = await self._ask(*args)
        self._check("read", path, answer)
        return answer.data[:size]

    async def write_bytes(
        self, path: str, data: bytes, /, *, expect: str | None = None, mode: int | None = None
    ) -> WriteResult:
        sha256, beside = hashlib.sha256(data).hexdigest(), temporary_name()
        folder, name = posixpath.split(path)
        args = (
            *("newel_write", name or ".", beside, str(len(data)), sha256, expect or ANY),
            *("-" if mode is None else f"{mode & 0o777:04o}", folder, *_parts(folder)),
        )
        # Once its temporary file is removed, a lost write can no longer take effect: the current content is final.
        cancel = _script(("rm", "-f", "--", posixpath.join(folder, beside)))
        check = f"{cancel}; {_script(('newel_is', sha256, path))}"
        answer = await self._change(args, check, "written", path, stdin=data)
        self._check("write", path, answer, expect)
        return WriteResult(sha256)

    async def remove(self, path: str, /, *, expect: str | None = None) -> None:
        folder, name = posixpath.split(path)
        args = ("newel_remove", name or ".", expect or ANY, folder, *_parts(folder))
        answer = await self._change(args, _script(("newel_is", ABSENT, path)), "removed", path)
        self._check("remove", path, answer, expect)

    async def remove_folder(self, path: str, /) -> None:
        folder, name = posixpath.split(path)
        await self._ask("newel_remove_folder", f"./{name}", folder)

    async def lstat(self, path: str, /) -> FileNode | None:
        folder, name = posixpath.split(path)
        answer = await self._ask("newel_thing", name, folder, *_parts(folder))
        if answer.status == 1 and port.reason(answer) in _NOT_THERE:
            return None
        self._check("look at", path, answer)
        return port.node(answer.data)

    async def become(self, path: str, node: FileNode | None, /, *, expect: FileNode | None) -> None:
        folder, name = posixpath.split(path)
        bits = f"{stat.S_IMODE(node.mode if node else 0):05o}"  # five digits: with fewer, GNU chmod keeps a folder's set-group-ID bit
        args = (
            "newel_become",
            name,
            *_node_args(expect),
            *_node_args(node),
            bits,
            folder,
            *_parts(folder),
        )
        try:
            answer = await self.connection.change(_script(args))
        except ConnectionLost as lost:
            if await self.lstat(path) == node:
                return
            raise self._undone("changed", path) from lost
        if answer.status == RefusalStatus.NOT_EXPECTED:
            raise StaleFile(f"{path} was replaced by something else in the meantime.")
        self._check("remove" if node is None else "write", path, answer)

    async def run(self, command: str, /, **options: Unpack[RunOptions]) -> CommandResult:
        if terminal := options.pop("terminal", None):
            return await self._run_in_terminal(command, terminal)
        run = partial(run_on_host, root=self._root, limits=self._limits, **options)
        if self._sandboxes is None or options.get("unsandboxed"):
            done = await run(await self.connection.client(), command)
        else:
            sandbox = self._sandboxes.of(self._root)
            inside = await sandbox.ready()
            try:
                done = await run(await self.connection.client(), command, inside=inside)
            except HostSandboxEnded:
                await sandbox.end()
                raise
        # The stored output is on this machine, where a reader on the host would not find it.
        return msgspec.structs.replace(done, whole="")

    async def _run_in_terminal(self, command: str, terminal: CommandTerminal) -> CommandResult:
        if self._sandboxes is not None:
            raise WorkspaceError("Commands in a sandbox on a host have no terminal.")
        client = await self.connection.client()
        done = await run_in_terminal_on_host(
            client, command, root=self._root, limits=self._limits, terminal=terminal
        )
        return msgspec.structs.replace(done, whole="")  # see ``run``

    async def background(self) -> None:
        """The host's processes are unknown here."""

    async def ignored(self, folder: str, names: Sequence[str], /) -> set[str]:
        bridge, git = self._git()
        return await bridge.run_in_thread(partial(git.ignored, folder, names))

    async def files_by_git(self) -> list[str] | None:
        bridge, git = self._git()
        return await bridge.run_in_thread(git.files)

    def snapshot_source(self, blobs: BlobStore, /, *, left_out: Iterable[str] = ()) -> SnapshotSource:
        from newel.workspace.ssh.snapshots.source import SshSnapshotSource

        newel_folder = f"{self.connection.info.home}/.newel"  # contains copies of projects
        return SshSnapshotSource(self.connection, self._root, blobs, excluded=[newel_folder, *left_out])

    def at(self, folder: str, /) -> SshWorkspace:
        return SshWorkspace(self.connection, root=folder, limits=self._limits, sandboxes=self._sandboxes)

    async def mirror(
        self, folder: Path, /, *, limits: MirrorLimits | None = None, left_out: Iterable[str] = ()
    ) -> Mirror:
        from newel.workspace.mirror.mirror import Mirror, MirrorLimits
        from newel.workspace.ssh.mirror.disk import SshMirrorBackend

        connection, home = self.connection, self.connection.info.home
        disk = await SshMirrorBackend.open(connection, self._root, home, connection.attach)
        connection.attach(partial(disk.keep, lambda: connection.state.is_connected))
        # The host may be this machine, so exclude local paths, too.
        away = (f"{home}/.newel", f"{home}/.newel/copies", str(folder), *left_out)
        relative = [posixpath.relpath(path, self._root) for path in away]
        return Mirror(disk, limits or MirrorLimits(), relative)

    def _git(self) -> tuple[ThreadBridge, GitView]:
        from newel.workspace.snapshots.ignore_rules import GitView
        from newel.workspace.ssh.snapshots.rooted_shell import RootedShell
        from newel.workspace.ssh.thread_bridge import ThreadBridge

        bridge = ThreadBridge(self.connection)
        shell = RootedShell(bridge, self._root)
        return bridge, GitView(self._root, shell.run_git, shell.find_repository)

    async def _ask(self, *args: str) -> HostAnswer:
        return await self.connection.ask_quick(_script(args))

    async def _change(
        self, args: Iterable[str], check: str, done: str, path: str, stdin: bytes = b""
    ) -> HostAnswer:
        """Make a change. If the connection is lost over it, ``check`` tells whether it was made, once the host is back; raises if
        the host does not come back.
        """
        try:
            return await self.connection.change(_script(args), stdin=stdin)
        except ConnectionLost as lost:
            answer = await self.connection.ask(check)
            if answer.status != 0:
                raise self._undone(done, path) from lost
            return answer

    def _undone(self, done: str, path: str) -> WorkspaceError:
        return WorkspaceError(
            f"The connection to {self.connection.host} was lost: {path} was not {done}. Try again."
        )

    async def _stat_or_none(self, path: str) -> FileInfo | None:
        try:
            return await self.stat(path)
        except WorkspaceError:
            return None

    def _check(self, doing: Doing, path: str, answer: HostAnswer, expect: str | None = None) -> None:
        """Raise the port's error for a status of ``host.sh``."""
        match answer.status:
            case 0:
                return
            case RefusalStatus.DIRECTORY:
                raise not_regular(doing, path, "directory")
            case RefusalStatus.NOT_REGULAR:
                raise not_regular(doing, path, "other")
            case RefusalStatus.LEADS_ELSEWHERE:
                raise leads_elsewhere(path)
            case RefusalStatus.NOT_EXPECTED:
                raise stale(path, answer.data.decode(errors="replace"), expect or ANY)
            case RefusalStatus.NOT_PERMITTED:
                raise cannot(doing, path, "Permission denied")
            case _:
                reason = port.reason(answer)
                if expect not in {None, ABSENT} and reason == _NO_FILE:  # its folder was deleted
                    raise stale(path, ABSENT, expect or ANY)
                raise cannot(doing, path, reason)


def _node_args(node: FileNode | None) -> tuple[str, str]:
    """Arguments for ``newel_become``."""
    return (f"{node.mode:x}", os.fsdecode(node.target)) if node else ("-", "")


def _script(args: Iterable[str]) -> str:
    return " ".join(map(quote, args))


# -- paths ------------------------------------------------------------------------------------------------


async def _resolve(ask: AskHost, path: str) -> str:
    """The absolute path with all links followed, as ``os.path.realpath`` has it. The file need not exist.

    A circular link is returned unresolved, so that the system reports it. Raises ``WorkspaceError``.
    """
    path_so_far, sought = "", _parts(path)
    following: set[str] = set()
    for _ in range(MOST_LINKS):
        if sum(map(len, sought)) > LONGEST_PATH:
            raise cannot("look at", path, "File name too long")
        path_so_far, sought, leads_to = await _follow(ask, path_so_far, sought, following)
        if leads_to is None:
            return path_so_far or "/"
        if path_so_far in following:
            break
        following.add(path_so_far)
        sought = [*_parts(leads_to), path_so_far, *sought]
        path_so_far = "" if leads_to.startswith("/") else path_so_far.rpartition("/")[0]
    return posixpath.normpath(posixpath.join("/", path_so_far, *(part for part in sought if "/" not in part)))


async def _expand(ask: AskHost, path: str, home: str) -> str:
    """Expand a leading ``~`` or ``~user``; ``~name`` of no user is a file's name."""
    first, slash, rest = path.partition("/")
    if not _OF_A_USER.fullmatch(first):
        return path
    folder = home if first == "~" else os.fsdecode((await ask(f"printf %s {first}")).data)
    return f"{folder}{slash}{rest}" if folder.startswith("/") else path


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]


async def _follow(
    ask: AskHost, path_so_far: str, sought: list[str], following: set[str]
) -> tuple[str, list[str], str | None]:
    """Continue from a path without links to the next link: its path, the parts behind it, and where it leads; or to the end, and None.

    In ``sought`` the path of a link stands behind the parts of its target: from there on it is no longer one of ``following``.
    """
    while sought:
        if sought[0] == "..":  # the part before it is not a link, so that `..` is its parent
            path_so_far, sought = path_so_far.rpartition("/")[0], sought[1:]
            continue
        if "/" in sought[0]:
            following.discard(sought[0])
            sought = sought[1:]
            continue
        plain = takewhile(_is_name, sought)
        parts = islice(plain, PARTS_AT_ONCE)
        paths = [path_so_far + below for below in accumulate(f"/{part}" for part in parts)]
        arguments = " ".join(map(quote, paths))
        if link := port.link((await ask(f"newel_link {arguments}")).data, paths):
            number, leads_to = link
            return paths[number], sought[number + 1 :], leads_to
        path_so_far, sought = paths[-1], sought[len(paths) :]
    return path_so_far, [], None


def _is_name(part: str) -> bool:
    return part != ".." and "/" not in part


# -- the host ---------------------------------------------------------------------------------------------


class SshHost:
    """Fulfils ``newel.workspace.execution_host.ExecutionHost``. Commands run in ``sandboxes``, if given; ``sandbox`` describes to a
    model what they may do.
    """

    def __init__(
        self, connection: SshConnection, *, sandboxes: HostSandboxes | None = None, sandbox: str = ""
    ) -> None:
        self.connection = connection
        self.monitor = HostMonitor(connection)
        self._sandboxes = sandboxes
        self._sandbox = sandbox
        self.name = self._open(OutputLimits()).name

    @property
    def home(self) -> str:
        return self.connection.info.home

    @property
    def system(self) -> str:
        limits = self._sandbox and f". {self._sandbox}"
        return f"{self.connection.info.system}, the host {self.connection.host}, reached over ssh{limits}"

    @property
    def shell(self) -> str:
        return "bash" if self.connection.info.bash else "sh"

    def workspace(self, folder: str, limits: OutputLimits) -> SshWorkspace:
        local, requested = self.connection.target, Target.parse(folder)
        if requested != msgspec.structs.replace(local, path=requested.path):
            raise WorkspaceError(f"{folder} is not on the connected host, which is that of {self.name}.")
        return self._open(limits).at(requested.path or self.connection.info.root)

    def own_workspace(self) -> SshWorkspace:
        return SshWorkspace(self.connection)

    async def policy(self, folder: str, /) -> SandboxPolicy | None:
        return None if self._sandboxes is None else await self._sandboxes.policy(folder)

    def worktrees(self, home: Path) -> str:
        del home  # a folder of this machine
        return f"{self.home}/.newel/worktrees"

    async def save_output(self, text: str) -> str:
        return await save_spill_on_host(self._open(OutputLimits()), f"{self.home}/{ON_HOST}", text)

    def _open(self, limits: OutputLimits) -> SshWorkspace:
        return SshWorkspace(self.connection, limits=limits, sandboxes=self._sandboxes)
