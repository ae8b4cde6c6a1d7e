"""If this fails, a contract is lost, or runs twice, when machines, cables or the database of a fleet fail while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.counted_contracts import STEPS, CountedContract, counting_model, submit_counted
from tests.fake_clock import clock_environ
from tests.fleet import FleetOfProcesses, FleetWorkerProcess, wait_for
from tests.integration.fleet.test_web import laptop
from tests.network import open_network
from tests.postgres import PostgresServer
from tests.served import served

CLOCKS = ("+2h", "-1d", "+0")
"""Any two machines disagree about the time."""


class Machines:
    """Workers in network namespaces of their own, which run one contract."""

    def __init__(
        self, fleet: FleetOfProcesses, contract: CountedContract, workers: list[FleetWorkerProcess]
    ) -> None:
        self._fleet = fleet
        self._contract = contract
        self._workers = workers

    def busy(self) -> FleetWorkerProcess:
        """The worker that is amid a step, after it has done another one."""
        done = len(self._contract.done())
        wait_for(lambda: len(self._contract.done()) > done)
        begun = len(self._contract.begun())
        wait_for(lambda: len(self._contract.begun()) > begun)
        _, pid = self._contract.attempt()
        return next(worker for worker in self._workers if worker.process.pid == pid)

    def wait_for_another(self) -> None:
        """Until another one continues the job."""
        number, _ = self._contract.attempt()
        wait_for(lambda: self._contract.attempt()[0] > number)

    def kill_busy(self) -> None:
        """Kill the one that has the job, and start a worker on its machine again when another has taken over."""
        victim = self.busy()
        victim.kill()
        self.wait_for_another()
        again = self._fleet.worker(victim.home.name, machine=victim.machine, **victim.environ)
        self._workers[self._workers.index(victim)] = again


# Slow: a lease has to end three times, each after ten seconds.
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_contract_survives_killed_workers_a_pulled_cable_a_killed_database_and_wrong_clocks(
    make_fleet: Callable[..., FleetOfProcesses], postgres: PostgresServer, tmp_path: Path
) -> None:
    """And its hunks are reviewed in the workbench, where nothing is written before they are saved."""
    with open_network() as network:
        fleet = make_fleet(counting_model())
        newel = laptop(fleet, tmp_path)
        fleet.connect(network)
        workers = [
            fleet.worker(f"m{number}", machine=network.add_machine(), **clock_environ(FAKETIME=clock))
            for number, clock in enumerate(CLOCKS)
        ]
        (contract,) = submit_counted(fleet, "a", [2])
        machines = Machines(fleet, contract, workers)

        machines.kill_busy()

        cut = machines.busy()
        assert cut.machine is not None
        cut.machine.unplug()
        machines.wait_for_another()
        cut.machine.plug_in()

        postgres.kill()
        time.sleep(1)
        postgres.start()

        machines.kill_busy()
        wait_for(lambda: contract.state() not in {"queued", "running"})
        assert contract.problems() == []

    with served(newel, "newel", "web") as server:
        job = server.client.post(f"/api/fleet-jobs/{contract.job}/propose", json={}, timeout=30).json()
        assert (job["run"], job["files"]) == (contract.job, 1)
        (file,) = server.client.get("/api/agent/pending").json()["files"]
        assert (file["file_path"], file["run_ids"]) == ("log", [contract.job])
        assert (newel.project / "log").read_text() == ""
        decision = {"file_path": "log", "rev": file["rev"], "action": "accept_all_file"}
        assert server.client.post("/api/agent/decide", json=decision).status_code == 200
        saved = server.client.post("/api/agent/save", json={"files": [{"file_path": "log"}]})
        assert saved.json()["saved_files"][0]["saved_hunks"] == 1
    assert (newel.project / "log").read_text() == "".join(f"{step}\n" for step in range(1, STEPS + 1))
