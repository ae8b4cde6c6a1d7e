"""If these fail, a contract that runs on a laptop does not run on a fleet, or its work does not come back."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Callable

import pytest

from tests.fleet import FleetOfProcesses, wait_for
from tests.integration.agents.support import after
from tests.postgres import PostgresServer
from tests.support import bash, scenario
from tests.tcp_relay import Relay

MakeFleet = Callable[..., FleetOfProcesses]


@pytest.mark.slow  # a second of a core
def test_a_contract_runs_on_a_worker_and_its_changes_are_kept_here(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(after(1, True), scenario("Greet", bash("echo hello >> greeting; echo new > other")))
    (fleet.project / "greeting").write_text("good day\n")
    fleet.worker("one")
    done = fleet("fleet", "run", "Greet the reader", "--accept", "grep hello greeting", "--wait")
    assert "completed" in done.stdout
    job = fleet("fleet", "status").stdout.split()[0]
    assert "✓ passed" in fleet("fleet", "log", job).stdout
    assert (fleet.project / "greeting").read_text() == "good day\n"
    assert "Proposed the changes of 2 files" in fleet("fleet", "review", job).stdout
    assert (fleet.project / "greeting").read_text() == "good day\n"
    waiting = json.loads(fleet("review", "--json").stdout)["pending"]
    assert sorted(file["file_path"] for file in waiting) == ["greeting", "other"]
    fleet("keep", "--all", "--yes")
    assert (fleet.project / "greeting").read_text() == "good day\nhello\n"
    assert (fleet.project / "other").read_text() == "new\n"
    again = fleet("fleet", "review", job, check=False)
    assert again.returncode == 1
    assert "proposed here already" in again.stderr


@pytest.mark.slow  # seconds of waiting
@pytest.mark.timeout(90)
@pytest.mark.parametrize(
    ("model", "words"), [("mock-model", " retry: "), ("", " waits: ")], ids=["named", "asked for"]
)
def test_a_job_waits_for_a_model_server_that_is_away(make_fleet: MakeFleet, model: str, words: str) -> None:
    """Else a restart of that server turns a whole queue into failures within seconds."""
    fleet = make_fleet(after(1, True), scenario("Greet", bash("echo hello >> greeting")))
    with socket.socket() as bound:  # nothing listens there yet
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
        worker = fleet.worker("one", LLM_BASE_URL=url, LLM_DEFAULT_MODEL=model)
        job = fleet.run("Greet the reader")
        wait_for(lambda: f"{words}No connection to " in worker.log.read_text(), worker.log)
        assert fleet.state(job) in {"running", "queued"}
        bound.listen()
        relay = Relay(fleet.model.port, bound)
        try:
            wait_for(lambda: fleet.state(job) not in {"running", "queued"}, worker.log)
        finally:
            relay.close()
    assert fleet.state(job) == "completed"


@pytest.mark.slow  # a second of a core
def test_each_row_of_a_matrix_is_a_job_and_labels_place_it(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(after(1, True), scenario("Make the file", bash("echo made > it")))
    (fleet.folder / "rows.csv").write_text("name\nx\ny\nz\n")
    plain, fast = fleet.worker("plain"), fleet.worker("fast", "--labels", "gpu")
    words = ("Make the file {{name}}", "--matrix", str(fleet.folder / "rows.csv"), "--label", "gpu", "--wait")
    done = fleet("fleet", "run", *words)
    assert done.stdout.count("completed  Make the file") == 3, done.stdout
    assert "Make the file x (name=x)" in done.stdout
    assert "begins" not in plain.log.read_text()
    assert fast.log.read_text().count("begins") == 3
    newest = fleet("fleet", "status", done.stdout.split()[1][:-1], "--limit", "1", "--state", "completed")
    assert "3 completed." in newest.stdout
    assert "Make the file z (name=z)" in newest.stdout
    assert "2 older jobs are not shown: `--limit 3` shows them." in newest.stderr
    assert json.loads(fleet("fleet", "list", "--json").stdout)["states"] == {"completed": 3}
    listed = fleet("fleet", "workers").stdout
    assert "gpu" in listed
    assert listed.count("ready") == 2


@pytest.mark.slow  # a second of a core
def test_a_stopped_worker_hands_its_job_over(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(
        after(1, False, missing="two"),
        after(2, True),
        scenario("Count", bash("echo one > log; sleep 60"), bash("echo two >> log")),
    )
    first = fleet.worker("one")
    job = fleet.run("Count to two")
    wait_for(lambda: [*first.home.glob(".newel/fleet/jobs/*/work/log")])
    second = fleet.worker("two")
    first.process.send_signal(signal.SIGTERM)
    wait_for(lambda: "Stopping" in first.log.read_text(), first.log)
    first.process.send_signal(signal.SIGTERM)  # at once
    assert first.process.wait(timeout=20) == 0
    wait_for(lambda: fleet.state(job) == "completed", second.log)
    log = [*second.home.glob(".newel/fleet/jobs/*/work/log")]
    assert log[0].read_text() == "one\ntwo\n"


@pytest.mark.slow  # a second of a core
def test_a_job_that_is_cancelled_ends_with_its_command(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(scenario("Wait", bash("echo begun > log; sleep 300")))
    worker = fleet.worker("one")
    job = fleet.run("Wait for me")
    wait_for(lambda: [*worker.home.glob(".newel/fleet/jobs/*/work/log")])
    assert "1 cancelled" in fleet("fleet", "cancel", job).stdout
    wait_for(lambda: fleet.state(job) == "cancelled", worker.log)
    assert "0 cancelled. 1 had ended before." in fleet("fleet", "cancel", job).stdout


@pytest.mark.slow  # a second of a core
def test_a_drained_worker_ends_with_its_last_job(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(after(1, True), scenario("Work", bash("echo begun > log; sleep 3")))
    worker = fleet.worker("one")
    job = fleet.run("Work a little")
    wait_for(lambda: [*worker.home.glob(".newel/fleet/jobs/*/work/log")])
    name = fleet("fleet", "workers").stdout.split()[0]
    fleet("fleet", "drain", name)
    assert worker.process.wait(timeout=30) == 0, worker.log.read_text()
    assert fleet.state(job) == "completed"


@pytest.mark.slow  # a second of a core
def test_a_fleet_ends_at_its_budget_and_each_job_says_so(make_fleet: MakeFleet) -> None:
    """Each job alone stays far below it."""
    fleet = make_fleet(after(1, True), scenario("Make the file", bash("echo made > it")))
    (fleet.folder / "rows.json").write_text('[{"name": "x"}, {"name": "y"}, {"name": "z"}]')
    fleet.worker("one", "--slots", "1")
    words = (
        "Make the file {{name}}",
        "--matrix",
        str(fleet.folder / "rows.json"),
        "--fleet-max-tokens",
        "1200",
    )
    done = fleet("fleet", "run", *words, "--wait", check=False)
    assert done.returncode == 1
    states = [job["state"] for job in fleet.jobs()]
    assert states[0] == "completed", done.stdout
    assert states[-1] == "stopped", done.stdout
    assert "Stopped at the limit of fleet" in fleet.jobs()[-1]["reason"]
    assert "1,200 tokens" in done.stdout


@pytest.mark.slow  # a second of a core
def test_a_job_waits_for_a_store_that_is_away_and_the_worker_says_so(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(
        after(1, True), scenario("Count", bash("until [ -e go ]; do sleep 0.1; done; echo one > log"))
    )
    worker = fleet.worker("one")
    job = fleet.run("Count to one")
    store = fleet.folder / "store.git"
    wait_for(lambda: [*worker.home.glob(".newel/fleet/jobs/*/work")])
    wait_for(lambda: "begins" in worker.log.read_text(), worker.log)
    wait_for(lambda: fleet.jobs(job)[0]["events"] > 2)
    store.rename(fleet.folder / "away")
    store.write_text("not a repository")
    (worker.work(job) / "go").touch()
    wait_for(lambda: f"{job[:8]} waits for the store: " in worker.log.read_text(), worker.log)
    store.unlink()
    (fleet.folder / "away").rename(store)
    wait_for(lambda: fleet.state(job) == "completed", worker.log)


@pytest.mark.slow  # a second of a core
def test_a_part_of_a_repository_is_no_folder_to_begin_with(make_fleet: MakeFleet) -> None:
    """Files that the repository ignores would travel, such as data and build folders."""
    fleet = make_fleet()
    (fleet.project / ".git").mkdir()
    (fleet.project / "part").mkdir()
    done = fleet("fleet", "run", "Greet", "--cwd", "part", check=False)
    assert done.returncode == 2
    assert "is a part of the repository" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fleet", "status", "nope"), "No fleet and no job has an id that begins with 'nope'"),
        (("fleet", "drain", "nope"), "There is no worker nope"),
        (("fleet", "run", "x", "--ref", "main"), "--ref names a commit of a repository"),
        (("fleet", "run", "@missing"), "The contract missing cannot be read"),
        (("fleet", "run", "Type {{it}}"), "The contract uses {{it}}"),
    ],
)
def test_a_slip_is_explained(make_fleet: MakeFleet, words: tuple[str, ...], message: str) -> None:
    done = make_fleet()(*words, check=False)
    assert done.returncode in {1, 2}
    assert message in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_workers_and_their_jobs_outlive_a_database_that_was_away(
    make_fleet: MakeFleet, postgres: PostgresServer
) -> None:
    """It is away for longer than a lease, and than any call waits for it."""
    fleet = make_fleet(
        after(1, False, missing="two"),
        after(2, True),
        scenario("Count", bash("sleep 2"), bash("echo two > log")),
    )
    worker = fleet.worker("one")
    job = fleet.run("Count to two")
    wait_for(lambda: "begins" in worker.log.read_text(), worker.log)
    postgres.stop()
    try:
        time.sleep(25)
    finally:
        postgres.start()
    assert worker.process.poll() is None, worker.log.read_text()
    wait_for(lambda: fleet.state(job) == "completed", worker.log)
    assert "failed" not in worker.log.read_text()
