"""If these fail, `kill -9`, a crash or a power cut at some moment costs the user work, or runs a command again.

Each front end is killed at random moments between its start and a little after its end.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mock_llm_server import MockServer, running
from tests.campaign.scene import CHAT, OLD, STEPS, Found, Scene
from tests.campaign.tally import CampaignRow, CampaignTally
from tests.forked import Process
from tests.integration.agents.support import after
from tests.integration.terminal.conftest import Terminal
from tests.served import wait_until
from tests.support import BIN, scenario


class Stage:
    """Makes scenes in a folder, which are removed after use. ``whole`` are the seconds that an undisturbed run takes."""

    def __init__(self, folder: Path, server: MockServer, dice: random.Random) -> None:
        self._folder = folder
        self._server = server
        self._dice = dice
        self._number = 0
        self.whole = 1.0

    @contextmanager
    def scene(self) -> Generator[Scene]:
        self._number += 1
        scene = Scene(self._folder / f"scene-{self._number:04}", self._server, self._number)
        yield scene
        shutil.rmtree(scene.folder)

    def moment(self) -> float:
        return self._dice.uniform(0, self.whole * 1.1)


@pytest.fixture
def stage(tmp_path: Path, dice: random.Random) -> Iterator[Stage]:
    with running(CHAT, strict=True) as server:
        yield Stage(tmp_path, server, dice)


def share(kills: int, weight: int) -> int:
    """How many of all kills a front end gets; all weights add up to 100."""
    return max(1, round(kills * weight / 100))


def note_progress(row: CampaignRow, amid: int) -> None:
    row.note = f"{amid} amid the work"


def succeeds(scene: Scene, *words: str) -> Found:
    done: Any = scene.newel(*words)
    return [] if done.returncode == 0 else [("lost", f"{words}: {done.stdout}{done.stderr}")]


# -- front ends that are given a prompt ---------------------------------------------------------------


@contextmanager
def one_shot(scene: Scene) -> Generator[Process]:
    with scene.newel.start(scene.prompt) as process:
        yield process


@contextmanager
def in_review(scene: Scene) -> Generator[Process]:
    with scene.newel.start("--approve", "review", scene.prompt) as process:
        yield process


def write(process: Process, **message: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()


def read_until(process: Process, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    assert process.stdout is not None
    for line in process.stdout:
        if holds(message := json.loads(line)):
            return message
    raise AssertionError("it has ended")


@contextmanager
def drained(process: Process) -> Generator[Process]:
    """A full pipe would hold it up."""
    assert process.stdout is not None
    reader = threading.Thread(target=process.stdout.read, daemon=True)
    reader.start()
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        reader.join(10)


@contextmanager
def rpc(scene: Scene) -> Generator[Process]:
    with scene.newel.start("rpc", stdin=subprocess.PIPE) as process:
        write(process, type="prompt", id=1, text=scene.prompt)
        assert read_until(process, lambda line: line["type"] == "response")["success"]
        scene.acknowledged = True
        with drained(process):
            yield process


@contextmanager
def acp(scene: Scene) -> Generator[Process]:
    def request(number: int, method: str, **params: Any) -> None:
        write(process, jsonrpc="2.0", id=number, method=method, params=params)

    with scene.newel.start("acp", "--approve", "auto", stdin=subprocess.PIPE) as process:
        request(1, "initialize", protocolVersion=1, clientCapabilities={})
        request(2, "session/new", cwd=str(scene.newel.project), mcpServers=[])
        session = read_until(process, lambda line: line.get("id") == 2)["result"]["sessionId"]
        block = {"type": "text", "text": scene.prompt}
        request(3, "session/prompt", sessionId=session, prompt=[block])
        with drained(process):
            yield process


@contextmanager
def terminal(scene: Scene) -> Generator[Process]:
    environ = scene.newel.environ | {"TERM": "xterm-256color"}
    opened = Terminal([str(BIN / "newel")], scene.newel.project, 80, 24, environ)
    try:
        opened.wait_for("mock-model")
        opened.send(f"{scene.prompt}\r")
        opened.wait_for(scene.prompt)
        yield opened.process
    finally:
        opened.close()


FRONT_ENDS: dict[str, tuple[Callable[..., Any], int]] = {
    "`newel PROMPT`": (one_shot, 24),
    "`newel rpc`": (rpc, 8),
    "`newel acp`": (acp, 5),
    "the terminal": (terminal, 8),
}
"""How a front end is started and told, and its share of all kills."""


def measure(stage: Stage, begin: Callable[..., Any]) -> None:
    with stage.scene() as scene, begin(scene):
        began = time.monotonic()
        wait_until(lambda: len(scene.requests) > len(STEPS), "the last request")
        stage.whole = time.monotonic() - began


def kill(stage: Stage, scene: Scene, begin: Callable[..., Any], moment: float) -> None:
    with begin(scene) as process:
        time.sleep(moment)
        process.kill()
        process.wait()


@pytest.mark.parametrize("name", FRONT_ENDS)
def test_front_ends(name: str, stage: Stage, tally: CampaignTally, kills: int) -> None:
    begin, weight = FRONT_ENDS[name]
    measure(stage, begin)
    row, amid = tally.row(f"kill -9: {name}"), 0
    for number in range(share(kills, weight)):
        moment = stage.moment()
        with stage.scene() as scene, tally.attempt(row, f"kill {number} after {moment:.3f} s") as found:
            kill(stage, scene, begin, moment)
            found.extend(scene.orphans() + scene.torn() + scene.twice() + scene.messages_lost())
            ran = scene.files.get("ran")
            amid += 0 < len(scene.requests) <= len(STEPS)
            if scene.newel.sessions:
                found.extend(succeeds(scene, "--continue", "go on"))
            if ran != scene.files.get("ran"):
                found.append(("twice", f"{ran}, then {scene.files.get('ran')}"))
            found.extend(scene.undone() + scene.litter())
    note_progress(row, amid)


def test_one_shot_in_review(stage: Stage, tally: CampaignTally, kills: int) -> None:
    measure(stage, in_review)
    row, amid = tally.row("kill -9: `newel --approve review PROMPT`"), 0
    for number in range(share(kills, 10)):
        moment = stage.moment()
        with stage.scene() as scene, tally.attempt(row, f"kill {number} after {moment:.3f} s") as found:
            kill(stage, scene, in_review, moment)
            found.extend(scene.orphans() + scene.untouched() + scene.messages_lost())
            amid += 0 < len(scene.requests) <= len(STEPS)
            found.extend(succeeds(scene, "--approve", "review", "go on") + scene.untouched() + scene.litter())
            kept = scene.newel("keep", "--all", "--yes")
            found.extend(scene.torn() + scene.twice())
            if scene.files != OLD:
                assert kept.returncode == 0, kept
                found.extend(scene.undone())
            found.extend(scene.litter())
    note_progress(row, amid)


# -- the agent of a contract --------------------------------------------------------------------------


def contract_scenarios() -> dict[str, Any]:
    last = len(STEPS)
    judged = [after(number, number == last, missing="more") for number in range(1, last + 1)]
    whole = [*judged, scenario("work", *STEPS)]
    return {"scenarios": [one for each in whole for one in each["scenarios"]]}


@contextmanager
def agent(scene: Scene, *words: str) -> Generator[Process]:
    with scene.newel.start("agent", *(words or (scene.prompt,))) as process:
        yield process


def resume(stage: Stage, scene: Scene, dice: random.Random) -> tuple[Found, int]:
    """Resume the contract until it is fulfilled; a third of the attempts are killed, too. Returns how many."""
    killed = 0
    while (listed := scene.newel("agents").stdout) and "interrupted" in listed:
        words = ("--resume", listed.split()[0])
        if dice.random() < 1 / 3:
            with agent(scene, *words) as process:
                time.sleep(stage.moment())
                process.kill()
                process.wait()
            killed += 1
            continue
        done = scene.newel("agent", *words)
        return ([] if done.returncode == 0 else [("lost", f"{words}: {done.stdout}{done.stderr}")]), killed
    return [], killed


def test_a_contract(tmp_path: Path, tally: CampaignTally, dice: random.Random, kills: int) -> None:
    with running(contract_scenarios(), strict=True) as server:
        stage = Stage(tmp_path, server, dice)
        with stage.scene() as scene:
            began = time.monotonic()
            assert scene.newel("agent", scene.prompt).returncode == 0
            stage.whole = time.monotonic() - began
            assert scene.files["ran"] == "1!2"
        row = tally.row("kill -9: `newel agent`, `--resume`")
        again = 0
        for number in range(share(kills, 10)):
            moment = stage.moment()
            with stage.scene() as scene, tally.attempt(row, f"kill {number} after {moment:.3f} s") as found:
                kill(stage, scene, agent, moment)
                found.extend(scene.orphans() + scene.torn() + scene.twice())
                resumed, more = resume(stage, scene, dice)
                again += more
                found.extend(resumed + scene.orphans() + scene.torn() + scene.twice() + scene.messages_lost())
                found.extend(scene.said_once() + scene.undone() + scene.litter())
        row.tried += again
        row.note = f"{again} of them while it resumed"
