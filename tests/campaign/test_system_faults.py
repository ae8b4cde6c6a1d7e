"""If these fail, one error of the disk or of the system costs the user files, a conversation, or an undo without a word."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mock_llm_server import running
from tests.campaign.scene import CHAT, OLD, Found, Scene
from tests.campaign.tally import CampaignTally
from tests.faults.system_call_faults import CALLS, Outcome, Step, needs_strace, run_with_fault, steps

CHILD = "tests.campaign.one_shot_child"
ERRORS = {"EIO": CALLS, "ENOSPC": CALLS, "EMFILE": "openat,pipe2,dup", "ENOLCK": "flock"}
"""The system calls that fail with each error."""
ANNOUNCED = ("not recorded", "cannot be undone", "no undo", "not be undone", "could not be recorded")


def announced(scene: Scene, ran: Outcome) -> bool:
    """Whether the user or the model was told that the run cannot be undone, or Newel refused to run."""
    said = ran.said + ran.complained + str(scene.requests[-1:])
    return not scene.requests or any(words in said for words in ANNOUNCED)


def try_fault(scene: Scene, ran: Outcome) -> tuple[Found, bool]:
    """What is wrong after the fault, and whether the undo was exact."""
    found: Found = [("lost", ran.complained[-2000:])] if "Traceback" in ran.complained else []
    found += [("left", process) for process in ran.left]
    found += scene.orphans() + scene.torn() + scene.twice()
    inexact = scene.undone()
    if inexact and not announced(scene, ran):
        found += inexact
    return found + scene.litter(), not inexact


@needs_strace
@pytest.mark.parametrize("error", ERRORS)
def test_errors_of_system_calls(
    tmp_path: Path, tally: CampaignTally, dice: random.Random, kills: int, error: str
) -> None:
    row, exact = tally.row(f"{error} by a system call"), 0
    with running(CHAT, strict=True) as server:
        first = Scene(tmp_path / "first", server, 0)
        places = steps(first.folder, CHILD, f"{server.url}/v1", first.prompt, calls=ERRORS[error])
        chosen = dice.sample(places, min(len(places), max(3, kills // 20)))
        for number, step in enumerate(chosen, 1):
            scene = Scene(tmp_path / f"scene-{number}", server, number)
            ran = fault(scene, error, step, f"{server.url}/v1")
            if str(scene.folder) not in ran.at:
                continue  # it hit something else
            with tally.attempt(row, f"{step}: {ran.at}\n{ran.said}\n{ran.complained}") as found:
                problems, was_exact = try_fault(scene, ran)
                exact += was_exact
                found.extend(problems)
    row.note = f"{exact} undone exactly, {row.tried - exact} said that they are not"


def fault(scene: Scene, error: str, step: Step, url: str) -> Outcome:
    assert scene.files == OLD
    return run_with_fault(f"error={error}", step, scene.folder, CHILD, url, scene.prompt, calls=ERRORS[error])
