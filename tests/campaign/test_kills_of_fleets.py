"""If this fails, a fleet loses a contract, or runs a command twice, when its workers, their network and its database fail again and again.

Three workers in network namespaces of their own run several contracts. At random moments, a worker or the database is killed, or the
cable of a worker is pulled, for up to half as long again as a lease.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from mock_llm_server import running
from newel.app.fleet_worker import LEASE_S
from tests.campaign.scene import find_orphans
from tests.campaign.tally import CampaignTally
from tests.counted_contracts import CountedContract, counting_model, submit_counted
from tests.fleet import FleetOfProcesses, FleetWorkerProcess, wait_for
from tests.network import NamespacedMachine, open_network
from tests.postgres import PostgresServer, open_server

KINDS: Final = {
    "kill -9: a worker of a fleet": 14,
    "kill -9: the database of a fleet": 3,
    "the cable of a worker of a fleet": 3,
}
"""Their shares."""
LARGE: Final = 100
"""Kills from which a campaign has many of these."""
FLEET_SHARES: Final = (0.16, 0.4)
"""How many of these for each kill of a front end, in a small campaign and in a large one: each costs seconds."""
WORKERS: Final = 3
CONTRACTS: Final = 6
"""At once."""
PAUSE_S: Final = (0.3, 2.0)
END_S: Final = 180.0
"""How long the last contracts may take."""


class Fleet:
    """The parts that fail."""

    def __init__(
        self,
        processes: FleetOfProcesses,
        postgres: PostgresServer,
        machines: list[NamespacedMachine],
        dice: random.Random,
    ) -> None:
        self.contracts: list[CountedContract] = []
        self.processes = processes
        self._postgres = postgres
        self._machines = machines
        self._dice = dice
        self._plugged_in_at: dict[NamespacedMachine, float] = {}
        self._workers = [self._start_worker(number) for number in range(WORKERS)]

    def _start_worker(self, number: int) -> FleetWorkerProcess:
        return self.processes.worker(f"m{number}", machine=self._machines[number])

    def submit(self) -> None:
        """More contracts, if too few are in work."""
        if len(self.unfinished()) < CONTRACTS / 2:
            seconds = [round(self._dice.uniform(0.2, 3.0), 1) for _ in range(CONTRACTS)]
            self.contracts += submit_counted(self.processes, str(len(self.contracts)), seconds)
            wait_for(lambda: self.contracts[-1].begun() or not self.unfinished())

    def unfinished(self) -> list[CountedContract]:
        ids = self.processes.query("select id from newel.jobs where state in ('queued', 'running')")
        return [each for each in self.contracts if each.job in ids]

    def break_something(self, kind: str) -> None:
        for contract in self.unfinished():
            contract.read_journal()
        if "database" in kind:
            self._postgres.kill()
            time.sleep(self._dice.uniform(0, 2))
            self._postgres.start()
            return
        number = self._dice.choice(self._busy() or self._connected())
        if "cable" in kind:
            machine = self._machines[number]
            machine.unplug()
            self._plugged_in_at[machine] = time.monotonic() + self._dice.uniform(0.5, 1.5 * LEASE_S)
        else:
            self._workers[number].kill()
            self._workers[number] = self._start_worker(number)

    def repair(self) -> None:
        """Plug the cables in whose time has come, and one at least if most are unplugged; start workers again that had not reached the
        database at their start.
        """
        now = time.monotonic()
        for machine, at in [*self._plugged_in_at.items()]:
            if at < now or len(self._plugged_in_at) > 1:
                machine.plug_in()
                del self._plugged_in_at[machine]
        for number in self._connected():
            if self._workers[number].process.poll() is not None:
                self._workers[number] = self._start_worker(number)

    def _connected(self) -> list[int]:
        """Those whose cable is plugged in. Another one would not become ready again."""
        return [number for number in range(WORKERS) if self._machines[number] not in self._plugged_in_at]

    def _busy(self) -> list[int]:
        """Those of these that have jobs."""
        pids = {each.attempt()[1] for each in self.unfinished()}
        return [number for number in self._connected() if self._workers[number].process.pid in pids]

    def wait_for_the_end(self) -> None:
        deadline = time.monotonic() + END_S
        while (self.unfinished() or self._plugged_in_at) and time.monotonic() < deadline:
            self.repair()
            time.sleep(0.5)


@pytest.fixture
def fleet(tmp_path: Path, dice: random.Random) -> Generator[Fleet]:
    with ExitStack() as stack:
        network = stack.enter_context(open_network())
        postgres = stack.enter_context(open_server())
        model = stack.enter_context(running(counting_model(), strict=True, keep=100_000))
        processes = stack.enter_context(FleetOfProcesses(tmp_path, postgres, model))
        processes.connect(network)
        yield Fleet(processes, postgres, [network.add_machine() for _ in range(WORKERS)], dice)


def test_a_fleet(fleet: Fleet, tmp_path: Path, tally: CampaignTally, dice: random.Random, kills: int) -> None:
    rows = {kind: tally.row(kind) for kind in KINDS}
    more = round(kills * FLEET_SHARES[kills >= LARGE]) - len(KINDS)
    kinds = [*KINDS, *dice.choices([*KINDS], [*KINDS.values()], k=max(0, more))]
    for number, kind in enumerate(kinds):
        fleet.submit()
        time.sleep(dice.uniform(*PAUSE_S))
        fleet.repair()
        with tally.attempt(rows[kind], f"number {number}"):
            fleet.break_something(kind)
    fleet.wait_for_the_end()
    ended = tally.row("contracts of a fleet amid these")
    steps = calls = 0
    for contract in fleet.contracts:
        with tally.attempt(ended, contract.job) as found:
            found.extend(contract.problems())
            steps, calls = steps + len(contract.done()), calls + len(contract.begun())
    fleet.processes.kill_workers()
    for column, words in find_orphans(tmp_path):
        ended.left += 1
        tally.problems.append(f"{column}: {words}")
    ended.note = f"{steps} steps, begun by {calls} calls"
