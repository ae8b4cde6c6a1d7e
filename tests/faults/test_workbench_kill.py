"""The workbench's server is killed at any moment: what it acknowledged is there afterwards, and nothing ran twice."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from mock_llm_server import running
from newel.session.store import read_session
from tests.support import BIN, Newel, bash, scenario

TOKEN = "a-token-for-tests-0123456789-0123456789"


class Page:
    """One reader on the socket, as the page is one."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.number = 0
        self.welcome = self.next("welcome")
        self.seen: list[dict[str, Any]] = []

    def next(self, kind: str, seconds: float = 8) -> dict[str, Any]:
        """The next message of a kind; what comes before it is remembered."""
        deadline = time.monotonic() + seconds
        while True:
            message = json.loads(self.socket.recv(timeout=deadline - time.monotonic()))
            if message["type"] == kind:
                return message
            if message["type"] == "error":
                raise AssertionError(message)
            self.seen.append(message)

    def ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        self.number += 1
        self.socket.send(json.dumps({"type": kind, "id": str(self.number)} | fields))
        while (reply := self.next("reply"))["re"] != str(self.number):
            pass
        return reply

    def until_event(self, kind: str) -> dict[str, Any]:
        while (message := self.next("event"))["event"]["type"] != kind:
            self.seen.append(message)
        return message


class House:
    """A project, a model and a server that may die."""

    def __init__(self, newel: Newel, stack: ExitStack) -> None:
        self.newel = newel
        self._stack = stack

    def start(self, *words: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [str(BIN / "newel"), "web", "--port", "0", *words],
            cwd=self.newel.project,
            env=self.newel.environ | {"NEWEL_WEB_TOKEN": TOKEN},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._stack.callback(_end, process)
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.endswith(f"#token={TOKEN}"), url
        return process, url.partition("/#")[0]

    @contextmanager
    def page(self, url: str) -> Generator[Page]:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with connect(url.replace("http", "ws") + "/ws", additional_headers=headers) as socket:
            yield Page(socket)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


@pytest.fixture
def house_with(tmp_path: Path) -> Iterator[Callable[[dict[str, Any]], House]]:
    with ExitStack() as stack:
        yield lambda scenarios: House(
            Newel(tmp_path, stack.enter_context(running(scenarios, strict=True))), stack
        )


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 8
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


def test_a_run_cut_off_in_a_command_goes_on_knowing_that_it_does_not_know(
    house_with: Callable[[dict[str, Any]], House],
) -> None:
    house = house_with(
        scenario(
            "work", bash("echo x >> ran; until [ -e go ]; do sleep 0.02; done"), {"content": "I look first."}
        )
    )
    process, url = house.start()
    with house.page(url) as page:
        tab = page.ask("openChat")["tab"]
        page.ask("send", tab=tab, messageId="m1", text="work")
        wait_for(house.newel.project / "ran")
        process.send_signal(signal.SIGKILL)
        process.wait()
    (house.newel.project / "go").touch()  # the command outlived its server; let it go
    _, url = house.start()
    with house.page(url) as page:
        page.ask("watch", tab=tab)
        while page.welcome["tabs"][0]["status"] == "running":
            page.welcome = page.next("tabs")
    assert (house.newel.project / "ran").read_text() == "x\n"
    messages = read_session(house.newel.sessions[0]).history.active()
    assert [message.__struct_config__.tag for message in messages] == [
        "user",
        "assistant",
        "toolResult",
        "assistant",
    ]
    assert "unknown" in getattr(messages[2], "output", "")
    assert getattr(messages[3], "text", "") == "I look first."


@pytest.mark.slow  # the server dies and comes back eight times
@pytest.mark.timeout(60)
def test_every_acknowledged_message_is_answered_once_however_often_the_server_dies(
    house_with: Callable[[dict[str, Any]], House],
) -> None:
    house = house_with(scenario("note", bash("echo {{ user }} >> notes"), {"content": "Noted."}))
    dice = random.Random(7)  # noqa: S311 — the same dice each time
    acknowledged: list[str] = []
    tab = ""
    for number in range(8):
        process, url = house.start()
        with house.page(url) as page:
            tab = tab or page.ask("openChat")["tab"]
            for _ in range(2):
                message = f"m{len(acknowledged)}"
                page.ask("send", tab=tab, messageId=message, text=f"note {number} {message}")
                acknowledged.append(message)
            time.sleep(dice.uniform(0, 0.2))
            process.send_signal(signal.SIGKILL)
            process.wait()
    _, url = house.start()
    with house.page(url) as page:
        page.ask("watch", tab=tab)
        while page.welcome["tabs"][0]["status"] == "running":
            page.welcome = page.next("tabs", seconds=20)
    stored = read_session(house.newel.sessions[0])
    assert not stored.damage
    said = [message.id for message in stored.history.active() if message.__struct_config__.tag == "user"]
    assert said == acknowledged
    notes = (house.newel.project / "notes").read_text().split("\n")[:-1]
    assert len(notes) == len(set(notes)), "a command ran twice"


def test_events_are_numbered_without_a_gap_across_a_crash(
    house_with: Callable[[dict[str, Any]], House],
) -> None:
    house = house_with(
        scenario("work", bash("echo x >> ran; until [ -e go ]; do sleep 0.02; done"), {"content": "Done."})
    )
    process, url = house.start()
    with house.page(url) as page:
        tab = page.ask("openChat")["tab"]
        page.ask("watch", tab=tab)
        page.next("snapshot")
        run = page.ask("send", tab=tab, messageId="m1", text="work")["run"]
        last = page.until_event("tool_execution_start")["seq"]
        wait_for(house.newel.project / "ran")
        process.send_signal(signal.SIGKILL)
        process.wait()
    (house.newel.project / "go").touch()
    _, url = house.start()
    with house.page(url) as page:
        page.ask("watch", tab=tab, run=run, after=last)
        end = page.until_event("agent_end")
        numbers = [
            message["seq"] for message in [*page.seen, end] if message["type"] == "event" and lasting(message)
        ]
    assert numbers == list(range(last + 1, end["seq"] + 1))


def lasting(message: dict[str, Any]) -> bool:
    return message["event"]["type"] not in {
        "message_start",
        "message_update",
        "tool_execution_update",
        "queue_update",
    }
