"""An index of agent runs, read from the journals of projects; other processes may be writing those.

A project's journals are in ``<home>/jobs/<project>``, which a workbench owns, and in ``<project>-2``, ``-3``… for headless
agents: a journal has one owner, and a headless agent must not block a workbench while it works.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import anyio
import msgspec

from newel.agent.errors import NewelError
from newel.contracts.contract_job import CONTRACT, ContractParams
from newel.jobs.directory_lock import LOCK
from newel.jobs.engine import FINAL, EngineError, Job
from newel.jobs.queries import FILE
from newel.jobs.sqlite import Reader, SqliteEngine, open_engine, open_reader
from newel.runs.run_events import ContractState, RunEvent, decode
from newel.storage.file_lock import read_holder
from newel.storage.files import open_regular, project_folder

INTERRUPTED = "interrupted"
"""The state of a run whose process died before its end."""

POLL_INTERVAL_S = 0.2
"""Of another process's journal."""

PAGE = 1000


class NoSuchRun(NewelError):
    """No run, or more than one, has an id that begins so."""


class AgentRun(msgspec.Struct, frozen=True):
    """A run; ``state`` is that of its contract, or ``interrupted``, ``journal`` the folder of its journal."""

    job: Job
    params: ContractParams
    journal: Path
    state: str
    reason: str


def journal_folder(home: Path, project: str) -> Path:
    """The folder of a workbench's journal for a project."""
    return project_folder(home / "jobs", project)


def journals(home: Path, project: str | None) -> list[Path]:
    """The folders with journals: those of a project, or with None of all projects."""
    if project is None:
        return sorted(path.parent for path in (home / "jobs").glob(f"*/{FILE}"))
    base = journal_folder(home, project)
    numbered = sorted(
        path
        for path in base.parent.glob(f"{base.name}-*")
        if path.name.removeprefix(f"{base.name}-").isdecimal()
    )
    return [path for path in (base, *numbered) if (path / FILE).is_file()]


@asynccontextmanager
async def open_spare_engine(home: Path, project: str) -> AsyncGenerator[SqliteEngine]:
    """The engine of a project's first numbered folder without an owner. Raises ``EngineError``."""
    base = journal_folder(home, project)
    async with contextlib.AsyncExitStack() as stack:
        for number in count(2):
            try:
                engine = await stack.enter_async_context(open_engine(base.with_name(f"{base.name}-{number}")))
            except EngineError as error:
                # A lock that would block has an owner: try the next one.
                if not isinstance(error.__cause__, BlockingIOError):
                    raise
            else:
                yield engine
                return


async def list_runs(folders: Sequence[Path], *, limit: int) -> list[AgentRun]:
    """The agents' runs, the newest first."""
    runs: list[AgentRun] = []
    for folder in folders:
        with contextlib.suppress(EngineError):  # an unreadable journal must not hide the others
            async with open_reader(folder) as reader:
                jobs = await reader.find(kind=CONTRACT, limit=limit)
                runs += [await _describe(reader, job, folder) for job in jobs]
    return sorted(runs, key=lambda run: run.job.created, reverse=True)[:limit]


async def find_run(folders: Sequence[Path], run_id: str) -> AgentRun:
    """The run whose id begins with ``run_id``. Raises ``NoSuchRun``."""
    runs = [run for run in await list_runs(folders, limit=10_000) if run.job.id.startswith(run_id)]
    if len(runs) != 1:
        what = "There is no agent" if not runs else f"There are {len(runs)} agents"
        raise NoSuchRun(f"{what} whose id begins with {run_id!r}. `newel agents --all` lists them.")
    return runs[0]


async def follow_run(run: AgentRun) -> AsyncGenerator[RunEvent]:
    """The events of a run, past and future, until the run or its process ends."""
    seq = 0
    async with open_reader(run.journal) as reader:
        while True:
            is_ended = not await _is_running(reader, run)
            while page := (await reader.read(run.job.id, seq, PAGE))[0]:
                for entry in page:
                    seq = entry.seq
                    yield decode(entry.data)
            if is_ended:
                return
            await anyio.sleep(POLL_INTERVAL_S)


async def _is_running(reader: Reader, run: AgentRun) -> bool:
    job = await reader.get(run.job.id)
    return job is not None and job.state not in FINAL and _has_owner(run.journal)


async def _describe(reader: Reader, job: Job, folder: Path) -> AgentRun:
    state, reason = "failed", job.reason
    if job.state not in FINAL:
        state = "running" if _has_owner(folder) else INTERRUPTED
    else:
        events, _ = await reader.read(job.id, job.seq - 1, 1)
        last = decode(events[0].data) if events else None
        if isinstance(last, ContractState):
            state, reason = last.state, last.reason
    return AgentRun(job, msgspec.json.decode(job.params, type=ContractParams), folder, state, reason)


def _has_owner(folder: Path) -> bool:
    """Whether the process that wrote itself down as a folder's owner is alive. Testing its lock could block one that just starts."""
    try:
        with open_regular(folder / LOCK) as file:
            holder = read_holder(file.fileno())
    except OSError:
        return False
    return holder is not None and holder.is_running
