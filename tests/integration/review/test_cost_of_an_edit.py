"""If these fail, each edit costs more reads, requests and disk flushes than it needs."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from newel.review.store import database
from newel.storage.sqlite import connect
from newel.workspace.disk import files
from newel.workspace.local import LocalWorkspace
from newel.workspace.ssh.connection import SshConnection
from newel.workspace.ssh.workspace import SshWorkspace
from tests.host_connection import anyio_backend, connection
from tests.integration.review.recorded_agent import recorded_agent
from tests.review_bench import calls, says

__all__ = ["anyio_backend", "connection"]

pytestmark = pytest.mark.anyio

NAME = "known.txt"


EDITS = [
    calls("edit", file_path=NAME, old_string="1", new_string="2"),
    says("done"),
    calls("edit", file_path=NAME, old_string="2", new_string="3"),
    says("done"),
]
"""An agent edits the same file in each of two runs."""


def count_transactions(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The ledger's transactions, by whether they wait for the disk."""
    counts = Counter[str]()

    def counting(*arguments: Any, **options: Any) -> sqlite3.Connection:
        made = connect(*arguments, **options)
        sync = "FULL"

        def trace(statement: str) -> None:
            nonlocal sync
            if statement.startswith("PRAGMA synchronous = "):
                sync = statement.rpartition(" ")[2]
            elif statement.startswith("BEGIN IMMEDIATE"):
                counts["flushed" if sync == "FULL" else "not flushed"] += 1

        made.set_trace_callback(trace)
        return made

    monkeypatch.setattr(database, "connect", counting)
    return counts


def count_calls(monkeypatch: pytest.MonkeyPatch, counts: Counter[str], where: object, name: str) -> None:
    real = getattr(where, name)

    def counting(*arguments: Any, **options: Any) -> Any:
        counts[name] += 1
        return real(*arguments, **options)

    monkeypatch.setattr(where, name, counting)


async def test_a_later_edit_reads_hashes_and_flushes_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it stores its intent in a transaction that does not wait for the disk."""
    project = tmp_path / "project"
    project.mkdir()
    (project / NAME).write_text("1\nother\n")
    transactions, counts = count_transactions(monkeypatch), Counter[str]()
    async with recorded_agent(LocalWorkspace(str(project)), tmp_path / "home", EDITS) as agent:
        await agent.prompt("first")
        transactions.clear()
        count_calls(monkeypatch, counts, files, "resolved")
        count_calls(monkeypatch, counts, files, "open_regular")  # for the read
        count_calls(monkeypatch, counts, hashlib, "file_digest")  # to compare the content at the write
        real_open = os.open

        def counting_open(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
            if os.path.basename(path) == NAME:  # noqa: PTH119 — it may be relative to a folder
                counts["open"] += 1
            return real_open(path, flags, *arguments, **options)

        monkeypatch.setattr(os, "open", counting_open)
        await agent.prompt("second")
    assert (project / NAME).read_text() == "3\nother\n"
    assert transactions == {"flushed": 1, "not flushed": 1}
    # The third time it is opened for its extended attributes.
    assert counts == {"resolved": 1, "open_regular": 1, "file_digest": 1, "open": 3}


async def test_a_later_edit_on_a_host_takes_four_requests(
    tmp_path: Path, connection: SshConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To resolve the path, to read the file, to write it, and to learn its mode."""
    project = tmp_path / "project"
    project.mkdir()
    (project / NAME).write_text("1\nother\n")
    transactions, counts = count_transactions(monkeypatch), Counter[str]()
    async with recorded_agent(SshWorkspace(connection, root=str(project)), tmp_path / "home", EDITS) as agent:
        await agent.prompt("first")
        transactions.clear()
        for name in ("ask", "ask_quick", "change"):
            count_calls(monkeypatch, counts, connection, name)
        await agent.prompt("second")
    assert (project / NAME).read_text() == "3\nother\n"
    assert transactions["flushed"] == 1
    assert counts.total() == 4
