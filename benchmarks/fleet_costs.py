"""What a job of a fleet costs, measured on this machine: in the database, in a worker and in the store. See ``fleet_model.py``.

CPU is that of all processes of the server, so others on the machine do not distort it; latencies are.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec
from steps import resident

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mock_llm_server import running
from newel.jobs.engine import Lease
from newel.jobs.placement import WorkerIdentity
from newel.jobs.postgres.database import Connection, Database
from newel.jobs.postgres.engine import PostgresEngine, open_postgres_engine
from tests.fleet import FleetOfProcesses
from tests.integration.agents.support import verdict
from tests.postgres import PostgresServer, open_server
from tests.processes import children
from tests.support import bash

EVENT: Final = b'{"type":"message_end","message":{"role":"user","content":"' + b"x" * 440 + b'"}}'
JOBS: Final = 100
LISTENERS: Final = 40
NOTIFICATIONS: Final = 400
SUBMIT: Final = (
    "select count(newel.submit(md5(n::text), 'k' || n, 'turn', 'q' || n, '{{}}', '{{}}'))"
    " from generate_series({first}, {last}) n"
)
CONTRACTS, STEPS = 8, 10
TICKS: Final = os.sysconf("SC_CLK_TCK")


async def measure() -> dict[str, float]:
    """The fields of ``fleet_model.Costs``. Takes three minutes, and starts a PostgreSQL server of its own."""
    with open_server() as server:
        figures: dict[str, float] = {}
        for part in (
            _measure_appends,
            _measure_commits,
            _measure_leases,
            _measure_notifications,
            _measure_claims,
            _measure_contracts,
        ):
            began = time.perf_counter()
            figures |= await part(server)
            print(
                f"{part.__name__}: {time.perf_counter() - began:.0f} s; load {os.getloadavg()[0]:.1f}",
                file=sys.stderr,
            )
    return {name: round(value, 4) for name, value in figures.items()}


# -- the engine ---------------------------------------------------------------------------------------


@asynccontextmanager
async def _engine_with_leases(
    server: PostgresServer, lease: float = 30
) -> AsyncGenerator[tuple[PostgresEngine, list[Lease]]]:
    async with open_postgres_engine(server.url(server.create_database()), lease=lease) as engine:
        for number in range(JOBS):
            await engine.submit("turn", b"{}", queue=f"q{number}")
        yield engine, await engine.claim(JOBS, "benchmark")


async def _measure_appends(server: PostgresServer) -> dict[str, float]:
    async with _engine_with_leases(server) as (engine, leases):
        alone = await appends(engine, leases[:1], 300, 0.0)
        began = time.perf_counter()
        times = await appends(engine, leases, 30, 0.0)
        each_ms = (time.perf_counter() - began) * 1000 / len(times)
    one_ms = statistics.median(alone) * 1000
    p95_ms = sorted(alone)[len(alone) * 95 // 100] * 1000
    return {"append_ms": one_ms, "append_p95_ms": p95_ms, "entry_ms": (each_ms * JOBS - one_ms) / (JOBS - 1)}


async def appends(engine: PostgresEngine, leases: list[Lease], rounds: int, pause: float) -> list[float]:
    """The seconds of each append, while each job appends every ``pause`` seconds."""
    times: list[float] = []
    last = {lease.job: len(await engine.read(lease.job, limit=100_000)) for lease in leases}

    async def write(number: int, lease: Lease) -> None:
        await anyio.sleep(pause * number / len(leases))
        for _ in range(rounds):
            began = time.perf_counter()
            last[lease.job] = await engine.append(lease, [EVENT], expect_seq=last[lease.job])
            times.append(time.perf_counter() - began)
            await anyio.sleep(pause)

    async with anyio.create_task_group() as tasks:
        for number, lease in enumerate(leases):
            tasks.start_soon(write, number, lease)
    return times


async def _measure_commits(server: PostgresServer) -> dict[str, float]:
    """Of ``pgbench``: an INSERT and a COMMIT each."""
    name = server.create_database(empty=True)
    server.execute("create table bare (n serial primary key, data text)", name)
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write("insert into bare (data) values (repeat('x', 500));\n")
        script.flush()
        words = ["-n", "-f", script.name, "-c", "32", "-j", "2", "-T", "5", "-h", "127.0.0.1"]
        command = [str(server.programs / "pgbench"), *words, "-p", str(server.port), "-U", "postgres", name]
        done = await anyio.run_process(command)
    line = next(line for line in done.stdout.decode().splitlines() if line.startswith("tps"))
    return {"commits_per_s": float(line.split()[2])}


async def _measure_leases(server: PostgresServer) -> dict[str, float]:
    rounds = 40
    async with _engine_with_leases(server) as (engine, leases):

        async def renew() -> None:
            for _ in range(rounds):
                await engine.renew(leases)

        looked = await cpu_of(server, renew)
    async with _engine_with_leases(server, lease=3) as (engine, leases):

        async def extend() -> None:
            for _ in range(8):
                await anyio.sleep(1.1)
                await engine.renew(leases)

        extended = await cpu_of(server, extend)
    renew_ms = looked / rounds / JOBS
    return {"renew": renew_ms, "extend": max(0.0, extended / 8 / JOBS - renew_ms)}


async def _measure_notifications(server: PostgresServer) -> dict[str, float]:
    database = Database(server.url(server.create_database()))
    heard = 0
    all_heard = anyio.Event()
    topics = "x" * 32 * 30  # those of thirty jobs

    async def send(connection: Connection) -> None:
        for _ in range(NOTIFICATIONS):
            await connection.execute("SELECT pg_notify('newel', $1)", topics)

    alone = await cpu_of(server, lambda: database.call(send, within=60))
    listeners = [await database.connect() for _ in range(LISTENERS)]

    def hear(_: object, __: int, ___: str, ____: str) -> None:
        nonlocal heard
        heard += 1
        if heard == NOTIFICATIONS * LISTENERS:
            all_heard.set()

    for each in listeners:
        await each.add_listener("newel", hear)
    own = time.process_time()

    async def send_and_hear() -> None:
        await database.call(send, within=60)
        with anyio.fail_after(60):
            await all_heard.wait()

    together = await cpu_of(server, send_and_hear)
    own = (time.process_time() - own) * 1000
    for each in listeners:
        each.terminate()
    database.close()
    deliveries = NOTIFICATIONS * LISTENERS
    return {
        "notification": alone / NOTIFICATIONS,
        "delivery": (together - alone) / deliveries,
        "delivery_worker": own / deliveries,
    }


async def _measure_claims(server: PostgresServer) -> dict[str, float]:
    name = server.create_database()
    figures: dict[str, float] = {}
    me = WorkerIdentity(name="one", machine="m", labels=["gpu"], slots=64)
    async with open_postgres_engine(server.url(name), worker=me) as engine:

        async def claim(jobs: int, times: int) -> float:
            async def repeat() -> None:
                for _ in range(times):
                    await engine.claim(jobs, "one")

            return await cpu_of(server, repeat) / times

        figures["claim_idle"] = await claim(64, 200)
        queued = 0
        for label, count in (("claim_10k", 10_000), ("claim_100k", 100_000)):
            while queued < count:
                first, queued = queued + 1, queued + 500
                server.execute(SUBMIT.format(first=first, last=queued), name)
            server.execute("vacuum analyze", name)
            await claim(1, 10)  # it reads for the first time what was written just now
            figures[label] = await claim(1, 50)
        figures["claim_more"] = (await claim(64, 20) - figures["claim_100k"]) / 63
    return figures


# -- a whole worker -----------------------------------------------------------------------------------


async def _measure_contracts(server: PostgresServer) -> dict[str, float]:
    return await anyio.to_thread.run_sync(_run_contracts, server)


def _run_contracts(server: PostgresServer) -> dict[str, float]:
    """Contracts on a real worker, whose model answers at once. A step is a request, a command and a verdict. What begins and ends the jobs
    is in it, too.
    """
    judged = {"name": "judge", "trigger_regex": rf"After {STEPS} tool calls: is", "steps": [verdict(True)]}
    more = {"name": "more", "trigger_regex": r"After \d+ tool calls?: is", "steps": [verdict(False)]}
    work = {
        "name": "work",
        "trigger": "Work",
        "steps": [{"response": bash(f"echo {n} >> log")} for n in range(STEPS)],
    }
    scenarios = {"scenarios": [judged, more, work]}
    with (
        tempfile.TemporaryDirectory() as folder,
        running(scenarios) as model,
        FleetOfProcesses(Path(folder), server, model) as fleet,
    ):
        (fleet.project / "README").write_text("An example.\n")
        matrix = Path(folder, "rows.json")
        matrix.write_text(msgspec.json.encode([{"n": str(n)} for n in range(CONTRACTS)]).decode())
        worker = fleet.worker("one", "--slots", str(CONTRACTS))
        pid = worker.process.pid
        idle, peak, connections = resident(pid), 0.0, 0
        before: dict[str, float] = {}
        for number in (1, 2):  # in the first round, each connection plans its functions
            before = _database_figures(server, fleet, pid)
            fleet("fleet", "run", "Work on {{n}}", "--matrix", str(matrix))
            while (ended := worker.log.read_text()).count(" done") < number * CONTRACTS:
                assert "failed" not in ended, ended
                peak = max(peak, resident(pid))
                connections = max(connections, len(children(server.pid, f"postgres {fleet.database} ")))
                time.sleep(0.1)
        after = _database_figures(server, fleet, pid)
    steps = CONTRACTS * STEPS
    per_step = {name: (after[name] - before[name]) / steps for name in before}
    return {
        **per_step,
        "worker_mib": idle,
        "slot_mib": (peak - idle) / CONTRACTS,
        "connections": float(connections),
    }


def _database_figures(server: PostgresServer, fleet: FleetOfProcesses, worker: int) -> dict[str, float]:
    (row,) = fleet.query(
        "select wal_sync, pg_current_wal_lsn() - '0/0', pg_database_size(current_database()),"
        " (select count(*) from newel.events) from pg_stat_wal"
    )
    commits, wal, size, events = map(float, row.split("|"))
    store = sum(path.stat().st_size for path in (fleet.folder / "store.git").rglob("*") if path.is_file())
    return {
        "step": server_cpu_ms(server),
        "step_commits": commits,
        "step_appends": events,
        "step_wal_kb": wal / 1000,
        "step_table_kb": size / 1000,
        "step_worker": process_cpu_ms(worker),
        "step_store_kb": store / 1000,
    }


# -- CPU ----------------------------------------------------------------------------------------------


async def cpu_of(server: PostgresServer, work: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds of the database's CPU."""
    before = server_cpu_ms(server)
    await work()
    return server_cpu_ms(server) - before


def server_cpu_ms(server: PostgresServer) -> float:
    pids = [server.pid, *children(server.pid, "postgres")]
    return sum(process_cpu_ms(pid) for pid in pids)


def process_cpu_ms(pid: int) -> float:
    """Of a process, and of its children that have ended."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:15])) * 1000 / TICKS
    return 0.0
