"""A program that drives ``newel --json``, like an editor does."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any, Final

from tests.forked import start
from tests.support import BIN, Newel

PATIENCE: Final = 15.0
"""Seconds in which it must end; only a failure takes so long."""


class Driver:
    """Drives ``newel --json``."""

    def __init__(self, newel: Newel, *words: str, under: Sequence[str] = ()) -> None:
        """``under`` is a command that runs it, strace for example."""
        self.seen: list[dict[str, Any]] = []
        self.process = start(
            [*under, str(BIN / "newel"), "--json", *words],
            cwd=newel.project,
            env=newel.environ,
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def send(self, **request: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def answer(self, asked: dict[str, Any], decision: str) -> None:
        self.send(type="approve", toolCallId=asked["toolCallId"], decision=decision)

    def until(self, kind: str) -> dict[str, Any]:
        return self.until_one_of(kind)

    def until_one_of(self, *kinds: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            self.seen.append(event)
            if event["type"] in kinds:
                return event
        raise AssertionError(f"there was none of {kinds}")

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self.process.kill()
        self.process.communicate()

    def finish(self) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.read()
        self.process.stdout.close()
        return self.process.wait(PATIENCE)
