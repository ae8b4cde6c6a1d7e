"""If these fail, a clock that jumps (a laptop that wakes, a wrong time server) costs the user a conversation or an undo."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from mock_llm_server import running
from tests.campaign.scene import GO_ON, OLD, STEPS, Found, Scene, tool
from tests.campaign.tally import CampaignTally
from tests.fake_clock import clock_environ
from tests.support import BIN, bash, scenario

LARGE = 100
"""Kills from which a campaign tries all."""
JUMPS = ("+400d", "-400d", "+1h", "-1h", "+26y", "-3s")
"""Offsets of the clock while the run works; afterwards it is right again."""


def script(jump: str) -> dict[str, Any]:
    """The clock jumps in the first command, before and after what it changes, and is right again after a write."""
    first = STEPS[0]["tool_calls"][0]["function"]["arguments"]["command"]
    steps = [
        bash(f"echo {jump} > $CLOCK; {first}"),
        STEPS[1],
        bash("echo +0 > $CLOCK"),
        STEPS[2],
        bash(f"echo {jump} > $CLOCK"),
        STEPS[3],
        tool("write", file_path="f.txt", content="x\n"),
        {"content": "Done."},
    ]
    return {"scenarios": [*GO_ON["scenarios"], *scenario("work", *steps)["scenarios"]]}


def problems(scene: Scene) -> Found:
    clock = scene.folder / "clock"
    clock.write_text("+0\n")
    environ = clock_environ(FAKETIME_TIMESTAMP_FILE=str(clock), FAKETIME_NO_CACHE="1", CLOCK=str(clock))
    done = subprocess.run(
        [str(BIN / "newel"), "--approve", "auto", scene.prompt],
        cwd=scene.newel.project,
        env=scene.newel.environ | environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found: Found = [("lost", done.stdout + done.stderr)] if done.returncode else []
    found += scene.torn() + scene.twice() + scene.messages_lost()
    if scene.newel("--continue", "go on").returncode != 0:
        found.append(("lost", "the session does not continue"))
    if len(scene.newel.sessions) != 1:
        found.append(("lost", "the latest session was not found"))
    return found + scene.orphans() + scene.undone() + scene.litter()


def test_jumps_of_the_clock(tmp_path: Path, tally: CampaignTally, kills: int) -> None:
    row = tally.row("jumps of the clock")
    jumps = JUMPS if kills >= LARGE else JUMPS[:2]
    for number, jump in enumerate(jumps):
        with running(script(jump), strict=True) as server, tally.attempt(row, jump) as found:
            scene = Scene(tmp_path / f"{number}", server, number)
            assert scene.files == OLD
            found.extend(problems(scene))
    row.note = ", ".join(jumps)
