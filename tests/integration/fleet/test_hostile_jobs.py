"""If these fail, who may submit jobs to a fleet removes or writes files of its workers, reads their folders, or keeps its store from being
emptied.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from newel.evals.packed_files import PackedFile, pack
from newel.fleet.eval_job import EVAL_TRIAL, EvalTrialJob
from newel.fleet.git_store import GitStore
from newel.fleet.job import FLEET_CONTRACT, FleetJob
from newel.fleet.job_folder import JobFolder
from newel.fleet.retention import empty_store
from newel.jobs.postgres.engine import open_postgres_engine
from newel.runs.models import Contract
from newel.text.json import to_json
from tests.fleet import FleetOfProcesses, wait_for
from tests.job_folders import git, make_source
from tests.postgres import PostgresServer

pytestmark = pytest.mark.slow  # a database and a worker for each attack; test_workers.py has the quick tests

MakeFleet = Callable[..., FleetOfProcesses]


def submit(fleet: FleetOfProcesses, job: str, kind: str, params: bytes) -> str:
    """Submit a job by the function of the database, which takes any id."""
    ran = f"select newel.submit('{job}', null, '{kind}', '{job}', '{{}}', decode('{params.hex()}', 'hex'))"
    return fleet.query(ran)[0]


def wait_for_end(fleet: FleetOfProcesses, job: str, log: Path) -> str:
    """The reason of the failure."""
    asked = f"select reason from newel.jobs where id = '{job}' and state = 'failed'"  # noqa: S608 — its own words
    wait_for(lambda: fleet.query(asked), log)
    return fleet.query(asked)[0]


def trial(files: bytes = b"") -> bytes:
    files = files or pack([PackedFile("task.toml", "file", b"title = 'x'")])
    return to_json(EvalTrialJob(fleet="f", task="x", repeat=1, digest="", files=files, model="mock-model"))


def contract(session: str = "s1", repo: str = "") -> bytes:
    return to_json(FleetJob(fleet="f", number=1, contract=Contract(text="Count"), session=session, repo=repo))


BAD_IDS = [
    "/var/victim",
    "../../../../../victim",
    "a/../../../../../victim",
    ".",
    "..",
    "-x",
    "",
    "a" * 101,
    "a b",
    "a\nb",
    "ä",
    "start-*",
]


def test_the_database_takes_no_job_whose_id_is_a_path(postgres: PostgresServer) -> None:
    database = postgres.create_database()
    for job in BAD_IDS:
        sql = f"select newel.submit('{job}', null, 'eval_trial', 'q', '{{}}', '')"
        with pytest.raises(AssertionError, match="jobs_id"):
            postgres.execute(sql, database)
    assert postgres.execute("select count(*) from newel.jobs", database) == "0"


@pytest.mark.parametrize("job", ["{victim}", "../../../victim"])
@pytest.mark.parametrize("kind", [EVAL_TRIAL, FLEET_CONTRACT])
def test_a_worker_touches_nothing_for_a_job_whose_id_is_a_path(
    make_fleet: MakeFleet, job: str, kind: str
) -> None:
    """Also if the database lets it through: it may be of an earlier version."""
    fleet = make_fleet()
    worker = fleet.worker("one")
    victim = worker.home / "victim"
    (victim / "precious").mkdir(parents=True)
    fleet.query("alter table newel.jobs drop constraint if exists jobs_id")
    job = job.format(victim=victim)
    submit(fleet, job, kind, trial() if kind == EVAL_TRIAL else contract())
    said = wait_for_end(fleet, job, worker.log)
    assert (victim / "precious").is_dir()
    assert "is not a job ID" in said
    assert "is not a job ID" in worker.log.read_text()


@pytest.mark.parametrize("session", ["x/../../../../../../planted", "/planted", "..", ""])
def test_a_worker_writes_no_conversation_to_another_place(make_fleet: MakeFleet, session: str) -> None:
    fleet = make_fleet()
    worker = fleet.worker("one")
    submit(fleet, "j1", FLEET_CONTRACT, contract(session=session))
    assert "session" in wait_for_end(fleet, "j1", worker.log)
    assert not [*fleet.folder.rglob("*planted*")]


def test_a_trial_brings_no_folder_of_its_worker(make_fleet: MakeFleet) -> None:
    fleet = make_fleet()
    worker = fleet.worker("one")
    (private := worker.home / "private").mkdir()
    (private / "id_rsa").write_text("PRIVATE KEY")
    task = PackedFile("task.toml", "file", b"title = 'x'")
    for number, files in enumerate(
        (
            [task, PackedFile("files", "link", str(private).encode())],
            [
                task,
                PackedFile("files/a", "link", str(private).encode()),
                PackedFile("files/a/planted", "link", b"x"),
            ],
        )
    ):
        submit(fleet, f"j{number}", EVAL_TRIAL, trial(pack(files)))
        assert "a link" in wait_for_end(fleet, f"j{number}", worker.log)
    assert [path.name for path in private.iterdir()] == ["id_rsa"]


def test_a_worker_clones_nothing_of_its_own_disk(make_fleet: MakeFleet) -> None:
    fleet = make_fleet()
    worker = fleet.worker("one")
    private = make_source(worker.home / "private")
    local = [str(private), f"file://{private}", f"file:{private}", "../private", "~/private"]
    repos = [*local, f"ext::git upload-pack {private}", "-u./x", f"FILE://{private}"]
    jobs = {f"j{number}": repo for number, repo in enumerate(repos)}
    for job, repo in jobs.items():
        submit(fleet, job, FLEET_CONTRACT, contract(repo=repo))
    for job, repo in jobs.items():
        said = wait_for_end(fleet, job, worker.log)
        assert "repository" in said
        assert repo not in local or "allow_local_repos = true under [fleet]" in said, said
    assert not [*(worker.home / ".newel/fleet/jobs").rglob("shop.py")]


def test_a_worker_whose_settings_allow_it_clones_from_its_own_disk(make_fleet: MakeFleet) -> None:
    fleet = make_fleet()
    settings = fleet.folder / "one/.newel/config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[fleet]\nallow_local_repos = true\n")
    worker = fleet.worker("one")
    private = make_source(worker.home / "private")
    submit(fleet, "j1", FLEET_CONTRACT, contract(repo=str(private)))
    wait_for((worker.work("j1") / "shop.py").exists, worker.log)


@pytest.mark.anyio
async def test_a_name_that_is_no_job_keeps_nobody_from_emptying_the_store(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    database = postgres.create_database()
    store = GitStore(str(tmp_path / "store"))
    job = JobFolder(tmp_path / "here", "job-1")
    job.create()
    kept = JobFolder(tmp_path / "here", "job-2")
    kept.create()
    for folder in (job, kept):
        store.put(1, folder.snapshot(1).commit, folder.repository)
    postgres.execute(
        "insert into newel.removals (name) values ('/tmp/x'), ('job-*'), ('job-1'), (E'\\x1b]0;owned')",
        database,
    )
    lines: list[str] = []
    async with open_postgres_engine(postgres.url(database)) as engine:
        assert await empty_store(engine.retention, store, lines.append) == 1
    listed = postgres.execute("select name from newel.removals where due <= now()", database)
    assert listed == ""
    refs = git(tmp_path / "store", "for-each-ref", "--format=%(refname)")
    assert refs.decode().split() == ["refs/newel/job-2/1"]
    assert any("'/tmp/x'" in line for line in lines)
    assert len(lines) == 3
    assert "\x1b" not in "".join(lines)
