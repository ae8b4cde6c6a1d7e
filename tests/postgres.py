"""A PostgreSQL server of a test's own, in a scratch folder, and databases in it."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from anyio.from_thread import start_blocking_portal

from newel.jobs.postgres.engine import open_postgres_engine
from tests.processes import children, ends
from tests.requirements import require_program

_SERVER = os.environ.get("NEWEL_TESTS_POSTGRES", "")
"""The folder of another server's programs; psql may be that of any version."""
_FOLDERS = os.pathsep.join(
    str(each) for each in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
)
_TEMPLATE = "newel_template"
_ACCESS = """
local all all trust
hostnossl all guarded 127.0.0.1/32 scram-sha-256
host all refused 127.0.0.1/32 reject
host all all 127.0.0.1/32 trust
"""
_SETTINGS = """
listen_addresses = '127.0.0.1'
max_connections = 200
log_min_messages = warning
"""


class PostgresServer:
    """Runs as the user ``postgres`` where this process is root's, which PostgreSQL refuses to run as."""

    def __init__(self, folder: Path) -> None:
        programs = _SERVER or Path(require_program("initdb", "postgresql", more=_FOLDERS)).resolve().parent
        self.programs = Path(programs)
        self._psql = require_program("psql", "postgresql-client", more=_FOLDERS)
        self._data = folder / "data"
        self._note = self._data / "postmaster.pid"
        self._folder = folder
        self._user = "postgres" if os.geteuid() == 0 else None
        self._databases = 0
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        if self._user is not None:
            os.chown(folder, pwd.getpwnam(self._user).pw_uid, -1)
        self._run(
            "initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale"
        )
        (self._data / "pg_hba.conf").write_text(_ACCESS)
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write(f"{_SETTINGS}port = {self.port}\nunix_socket_directories = '{folder}'\n")

    @property
    def pid(self) -> int:
        """Of the process that has started the others."""
        return int(self._note.read_text().split()[0])

    def start(self) -> None:
        self._run("pg_ctl", "-D", str(self._data), "-l", str(self._folder / "log"), "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it; ``immediate`` is what a power failure would leave."""
        self._run("pg_ctl", "-D", str(self._data), "-m", mode, "-w", "stop")

    def kill(self) -> None:
        """``kill -9`` of all its processes."""
        pids = [self.pid, *children(self.pid, "postgres")]
        for each in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        assert all(ends(each) for each in pids)
        for note in (self._note, *self._folder.glob(".s.PGSQL.*.lock")):
            note.unlink()  # the next start takes a zombie of that number for a server

    def url(
        self, database: str, *, user: str = "postgres", host: str = "127.0.0.1", port: int | None = None
    ) -> str:
        return f"postgresql://{user}@{host}:{port or self.port}/{database}?sslmode=disable"

    def execute(self, sql: str, database: str = "postgres") -> str:
        """Run statements; returns the values, a line each row."""
        words = (
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            str(self._folder),
            "-p",
            str(self.port),
        )
        return self._run("psql", *words, "-U", "postgres", "-d", database, "-c", sql).strip()

    def create_template(self) -> None:
        """The database that others are copied from: an empty engine."""

        async def install() -> None:
            async with open_postgres_engine(self.url(_TEMPLATE)):
                pass

        self.execute(f"create database {_TEMPLATE}")
        with start_blocking_portal() as portal:  # a fixture may be set up while an event loop runs
            portal.call(install)

    def create_database(self, *, empty: bool = False, options: str = "") -> str:
        """The name of a new database; an ``empty`` one has no schema."""
        self._databases += 1
        name = f"t{self._databases}"
        self.execute(f"create database {name}{'' if empty else f' template {_TEMPLATE}'} {options}")
        return name

    def _run(self, program: str, *words: str) -> str:
        done = subprocess.run(
            [self._psql if program == "psql" else str(self.programs / program), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if program == "psql" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            text=True,
            user=self._user,
            cwd="/",
            check=False,
        )
        if done.returncode:
            raise AssertionError(f"{program}: {done.stdout}")
        return done.stdout or ""


@contextmanager
def open_server() -> Generator[PostgresServer]:
    folder = Path(tempfile.mkdtemp(prefix="newel-pg-"))
    try:
        server = PostgresServer(folder)
        server.start()
        try:
            server.create_template()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)
