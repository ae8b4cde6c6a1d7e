"""Newel as a client keeps to the protocol, as MCP's own suite sees it."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.forked import start
from tests.nodejs import NODE, SERVERS, packages
from tests.support import BIN

RELAY = Path(__file__).with_name("relay.py")
RETRIES = "sse-retry"
REFUSED_BY_THE_SDK = "auth/2025-03-26-oauth-metadata-backcompat"
"""The suite's server names an issuer with a path at the address of one without: the SDK believes no such metadata."""


@contextmanager
def clients(folder: Path) -> Generator[str]:
    """The command of a client that the suite can run, often and beside itself: each is forked here."""
    with socket.socket(socket.AF_UNIX) as door:
        (folder / "door").unlink(missing_ok=True)
        door.bind(str(folder / "door"))
        door.listen(64)
        threading.Thread(target=_admit, args=(door, folder), daemon=True).start()
        yield f"{sys.executable} -I -S {RELAY} {folder / 'door'}"
        door.shutdown(socket.SHUT_RDWR)


def _admit(door: socket.socket, folder: Path) -> None:
    while True:
        try:
            visitor, _ = door.accept()
        except OSError:  # it is shut
            return
        threading.Thread(target=_run, args=(visitor, folder), daemon=True).start()


def _run(visitor: socket.socket, folder: Path) -> None:
    with visitor, visitor.makefile("rb") as reader:
        size, (said, complained), _, _ = socket.recv_fds(visitor, 4, 2)
        order = json.loads(reader.read(int.from_bytes(size, "big")))
        words = [str(BIN / "newel"), "mcp-conformance", *order["words"]]
        environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"} | order["environ"]
        process = start(words, cwd=folder, env=environ, stdout=said, stderr=complained)
        for each in (said, complained):
            os.close(each)
        visitor.sendall(b"%d" % process.wait())


def suite(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    script = packages(SERVERS) / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    with clients(folder) as command:
        return subprocess.run(
            [NODE, str(script), "client", "--command", command, *words],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


@pytest.mark.timeout(120)  # it may have to wait for npm
def test_each_scenario_for_clients_of_the_official_suite_passes(tmp_path: Path) -> None:
    """All at once; but how long a client waits before it tries again is measured where nothing else runs."""
    done = suite(tmp_path, "--suite=all")
    ended = {name: mark for mark, name in re.findall(r"([✓✗]) (\S+):", done.stdout)}
    assert len(ended) >= 26, done.stdout
    assert {name for name, mark in ended.items() if mark == "✗"} <= {REFUSED_BY_THE_SDK, RETRIES}, (
        done.stdout + done.stderr
    )
    alone = suite(tmp_path, "--scenario", RETRIES)
    assert alone.returncode == 0, alone.stdout + alone.stderr
