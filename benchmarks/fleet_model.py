"""At how many agents which part of a fleet gives out, from costs that were measured.

    python benchmarks/fleet_model.py                      # the costs below
    python benchmarks/fleet_model.py --measure            # those of this machine, in three minutes; --save FILE keeps them
    python benchmarks/fleet_model.py --costs FILE --cores 16 --slots 32 --model-seconds 30
    python benchmarks/fleet_model.py --validate           # predict what fleet_engine.py measures

What the parts use is linear in the agents, but for notifications, which every worker gets of every other one. Latencies come from a
simulation of events: each worker writes the appends that have arrived since its last transaction in the next one. The more the database's
cores are busy, the longer a transaction takes. What is not in it: a network between worker and database (add its round trip to each
append), vacuum of old jobs, and what the commands of the agents need.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio
import msgspec

AGENTS: Final = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
LEASE_S: Final = 10.0
NOTIFICATIONS_PER_S: Final = 10.0
"""The most that a worker sends."""
POLLS_PER_S: Final = 5.7
"""Claims of a worker with a free slot."""
MAX_BATCH: Final = 200
BUSY: Final = 0.7
"""Of its cores the database may use: with more, latencies grow fast."""
DAY_S: Final = 86_400


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds of CPU of the database, unless a name says otherwise. The defaults were measured on two cores; see the README."""

    append_ms: float = 1.16
    """Until an append that is alone is durable, in the median."""
    append_p95_ms: float = 1.75
    entry_ms: float = 0.258
    """That each further append adds to a transaction."""
    commits_per_s: float = 6_658.0
    """That the disk of the log allows, from 32 connections at once."""
    claim_idle: float = 0.15
    """A claim that finds nothing."""
    claim_10k: float = 4.0
    """A claim of one job, with so many in the queue."""
    claim_100k: float = 5.8
    claim_more: float = 0.233
    """Each further job in a claim."""
    renew: float = 0.015
    """A lease that is looked at."""
    extend: float = 0.422
    """A lease that is extended."""
    notification: float = 0.55
    delivery: float = 0.0187
    """Of a notification to one worker."""
    delivery_worker: float = 0.0184
    """The same in the worker."""
    step: float = 19.6
    """A step of a contract: its events, its requests to the model, its budget."""
    step_commits: float = 8.15
    step_appends: float = 8.6
    step_wal_kb: float = 8.89
    step_table_kb: float = 5.43
    step_worker: float = 170.0
    """The worker's CPU, and that of git and of the command ``true``."""
    step_store_kb: float = 6.07
    worker_mib: float = 35.4
    slot_mib: float = 12.4
    connections: float = 8.0
    """Of a worker whose slots are all in use."""


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What agents do, and the machines. ``snapshot`` is that of a folder of 10,000 files; see ``job_snapshots.py``."""

    model_seconds: float = 10.0
    command_seconds: float = 5.0
    snapshot_seconds: float = 0.3
    snapshot_kb: float = 4.0
    steps: float = 30.0
    """Of a job."""
    queued: float = 10_000.0
    """Jobs that wait."""
    slots: float = 64.0
    """Of a worker."""
    cores: float = 8.0
    """Of the database."""
    wal_mb_s: float = 200.0
    """That the disk of the database's log can write."""
    max_connections: float = 500.0
    store_mb_s: float = 100.0
    worker_cores: float = 16.0
    worker_gib: float = 64.0
    command_mib: float = 200.0
    """Memory of an agent's commands."""
    server_slots: float = 64.0
    """Requests that a model server answers at a time."""


class Part(msgspec.Struct, frozen=True):
    """A part of the fleet: what is used of ``limit``."""

    name: str
    use: float
    limit: float
    remedy: str


class Prediction(msgspec.Struct, frozen=True):
    """A fleet whose agents all work. ``machines`` and ``servers`` are those of workers and of the model; more of them can be added."""

    agents: int
    workers: float
    steps_per_s: float
    parts: list[Part]
    table_gb_day: float
    machines: float
    requests: float
    servers: float

    @property
    def first(self) -> Part:
        """The part that is used most."""
        return max(self.parts, key=lambda part: part.use / part.limit)


def predict(agents: int, costs: Costs, site: Site) -> Prediction:
    """What so many agents use of each part."""
    workers = -(-agents // site.slots)
    cycle = site.model_seconds + site.command_seconds + site.snapshot_seconds
    steps = agents / cycle
    notifications = workers * min(NOTIFICATIONS_PER_S, steps * costs.step_appends / workers)
    leases_ms = agents * (costs.renew + costs.extend * 3 / LEASE_S)
    notifications_ms = notifications * (costs.notification + workers * costs.delivery)
    database_ms = steps * costs.step + leases_ms + _claims_ms(workers, steps, costs, site) + notifications_ms
    memory_gib = (agents * (costs.slot_mib + site.command_mib) + workers * costs.worker_mib) / 1024
    parts = [
        Part(
            "cores of the database",
            database_ms / 1000,
            site.cores * BUSY,
            "more cores; then a second database, each with fleets of its own",
        ),
        Part(
            "commits/s",
            steps * costs.step_commits,
            costs.commits_per_s,
            "`commit_delay`, or a log on a disk with a cache that survives a power cut",
        ),
        Part(
            "MB/s of the log",
            steps * costs.step_wal_kb / 1000,
            site.wal_mb_s,
            "`wal_compression`, a longer `checkpoint_timeout`, a disk of its own for the log",
        ),
        Part(
            "connections",
            workers * costs.connections,
            site.max_connections,
            "more slots for each worker, or PgBouncer in session mode and a larger `max_connections`",
        ),
        Part(
            "a worker's core for notifications",
            notifications * costs.delivery_worker / 1000,
            BUSY,
            "more slots for each worker; then a second database, each with fleets of its own",
        ),
        Part(
            "MB/s of the store",
            steps * (costs.step_store_kb + site.snapshot_kb) / 1000,
            site.store_mb_s,
            "an object store in place of a repository, or a store for each fleet",
        ),
    ]
    worker_cores = steps * (costs.step_worker / 1000 + site.snapshot_seconds)
    in_flight = agents * site.model_seconds / cycle
    return Prediction(
        agents=agents,
        workers=workers,
        steps_per_s=steps,
        parts=parts,
        table_gb_day=steps * costs.step_table_kb * DAY_S / 1e6,
        machines=max(memory_gib / site.worker_gib, worker_cores / site.worker_cores),
        requests=in_flight,
        servers=in_flight / site.server_slots,
    )


def _claims_ms(workers: float, steps: float, costs: Costs, site: Site) -> float:
    share = min(1.0, site.queued / 100_000)
    claim = costs.claim_10k + share * max(0.0, costs.claim_100k - costs.claim_10k)
    return workers * POLLS_PER_S * costs.claim_idle + steps / site.steps * claim


def capacity(name: str, costs: Costs, site: Site, *, most: int = 10_000_000) -> int:
    """The most agents with which a part does not give out."""

    def fits(agents: int) -> bool:
        part = next(part for part in predict(agents, costs, site).parts if part.name == name)
        return part.use <= part.limit

    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


# -- simulation ---------------------------------------------------------------------------------------


class Simulation:
    """Workers that claim jobs of ``steps`` steps of ``step_s`` seconds, each with an append. Times are in seconds.

    A worker writes one transaction at a time, of all appends that wait; ``slowdown`` is by how much a busy database stretches it.
    """

    def __init__(
        self, costs: Costs, *, workers: int, slots: int, steps: int, step_s: float, slowdown: float = 1.0
    ) -> None:
        self._costs = costs
        self._slots = slots
        self._steps = steps
        self._step_s = step_s
        self._slowdown = slowdown / 1000
        self._sigma = math.log(costs.append_p95_ms / costs.append_ms) / 1.645
        self._waiting: list[deque[tuple[float, int]]] = [deque() for _ in range(workers)]
        self._writing = [False] * workers
        self._free = [slots] * workers
        self._claiming = [False] * workers
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._number = 0
        self._queued = 0
        self.latencies: list[float] = []
        self.seconds = 0.0

    def run(self, jobs: int, *, spread: float = 0.0, seed: int = 0) -> None:
        """Run all jobs. They begin within ``spread`` seconds of their claim, at random."""
        self._dice = random.Random(seed)  # noqa: S311 — a simulation
        self._spread = spread
        self._queued = jobs
        for worker in range(len(self._free)):
            self._claim(worker, 0.0)
        while self._events:
            self.seconds, _, event = heapq.heappop(self._events)
            event(self.seconds)

    def _at(self, time: float, event: Callable[[float], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (time, self._number, event))

    def _claim(self, worker: int, now: float) -> None:
        count = min(self._free[worker], self._queued)
        if not count or self._claiming[worker]:
            return
        self._queued -= count
        self._free[worker] -= count
        self._claiming[worker] = True
        took = (self._costs.claim_10k + (count - 1) * self._costs.claim_more) * self._slowdown

        def claimed(now: float) -> None:
            self._claiming[worker] = False
            for _ in range(count):
                begin = now + self._dice.uniform(0, self._spread)
                self._at(begin + self._step_s, lambda now: self._append(worker, self._steps, now))
            self._claim(worker, now)

        self._at(now + took, claimed)

    def _append(self, worker: int, left: int, now: float) -> None:
        self._waiting[worker].append((now, left))
        if not self._writing[worker]:
            self._write(worker, now)

    def _write(self, worker: int, now: float) -> None:
        waiting = self._waiting[worker]
        batch = [waiting.popleft() for _ in range(min(MAX_BATCH, len(waiting)))]
        self._writing[worker] = bool(batch)
        if not batch:
            return
        alone = self._dice.lognormvariate(math.log(self._costs.append_ms), self._sigma)
        took = (alone + (len(batch) - 1) * self._costs.entry_ms) * self._slowdown

        def written(now: float) -> None:
            for began, left in batch:
                self.latencies.append(now - began)
                if left > 1:
                    again = left - 1
                    self._at(now + self._step_s, lambda now, again=again: self._append(worker, again, now))
                else:
                    self._free[worker] += 1
            self._claim(worker, now)
            self._write(worker, now)

        self._at(now + took, written)


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def append_p95_ms(agents: int, costs: Costs, site: Site) -> float:
    """The latency of an append in such a fleet: of a worker that shares the database with the others. Infinite if that is overloaded."""
    predicted = predict(agents, costs, site)
    busy = predicted.parts[0].use / site.cores
    if busy >= 1:
        return float("inf")
    slots = int(min(agents, site.slots))
    pause = agents / predicted.steps_per_s / costs.step_appends
    simulation = Simulation(
        costs, workers=1, slots=slots, steps=20, step_s=pause, slowdown=slowdown(busy, site.cores)
    )
    simulation.run(slots, spread=pause)
    return percentile(simulation.latencies, 0.95) * 1000


def slowdown(busy: float, cores: float) -> float:
    """By how much a transaction takes longer if the share ``busy`` of the cores is in use: Sakasegawa's approximation of a queue with
    several servers.
    """
    return 1 + busy ** ((2 * (cores + 1)) ** 0.5) / (cores * (1 - busy))


# -- the command --------------------------------------------------------------------------------------


def table(costs: Costs, site: Site) -> list[str]:
    """The sweep as Markdown."""
    head = "agents|workers|steps/s|cores|commits/s|log MB/s|GB/day|connections|core for notes|store MB/s|append p95 ms|machines|requests|used most"
    lines = [head, "|".join(["---"] * len(head.split("|")))]
    for agents in AGENTS:
        found = predict(agents, costs, site)
        uses = [f"{part.use:,.{1 if part.use < 100 else 0}f}" for part in found.parts]
        first = found.first
        cells = [
            f"{agents:,}",
            f"{found.workers:,.0f}",
            f"{found.steps_per_s:,.0f}",
            *uses[:3],
            f"{found.table_gb_day:,.0f}",
            *uses[3:],
            f"{append_p95_ms(agents, costs, site):,.1f}",
            f"{found.machines:,.1f}",
            f"{found.requests:,.0f}",
            f"{first.name}: {first.use / first.limit:,.0%}",
        ]
        lines.append("|".join(cells))
    limits = [(capacity(part.name, costs, site), part) for part in predict(1, costs, site).parts]
    lines += ["", "part|gives out at|then", "---|---|---"]
    lines += [
        f"{part.name}|{count:,}|{part.remedy}" for count, part in sorted(limits, key=lambda row: row[0])
    ]
    return [f"| {line.replace('|', ' | ')} |" if line else "" for line in lines]


def validate(costs: Costs) -> list[str]:
    """Predictions of the two figures that ``fleet_engine.py`` measures."""
    fleet = Simulation(costs, workers=4, slots=64, steps=5, step_s=1.0)
    fleet.run(1000)
    alone = Simulation(costs, workers=1, slots=100, steps=20, step_s=1.0)
    alone.run(100, spread=1.0)
    p95 = percentile(alone.latencies, 0.95) * 1000
    return [
        f"1,000 jobs of 5 steps of 1 s on 4 workers of 64 slots: {fleet.seconds:.1f} s",
        f"append, 100 jobs, one a second: p95 {p95:.2f} ms",
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--costs", type=Path, help="a file that --save has written")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--validate", action="store_true")
    for name, default in msgspec.structs.asdict(Site()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=default)
    options = parser.parse_args()
    costs = Costs() if options.costs is None else msgspec.json.decode(options.costs.read_bytes(), type=Costs)
    if options.measure:
        from fleet_costs import measure

        costs = Costs(**anyio.run(measure))
        text = msgspec.json.format(msgspec.json.encode(costs)).decode()
        print(text)
        if options.save is not None:
            options.save.write_text(text)
    if options.validate:
        print("\n".join(validate(costs)))
        return
    site = Site(**{name: getattr(options, name) for name in Site.__struct_fields__})
    print("\n".join(table(costs, site)))


if __name__ == "__main__":
    main()
