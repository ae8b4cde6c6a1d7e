"""The workspace on this machine, and the machine as a place where agents work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import anyio.to_thread
import msgspec

from newel.agent.errors import WorkspaceError
from newel.workspace.disk import files
from newel.workspace.git import without_other_repository
from newel.workspace.port import (
    CommandResult,
    DirectoryEntry,
    FileInfo,
    FileNode,
    RunOptions,
    WriteResult,
    check_path,
)
from newel.workspace.process.environment import child_env, without_own_python
from newel.workspace.process.output import OutputLimits, save_spill

if TYPE_CHECKING:
    from newel.workspace.mirror.mirror import Mirror, MirrorLimits
    from newel.workspace.process.launcher import FindServerLauncher, ProcessLauncher, StartedProcess
    from newel.workspace.sandbox.policy import SandboxPolicy
    from newel.workspace.snapshots.ignore_rules import GitView
    from newel.workspace.snapshots.port import BlobStore, SnapshotSource

    FindLauncher = Callable[[str], ProcessLauncher[StartedProcess]]
    """Finds what starts the commands of a folder."""

INLINE = files.BLOCK
"""Up to this many bytes, reading directly is cheaper than in a thread."""

FEW = 64
"""Up to this many files, ``stat`` is cheaper directly than in a thread."""


class LocalWorkspace:
    """Files and processes of this machine; the port ``Workspace`` documents its methods. Paths outside
    ``root`` are allowed: it is not a sandbox.

    ``environ`` is the environment of commands (see ``child_env``; by default this process's own without secrets).
    ``limits`` bound the output of commands, which ``find_launcher`` starts (by default this process does).
    """

    def __init__(
        self,
        root: str,
        *,
        environ: Mapping[str, str] | None = None,
        limits: OutputLimits | None = None,
        find_launcher: FindLauncher | None = None,
    ) -> None:
        self._root = os.path.realpath(root)
        if not Path(self._root).is_dir():
            raise WorkspaceError(f"{root} is not a directory. Name one that exists.")
        commands = child_env(without_own_python(os.environ, self._root)) if environ is None else environ
        self._environ = without_other_repository(commands, self._root)
        self._limits = limits or OutputLimits()
        self._find_launcher = find_launcher
        self._shell: list[str] | None = None

    @property
    def root(self) -> str:
        return self._root

    @property
    def name(self) -> str:
        return self._root

    async def resolve(self, path: str, /) -> str:
        check_path(path)
        return files.resolved(self._root, path)

    async def stat(self, path: str, /) -> FileInfo | None:
        return files.info(path)

    async def stats(self, paths: Sequence[str], /) -> list[FileInfo | None]:
        if len(paths) <= FEW:
            return files.infos(paths)
        return await anyio.to_thread.run_sync(files.infos, paths)

    async def list(
        self, path: str, /, *, limit: int = 10_000, nofollow: bool = False
    ) -> list[DirectoryEntry]:
        return await anyio.to_thread.run_sync(partial(files.entries, path, limit, nofollow=nofollow))

    async def read_bytes(
        self, path: str, /, *, start: int = 0, size: int | None = None, nofollow: bool = False
    ) -> bytes:
        descriptor, length = files.open_regular(path, nofollow=nofollow)
        try:
            # Files in /proc report a size of 0, which means nothing.
            bounds = ([length - start] if length else []) + ([] if size is None else [size])
            if bounds and min(bounds) <= INLINE:
                return files.read_all(descriptor, start, size)
            return await anyio.to_thread.run_sync(files.read_all, descriptor, start, size)
        except OSError as error:
            raise files.failure("read", path, error) from error
        finally:
            os.close(descriptor)

    async def write_bytes(
        self, path: str, data: bytes, /, *, expect: str | None = None, mode: int | None = None
    ) -> WriteResult:
        # Always in a thread: a flush to the disk may take any time.
        write = partial(files.replace, path, data, expect, mode, resolved=expect is not None)
        return await anyio.to_thread.run_sync(write)

    async def remove(self, path: str, /, *, expect: str | None = None) -> None:
        await anyio.to_thread.run_sync(files.remove, path, expect)

    async def remove_folder(self, path: str, /) -> None:
        await anyio.to_thread.run_sync(files.remove_folder, path)

    async def run(self, command: str, /, **options: Unpack[RunOptions]) -> CommandResult:
        from newel.workspace.process.launcher import DIRECT
        from newel.workspace.process.runner import run_process

        find_launcher, environ = self._find_launcher, self._environ
        if find_launcher is not None and options.get("unsandboxed"):
            from newel.workspace.process.own_programs import with_project_last

            # Commands inside may have put a `git` into the project, and the user has said yes to another one.
            find_launcher, environ = None, with_project_last(environ, self._root)
        launcher = find_launcher(self._root) if find_launcher else DIRECT
        argv = [*self._find_shell(), command]
        if terminal := options.get("terminal"):
            from newel.workspace.process.in_terminal import run_in_terminal

            run = partial(run_in_terminal, terminal=terminal)
        else:
            run = partial(run_process, **options)
        done = await run(argv, cwd=self._root, environ=environ, limits=self._limits, launcher=launcher)
        for line in launcher.reached():
            separator = "" if done.stderr.endswith("\n") or not done.stderr else "\n"
            done = msgspec.structs.replace(done, stderr=f"{done.stderr}{separator}{line}\n")
        return done

    async def background(self) -> Sequence[str]:
        from newel.workspace.process.process_tree import find_background

        return find_background(self._root)

    async def lstat(self, path: str, /) -> FileNode | None:
        return files.lstat(path)

    async def become(self, path: str, thing: FileNode | None, /, *, expect: FileNode | None) -> None:
        from newel.workspace.disk import file_kinds

        await anyio.to_thread.run_sync(file_kinds.become, path, thing, expect)

    async def ignored(self, folder: str, names: Sequence[str], /) -> set[str]:
        return await anyio.to_thread.run_sync(self._git().ignored, folder, names)

    async def files_by_git(self) -> list[str] | None:
        return await anyio.to_thread.run_sync(self._git().files)

    def at(self, folder: str, /) -> LocalWorkspace:
        return LocalWorkspace(
            folder, environ=self._environ, limits=self._limits, find_launcher=self._find_launcher
        )

    async def mirror(
        self, folder: Path, /, *, limits: MirrorLimits | None = None, left_out: Iterable[str] = ()
    ) -> Mirror:
        from newel.workspace.mirror.local_disk import LocalMirrorBackend, inside
        from newel.workspace.mirror.mirror import Mirror, MirrorLimits

        disk = LocalMirrorBackend.open(folder, self._root)
        return Mirror(disk, limits or MirrorLimits(), inside(self._root, [str(folder), *left_out]))

    def _git(self) -> GitView:
        from newel.workspace.git import find_repository, run_git
        from newel.workspace.snapshots.ignore_rules import GitView

        return GitView(self._root, run_git, find_repository)

    def snapshot_source(self, blobs: BlobStore, /, *, left_out: Iterable[str] = ()) -> SnapshotSource:
        from newel.workspace.snapshots.local_source import LocalSnapshotSource

        del blobs  # only a source far away spares reads of contents that are there already
        return LocalSnapshotSource(self._root, excluded=left_out)

    def _find_shell(self) -> list[str]:
        """A shell that reads no start-up file, and is not the project's; ``--`` because a command may begin with a dash."""
        if self._shell is None:
            import shutil

            from newel.workspace.process.own_programs import with_project_last

            path = with_project_last(self._environ, self._root)["PATH"] if "PATH" in self._environ else None
            if bash := shutil.which("bash", path=path):
                # --norc: a bash that believes it was started by sshd would read ~/.bashrc
                self._shell = [bash, "--norc", "-c", "--"]
            else:
                self._shell = [shutil.which("sh", path=path) or "/bin/sh", "-c", "--"]
        return self._shell


class LocalHost:
    """This machine as an ``ExecutionHost``; ``folder`` is the project's. ``find_launcher`` starts commands, ``find_policy`` says what
    they may do in a folder, and ``sandbox`` describes that to a model.
    """

    connection = None
    monitor = None

    def __init__(
        self,
        folder: str,
        *,
        find_launcher: FindLauncher | None = None,
        find_server_launcher: FindServerLauncher | None = None,
        find_policy: Callable[[str], SandboxPolicy] | None = None,
        sandbox: str = "",
    ) -> None:
        self.name = folder
        self.find_server_launcher = find_server_launcher
        """Finds what starts a tool server in a sandbox; None without one."""
        self._find_launcher = find_launcher
        self._find_policy = find_policy
        self._sandbox = sandbox

    def prepare(self, folder: str) -> None:
        """Start what starts the commands of a folder, in the background, if that takes time."""
        from newel.workspace.process.launcher import PreparableLauncher

        launcher = None if self._find_launcher is None else self._find_launcher(folder)
        if isinstance(launcher, PreparableLauncher):
            launcher.prepare()

    @property
    def shell(self) -> str:
        import shutil

        return "bash" if shutil.which("bash") else "sh"

    @property
    def home(self) -> str:
        return os.path.expanduser("~")  # noqa: PTH111 — an unknown home stays as it is

    @property
    def system(self) -> str:
        system = os.uname()
        return f"{system.sysname} {system.release}{self._sandbox and f'. {self._sandbox}'}"

    def workspace(self, folder: str, limits: OutputLimits) -> LocalWorkspace:
        return LocalWorkspace(folder, limits=limits, find_launcher=self._find_launcher)

    def own_workspace(self) -> LocalWorkspace:
        from newel.workspace.process.own_programs import own_path

        environ = child_env(os.environ)
        return LocalWorkspace(self.name, environ={**environ, "PATH": own_path(self.name, environ)})

    async def policy(self, folder: str, /) -> SandboxPolicy | None:
        return None if self._find_policy is None else self._find_policy(folder)

    def worktrees(self, home: Path) -> str:
        return str(home / "worktrees")

    async def save_output(self, text: str) -> str:
        return await anyio.to_thread.run_sync(save_spill, text)
