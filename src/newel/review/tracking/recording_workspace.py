"""The workspace that records an agent's effects: each becomes hunks in the project's ledger.

    before an effect    the file's content is stored, and the run's checkpoint names it; before a command, all files are scanned
    the effect          a file is written or removed, a command runs
    after it            each changed file is a ``record`` of the current run in the ledger

Nothing here is loaded or opened before the first effect (``newel.review.tracking.change_recorder``): most
conversations begin with reading.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, Unpack

import anyio
import anyio.to_thread
import msgspec

from newel.agent.errors import NewelError
from newel.agent.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    ErrorEvent,
    Level,
    MessageEnd,
    ToolExecutionStart,
)
from newel.agent.formatting import describe_error
from newel.agent.messages import ToolResultMessage, UserMessage
from newel.concurrency import background_tasks
from newel.review.tracking.effects import MAX_TITLE, TrackedOperation, TrackedRun, retry
from newel.storage.files import project_folder
from newel.text.format import join_names
from newel.workspace.port import ChangedFile, CommandResult, DelegatingWorkspace, RunOptions, WriteResult
from newel.workspace.tracked import TrackedWorkspace

if TYPE_CHECKING:
    from newel.agent.agent import Agent
    from newel.permissions.rules import RuleSet
    from newel.review.last_run import LastRun
    from newel.review.project import ProjectReview
    from newel.review.store.retention import RetentionPolicy
    from newel.review.tracking.change_recorder import ChangeRecorder
    from newel.review.tracking.outside import OutsideWatch
    from newel.session.history import History
    from newel.session.manager import SessionManager

PROGRESS_DELAY_S: Final = 1.0

SHOWN: Final = 6
"""Names in a message."""

SCANNING: Final = "Scanning the files in {root} before the command runs, so that its changes can be undone."


class AgentSession(Protocol):
    """An agent with its session. ``run_id`` is the run that all answers belong to; if empty, each answer is its own run."""

    run_id: str

    @property
    def agent(self) -> Agent: ...

    @property
    def session(self) -> SessionManager: ...

    def history(self) -> History:
        """The conversation so far."""
        ...


class RecorderProvider(Protocol):
    """Gives the recorder of a workspace."""

    @property
    def own_folders(self) -> Sequence[str]:
        """Newel's own folders on this machine."""
        ...

    async def recorder_of(self, workspace: TrackedWorkspace, /) -> ChangeRecorder: ...

    def on_first_action(self, workspace: TrackedWorkspace, last: LastRun, /) -> None:
        """A run is about to use a tool that may change something, recorded or not. Does not raise."""
        ...


FindLeftOut = Callable[[str], list[str]]
"""The absolute paths of this machine that are not recorded, in a project by its name."""


class RecorderRegistry:
    """The recorders of a process, one for each folder that agents work in. ``home`` is Newel's own folder; with None, ledgers are
    in memory, and the folder ``noted`` only remembers that there was a run, so that a later undo does not undo an older one.
    Ledgers delete what ``keep`` does not keep. ``find_left_out`` finds the paths that are never copied.
    Files that the user's ``rules`` deny to read are, once a command has changed them.
    """

    def __init__(
        self,
        home: Path | None,
        *,
        noted: Path | None = None,
        keep: RetentionPolicy | None = None,
        find_left_out: FindLeftOut = lambda _: [],
        rules: RuleSet | None = None,
    ) -> None:
        self._home = home
        self._find_left_out = find_left_out
        self._rules = rules
        self._keep = keep
        self._noted = home or noted
        self._opened: dict[str, ChangeRecorder] = {}
        self._opening = anyio.Lock(fast_acquire=True)

    def ledger(self, root: str) -> Path | None:
        """The folder of a project's ledger; None for one in memory."""
        return ledger_folder(self._home, root) if self._home else None

    @property
    def own_folders(self) -> Sequence[str]:
        return [str(self._home)] if self._home else []

    async def recorder_of(self, workspace: TrackedWorkspace) -> ChangeRecorder:
        """The recorder of a workspace's root. Raises ``LedgerError``."""
        async with self._opening:
            recorder = self._opened.get(workspace.name)
            if recorder is not None and recorder.project.ledger.database.is_removed():
                self._opened.pop(workspace.name).close()
                recorder = None
            if recorder is None:
                from newel.review.store.garbage_collection import in_background
                from newel.review.tracking.change_recorder import ChangeRecorder

                left_out = [*([str(self._home)] if self._home else []), *self._find_left_out(workspace.name)]
                recorder = await ChangeRecorder.open(
                    workspace,
                    self.ledger(workspace.name),
                    left_out=left_out,
                    rules=self._rules,
                )
                if self._keep is not None:
                    in_background(recorder.project.ledger, recorder.notices.append, self._keep)
                self._opened[workspace.name] = recorder
            return recorder

    def on_first_action(self, workspace: TrackedWorkspace, last: LastRun) -> None:
        from newel.review import last_run

        if folder := self.ledger(workspace.name):
            last_run.save(folder, last)
            return
        if recorder := self._opened.get(workspace.name):
            recorder.project.last_run = last
        self.note_unrecorded(workspace, last)

    def note_unrecorded(self, workspace: TrackedWorkspace, last: LastRun) -> None:
        """Remember a run of which no other process will find a record. Does not raise."""
        if self._noted is not None:
            from newel.review import last_run

            anonymous = last_run.LastRun(
                run=last.run, session="", title="", began=last.began, is_recorded=False
            )
            last_run.save(ledger_folder(self._noted, workspace.name), anonymous)

    def close(self) -> None:
        while self._opened:
            self._opened.popitem()[1].close()


class NullRecorderProvider:
    """Replaces the registry where recording is off: runs are remembered, without their titles."""

    def __init__(self, recorders: RecorderRegistry) -> None:
        self._recorders = recorders

    @property
    def own_folders(self) -> Sequence[str]:
        return self._recorders.own_folders

    async def recorder_of(self, workspace: TrackedWorkspace) -> ChangeRecorder:
        return await self._recorders.recorder_of(workspace)

    def on_first_action(self, workspace: TrackedWorkspace, last: LastRun) -> None:
        self._recorders.note_unrecorded(workspace, last)


REVIEW: Final = "review"
"""The folder of the ledgers, in Newel's own."""


def ledger_folder(home: Path, root: str) -> Path:
    """The folder of a project's ledger."""
    return project_folder(home / REVIEW, root)


class RecordingWorkspace(DelegatingWorkspace[TrackedWorkspace]):
    """A workspace that records what an agent's runs do to the files below its root (``attend``). Changes that the user makes
    between runs are not recorded.

    An operation that cannot be recorded happens all the same: a full disk must not keep an agent from freeing space. An
    ``error`` event says so, once.
    """

    def __init__(self, inner: TrackedWorkspace, recorders: RecorderProvider) -> None:
        super().__init__(inner)
        self._recorders = recorders
        self._attended: AgentSession | None = None
        self._run: TrackedRun | None = None
        self._failed: TrackedRun | None = None
        self._reported: set[str] = set()
        self.has_scanned: bool = False
        """Whether a command has waited for the first scan of the project."""
        self._outside: OutsideWatch | None = None

    def attend(self, attended: AgentSession) -> None:
        """Follow an agent's runs, including one in progress, and send messages for the user to its subscribers."""
        self._attended = attended
        attended.agent.subscribe(self._on_event)
        attended.agent.on_finish(self._finish_run)
        if attended.agent.state.is_streaming:
            self._on_event(AgentStart())
            self._on_event(MessageEnd(message=attended.history().of(UserMessage)[-1]))

    def _on_event(self, event: AgentEvent) -> None:
        match event:
            case AgentStart():
                of = self._attended
                self._run = TrackedRun(of.session.get_id(), id=of.run_id) if of else TrackedRun("")
            case MessageEnd(message=UserMessage() as message) if self._run and not self._run.title:
                self._run.title = title_of(message.text)
            case ToolExecutionStart() if self._run and not self._run.has_acted:
                self._run.has_acted = self._may_change(event.tool_name)
                if self._run.has_acted:
                    from newel.review.last_run import LastRun

                    run = self._run
                    last = LastRun(run=run.id, session=run.session, title=run.title, began=run.started_at)
                    self._recorders.on_first_action(self._inner, last)
            case AgentEnd():
                self._run = None
            case _:
                pass

    async def scan_early(self) -> None:
        """Begin to scan the project, which the first command would have to wait for. Errors are left to that command."""
        if self._run is not None and self._run is not self._failed and not self.has_scanned:
            with contextlib.suppress(NewelError, OSError):
                (await self.recorder()).scan_early()

    async def _finish_run(self) -> None:
        """Record what commands of the run have changed unnoticed, and tell the user what is not recorded."""
        run = self._run
        if run is None or run is self._failed or not run.commands_began_ns:
            return
        try:
            end = await (await self.recorder()).finish(run)
        except (NewelError, OSError) as error:
            run.commands_began_ns = 0
            await self.notify(f"The last changes of this run may not be recorded. {describe_error(error)}")
            return
        # The run may go on, with a queued message. If it is aborted during the scan, it ends with another one.
        run.commands_began_ns = 0
        for message in end.errors:
            await self.notify(message)
        uncovered = [*end.uncovered, *self._describe_outside()]
        self._reported.difference_update(uncovered)  # another run changed the same
        for message in (*uncovered, *_describe_background(end.background)):
            await self.notify(message, code="not_covered", level="warning")

    def _describe_outside(self) -> list[str]:
        changed = self._outside.changed() if self._outside else []
        self._outside = None
        if not changed:
            return []
        return [
            f"Changed outside {self.root}, where nothing is recorded: {join_names(changed, shown=SHOWN)}."
        ]

    def _may_change(self, tool_name: str) -> bool:
        tools = self._attended.agent.state.tools if self._attended else ()
        return any(tool.spec.name == tool_name and not tool.read_only for tool in tools)

    async def recorder(self) -> ChangeRecorder:
        """The recorder of this workspace. Raises ``LedgerError``."""
        return await self._recorders.recorder_of(self._inner)

    async def look(self) -> None:
        """Record what commands in the background have changed until now."""
        if not self.has_scanned:
            return
        try:
            for notice in await (await self.recorder()).look():
                await self.notify(notice)
        except (NewelError, OSError) as error:
            await self.notify(
                f"The last changes of commands in the background may not be recorded. {describe_error(error)}"
            )

    async def project(self) -> ProjectReview:
        """The review of the project, with all that is to be recorded until now. Raises ``LedgerError``."""
        await self.look()
        return (await self.recorder()).project

    async def undo_notice(self) -> UserMessage | None:
        """The user's decisions about the session's changes since its model heard of them last, to be sent before the next
        prompt.
        """
        of = self._attended
        if of is None or not (history := of.history()).has(ToolResultMessage):
            return None  # without a tool call there is no change
        from newel.review.undo_notices import undo_notice

        try:
            recorder = await self.recorder()
            for notice in recorder.take_notices():  # about what a killed process has left
                await self.notify(notice)
            ledger = recorder.project.ledger
            prompts, tree = history.of(UserMessage), of.session.get_tree()
            return await anyio.to_thread.run_sync(undo_notice, ledger, of.session.get_id(), prompts, tree)
        except NewelError:  # a ledger that cannot be used is reported with the next operation
            return None

    @property
    def own_folders(self) -> Sequence[str]:
        return self._recorders.own_folders

    @property
    def recorded_paths(self) -> frozenset[str]:
        """The files, relative to the root, that the current run has changed so far."""
        checkpoint = self._run.checkpoint if self._run else None
        return frozenset(file.path for file in checkpoint.files) if checkpoint else frozenset()

    # -- the port -----------------------------------------------------------------------------------

    async def write_bytes(
        self, path: str, data: bytes, /, *, expect: str | None = None, mode: int | None = None
    ) -> WriteResult:
        async with self.recording(path, expect=expect) as operation:
            result = await self._inner.write_bytes(path, data, expect=expect, mode=mode)
            if operation is not None:
                operation.write = (result, data)
            return result

    async def remove(self, path: str, /, *, expect: str | None = None) -> None:
        async with self.recording(path, expect=expect):
            await self._inner.remove(path, expect=expect)

    async def run(self, command: str, /, **options: Unpack[RunOptions]) -> CommandResult:
        async with self.recording() as operation:
            if self._run is not None and self.name == self.root:  # on this machine
                from newel.review.tracking.outside import OutsideWatch

                self._outside = self._outside or OutsideWatch(self.root, self._recorders.own_folders)
                self._outside.look(command)
            done = await self._inner.run(command, **options)
        if operation is None or not operation.changes:
            return done
        return msgspec.structs.replace(done, changed=await self._describe_changes(operation))

    async def _describe_changes(self, operation: TrackedOperation) -> Sequence[ChangedFile]:
        from newel.review.tracking.changed_files import changed_files

        try:
            find_blob = (await self.recorder()).project.ledger.find_blob
            return await anyio.to_thread.run_sync(changed_files, operation.changes, find_blob)
        except (NewelError, OSError):  # told with the next operation: a screen is no reason to fail
            return ()

    # -- recording ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def recording(
        self, path: str | None = None, *, expect: str | None = None
    ) -> AsyncGenerator[TrackedOperation | None]:
        """Record what the body does to a file, or to any file for None; also if it fails or is cancelled midway. ``expect`` is
        the digest that a write requires of the file.
        """
        run = self._run
        is_inside = path is None or path.startswith(self.root.rstrip("/") + "/")
        if run is None or run is self._failed or not is_inside:
            yield None
            return
        name = None if path is None else path.removeprefix(self.root).lstrip("/")
        operation = TrackedOperation(run, name, expect=expect)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._report, operation)
            if name is not None or self.has_scanned:  # later scans are quick
                await self._track(stack, operation)
            else:
                async with self.progress(SCANNING.format(root=self.root)):
                    await self._track(stack, operation)
                self.has_scanned = True
            await self._report(operation)
            yield operation

    async def _track(self, stack: AsyncExitStack, operation: TrackedOperation) -> None:
        try:
            recorder = await retry(self.recorder)
        except (NewelError, OSError) as error:
            operation.error = error
        else:
            await stack.enter_async_context(recorder.track(operation))

    async def _report(self, operation: TrackedOperation) -> None:
        with anyio.CancelScope(shield=True):
            if operation.error is not None:
                self._failed = operation.run
                await self.notify(
                    f"Further changes of this run are not recorded and cannot be undone. {describe_error(operation.error)}"
                )
            for notice in operation.notices:
                await self.notify(notice)

    @asynccontextmanager
    async def progress(self, message: str) -> AsyncGenerator[None]:
        """Show a message to the agent's subscribers if the body takes longer than ``PROGRESS_DELAY_S``."""

        async def show() -> None:
            await anyio.sleep(PROGRESS_DELAY_S)
            await self.notify(message, code="progress", level="info")

        async with background_tasks(show):
            yield

    async def notify(self, message: str, *, code: str = "not_recorded", level: Level = "error") -> None:
        """Send a message to the agent's subscribers, once."""
        if message not in self._reported and self._attended is not None:
            self._reported.add(message)
            await self._attended.agent.emit(ErrorEvent(code=code, message=message, level=level))


def _describe_background(processes: Sequence[str]) -> list[str]:
    if not processes:
        return []
    names = join_names(processes, shown=3)
    return [f"Still running: {names}. Later changes here are recorded separately."]


def title_of(text: str) -> str:
    """The first words of a prompt, on one line, as UTF-8 can hold them."""
    title = " ".join(text[: 4 * MAX_TITLE].split())
    shortened = title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 1] + "…"
    return shortened.encode("utf-8", "replace").decode()
