"""The sources of snapshots in tests: this machine, and hosts with various programs."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

from newel.review.store.ledger import Ledger
from newel.workspace.snapshots.local_source import LocalSnapshotSource
from newel.workspace.snapshots.port import SnapshotSource
from newel.workspace.ssh.snapshots.source import SshSnapshotSource
from tests.requirements import require_program
from tests.shell_host import ShellHost, link_busybox

LOCAL: Final = ("watched", "compared")
"""What the system tells of, or all signatures."""

HOSTS: Final = ("host", "busybox")
"""One with GNU's programs, and one with those of busybox."""

SOURCES: Final = (*LOCAL, "host", pytest.param("busybox", marks=pytest.mark.slow))
"""Of these busybox is left to the slow tests; the histories of commands are tried on it each time."""


@contextlib.contextmanager
def open_sources(name: str, root: Path, ledger: Ledger) -> Generator[SnapshotSource]:
    if name in LOCAL:
        yield LocalSnapshotSource(str(root), watch=name == "watched")
        return
    with tempfile.TemporaryDirectory(prefix="newel-programs-") as programs:
        if name == "host":
            host = ShellHost()
        else:
            require_program("busybox")
            link_busybox(Path(programs), "git", "bash")
            host = ShellHost(("busybox", "sh"), path=programs)
        try:
            yield SshSnapshotSource(host, str(root), ledger)
        finally:
            host.close()
