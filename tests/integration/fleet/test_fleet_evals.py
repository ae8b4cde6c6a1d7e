"""If these fail, a run of the suite on a fleet gives other results than on a laptop, loses trials, or tells agents how they are checked."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from anyio import to_thread

from newel.evals.packed_files import PackedFile, pack
from newel.jobs.engine import JobOutcome
from newel.jobs.placement import WorkerIdentity
from newel.jobs.postgres.engine import open_postgres_engine
from tests.fleet import FleetOfProcesses, wait_for
from tests.forked import Process, killed, start
from tests.support import BIN, Newel, bash, scenario
from tests.tcp_relay import Relay

MakeFleet = Callable[..., FleetOfProcesses]

KEY = "sk-of-the-worker-0123456789"

TASK = """\
title = "Write a file"
size = "S"
tags = ["file"]
prompt = "Do {name}."
setup = "test -x tool && test -L link"

[[checks]]
file = "made.txt"
equals = "made\\n"

[reference]
run = "echo made > made.txt"

[[wrong]]
why = "It is empty."
run = "touch made.txt"
"""

MADE = bash("echo made > made.txt")
DONE = {"content": "Done."}


def add_task(fleet: FleetOfProcesses, name: str) -> None:
    """A task with a program and a link, in a suite that no worker has."""
    folder = fleet.folder / "suite" / name
    (folder / "files").mkdir(parents=True)
    (folder / "task.toml").write_text(TASK.format(name=name))
    (folder / "files" / "tool").touch(mode=0o755)
    (folder / "files" / "link").symlink_to("tool")


def eval_run(fleet: FleetOfProcesses, *words: str, check: bool = True) -> Any:
    return fleet("eval", "run", "--suite", str(fleet.folder / "suite"), "--fleet", *words, check=check)


def results(fleet: FleetOfProcesses, *runs: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in fleet("eval", "show", "--json", *runs).stdout.splitlines()]
    return sorted(
        (line for line in lines if line["type"] == "trial"), key=lambda each: (each["task"], each["repeat"])
    )


def run_folder(fleet: FleetOfProcesses) -> Path:
    return max((fleet.home / ".newel/evals").iterdir())


def trials_on(home: Path) -> list[Path]:
    return [*home.glob(".newel/fleet/trials/*/trial/project")]


@pytest.mark.slow  # a second of a core
def test_a_run_on_a_fleet_is_kept_as_one_of_this_machine(make_fleet: MakeFleet) -> None:
    look = bash(f"echo made > made.txt; echo {KEY} > leaked; ls ../.. ../../* > seen; ln -s /etc/passwd out")
    fleet = make_fleet(scenario("Do good", look, DONE), scenario("Do bad", bash("echo no > made.txt"), DONE))
    add_task(fleet, "good")
    add_task(fleet, "bad")
    (left := fleet.folder / "one/.newel/fleet/trials/of-a-killed-worker").mkdir(parents=True)
    os.utime(left, (0, 0))
    one = fleet.worker("one", "--slots", "1", LLM_AUTH_TOKEN=KEY)
    two = fleet.worker("two", "--slots", "1", LLM_AUTH_TOKEN=KEY)
    done = eval_run(fleet, check=False)
    assert done.returncode == 1, done.stderr
    assert "success rate 50%" in done.stdout, done.stdout + one.log.read_text()
    assert [log.read_text().count(" done") for log in (one.log, two.log)] == [1, 1]
    bad, good = results(fleet)
    assert (good["task"], good["end"], good["passed"], good["answer"]) == ("good", "done", True, "Done.")
    assert (good["metrics"]["tool_calls"], good["metrics"]["requests"]) == (1, 2)
    assert (bad["passed"], bad["checks"][0]["problem"]) == (False, "its content differs: no")
    trial = run_folder(fleet) / "trials/good.1"
    assert (trial / "project/made.txt").read_text() == "made\n"
    assert "task.toml" not in (trial / "project/seen").read_text()
    assert "out" in (trial / "left-out.txt").read_text()
    assert (trial / "project/leaked").read_text() == "*" * len(KEY) + "\n"
    assert all(
        KEY.encode() not in path.read_bytes() for path in run_folder(fleet).rglob("*") if path.is_file()
    )
    exported = [json.loads(line) for line in fleet("eval", "export").stdout.splitlines()]
    assert [each["trace"][0]["cwd"] for each in exported if each["result"]["passed"]] == [f"{trial}/project"]
    assert str(trial) in fleet("eval", "show", "--failed").stdout.replace("bad.1", "good.1")
    assert trials_on(one.home) == trials_on(two.home) == []
    assert not left.exists()
    status = fleet("fleet", "status", run_folder(fleet).name[:15]).stdout
    assert "1 failed, 1 passed of 2 trials" in status
    assert "No jobs have been submitted" in fleet("fleet", "status").stdout


@pytest.mark.slow  # a lease has to end: fifteen seconds
@pytest.mark.timeout(90)
def test_a_trial_of_a_killed_worker_begins_again_elsewhere_and_counts_once(
    make_fleet: MakeFleet,
) -> None:
    slow = bash("test ! -e begun && touch begun && sleep 2 && echo made > made.txt")
    fleet = make_fleet(scenario("Do slow", slow, DONE), scenario("Do good", MADE, DONE))
    add_task(fleet, "good")
    add_task(fleet, "slow")
    first = fleet.worker("one", "--slots", "1")
    with start_run(fleet) as process:
        wait_for(lambda: [path for path in trials_on(first.home) if (path / "begun").exists()], first.log)
        first.kill()
        second = fleet.worker("two")
        assert process.wait(60) == 0, second.log.read_text()
    newel = on_this_machine(fleet)
    assert newel("eval", "run", "--suite", str(fleet.folder / "suite")).returncode == 0
    local = [json.loads(line) for line in newel("eval", "show", "--json").stdout.splitlines()]
    assert [essence(each) for each in results(fleet)] == sorted(
        (essence(each) for each in local if each["type"] == "trial"), key=lambda each: each[:2]
    )


@pytest.mark.slow  # a second of a core
def test_a_run_whose_program_was_killed_goes_on_and_repeats_nothing(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(
        scenario("Do good", MADE, DONE), scenario("Do slow", bash("sleep 1; echo made > made.txt"), DONE)
    )
    add_task(fleet, "good")
    add_task(fleet, "slow")
    worker = fleet.worker("one")
    with killed(start_run(fleet)):
        wait_for(lambda: len(trials_on(worker.home)) == 2, worker.log)
    wait_for(lambda: worker.log.read_text().count(" done") == 2, worker.log)
    done = fleet("eval", "run", "--resume", run_folder(fleet).name)
    assert "success rate 100%" in done.stdout
    assert worker.log.read_text().count("begins") == 2
    assert [each["task"] for each in results(fleet)] == ["good", "slow"]


@pytest.mark.slow  # a second of a core
def test_the_budget_of_a_run_holds_on_all_workers(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(scenario("Do good", MADE, DONE))
    add_task(fleet, "good")
    worker = fleet.folder / "one/.newel"
    worker.mkdir(parents=True)
    (worker / "config.toml").write_text(
        '[models."mock-model"]\ninput_price = 1000.0\noutput_price = 1000.0\n'
    )
    fleet.worker("one", "--slots", "1")
    done = eval_run(fleet, "-n", "3", "--budget", "0.5")
    assert "2 trials not started: the budget of the run is spent" in done.stdout
    assert [each["passed"] for each in results(fleet)] == [True]


@pytest.mark.slow  # a second of a core
def test_a_model_that_a_worker_cannot_serve_makes_its_trials_invalid(make_fleet: MakeFleet) -> None:
    fault = {"kind": "status", "status": 404, "message": "No such model."}
    fleet = make_fleet(scenario("Do good", MADE, DONE), scenario("Hi", {"fault": fault}))
    add_task(fleet, "good")
    plain, gpu = fleet.worker("plain"), fleet.worker("gpu", "--labels", "gpu")
    done = eval_run(fleet, "--label", "gpu", "-m", "no-such-model", check=False)
    assert done.returncode == 1
    (found,) = results(fleet)
    assert found["end"] == "invalid"
    assert "does not serve no-such-model: " in found["problem"]
    assert "No such model." in found["problem"]
    assert "begins" in gpu.log.read_text()
    assert "begins" not in plain.log.read_text()


@pytest.mark.slow  # seconds of waiting
@pytest.mark.timeout(90)
def test_a_trial_waits_for_a_model_server_that_is_away(make_fleet: MakeFleet) -> None:
    """Else a restart of that server leaves out of all figures what was to be tried then."""
    fleet = make_fleet(scenario("Do good", MADE, DONE), scenario("Hi", DONE))
    add_task(fleet, "good")
    with socket.socket() as bound, ThreadPoolExecutor() as threads:  # nothing listens there yet
        bound.bind(("127.0.0.1", 0))
        worker = fleet.worker("one", LLM_BASE_URL=f"http://127.0.0.1:{bound.getsockname()[1]}/v1")
        done = threads.submit(eval_run, fleet, "-m", "mock-model", check=False)
        wait_for(lambda: " retry: No connection to " in worker.log.read_text(), worker.log)
        bound.listen()
        relay = Relay(fleet.model.port, bound)
        try:
            assert done.result().returncode == 0, worker.log.read_text()
        finally:
            relay.close()
    assert [each["passed"] for each in results(fleet)] == [True]


REFUSED = {
    "--agent": ("true {prompt}", "without Newel's sandbox"),
    "--replay": ("", "asks no model"),
    "--base-url": ("http://127.0.0.1:1/v1", "the workers ask that of their own settings"),
    "--api-key": ("sk-0", "would give a key away"),
    "--sandbox": ("off", "the workers have sandboxes of their own"),
    "--agent-mode": ("local", "Add `--agent-mode remote`"),
}


@pytest.mark.parametrize("option", REFUSED)
def test_an_option_that_workers_cannot_follow_is_refused(
    with_model: Callable[..., Newel], option: str
) -> None:
    value, reason = REFUSED[option]
    newel = with_model()
    done = newel("eval", "run", "--fleet", option, *filter(None, [value]), NEWEL_ENGINE="postgresql://h/d")
    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr
    assert not (newel.home / ".newel/evals").exists()


def start_run(fleet: FleetOfProcesses, *words: str) -> Process:
    command = [str(BIN / "newel"), "eval", "run", "--suite", str(fleet.folder / "suite"), "--fleet", *words]
    return start(command, cwd=fleet.project, env=fleet.environ(fleet.home))


def on_this_machine(fleet: FleetOfProcesses) -> Newel:
    (folder := fleet.folder / "alone").mkdir()
    return Newel(folder, fleet.model)


def essence(trial: dict[str, Any]) -> tuple[Any, ...]:
    """The result of a trial, without what depends on the machine: its times, and the length of its path in the prompt."""
    of_machine = {"seconds", "model_seconds", "input_tokens"}
    metrics = {name: value for name, value in trial["metrics"].items() if name not in of_machine}
    names = ("task", "repeat", "size", "end", "passed", "checks", "problem", "answer")
    return (*(trial[name] for name in names), metrics)


async def send(fleet: FleetOfProcesses, sent: Sequence[tuple[dict[str, Any], bytes]]) -> None:
    """Be a worker that sends what it likes: for the first trial of a task the first of these, and so on."""
    me = WorkerIdentity(name="hostile", machine="m")
    async with open_postgres_engine(fleet.url, worker=me) as engine:
        for _ in sent:
            (lease,) = await engine.claim(1, "hostile", wait=20)
            result, packed = sent[int(json.loads(lease.params)["repeat"]) - 1]
            whole = {"task": "x", "repeat": 1, "size": "S", "end": "done", "passed": True} | result
            events: list[Any] = [{"type": "trial_piece", "data": packed}]
            events.append({"type": "trial_end", "pieces": 1, "result": whole})
            await engine.append(lease, [msgspec.json.encode(each) for each in events], expect_seq=0)
            await engine.finish(lease, JobOutcome(state="done"))


@pytest.mark.anyio
async def test_what_a_hostile_worker_sends_stays_in_the_folder_of_its_trial(make_fleet: MakeFleet) -> None:
    fleet = make_fleet()
    add_task(fleet, "good")
    trace = pack([PackedFile("trace.jsonl", "file", b"{}\n")])
    sent: list[tuple[dict[str, Any], bytes]] = [
        ({"task": "../../../evil", "repeat": 77, "problem": "\x1b]0;owned\x07red"}, trace),
        ({"metrics": {"cost": -1e9}}, trace),
        ({}, pack([PackedFile("../../../evil", "file", b"x")])),
        ({"checks": [{"what": "it", "problem": "no"}]}, trace),
    ]
    with start_run(fleet, "-n", "4") as process:
        await send(fleet, sent)
        said, _ = await to_thread.run_sync(process.communicate)
    assert "\x1b" not in said
    first, second, third, fourth = results(fleet)
    assert (first["task"], first["repeat"], first["passed"]) == ("good", 1, True)
    assert (second["end"], second["problem"]) == (
        "invalid",
        "What the worker has sent cannot be used: It has impossible figures.",
    )
    assert third["end"] == "invalid"
    assert "'../../../evil' is not a path inside their folder" in third["problem"]
    assert not fourth["passed"]
    assert not [*fleet.folder.rglob("evil")]
