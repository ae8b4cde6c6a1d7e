"""If this fails, a contract is lost, or runs twice, when machines, cables or the database of a fleet fail while it runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from tests.counted_contracts import STEPS, CountedContract, counting_model, submit_counted
from tests.fake_clock import clock_environ
from tests.fleet import FleetOfProcesses, FleetWorkerProcess, wait_for
from tests.network import open_network
from tests.postgres import PostgresServer

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
    make_fleet: Callable[..., FleetOfProcesses], postgres: PostgresServer
) -> None:
    with open_network() as network:
        fleet = make_fleet(counting_model())
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

    fleet("fleet", "review", contract.job)
    assert (fleet.project / "log").read_text() == ""
    waiting = json.loads(fleet("review", "--json").stdout)["pending"]
    assert [file["file_path"] for file in waiting] == ["log"]
    fleet("keep", "log", "--yes")
    assert (fleet.project / "log").read_text() == "".join(f"{step}\n" for step in range(1, STEPS + 1))
