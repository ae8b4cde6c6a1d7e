"""If these fail, a run that was ended, or found a full disk or a damaged file, leaves its user without the next step."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.faults.test_full_disk import MOUNTS, needs_mounts
from tests.integration.evals.test_eval_run import DONE, Suite, WithModel, begin, results, run, suite
from tests.served import wait_until
from tests.support import Newel, bash

pytestmark = pytest.mark.slow  # an evaluation for each fault; test_eval_run.py has the quick tests

__all__ = ["suite"]

MAKE = bash("echo made > made.txt")


def only_run(newel: Newel) -> Path:
    (folder,) = (newel.home / ".newel" / "evals").iterdir()
    return folder


def test_an_interrupted_run_says_how_to_go_on(suite: Suite, with_model: WithModel) -> None:
    suite.add("first", MAKE, DONE)
    suite.add("second", {"delay_ms": 60_000, "response": DONE})
    newel = begin(suite, with_model)
    with newel.start("eval", "run", "--suite", str(suite.folder)) as process:
        wait_until(lambda: len(newel.requests) >= 3, "the second task")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    name = only_run(newel).name
    assert (process.returncode, f"Resume it with `newel eval run --resume {name}`." in errors) == (130, True)
    shown = newel("eval", "show").stdout
    assert f"1 of 2 trials have ended. Resume it with `newel eval run --resume {name}`." in shown


@pytest.mark.slow  # two seconds of a core: several runs of agents, each a process of its own
@needs_mounts
def test_a_full_disk_stops_a_run_which_goes_on_with_room(suite: Suite, with_model: WithModel) -> None:
    """A trial that found no room says nothing about the agent; results that were there before remain."""
    suite.add("first", MAKE, DONE)
    fill = "test -e ../../../../calm || head -c 20M /dev/zero > big; echo made > made.txt"
    for name in ("second", "third"):
        suite.add(name, bash(fill), DONE)
        suite.scenarios[-1]["loop"] = True
    newel = begin(suite, with_model)
    script = f"""
mkdir -p "$HOME/.newel/evals"
mount -t tmpfs -o size=8m none "$HOME/.newel/evals"
newel eval run --suite {suite.folder} >&2
echo "exit code $?"
newel eval show --json
rm "$HOME"/.newel/evals/*/trials/*/project/big
touch "$HOME/.newel/evals/calm"
newel eval run --resume 2 >&2
newel eval show --json
"""
    done = subprocess.run(
        [*MOUNTS, "sh", "-c", script],
        cwd=newel.project,
        env=newel.environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=40,
    )
    assert "The disk is full, and so the trial in" in done.stderr
    assert "Make room, then resume it with `newel eval run --resume 2" in done.stderr
    code, *lines = done.stdout.splitlines()
    trials = [line for line in map(json.loads, lines) if line["type"] == "trial"]
    assert code == "exit code 1"
    assert [trial["task"] for trial in trials] == ["first", "first", "second", "third"]
    asked = [body["messages"][-1]["content"] for body in newel.requests]
    assert asked.count("Do first.") == 1


@pytest.mark.parametrize("words", [["good"], ["--suite", "."], ["-n", "4"], ["--agent", "pi"], ["--replay"]])
def test_what_a_resumed_run_would_ignore_is_refused(
    suite: Suite, with_model: WithModel, words: list[str]
) -> None:
    suite.add("good", MAKE, DONE)
    newel = begin(suite, with_model)
    run(newel, suite, "--replay")
    done = newel("eval", "run", "--resume", only_run(newel).name, *words)
    assert done.returncode == 2
    name = "TASK" if words == ["good"] else words[0]
    assert f"A run is resumed as it was planned: leave out {name}" in done.stderr


def test_damaged_files_of_a_run_are_told(suite: Suite, with_model: WithModel) -> None:
    suite.add("good", MAKE, DONE)
    newel = begin(suite, with_model)
    run(newel, suite, "--replay")
    folder = only_run(newel)
    plan, journal = folder / "run.json", folder / "journal.db"
    good = plan.read_bytes()

    def told() -> str:
        said = ""
        for words in (["show"], ["export"], ["report"], ["run", "--resume", folder.name]):
            done = newel("eval", *words)
            assert "Traceback" not in done.stderr
            said += done.stderr
        return said

    plan.write_bytes(good[:50])
    assert told().count(f"{plan} is damaged: ") == 4
    plan.write_bytes(good.replace(b"{", b'{"colour": "red",', 1))  # as of a later version
    assert told() == ""
    shutil.rmtree(folder / "trials")
    assert told() == ""
    journal.write_bytes(b"damaged" * 1000)
    assert str(journal) in told()


def test_a_run_is_shown_while_it_goes_on(suite: Suite, with_model: WithModel) -> None:
    suite.add("first", MAKE, DONE)
    suite.add("second", {"delay_ms": 60_000, "response": DONE})
    newel = begin(suite, with_model)
    with newel.start("eval", "run", "--suite", str(suite.folder)) as process:
        wait_until(lambda: len(newel.requests) >= 3, "the second task")
        assert [each["task"] for each in results(newel)] == ["first"]
        process.kill()
        process.communicate()


def test_a_slip_in_one_task_hides_no_other_and_nothing_runs(suite: Suite, with_model: WithModel) -> None:
    suite.add("good", MAKE, DONE)
    suite.add("bad", DONE, more="colour = 1")
    newel = begin(suite, with_model)
    listed = newel("eval", "list", "--suite", str(suite.folder))
    assert listed.returncode == 2
    assert listed.stdout.startswith("good ")
    assert "bad/task.toml, line 5: colour: unknown field; the fields are title," in listed.stderr
    done = run(newel, suite)
    assert (done.returncode, newel.requests) == (2, [])
    assert run(newel, suite, "good").returncode == 0


def test_wrong_names_are_told_with_those_that_were_probably_meant(
    suite: Suite, with_model: WithModel
) -> None:
    suite.add("good", MAKE, DONE)
    newel = begin(suite, with_model)
    assert run(newel, suite, "--replay").returncode == 0
    name = only_run(newel).name
    place = str(suite.folder)
    for words, told in (
        (["list", "goood", "--suite", place], "Did you mean `good`?"),
        (["list", "--suite", "nowhere"], "There is no folder nowhere."),
        (["show", "nothing"], f"There is no run `nothing`. The latest are {name}."),
    ):
        done = newel("eval", *words)
        assert (done.returncode, told in done.stderr) == (2, True), done.stderr


def test_runs_of_tasks_that_were_changed_are_compared_with_a_warning(
    suite: Suite, with_model: WithModel
) -> None:
    suite.add("good", MAKE, DONE)
    newel = begin(suite, with_model)
    run(newel, suite, "--replay")
    path = suite.folder / "good" / "task.toml"
    path.write_text(path.read_text().replace("Do good.", "Do it well."))
    run(newel, suite, "--replay")
    names = sorted(folder.name for folder in (newel.home / ".newel" / "evals").iterdir())
    said = newel("eval", "compare", *names).stdout
    assert "Changed between the runs, so that their results differ for that, too: good" in said
    assert "  *\n" not in said  # one task is no evidence
