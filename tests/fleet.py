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
from typing import Any, Self

from mock_llm_server import MockServer
from tests.postgres import PostgresServer
from tests.support import BIN

PATIENCE_S = 30.0


class FleetWorkerProcess:
    """A ``newel worker`` on a machine of its own."""

    def __init__(
        self, fleet: FleetOfProcesses, machine: str, words: tuple[str, ...], more: Mapping[str, str]
    ) -> None:
        self.home = fleet.folder / machine
        self.home.mkdir(exist_ok=True)
        self.log = fleet.folder / f"{machine}.log"
        environ = {**fleet.environ(self.home), **more}
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [str(BIN / "newel"), "worker", *words],
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

    def work(self, job: str) -> Path:
        """The folder of a job there."""
        return self.home / ".newel/fleet/jobs" / job / "work"


class FleetOfProcesses(AbstractContextManager["FleetOfProcesses"]):
    def __init__(self, folder: Path, postgres: PostgresServer, model: MockServer) -> None:
        self.folder = folder
        self.model = model
        self.database = postgres.create_database()
        self.url = postgres.url(self.database)
        self.project = folder / "project"
        self.project.mkdir()
        self.home = folder / "laptop"
        self.home.mkdir()
        self._workers: list[FleetWorkerProcess] = []

    def environ(self, home: Path) -> dict[str, str]:
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
        }

    def worker(self, machine: str, *words: str, **environ: str) -> FleetWorkerProcess:
        worker = FleetWorkerProcess(self, machine, words, environ)
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

    def state(self, job: str) -> str:
        return str(self.jobs(job)[0]["state"])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.kill()

    def __enter__(self) -> Self:
        return self


def wait_for(condition: Callable[[], object], log: Path | None = None) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, log.read_text() if log else "waited in vain"
        time.sleep(0.05)
