"""Shared by tests of whole commands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mock_llm_server import MockServer
from tests.forked import Process, start
from tests.processes import COMMAND_SECONDS
from tests.tcp_relay import Relay, open_relay

BIN = Path(sys.executable).parent


class Newel:
    """Runs a command in a project folder against a scripted model."""

    def __init__(self, folder: Path, server: MockServer) -> None:
        self.server = server
        self.home = folder / "home"
        self.project = folder / "project"
        self.home.mkdir()
        self.project.mkdir()
        self.environ = {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "NEWEL_SANDBOX": os.environ.get("NEWEL_SANDBOX", "off"),  # see conftest.py; scripts have none
            "HOME": str(self.home),
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            "LLM_BASE_URL": f"{server.url}/v1",
            "LLM_AUTH_TOKEN": "sk-test-0123456789abcdef",
            "LLM_DEFAULT_MODEL": "mock-model",
        }

    def __call__(self, *words: str, stdin: str = "", command: str = "newel", **environ: str) -> Any:
        process = start(
            [str(BIN / command), *words], cwd=self.project, env=self.environ | environ, stdin=subprocess.PIPE
        )
        with process:
            try:
                said = process.communicate(stdin, timeout=COMMAND_SECONDS)
            finally:
                process.kill()
            return subprocess.CompletedProcess(process.args, process.wait(), *said)

    def start(self, *words: str, command: str = "newel", stdin: int = subprocess.DEVNULL) -> Process:
        return start([str(BIN / command), *words], cwd=self.project, env=self.environ, stdin=stdin)

    @contextmanager
    def relayed(self) -> Generator[Relay]:
        """Have its commands reach the model through a relay, which can hold the answers until the test goes on."""
        with open_relay(self.server.port) as wire:
            self.environ["LLM_BASE_URL"] = f"http://127.0.0.1:{wire.port}/v1"
            yield wire

    @property
    def sessions(self) -> list[Path]:
        return sorted((self.home / ".newel" / "sessions").glob("*/*.jsonl"))

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The bodies of the requested chat completions."""
        return [each["body"] for each in self.server.requests if each["path"].endswith("/chat/completions")]


def scenario(trigger: str, *steps: dict[str, Any]) -> dict[str, Any]:
    """A scenario file with one scenario; a step is a response or a complete step."""
    whole = [step if "response" in step or "fault" in step else {"response": step} for step in steps]
    return {"scenarios": [{"name": trigger, "trigger": trigger, "steps": whole}]}


def bash(command: str) -> dict[str, Any]:
    """A response that runs a command."""
    return {"tool_calls": [{"function": {"name": "bash", "arguments": {"command": command}}}]}
