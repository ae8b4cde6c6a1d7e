"""If these fail, what a run did outside the record goes unmentioned once Newel is killed while the model thinks."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

from newel.review.tracking.effect_log import HEARTBEAT_S
from tests.served import wait_until
from tests.support import Newel, bash, scenario

COMMAND = (
    "echo theirs > tracked; echo theirs > ignored; printf 'exit 1' > .git/hooks/post-commit; "
    "(while [ ! -e go ]; do sleep 0.01; done; echo theirs > later; echo theirs > seen) > /dev/null 2>&1 &"
)

SILENCE = {"response": {"content": "…"}, "fault": {"kind": "stall", "after_chunks": 0}}


def test_the_next_start_names_what_a_killed_run_did_between_its_commands(
    newel_with: Callable[..., Newel],
) -> None:
    newel = newel_with(scenario("work", bash(COMMAND), SILENCE))
    subprocess.run(["git", "init", "-q"], cwd=newel.project, check=True)
    (newel.project / ".gitignore").write_text("ignored\ngo\n")
    with newel.start("work") as process:
        wait_until(lambda: len(newel.requests) == 2, "the second request")
        (newel.project / "go").touch()
        wait_until((newel.project / "seen").exists, "the process in the background")
        time.sleep(2 * HEARTBEAT_S)
        process.kill()
        process.wait()
    time.sleep(3 * HEARTBEAT_S)
    (newel.project / "mine").write_text("mine\n")
    shown = newel("review")
    said = shown.stdout + shown.stderr
    assert "Changed, but not recorded: .git/hooks/post-commit." in said
    assert "undo does not restore it: go, ignored." in said
    assert (
        "since its last command, by what it left running or by you, so it is not recorded: later, seen."
        in said
    )
    assert newel("undo", "--yes").returncode == 0
    assert not (newel.project / "tracked").exists()
    assert (newel.project / "mine").exists()
    assert "killed" not in newel("review").stdout
