"""If these fail, a real client of the protocol, made by others, cannot work with Newel."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.nodejs import NODE, SERVERS, packages
from tests.support import BIN, Newel, bash, scenario

pytestmark = [pytest.mark.timeout(60), pytest.mark.slow]

WithModel = Callable[..., Newel]

DONE = {"content": "All done."}


class Acpx:
    """Runs ``acpx`` with Newel as its agent, in the project's folder."""

    def __init__(self, newel: Newel, temporary: str, *options: str) -> None:
        """``temporary`` is for its sockets, whose paths must be short; it leaves them there."""
        self.newel = newel
        self.program = packages(SERVERS) / "acpx" / "dist" / "cli.js"
        self.agent = " ".join([str(BIN / "newel"), "acp", *options])
        self.environ = newel.environ | {
            "PATH": f"{Path(NODE).parent}:{newel.environ['PATH']}",
            "TMPDIR": temporary,
        }

    def command(self, *words: str) -> list[str]:
        return [NODE, str(self.program), "--agent", self.agent, "--cwd", str(self.newel.project), *words]

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words), env=self.environ, capture_output=True, text=True, timeout=40, check=False
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*words),
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@pytest.fixture
def acpx(with_model: WithModel) -> Iterator[Callable[..., Acpx]]:
    clients: list[Acpx] = []
    with tempfile.TemporaryDirectory(prefix="acpx-tests-", ignore_cleanup_errors=True) as temporary:

        def make(scenarios: dict[str, Any], *options: str) -> Acpx:
            clients.append(Acpx(with_model(scenarios), temporary, *options))
            return clients[-1]

        yield make
        for client in clients:
            client("sessions", "close")


def writing(content: str) -> dict[str, Any]:
    arguments = {"file_path": "a.txt", "content": content}
    return {"tool_calls": [{"function": {"name": "write", "arguments": arguments}}]}


def test_one_shot_with_permissions_given(acpx: Callable[..., Acpx]) -> None:
    client = acpx(scenario("make", writing("new\n"), bash("cat a.txt"), DONE))
    done = client("--approve-all", "exec", "make it")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "All done." in done.stdout
    assert (client.newel.project / "a.txt").read_text() == "new\n"
    assert client.newel("undo", "--yes").returncode == 0
    assert not (client.newel.project / "a.txt").exists()


def test_permissions_denied_change_nothing(acpx: Callable[..., Acpx]) -> None:
    client = acpx(scenario("make", writing("new\n"), DONE))
    done = client("--deny-all", "exec", "make it")
    assert "All done." in done.stdout
    assert not (client.newel.project / "a.txt").exists()


@pytest.mark.parametrize("option", ["--no-fs", "--no-terminal"])
def test_a_client_without_files_or_without_terminals(acpx: Callable[..., Acpx], option: str) -> None:
    client = acpx(scenario("make", writing("new\n"), bash("cp a.txt b.txt"), DONE))
    assert "All done." in client("--approve-all", option, "exec", "make it").stdout
    assert (client.newel.project / "b.txt").read_text() == "new\n"
    assert client.newel("undo", "--yes").returncode == 0
    assert not [*client.newel.project.iterdir()]


def test_every_event_is_one_that_the_client_knows(acpx: Callable[..., Acpx]) -> None:
    client = acpx(scenario("make", writing("new\n"), DONE))
    done = client("--approve-all", "--format", "json", "--json-strict", "exec", "make it")
    assert done.returncode == 0
    assert done.stderr == ""
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    updates = [line["params"]["update"] for line in lines if line.get("method") == "session/update"]
    assert {"agent_message_chunk", "tool_call", "tool_call_update"} <= {
        update["sessionUpdate"] for update in updates
    }


def test_a_session_goes_on_after_its_agent_was_killed(acpx: Callable[..., Acpx]) -> None:
    client = acpx(scenario("hello", {"content": "Hello!"}))
    assert client("sessions", "new").returncode == 0
    assert "Hello!" in client("prompt", "hello one").stdout
    agents = _agents(client.newel)
    assert agents
    for pid in agents:
        os.kill(pid, signal.SIGKILL)
    again = client("prompt", "hello two")
    assert "Hello!" in again.stdout, again.stderr
    assert "hello one" in str(client.newel.requests[-1]["messages"])


def test_modes_and_models_are_set(acpx: Callable[..., Acpx]) -> None:
    client = acpx(scenario("make", writing("new\n"), DONE))
    assert client("sessions", "new").returncode == 0
    assert client("set-mode", "read-only").returncode == 0
    client("--approve-all", "prompt", "make it")
    assert not (client.newel.project / "a.txt").exists()
    assert client("set", "model", "mock-model").returncode == 0
    assert client("set", "mode", "auto").returncode == 0
    client("--deny-all", "prompt", "make it again")
    assert client.newel.requests[-1]["model"] == "mock-model"
    assert client("set-mode", "yolo").returncode != 0


def test_cancelling_from_another_process(acpx: Callable[..., Acpx]) -> None:
    client = acpx(scenario("wait", bash("touch begun; sleep 300")), "--approve", "auto")
    assert client("sessions", "new").returncode == 0
    running = client.start("--approve-all", "prompt", "wait")
    begun = client.newel.project / "begun"
    while not begun.exists():
        assert running.poll() is None
    assert client("cancel").returncode == 0
    out, _ = running.communicate(timeout=20)
    assert "cancelled" in out


def _agents(newel: Newel) -> list[int]:
    """The processes of ``newel acp`` with the home of this test."""
    found: list[int] = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            home = f"HOME={newel.home}".encode()
            if words[-2:] == [b"acp", b""] and home in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found
