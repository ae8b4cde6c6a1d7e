"""If these fail, a kill amid a decision or a save leaves a project of which one half is old and the other one new."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mock_llm_server import MockServer, running
from tests.campaign.scene import Found
from tests.campaign.tally import CampaignTally
from tests.campaign.test_kills import share
from tests.forked import Process
from tests.integration.cli.proposals import Proposals, replace
from tests.integration.review.served_review import Review, served_review
from tests.served import Served, served
from tests.support import Newel

OLD = {f"f{number:02}.txt": f"one {number}\ntwo\n" for number in range(50)}
NEW = {name: text.replace("two", "TWO") for name, text in OLD.items()}


class Fifty:
    """A project of fifty files, and a pending change of each."""

    def __init__(self, folder: Path, server: MockServer) -> None:
        folder.mkdir()
        self.newel = Newel(folder, server)
        for name, text in OLD.items():
            (self.newel.project / name).write_text(text)
        proposals = Proposals(self.newel.home / ".newel", self.newel.project)
        self.hunks = proposals.propose("shout", {name: [replace(2, 2, "TWO\n")] for name in OLD})

    @property
    def files(self) -> dict[str, str]:
        """Without what a save that was cut off has left, which the next one removes."""
        paths = [path for path in self.newel.project.iterdir() if not path.name.startswith(".newel-")]
        return {path.name: path.read_text() for path in paths}

    def run(self, *words: str) -> str:
        done = self.newel(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def torn(self) -> Found:
        there = self.files
        return [
            ("torn", f"{name}: {there.get(name)!r}")
            for name in {*there, *OLD}
            if there.get(name) not in {OLD.get(name, ""), NEW.get(name, "")}
        ]

    def half_done(self) -> bool:
        return self.files not in (OLD, NEW)


def _keep(_: Fifty) -> list[str]:
    return ["keep", "--all", "--yes"]


def _undo(fifty: Fifty) -> list[str]:
    fifty.run("keep", "--all", "--yes")
    return ["undo", "--yes"]


def _roll_back(fifty: Fifty) -> list[str]:
    fifty.run("keep", "--all", "--yes")
    (point,) = json.loads(fifty.run("checkpoints", "--json"))["checkpoints"]
    return ["rollback", point["checkpoint_id"], "--yes"]


COMMANDS: dict[str, tuple[Callable[[Fifty], list[str]], dict[str, str], int]] = {
    "keep": (_keep, NEW, 6),
    "undo": (_undo, OLD, 6),
    "rollback": (_roll_back, OLD, 6),
}
"""What leads to a command, the files after it, and its share of all kills."""


def kill_within(process: Process, seconds: float) -> None:
    with process:
        time.sleep(seconds)
        process.kill()
        process.wait()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command(tmp_path: Path, tally: CampaignTally, dice: random.Random, kills: int, name: str) -> None:
    prepare, after, weight = COMMANDS[name]
    row, amid = tally.row(f"kill -9: `newel {name}` of 50 files"), 0
    with running({"scenarios": []}) as server:
        fifty = Fifty(tmp_path / "whole", server)
        words = prepare(fifty)
        began = time.monotonic()
        fifty.run(*words)
        whole = time.monotonic() - began
        assert fifty.files == after
        for number in range(share(kills, weight)):
            moment = dice.uniform(0, whole * 1.1)
            with tally.attempt(row, f"kill {number} after {moment:.3f} s") as found:
                fifty = Fifty(tmp_path / f"{number}", server)
                words = prepare(fifty)
                kill_within(fifty.newel.start(*words), moment)
                amid += fifty.half_done()
                found.extend(fifty.torn())
                fifty.run("review")
                if name != "keep":  # it decides file by file: the rest is still pending
                    found.extend(converged(fifty))
                if fifty.files != after:
                    fifty.run(*words)
                found.extend(litter(fifty) + [("lost", f"{words} did not happen")] * (fifty.files != after))
    row.note = f"{amid} half done, then done by the next command"


def converged(fifty: Fifty) -> Found:
    return [("lost", "one half is old and the other one new")] if fifty.half_done() else []


def litter(fifty: Fifty) -> Found:
    left = [*fifty.newel.project.rglob(".*.tmp"), *(fifty.newel.home / ".newel").rglob("*.tmp")]
    return [("left", str(path)) for path in left]


# -- the server ---------------------------------------------------------------------------------------


def accept_all(at: Review, fifty: Fifty) -> dict[str, Any]:
    """Accept all changes; returns the body of a save."""
    seen = [{"file_path": name, "hunk_ids": [hunk]} for name, hunk in zip(OLD, fifty.hunks, strict=True)]
    at.post("/decide_all", action="accept", files=seen)
    return {"files": [{"file_path": name} for name in OLD]}


def save(server: Served, body: dict[str, Any], answers: list[int]) -> None:
    with suppress(httpx2.HTTPError):  # the server is killed
        answers.append(server.client.post("/api/agent/save", json=body).status_code)


def test_a_save_over_http(tmp_path: Path, tally: CampaignTally, dice: random.Random, kills: int) -> None:
    row, amid, whole = tally.row("kill -9: `newel web` in a save of 50 files"), 0, 0.0
    with running({"scenarios": []}) as model:
        for number in range(-1, share(kills, 8)):
            fifty = Fifty(tmp_path / f"save{number}", model)
            answers: list[int] = []
            with served_review(fifty.newel) as at:
                body = accept_all(at, fifty)
                began = time.monotonic()
                saving = threading.Thread(target=save, args=(at.server, body, answers))
                saving.start()
                if number < 0:  # the first one tells how long it takes
                    saving.join()
                    whole = time.monotonic() - began
                    assert (fifty.files, answers) == (NEW, [200])
                    continue
                moment = dice.uniform(0, whole * 1.1)
                time.sleep(moment)
                at.server.kill()
                saving.join()
            with tally.attempt(row, f"kill {number} after {moment:.3f} s") as found:
                amid += fifty.half_done()
                found.extend(fifty.torn())
                if answers == [200] and fifty.files != NEW:
                    found.append(("lost", "an acknowledged save"))
                with served(fifty.newel) as again:
                    again.client.get("/api/agent/pending")
                found.extend(converged(fifty) + litter(fifty))
    row.note = f"{amid} half done, all whole after the restart"
