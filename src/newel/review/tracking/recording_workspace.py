"""What an agent does to its files, written down: the workspace of an agent whose effects become hunks of the project's ledger.

    before an effect    the file as it is is kept, and the run's checkpoint names it; before a command, all files are known
    the effect          a file is written or removed, a command runs
    after it            each file that changed is a ``record`` in the ledger, of the run under way

Nothing here is loaded or opened before the first effect (``newel.review.tracking.change_recorder``): most conversations begin with reading.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import anyio
import anyio.to_thread

from newel.agent.errors import NewelError
from newel.agent.events import AgentEnd, AgentEvent, AgentStart, ErrorEvent, MessageEnd, ToolExecutionStart
from newel.agent.formatting import describe_error
from newel.agent.messages import UserMessage
from newel.concurrency import background_tasks
from newel.review import last_run
from newel.review.last_run import LastRun
from newel.review.retries import retried
from newel.review.tracking.effects import TrackedOperation, TrackedRun
from newel.storage.files import project_folder
from newel.workspace.delegating_workspace import DelegatingWorkspace
from newel.workspace.port import Completed, OnOutput
from newel.workspace.tracked import TrackedWorkspace

if TYPE_CHECKING:
    from newel.agent.agent import Agent
    from newel.review.tracking.change_recorder import ChangeRecorder
    from newel.session.manager import SessionManager

PATIENCE: Final = 5.0
"""Seconds that are left to find what a stopped command has changed: a person waits, and its host may be silent."""

LATER: Final = (
    "What was stopped has perhaps changed files: looking for that took too long. "
    "It is recorded with the next one that runs, or when Newel is used here again."
)

SOON: Final = 1.0
"""Seconds after which it is told what is done before a command runs."""

LOOKING: Final = (
    "Looking at all files in {root} before the command runs, so that what it changes there can be taken back."
)

TITLE = 80
"""Characters of a prompt that name its run."""


class AgentSession(Protocol):
    """An agent whose conversation is kept in a session. ``run_id`` is the run that each answer belongs to; where it is empty,
    each answer is a run of its own.
    """

    run_id: str

    @property
    def agent(self) -> Agent: ...

    @property
    def session(self) -> SessionManager: ...


class RecorderProvider(Protocol):
    """Knows who records what is done in a workspace."""

    async def of(self, workspace: TrackedWorkspace, /) -> ChangeRecorder: ...

    def acts(self, workspace: TrackedWorkspace, last: LastRun, /) -> None:
        """A run is about to do something there, whether or not any of it will be recorded. Does not raise."""
        ...


class RecorderRegistry:
    """The recorders of a process, one for each folder that agents work in. ``home`` is Newel's own folder, None keeps the
    ledgers in memory. Then it is noted in the folder ``noted`` that there was a run, so that no later undo means an older one.
    """

    def __init__(self, home: Path | None, *, noted: Path | None = None) -> None:
        self._home = home
        self._noted = home or noted
        self._opened: dict[str, ChangeRecorder] = {}
        self._opening = anyio.Lock(fast_acquire=True)

    def ledger(self, root: str) -> Path | None:
        """The folder of a project's ledger; None for one in memory."""
        return ledger_folder(self._home, root) if self._home else None

    async def of(self, workspace: TrackedWorkspace) -> ChangeRecorder:
        """The recorder of a workspace's root. Raises ``LedgerError``."""
        async with self._opening:
            recorder = self._opened.get(workspace.name)
            if recorder is None:
                from newel.review.tracking.change_recorder import ChangeRecorder

                left_out = [str(self._home)] if self._home else []
                recorder = await ChangeRecorder.open(
                    workspace, self.ledger(workspace.name), left_out=left_out
                )
                self._opened[workspace.name] = recorder
            return recorder

    def acts(self, workspace: TrackedWorkspace, last: LastRun) -> None:
        if folder := self.ledger(workspace.name):
            last_run.keep(folder, last)
            return
        if recorder := self._opened.get(workspace.name):
            recorder.project.last_run = last
        self.passes(workspace, last)

    def passes(self, workspace: TrackedWorkspace, last: LastRun) -> None:
        """A run is about to do something there of which no other process will find a record. Does not raise."""
        if self._noted is not None:
            unsaid = LastRun(run=last.run, session="", title="", began=last.began, is_recorded=False)
            last_run.keep(ledger_folder(self._noted, workspace.name), unsaid)

    def close(self) -> None:
        while self._opened:
            self._opened.popitem()[1].close()


class Unrecorded:
    """Takes the place of recorders where recording is off: a run is noted all the same, without its words."""

    def __init__(self, recorders: RecorderRegistry) -> None:
        self._recorders = recorders

    async def of(self, workspace: TrackedWorkspace) -> ChangeRecorder:
        return await self._recorders.of(workspace)

    def acts(self, workspace: TrackedWorkspace, last: LastRun) -> None:
        self._recorders.passes(workspace, last)


def ledger_folder(home: Path, root: str) -> Path:
    """Where the ledger of a project lies."""
    return project_folder(home / "review", root)


class RecordingWorkspace(DelegatingWorkspace[TrackedWorkspace]):
    """A workspace that records, while an agent's run is under way (``attend``), what is done to the files below its root.
    What a person does in between is not recorded.

    What cannot be recorded is done all the same: that a disk is full must not keep an agent from making room. An ``error``
    event says so, once. ``patience`` is how many seconds a command that was stopped may be looked after.
    """

    def __init__(
        self, inner: TrackedWorkspace, recorders: RecorderProvider, *, patience: float = PATIENCE
    ) -> None:
        super().__init__(inner)
        self._patience = patience
        self._recorders = recorders
        self._attended: AgentSession | None = None
        self._run: TrackedRun | None = None
        self._failed: TrackedRun | None = None
        self._told: set[str] = set()
        self._has_looked = False

    def attend(self, attended: AgentSession) -> None:
        """Learn from an agent when its runs begin and end, one that is under way included, and tell those who watch it what they
        must know.
        """
        self._attended = attended
        attended.agent.subscribe(self._see)
        if attended.agent.state.is_streaming:
            self._see(AgentStart())
            prompts = [each for each in attended.agent.state.messages if isinstance(each, UserMessage)]
            self._see(MessageEnd(message=prompts[-1]))

    def _see(self, event: AgentEvent) -> None:
        match event:
            case AgentStart():
                of = self._attended
                self._run = TrackedRun(of.session.get_id(), id=of.run_id) if of else TrackedRun("")
            case MessageEnd(message=UserMessage() as message) if self._run and not self._run.title:
                self._run.title = title_of(message.text)
            case ToolExecutionStart() if self._run and not self._run.has_acted:
                self._run.has_acted = self._may_change(event.tool_name)
                if self._run.has_acted:
                    run = self._run
                    last = LastRun(run=run.id, session=run.session, title=run.title, began=run.began)
                    self._recorders.acts(self._inner, last)
            case AgentEnd():
                self._run = None
            case _:
                pass

    def _may_change(self, tool_name: str) -> bool:
        tools = self._attended.agent.state.tools if self._attended else ()
        return any(tool.spec.name == tool_name and not tool.read_only for tool in tools)

    async def recorder(self) -> ChangeRecorder:
        """Who records what is done here. Raises ``LedgerError``."""
        return await self._recorders.of(self._inner)

    async def news(self) -> UserMessage | None:
        """What a person decided about the session's changes since its model last heard of it, for before the next prompt."""
        from newel.review.undo_notices import may_have_changed, news

        of = self._attended
        if of is None or not may_have_changed(of.agent.state.messages):
            return None
        try:
            ledger = (await self.recorder()).project.ledger
            messages = of.agent.state.messages
            return await anyio.to_thread.run_sync(news, ledger, of.session.get_id(), messages)
        except NewelError:  # a ledger that cannot be used is reported with the next effect
            return None

    @property
    def recorded_paths(self) -> frozenset[str]:
        """The files, relative to the root, that the run under way has changed by now."""
        checkpoint = self._run.checkpoint if self._run else None
        return frozenset(file.path for file in checkpoint.files) if checkpoint else frozenset()

    # -- the port -----------------------------------------------------------------------------------

    async def write_bytes(
        self, path: str, data: bytes, /, *, expect: str | None = None, mode: int | None = None
    ) -> str:
        async with self.recording(path):
            return await self._inner.write_bytes(path, data, expect=expect, mode=mode)

    async def remove(self, path: str, /, *, expect: str | None = None) -> None:
        async with self.recording(path):
            await self._inner.remove(path, expect=expect)

    async def run(
        self,
        command: str,
        /,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 — see the port
        on_output: OnOutput | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        async with self.recording():
            return await self._inner.run(command, timeout=timeout, on_output=on_output, env=env)

    # -- recording ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def recording(self, path: str | None = None) -> AsyncGenerator[None]:
        """Record what the body does to a file, or to any file for None; also where it fails or is cancelled midway."""
        run = self._run
        inside = path is None or path.startswith(self.root.rstrip("/") + "/")
        if run is None or run is self._failed or not inside:
            yield
            return
        begun = await self._begin(run, path)
        patience = math.inf
        try:
            yield
        except anyio.get_cancelled_exc_class():
            patience = self._patience
            raise
        finally:
            if begun is not None:
                with anyio.CancelScope(shield=True):
                    await self._end(run, *begun, patience)

    @asynccontextmanager
    async def telling(self, words: str) -> AsyncGenerator[None]:
        """What the body does is told to those who watch the agent, if it takes long enough to be wondered at."""

        async def tell() -> None:
            await anyio.sleep(SOON)
            await self.say(words, code="progress")

        async with background_tasks(tell):
            yield

    async def _begin(
        self, run: TrackedRun, path: str | None
    ) -> tuple[ChangeRecorder, TrackedOperation] | None:
        if path is not None or self._has_looked:  # what is looked at again is known: that is quick
            return await self._keep(run, path)
        async with self.telling(LOOKING.format(root=self.root)):
            begun = await self._keep(run, path)
        self._has_looked = True
        return begun

    async def _keep(
        self, run: TrackedRun, path: str | None
    ) -> tuple[ChangeRecorder, TrackedOperation] | None:
        name = None if path is None else path.removeprefix(self.root).lstrip("/")
        try:
            return await retried(partial(self._kept, run, name))
        except (NewelError, OSError) as error:
            await self._fail(run, error)
            return None

    async def _kept(self, run: TrackedRun, name: str | None) -> tuple[ChangeRecorder, TrackedOperation]:
        recorder = await self.recorder()
        return recorder, await recorder.begin(run, name)

    async def _end(
        self, run: TrackedRun, recorder: ChangeRecorder, effect: TrackedOperation, patience: float
    ) -> None:
        notices = [LATER]
        try:
            with anyio.move_on_after(patience):
                notices = await recorder.end(effect)
        except (NewelError, OSError) as error:
            await self._fail(run, error)
        else:
            for notice in notices:
                await self.say(notice)

    async def _fail(self, run: TrackedRun, error: Exception) -> None:
        self._failed = run
        await self.say(
            f"What this run changes from here on is not recorded and cannot be undone. {describe_error(error)}"
        )

    async def say(self, words: str, *, code: str = "not_recorded") -> None:
        """Tell those who watch the agent, once."""
        if words not in self._told and self._attended is not None:
            self._told.add(words)
            await self._attended.agent.emit(ErrorEvent(code=code, message=words))


def title_of(text: str) -> str:
    """The first words of a prompt, on one line, as UTF-8 can hold them."""
    words = " ".join(text[: 4 * TITLE].split())
    shown = words if len(words) <= TITLE else words[: TITLE - 1] + "…"
    return shown.encode("utf-8", "replace").decode()
