"""If this fails, a worker whose disk is full fails jobs that another one would do, or loses what they have done."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from tests.counted_contracts import counting_model, submit_counted
from tests.faults.test_full_disk import needs_mounts
from tests.fleet import FleetOfProcesses, FleetWorkerProcess, wait_for


def fill(worker: FleetWorkerProcess) -> None:
    """Write until nothing more fits."""
    with (worker.files / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


@needs_mounts
@pytest.mark.slow  # the job is queued again for 20 s later
@pytest.mark.timeout(120)
def test_a_job_goes_on_elsewhere_when_the_disk_of_its_worker_is_full(
    make_fleet: Callable[..., FleetOfProcesses],
) -> None:
    """What its commands say on a full disk is no result that the model gets."""
    fleet = make_fleet(counting_model())
    small = fleet.worker("small", disk="40m")
    (contract,) = submit_counted(fleet, "a", [1])
    wait_for(contract.done, small.log)
    fill(small)
    large = fleet.worker("large")
    wait_for(lambda: "full: this worker claims no jobs until" in small.log.read_text(), small.log)
    wait_for(lambda: contract.attempt()[0] > 1, large.log)
    wait_for(lambda: contract.state() not in {"queued", "running"}, large.log)
    assert contract.problems() == []
    assert contract.attempt()[1] == large.process.pid
    assert "No space left" not in fleet("fleet", "log", contract.job).stdout
    (small.files / "ballast").unlink()
    wait_for(lambda: "has room again" in small.log.read_text(), small.log)
    assert small.process.poll() is None
