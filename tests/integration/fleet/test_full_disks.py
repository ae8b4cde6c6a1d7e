"""If this fails, a worker whose disk is full fails jobs that another one would do, or loses what they have done."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from tests.faults.test_full_disk import needs_mounts
from tests.fleet import FleetOfProcesses, FleetWorkerProcess, wait_for
from tests.integration.agents.support import after
from tests.support import bash, scenario

MakeFleet = Callable[..., FleetOfProcesses]


def fill(worker: FleetWorkerProcess) -> None:
    """Write until nothing more fits."""
    with (worker.files / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


@needs_mounts
@pytest.mark.slow  # the job is queued again for 20 s later
@pytest.mark.timeout(90)
def test_a_job_goes_on_elsewhere_when_the_disk_of_its_worker_is_full(make_fleet: MakeFleet) -> None:
    """What its command says on a full disk is no result that the model gets."""
    fleet = make_fleet(
        after(1, False, missing="two"),
        after(2, True),
        scenario("Count", bash("echo one > log"), bash("sleep 4; cat log >> copy; echo two >> log")),
    )
    small = fleet.worker("small", disk="40m")
    job = fleet.run("Count to two")
    wait_for((small.work(job) / "log").exists, small.log)
    fill(small)
    large = fleet.worker("large")
    wait_for(lambda: "full: this worker claims no jobs until" in small.log.read_text(), small.log)
    assert fleet.state(job) in {"queued", "running"}
    wait_for(lambda: fleet.state(job) == "completed", large.log)
    assert (large.work(job) / "log").read_text() == "one\ntwo\n"
    assert (large.work(job) / "copy").read_text() == "one\n"
    assert "No space left" not in fleet("fleet", "log", job).stdout
    (small.files / "ballast").unlink()
    wait_for(lambda: "has room again" in small.log.read_text(), small.log)
    assert small.process.poll() is None
