"""If these fail, a job that loses its machine begins anew, loses files, or does a step twice.

Both machines are in this process; the workers of the commands are tested beside this.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from mock_llm_server import MockServer, serve
from newel.app.fleet_worker import open_job_factory
from newel.config.settings import Flags, Settings, load_settings
from newel.fleet.changes import read_changes
from newel.fleet.folders import JobFolders, open_store
from newel.fleet.job import FLEET_CONTRACT, FleetJob
from newel.fleet.runner import FleetRunner
from newel.jobs.engine import FINAL, Job
from newel.jobs.postgres.engine import PostgresEngine, open_postgres_engine
from newel.jobs.worker import Worker
from newel.runs.chat_turn import read_events
from newel.runs.event_hub import EventHub
from newel.runs.models import Contract
from newel.runs.run_events import ContractState, FolderSnapshot
from newel.text.json import to_json
from tests.integration.agents.support import after
from tests.postgres import PostgresServer
from tests.support import bash, scenario

pytestmark = pytest.mark.anyio


class Fleet:
    """Machines that share an engine and a store."""

    def __init__(
        self, folder: Path, database: str, engine: PostgresEngine, hub: EventHub, server: MockServer
    ) -> None:
        self.folder = folder
        self.database = database
        self.engine = engine
        self.hub = hub
        self.server = server
        self.store = open_store(str(folder / "store.git"))

    def settings(self, machine: str) -> Settings:
        home = self.folder / machine
        home.mkdir(exist_ok=True)
        environ = {
            "HOME": str(home),
            "NEWEL_HOME": str(home / ".newel"),
            "NEWEL_SANDBOX": "off",
            "LLM_BASE_URL": f"{self.server.url}/v1",
            "LLM_AUTH_TOKEN": "none",
            "LLM_DEFAULT_MODEL": "mock-model",
        }
        return load_settings(Flags(), cwd=home, environ=environ)

    def folders(self, machine: str) -> JobFolders:
        return JobFolders(self.folder / machine / "jobs", self.store, allow_local_repos=True)

    def worker(self, machine: str) -> Worker:
        open_factory = partial(open_job_factory, self.settings(machine), self.engine.budgets)
        runner = FleetRunner(self.engine, self.hub, self.folders(machine).open, open_factory)
        return Worker(self.engine, {FLEET_CONTRACT: runner}, slots=2, name=machine, claim_wait=0.1)

    async def submit(self, text: str, *, accept: str | None = None, start: str = "", repo: str = "") -> str:
        contract = Contract(text=text, accept=accept)
        job = FleetJob(fleet="f", number=1, contract=contract, session="s1", start=start, repo=repo)
        return await self.engine.submit(FLEET_CONTRACT, to_json(job), queue=job.session, key=job.key)

    async def run_until(self, machine: str, is_enough: Callable[[], Any]) -> None:
        """Have a machine work until something is the case, and then hand its jobs over."""
        worker = self.worker(machine)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker.run)
            with anyio.fail_after(20):
                while not await is_enough():  # noqa: ASYNC110 — of another process in use
                    await anyio.sleep(0.02)
            worker.hand_over("The machine is needed elsewhere.")

    async def ended(self, job: str) -> bool:
        return (await self.job(job)).state in FINAL

    async def job(self, job: str) -> Job:
        found = await self.engine.get(job)
        assert found is not None
        return found

    async def snapshots(self, job: str) -> list[FolderSnapshot]:
        return [event for event in await read_events(self.engine, job) if isinstance(event, FolderSnapshot)]


@asynccontextmanager
async def fleet(folder: Path, postgres: PostgresServer, *scenarios: dict[str, Any]) -> AsyncGenerator[Fleet]:
    script = {"scenarios": [one for each in scenarios for one in each["scenarios"]]}
    database = postgres.create_database()
    async with (
        serve(script, strict=True) as server,
        open_postgres_engine(postgres.url(database)) as engine,
        EventHub(engine) as hub,
    ):
        yield Fleet(folder, database, engine, hub, server)


def git(folder: Path, *words: str) -> str:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")
    return subprocess.run(
        ["git", *identity, *words], cwd=folder, env=environ, check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.slow  # a second of a core
async def test_a_contract_runs_in_a_copy_of_the_users_folder(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    git(mine, "init", "-q")
    (mine / "a.txt").write_text("committed\n")
    git(mine, "add", ".")
    git(mine, "commit", "-qm", "One")
    (mine / "a.txt").write_text("changed\n")
    (mine / "untracked.txt").write_text("new\n")
    (mine / ".env").write_text("KEY=secret\n")
    async with fleet(
        tmp_path,
        postgres,
        after(1, True),
        scenario("Count", bash("cat a.txt untracked.txt > both && git add both")),
    ) as here:
        start, missing = await here.folders("laptop").store_start("f", mine, lambda path: path == ".env")
        assert missing == ["files that often hold secrets: .env."]
        job = await here.submit("Count to one", accept="test -s both", start=start)
        await here.run_until("one", partial(here.ended, job))
        assert (await here.job(job)).state == "done", await here.job(job)
        work = tmp_path / "one/jobs" / job / "work"
        assert (work / "both").read_text() == "changed\nnew\n"
        assert git(work, "status", "--porcelain") == " M a.txt\nA  both\n?? untracked.txt\n"
        snapshots = await here.snapshots(job)
        edits = read_changes(tmp_path / "x", here.store, snapshots)
        assert [(edit.path, edit.before, edit.after and edit.after.data) for edit in edits] == [
            ("both", None, b"changed\nnew\n")
        ]
        assert sorted(path.name for path in mine.iterdir()) == [".env", ".git", "a.txt", "untracked.txt"]


async def test_another_machine_goes_on_where_the_first_one_stopped(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with fleet(
        tmp_path,
        postgres,
        after(1, False, missing="two"),
        after(2, False, missing="three"),
        after(3, True),
        scenario(
            "Count", bash("echo one > log"), bash("echo two >> log; sleep 20"), bash("echo three >> log")
        ),
    ) as here:
        job = await here.submit("Count to three")
        second = tmp_path / "one/jobs" / job / "work/log"

        async def is_at_two() -> bool:
            path = anyio.Path(second)
            return await path.exists() and "two" in await path.read_text()

        await here.run_until("one", is_at_two)
        assert (await here.job(job)).state == "queued"
        await here.run_until("two", partial(here.ended, job))
        assert (await here.job(job)).state == "done", await here.job(job)
        # The step that was stopped has a result that says so, with the files as it left them.
        assert (tmp_path / "two/jobs" / job / "work/log").read_text() == "one\ntwo\nthree\n"
        events = await read_events(here.engine, job)
        assert isinstance(events[-1], ContractState)
        assert events[-1].state == "completed"
        numbers = [snapshot.number for snapshot in await here.snapshots(job)]
        assert numbers == sorted(set(numbers))


async def test_a_repository_that_cannot_be_cloned_is_tried_again_and_named(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with fleet(tmp_path, postgres) as here:
        job = await here.submit("Count", repo=str(tmp_path / "missing.git"))

        async def is_delayed() -> bool:
            return bool((await here.job(job)).reason)

        await here.run_until("one", is_delayed)
        found = await here.job(job)
        assert found.state == "queued"
        assert "missing.git cannot be cloned" in found.reason


async def test_a_job_whose_workers_died_often_waits_for_a_store_as_long_as_any_other(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """Only the openings that failed count: machines that are lent die more often."""
    count = scenario("Count", bash("echo one > log; sleep 20"))
    async with fleet(tmp_path, postgres, count) as here:
        job = await here.submit("Count to one")
        log = anyio.Path(tmp_path / "one/jobs" / job / "work/log")
        await here.run_until("one", log.exists)
        postgres.execute("update newel.jobs set attempts = 9", here.database)
        (tmp_path / "store.git").rename(tmp_path / "away")

        async def is_delayed() -> bool:
            return "Snapshot" in (await here.job(job)).reason

        await here.run_until("two", is_delayed)
        found = await here.job(job)
        assert found.state == "queued", found.reason
