"""A fleet of real processes: workers, each with a home of its own, on one database and one store."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from mock_llm_server import MockServer
from tests.network import SWITCH, NamespacedMachine, Network
from tests.postgres import PostgresServer
from tests.support import BIN

PATIENCE_S = 30.0
_ON_DISK: Final = 'mount -t tmpfs -o size="$0" none "$HOME" && cd "$HOME" && exec "$@"'


class FleetWorkerProcess:
    """A ``newel worker`` with a home of its own, and perhaps a network or a small disk of its own and more variables."""

    def __init__(
        self,
        fleet: FleetOfProcesses,
        name: str,
        words: tuple[str, ...],
        *,
        machine: NamespacedMachine | None,
        disk: str,
        more: Mapping[str, str],
    ) -> None:
        self.machine = machine
        self.disk = disk
        self.environ = more
        self.home = fleet.folder / name
        self.home.mkdir(exist_ok=True)
        self.log = fleet.folder / f"{name}.log"
        environ = {**fleet.environ(self.home, is_remote=machine is not None), **more}
        mount = ["unshare", "--map-root-user", "--mount", "sh", "-c", _ON_DISK, disk] if disk else ()
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [*(machine.enter if machine else ()), *mount, str(BIN / "newel"), "worker", *words],
                cwd=self.home,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_for(lambda: "is ready" in self.log.read_text(), self.log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def files(self) -> Path:
        """Its home as the worker sees it, on its own disk."""
        return Path(f"/proc/{self.process.pid}/root{self.home}") if self.disk else self.home

    def work(self, job: str) -> Path:
        """The folder of a job there."""
        return self.files / ".newel/fleet/jobs" / job / "work"


class FleetOfProcesses(AbstractContextManager["FleetOfProcesses"]):
    def __init__(self, folder: Path, postgres: PostgresServer, model: MockServer) -> None:
        self.folder = folder
        self.model = model
        self.database = postgres.create_database()
        self.url = postgres.url(self.database)
        self.postgres = postgres
        self._remote: dict[str, str] = {}
        self.project = folder / "project"
        self.project.mkdir()
        self.home = folder / "laptop"
        self.home.mkdir()
        self._workers: list[FleetWorkerProcess] = []

    def connect(self, network: Network) -> None:
        """Let workers on the machines of this network reach the database and the model."""
        port = network.forward(self.postgres.port)
        self._remote = {
            "NEWEL_ENGINE": self.postgres.url(self.database, host=SWITCH, port=port),
            "LLM_BASE_URL": f"http://{SWITCH}:{network.forward(self.model.port)}/v1",
        }

    def environ(self, home: Path, *, is_remote: bool = False) -> dict[str, str]:
        return {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HOME": str(home),
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            "NEWEL_SANDBOX": os.environ.get("NEWEL_SANDBOX", "off"),
            "NEWEL_ENGINE": self.url,
            "NEWEL_FLEET_STORE": str(self.folder / "store.git"),
            "LLM_BASE_URL": f"{self.model.url}/v1",
            "LLM_AUTH_TOKEN": "none",
            "LLM_DEFAULT_MODEL": "mock-model",
            **(self._remote if is_remote else {}),
        }

    def worker(
        self,
        name: str,
        *words: str,
        machine: NamespacedMachine | None = None,
        disk: str = "",
        **environ: str,
    ) -> FleetWorkerProcess:
        """``disk`` is the size of a disk for its home alone, such as ``30m``; none without one."""
        worker = FleetWorkerProcess(self, name, words, machine=machine, disk=disk, more=environ)
        self._workers.append(worker)
        return worker

    def __call__(self, *words: str, check: bool = True) -> Any:
        done = subprocess.run(
            [str(BIN / "newel"), *words],
            cwd=self.project,
            env=self.environ(self.home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done

    def run(self, *words: str) -> str:
        """Submit one contract; returns its job's id."""
        self("fleet", "run", *words)
        return str(self.jobs()[-1]["id"])

    def jobs(self, *words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self("fleet", "status", *words, "--json").stdout.splitlines()]

    def query(self, sql: str) -> list[str]:
        """A line for each row. Much faster than a command of Newel, for a test that polls."""
        return self.postgres.execute(sql, self.database).splitlines()

    def state(self, job: str) -> str:
        return str(self.jobs(job)[0]["state"])

    def kill_workers(self) -> None:
        for worker in self._workers:
            worker.kill()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill_workers()

    def __enter__(self) -> Self:
        return self


def wait_for(condition: Callable[[], object], log: Path | None = None) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, log.read_text() if log else "waited in vain"
        time.sleep(0.05)
