"""The Electron shell with a stand-in for Electron (``desktop/tests/shell.js``), and real servers."""

from __future__ import annotations

import base64
import json
import queue
import subprocess
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.nodejs import DESKTOP, NODE
from tests.served import Served

SECONDS = 20
"""How long is waited for an event: the server is started as a user's is, and imports everything."""


class Shell:
    """A running shell. What it did is read in order."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.seen: list[dict[str, Any]] = []
        self._events: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with suppress(ValueError):  # it is closed at the end of the block, whether all was read or not
            for line in self.process.stdout:
                self._events.put(json.loads(line))
        self._events.put(None)

    def act(self, name: str, *words: Any) -> None:
        """Do as the user does; see ``electron-standin.js``."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([name, *words]) + "\n")
        self.process.stdin.flush()

    def until(self, event: str, **fields: Any) -> dict[str, Any]:
        """The next event of a kind, with these fields."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                found = self._events.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no {event} {fields} in {self._latest()}") from None
            assert found is not None, f"it ended before {event} {fields}: {self._latest()}"
            self.seen.append(found)
            if found["event"] == event and fields.items() <= found.items():
                return found

    def _latest(self) -> list[str]:
        return [str(each)[:200] for each in self.seen[-8:]]

    def until_help(self, title: str) -> str:
        """The HTML of the next help page with a title."""
        while True:
            url: str = self.until("load")["url"]
            if url.startswith("data:"):
                html = base64.b64decode(url.partition("base64,")[2]).decode()
                if f"<h2>{title}</h2>" in html:
                    return html

    def until_workbench(self) -> Served:
        """The server whose page is loaded next."""
        while True:
            url: str = self.until("load")["url"]
            if url.startswith("http://"):
                return Served(self.process, url)

    def backends(self) -> list[int]:
        """The pids of its child processes. Linux only."""
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in text.split()]


@contextmanager
def shell(
    user_data: Path, environ: Mapping[str, str], *words: str, checkout: Path | None = None
) -> Generator[Shell]:
    """Run the shell until the end of the block, with the arguments of its command line."""
    with subprocess.Popen(
        [NODE, str(DESKTOP / "tests" / "shell.js"), str(user_data), str(checkout or ""), *words],
        env=dict(environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Shell(process)
        finally:
            process.kill()
