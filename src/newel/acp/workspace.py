"""A folder whose files are read and written, and whose commands run, through the client.

An editor knows more than the disk: buffers that are not saved yet. Their text is what agents read and change, and the editor writes
the change, so that it shows, and can be undone there. Recording lies above this workspace: it sees the same texts.

The client is asked for texts below the root only. All else is the disk's: other files, bytes that are no UTF-8, links, folders. So is
everything while a process of a command runs (``newel.acp.editor_files``).
"""

from __future__ import annotations

import contextlib
import hashlib
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

import anyio
import anyio.to_thread

from newel.acp.client import SessionClient, Terminal
from newel.acp.client_methods import ExitStatus
from newel.acp.editor_files import EditorGate, path_state, settled_state
from newel.acp.json_rpc import JsonRpcError
from newel.agent.errors import NewelError, WorkspaceError
from newel.providers.families import FAMILIES
from newel.workspace.disk.dir_fd import open_place
from newel.workspace.glob import is_text
from newel.workspace.port import (
    ABSENT,
    CommandResult,
    DelegatingWorkspace,
    FileNode,
    RunOptions,
    TimeLimit,
    WriteResult,
    leads_elsewhere,
    stale,
)
from newel.workspace.process import process_mark
from newel.workspace.process.environment import UNATTENDED, is_withheld
from newel.workspace.process.output import OutputLimits
from newel.workspace.process.process_tree import add_background
from newel.workspace.tracked import TrackedWorkspace

if TYPE_CHECKING:
    from newel.workspace.execution_host import ExecutionHost
    from newel.workspace.mirror.mirror import Mirror, MirrorLimits
    from newel.workspace.sandbox.policy import SandboxPolicy
    from newel.workspace.snapshots.port import BlobStore, SnapshotSource
    from newel.workspace.ssh.connection import SshConnection
    from newel.workspace.ssh.host_monitor import HostMonitor

BOM: Final = "\N{BYTE ORDER MARK}"

MAX_TEXT: Final = 2 * 1024 * 1024
"""Bytes of a file that is read and written through the client."""

KEY_VARIABLES: Final = frozenset(family.variables["api_key"] for family in FAMILIES)
"""Unset for commands even if this process has none of them: the editor's shell may set them."""

KILL_S: Final = 5.0
"""Seconds for the client to end a command."""

Hear = Callable[[str], object]

DIRECTLY: Final = (
    "Processes run that commands of the agent have started, or a tool server in the sandbox, so Newel reads and writes files directly, without the "
    "editor: they could lead it to a file outside of the project. Meanwhile text that you have not saved is not seen: save it. They end when "
    "the session is closed, or tell the agent to end them."
)
"""For the user, once in a session."""

UNKNOWN_EXIT: Final = 255
"""The exit code of a command whose client does not report it."""


class ClientWorkspace(DelegatingWorkspace[TrackedWorkspace]):
    """``inner`` is the same folder on this machine, ``environ`` the environment of this process. Without ``in_terminals`` commands run
    in ``inner``: it may have a sandbox, which the client's terminals have not. ``on_terminal`` hears the id of each terminal in which a
    command starts, ``on_direct`` is called when the client is passed over because of a process.
    """

    def __init__(
        self,
        inner: TrackedWorkspace,
        client: SessionClient,
        limits: OutputLimits,
        environ: Mapping[str, str],
        *,
        gate: EditorGate,
        on_terminal: Hear,
        on_direct: Callable[[], object],
        in_terminals: bool = True,
    ) -> None:
        super().__init__(inner)
        self._gate = gate
        self._on_direct = on_direct
        self._in_terminals = in_terminals
        self._client = client
        self._on_terminal = on_terminal
        self._limits = limits
        self._environ = environ

    # -- files ------------------------------------------------------------------------------------

    async def read_bytes(
        self, path: str, /, *, start: int = 0, size: int | None = None, nofollow: bool = False
    ) -> bytes:
        if not (self._client.capabilities.reads and self._is_inside(path)):
            return await self._inner.read_bytes(path, start=start, size=size, nofollow=nofollow)
        data = await self._read_edited(path)
        if data is None:
            return await self._inner.read_bytes(path, start=start, size=size, nofollow=nofollow)
        return data[start : None if size is None else start + size]

    async def _read_edited(self, path: str) -> bytes | None:
        """What the user sees of a file; None if the editor may not be asked for it."""
        release = await self._hold(path)
        if release is None:
            return None
        try:
            if (state := await settled_state(self.root, path, self._gate.free_since_ns)) is None:
                return None
            data = await self._inner.read_bytes(path, size=MAX_TEXT + 1, nofollow=True)
            if len(data) > MAX_TEXT:
                return None
            edited = await self._as_edited(path, data)
        finally:
            release()
        # The path changed meanwhile, so the editor may have read another file. No command of ours runs, but one of another Newel may.
        return edited if path_state(self.root, path) == state else data

    async def _hold(self, path: str) -> Callable[[], None] | None:
        """See ``EditorGate.hold``."""
        if (release := await self._gate.hold(path)) is None:
            self._on_direct()
        return release

    async def _as_edited(self, path: str, data: bytes) -> bytes:
        """What the user sees of a file with this content on disk."""
        saved = _text(data)
        shown = None if saved is None else await self._client.read_text(path)
        if saved is None or shown is None or _plain(shown) == _plain(saved):
            return data  # editors hide byte order marks and kinds of line ends
        shown = _plain(shown)
        if "\r\n" in saved and "\n" not in saved.replace("\r\n", ""):
            shown = shown.replace("\n", "\r\n")
        return ((BOM if saved.startswith(BOM) else "") + shown).encode(errors="replace")

    async def write_bytes(
        self, path: str, data: bytes, /, *, expect: str | None = None, mode: int | None = None
    ) -> WriteResult:
        text = _text(data)
        before = await self._inner.lstat(path)
        old_mode = before.mode & 0o7777 if before else None
        by_client = self._client.capabilities.writes and self._is_inside(path) and len(data) <= MAX_TEXT
        is_plain = mode in {None, old_mode} and (old_mode is None or old_mode & 0o200)
        if not (by_client and is_plain) or text is None:
            return await self._inner.write_bytes(path, data, expect=expect, mode=mode)
        if (release := await self._hold(path)) is None:
            return await self._inner.write_bytes(path, data, expect=expect, mode=mode)
        try:
            may_write = await self._prepare(path, before, expect)
        except BaseException:
            release()
            raise
        if not may_write:
            release()
            return await self._inner.write_bytes(path, data, expect=expect, mode=mode)
        try:
            # If the user stops the agent, the editor may still write: until it has answered, no command may run.
            is_written = await self._client.write_text(path, text, release)
        except JsonRpcError as error:
            raise WorkspaceError(f"Cannot write {path}: the editor refused. {error}") from error
        if not is_written:
            return await self._inner.write_bytes(path, data, expect=expect, mode=mode)
        written = await self.read_bytes(path)
        node = await self._inner.lstat(path)
        return WriteResult(
            hashlib.sha256(written).hexdigest(),
            mode=node.mode & 0o7777 if node else None,
            replaced_mode=old_mode,
            is_exact=written == data,
        )

    async def _prepare(self, path: str, node: FileNode | None, expect: str | None) -> bool:
        """Check the file that is replaced, and make its folder; False if the path does not rest, so that the editor may not write it."""
        if expect is not None:
            await self._check(path, node, expect)
        if node is None:
            await anyio.to_thread.run_sync(_make_folder, path)
        if await self._inner.resolve(path) != path:  # the editor would follow a link that has come since
            raise leads_elsewhere(path)
        return await settled_state(self.root, path, self._gate.free_since_ns) is not None

    async def _check(self, path: str, node: FileNode | None, expect: str) -> None:
        digest = ABSENT if node is None else hashlib.sha256(await self.read_bytes(path)).hexdigest()
        if digest != expect:
            raise stale(path, digest, expect)

    def _is_inside(self, path: str) -> bool:
        """Whether the client may be given a path: one of the project, whose name can be sent."""
        return path.startswith(self.root.rstrip("/") + "/") and is_text(path)

    # -- commands ---------------------------------------------------------------------------------

    async def run(self, command: str, /, **options: Unpack[RunOptions]) -> CommandResult:
        async with self._gate.command():
            if self._in_terminals and self._client.capabilities.terminal:
                return await self._run_in_terminal(command, options)
            return await self._inner.run(command, **options)

    async def _run_in_terminal(self, command: str, options: RunOptions) -> CommandResult:
        mark = process_mark.ProcessMark(process_mark.new_mark())
        withheld = KEY_VARIABLES.union(filter(is_withheld, self._environ))
        env = dict.fromkeys(withheld, "") | UNATTENDED
        env |= {**(options.get("env") or {}), process_mark.MARK: mark.mark}
        began = time.monotonic()
        shell = self._client.terminal(
            "bash", ["--norc", "-c", command], env=env, cwd=self.root, limit=self._limits.output
        )
        try:
            async with shell as terminal:
                self._on_terminal(terminal.id)
                done = await _run(
                    terminal, mark, TimeLimit.of(options.get("timeout")).seconds, began, self._limits.output
                )
        except TimeoutError as error:
            raise WorkspaceError("The editor did not open a terminal in time.") from error
        except JsonRpcError as error:
            raise WorkspaceError(f"The editor's terminal failed. {error}") from error
        if done.left_running:
            add_background(self.root, mark)
        return done

    # -- tracking ---------------------------------------------------------------------------------

    async def lstat(self, path: str, /) -> FileNode | None:
        return await self._inner.lstat(path)

    async def become(self, path: str, thing: FileNode | None, /, *, expect: FileNode | None) -> None:
        await self._inner.become(path, thing, expect=expect)

    def at(self, folder: str, /) -> TrackedWorkspace:
        return self._inner.at(folder)

    async def mirror(
        self, folder: Path, /, *, limits: MirrorLimits | None = None, left_out: Iterable[str] = ()
    ) -> Mirror:
        return await self._inner.mirror(folder, limits=limits, left_out=left_out)

    async def background(self) -> Sequence[str] | None:
        return await self._inner.background()

    async def ignored(self, folder: str, names: Sequence[str], /) -> set[str]:
        return await self._inner.ignored(folder, names)

    async def files_by_git(self) -> list[str] | None:
        return await self._inner.files_by_git()

    def snapshot_source(self, blobs: BlobStore, /, *, left_out: Iterable[str] = ()) -> SnapshotSource:
        return self._inner.snapshot_source(blobs, left_out=left_out)


async def _run(
    terminal: Terminal,
    mark: process_mark.ProcessMark,
    timeout: float | None,  # noqa: ASYNC109 — the output until then is returned, which cancelling cannot
    began: float,
    limit: int,
) -> CommandResult:
    """Wait for a command in a terminal; end it with all its processes on timeout or cancellation."""
    status: ExitStatus | None = None
    try:
        with anyio.move_on_after(timeout):
            status = await terminal.wait()
    finally:
        if status is None:
            with anyio.move_on_after(KILL_S, shield=True), contextlib.suppress(NewelError):
                await terminal.kill()
            process_mark.signal([mark], signal.SIGKILL)  # what has left the terminal's process group
    shown = await terminal.output()
    ended = shown.exit_status if status is None else status
    find_remaining = partial(process_mark.find_remaining, mark, all_of_them=True)
    note = f"[… the beginning is omitted: the editor keeps the last {limit:,} bytes …]\n"
    return CommandResult(
        stdout=(note if shown.truncated else "") + shown.output,
        stderr="",
        exit_code=_exit_code(ended),
        duration=round((time.monotonic() - began) * 1000),
        timed_out=status is None,
        truncated=bool(shown.truncated),
        left_running=() if status is None else await anyio.to_thread.run_sync(find_remaining),
    )


def _exit_code(ended: ExitStatus | None) -> int:
    """As shells count."""
    if ended is not None and ended.exit_code is not None:
        return ended.exit_code
    name = (ended.signal or "") if ended else ""
    number = getattr(signal, name if name.startswith("SIG") else f"SIG{name}", None)
    return 128 + number if isinstance(number, signal.Signals) else UNKNOWN_EXIT


def _text(data: bytes) -> str | None:
    """Bytes as text; None if an editor would not show them exactly."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _plain(text: str) -> str:
    """A text as editors hold it: line feeds only, no byte order mark."""
    return text.removeprefix(BOM).replace("\r\n", "\n")


def _make_folder(path: str) -> None:
    """Make the folder of a file, and those above it, through no link."""
    try:
        with open_place(path, resolved=True, make=True):
            pass
    except OSError as error:
        raise WorkspaceError(f"Cannot create the folder of {path}: {error.strerror}.") from error


class ClientHost:
    """This machine, with a client that reads and writes files and runs commands. ``on_terminal`` hears of each terminal, ``note`` gets
    messages for the user.
    """

    def __init__(
        self,
        inner: ExecutionHost,
        client: SessionClient,
        environ: Mapping[str, str],
        *,
        gate: EditorGate,
        on_terminal: Hear,
        note: Hear,
        in_terminals: bool = True,
    ) -> None:
        self.name = inner.name
        self._in_terminals = in_terminals
        self._inner = inner
        self._client = client
        self._gate = gate
        self._on_terminal = on_terminal
        self._note: Hear | None = note
        self._environ = environ

    def _tell_directly(self) -> None:
        if self._note is not None:
            self._note(DIRECTLY)
            self._note = None

    @property
    def system(self) -> str:
        return self._inner.system

    @property
    def shell(self) -> str:
        return self._inner.shell

    @property
    def home(self) -> str:
        return self._inner.home

    @property
    def connection(self) -> SshConnection | None:
        return self._inner.connection

    @property
    def monitor(self) -> HostMonitor | None:
        return self._inner.monitor

    def workspace(self, folder: str, limits: OutputLimits) -> TrackedWorkspace:
        inner = self._inner.workspace(folder, limits)
        return ClientWorkspace(
            inner,
            self._client,
            limits,
            self._environ,
            gate=self._gate,
            on_terminal=self._on_terminal,
            on_direct=self._tell_directly,
            in_terminals=self._in_terminals,
        )

    def own_workspace(self) -> TrackedWorkspace:
        return self._inner.own_workspace()

    async def policy(self, folder: str, /) -> SandboxPolicy | None:
        return await self._inner.policy(folder)

    def worktrees(self, home: Path) -> str:
        return self._inner.worktrees(home)

    async def save_output(self, text: str) -> str:
        return await self._inner.save_output(text)
