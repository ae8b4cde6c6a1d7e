"""Commands in the background: they go on when the call that started them has returned, until they end, or the agent does.

    bash ── run(detachable=command) ──> … ──> DetachingWorkspace ──> the host
                                                    │  in a task of the agent's, not of the call's
                                            BackgroundCommands: list, read, stop

The layers above see a call that has ended, with processes left behind: what these write later is recorded as such.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Unpack

import anyio
from anyio.abc import TaskGroup

from newel.agent.errors import WorkspaceError
from newel.concurrency import background_tasks
from newel.text.format import one_line
from newel.workspace.port import (
    CommandResult,
    DelegatingWorkspace,
    FileNode,
    OnOutput,
    RunCommand,
    RunOptions,
    TimeLimit,
)
from newel.workspace.tracked import TrackedWorkspace

if TYPE_CHECKING:
    from newel.workspace.mirror.mirror import Mirror, MirrorLimits
    from newel.workspace.snapshots.port import BlobStore, SnapshotSource

MOST: Final = 8
"""Commands in the background at a time. A host allows ten sessions on a connection, and the foreground needs two."""

ENDED_KEPT: Final = 50
"""Commands that are remembered after their end."""

EARLY_S: Final = 0.2
"""A command that ends so soon, perhaps because it was mistyped, has an ordinary result."""

KEPT_OUTPUT: Final = 500_000
"""Characters of output that are kept of a command."""

TOO_MANY: Final = (
    f"{MOST} commands run in the background already, as many as can. Wait until one has ended, or end one."
)

State = Literal["running", "ended", "stopped", "failed"]


class UnreadOutput:
    """The last ``KEPT_OUTPUT`` characters of an output, and which of them were not read yet."""

    def __init__(self) -> None:
        self._text = ""
        self._dropped = 0
        self._read = 0

    @property
    def text(self) -> str:
        note = f"[… {self._dropped:,} characters are not kept …]\n" if self._dropped else ""
        return note + self._text

    def add(self, piece: str) -> None:
        self._text += piece
        if len(self._text) > 2 * KEPT_OUTPUT:
            self._dropped += len(self._text) - KEPT_OUTPUT
            self._text = self._text[-KEPT_OUTPUT:]

    def last_line(self) -> str:
        return self._text[-1_000:].rstrip().rpartition("\n")[2]

    def take_unread(self) -> str:
        """The output since the last call, with a note on what of it is not kept."""
        lost = max(self._dropped - self._read, 0)
        unread = self._text[max(self._read - self._dropped, 0) :]
        self._read = self._dropped + len(self._text)
        return f"[… {lost:,} characters are not kept …]\n{unread}" if lost else unread


class BackgroundCommand:
    """A command that is in the background, or may go there: a ``DetachableCommand``. ``on_output`` gets its output while the call waits."""

    def __init__(
        self, commands: BackgroundCommands, command: str, limit: TimeLimit, on_output: OnOutput
    ) -> None:
        self.id = commands.new_id()
        self.command = command
        self.folder = ""
        self.output = UnreadOutput()
        self.is_background = False
        self.state: State = "running"
        self.began = time.monotonic()
        self.ended = 0.0
        self.done: CommandResult | None = None
        self.error: Exception | None = None
        self._commands = commands
        self._limit = limit
        self._on_output = on_output
        self._scope = anyio.CancelScope()
        self._released = anyio.Event()
        self._over = anyio.Event()

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return (self.ended or time.monotonic()) - self.began

    @property
    def outcome(self) -> str:
        """``running``, ``exit code 1``, ``stopped``, ``timed out`` or ``failed: …``."""
        if self.error is not None:
            return f"failed: {self.error}"
        if self.done is None:
            return self.state
        return "timed out" if self.done.timed_out else f"exit code {self.done.exit_code}"

    @property
    def whole(self) -> str:
        """Where all of a long output is; empty if it is known whole, or not yet."""
        return self.done.whole if self.done is not None else ""

    # -- the call ---------------------------------------------------------------------------------

    async def attach(self, run: RunCommand, folder: str, /) -> CommandResult:
        self.folder = folder
        return await self._commands.wait_for(self, run)

    def detach(self, *, keep_limit: bool = False) -> None:
        """Let it go on in the background: the call returns. Its time limit is lifted unless ``keep_limit``. Raises ``WorkspaceError``
        if there are too many.
        """
        if self.is_background or self._over.is_set():
            return
        if len(self._commands.running) >= MOST:
            raise WorkspaceError(TOO_MANY)
        self.is_background = True
        if not keep_limit:
            self._limit.lift()
        self._released.set()

    async def released(self) -> None:
        """Wait until the call has no reason to wait any longer: it has ended, or is in the background."""
        await self._released.wait()

    def so_far(self) -> CommandResult:
        """The result of a call that does not wait any longer."""
        return CommandResult(
            stdout=self.output.take_unread(),
            stderr="",
            exit_code=0,
            duration=round(self.seconds * 1_000),
            background=self.id,
        )

    # -- while it runs ----------------------------------------------------------------------------

    async def serve(self, run: RunCommand) -> None:
        """Run it to its end. Its error is kept for the caller."""
        try:
            with self._scope:
                self.done = await run(on_output=self._receive)
                self.state = "ended"
        except Exception as error:  # noqa: BLE001 — the call raises it, or whoever asks how it has ended
            self.error, self.state = error, "failed"
        finally:
            if self.state == "running":
                self.state = "stopped"
            self.ended = time.monotonic()
            self._over.set()
            self._released.set()

    async def stop(self) -> None:
        """End it with all its processes, and wait for that."""
        self._scope.cancel()
        with anyio.CancelScope(shield=True):
            await self._over.wait()

    async def wait(self, seconds: float) -> None:
        """Wait for its end, so long at most."""
        with anyio.move_on_after(seconds):
            await self._over.wait()

    async def _receive(self, piece: str) -> None:
        self.output.add(piece)
        if not self.is_background:
            await self._on_output(piece)


class BackgroundCommands:
    """Those of an agent. Use ``open_background_commands``. ``on_change`` is called when one has gone to the background or has ended, and
    ``before_report`` is awaited before that, at its end: to record what it has changed.
    """

    def __init__(self, group: TaskGroup) -> None:
        self.before_report: Callable[[], Awaitable[None]] | None = None
        self.on_change: Callable[[BackgroundCommand], None] = lambda _: None
        self._group = group
        self._foreground: list[BackgroundCommand] = []
        self._background: dict[str, BackgroundCommand] = {}

    @property
    def all(self) -> Sequence[BackgroundCommand]:
        """Those that run, and the last ones that have ended, in the order in which they came here."""
        return list(self._background.values())

    @property
    def running(self) -> Sequence[BackgroundCommand]:
        return [command for command in self._background.values() if command.state == "running"]

    @property
    def last(self) -> BackgroundCommand | None:
        return next(reversed(self._background.values()), None)

    @property
    def can_detach(self) -> bool:
        """Whether a command runs that may go to the background."""
        return bool(self._foreground)

    def detach(self) -> None:
        """Move the commands that run to the background. Raises ``WorkspaceError``."""
        for command in list(self._foreground):
            command.detach()

    def find(self, command_id: str) -> BackgroundCommand | None:
        return self._background.get(command_id)

    def new_id(self) -> str:
        """Unlike those of earlier processes, which the model may remember, too."""
        while (command_id := f"b{os.urandom(2).hex()}") in self._background:
            pass
        return command_id

    async def wait_for(self, command: BackgroundCommand, run: RunCommand) -> CommandResult:
        """Run a command until it has ended, or goes to the background. Raises what ``run`` raises."""
        self._foreground.append(command)
        self._group.start_soon(self._serve, command, run)
        try:
            if command.is_background:
                await command.wait(EARLY_S)
            else:
                await command.released()
        except BaseException:
            await command.stop()
            raise
        finally:
            self._foreground.remove(command)
        if command.error is not None:
            raise command.error
        if command.done is not None:
            return command.done
        self._background[command.id] = command
        self._forget_old()
        self.on_change(command)
        return command.so_far()

    async def _serve(self, command: BackgroundCommand, run: RunCommand) -> None:
        try:
            await command.serve(run)
        finally:
            if command.id in self._background:
                with anyio.CancelScope(shield=True):
                    if self.before_report is not None:
                        await self.before_report()
                    self.on_change(command)

    def _forget_old(self) -> None:
        ended = [command for command in self._background.values() if command.state != "running"]
        for command in ended[:-ENDED_KEPT]:
            del self._background[command.id]


@asynccontextmanager
async def open_background_commands() -> AsyncGenerator[BackgroundCommands]:
    """The commands end with the block."""
    async with background_tasks() as group:
        yield BackgroundCommands(group)


class DetachingWorkspace(DelegatingWorkspace[TrackedWorkspace]):
    """A workspace whose commands may go to the background."""

    def __init__(self, inner: TrackedWorkspace, commands: BackgroundCommands) -> None:
        super().__init__(inner)
        self._commands = commands

    async def run(self, command: str, /, **options: Unpack[RunOptions]) -> CommandResult:
        detachable = options.pop("detachable", None)
        if detachable is None:
            return await self._inner.run(command, **options)
        options.pop("on_output", None)
        return await detachable.attach(partial(self._inner.run, command, **options), self.root)

    async def background(self) -> Sequence[str] | None:
        left = await self._inner.background()
        within = self.root.rstrip("/") + "/"
        own = [
            f"{one_line(command.command, 40)} ({command.id})"
            for command in self._commands.running
            if f"{command.folder}/".startswith(within)
        ]
        return [*own, *(left or ())] if own else left

    def at(self, folder: str, /) -> DetachingWorkspace:
        return DetachingWorkspace(self._inner.at(folder), self._commands)

    async def lstat(self, path: str, /) -> FileNode | None:
        return await self._inner.lstat(path)

    async def become(self, path: str, thing: FileNode | None, /, *, expect: FileNode | None) -> None:
        await self._inner.become(path, thing, expect=expect)

    async def mirror(
        self, folder: Path, /, *, limits: MirrorLimits | None = None, left_out: Iterable[str] = ()
    ) -> Mirror:
        return await self._inner.mirror(folder, limits=limits, left_out=left_out)

    async def ignored(self, folder: str, names: Sequence[str], /) -> set[str]:
        return await self._inner.ignored(folder, names)

    async def files_by_git(self) -> list[str] | None:
        return await self._inner.files_by_git()

    def snapshot_source(self, blobs: BlobStore, /, *, left_out: Iterable[str] = ()) -> SnapshotSource:
        return self._inner.snapshot_source(blobs, left_out=left_out)
