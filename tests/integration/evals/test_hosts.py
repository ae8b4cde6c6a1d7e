"""If these fail, an agent is measured on this machine instead of a host, a machine without a server for SSH counts as a bad agent, or a
trial meddles with the user's SSH.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.forked import killed
from tests.integration.evals.test_eval_run import (
    DONE,
    Suite,
    WithModel,
    begin,
    results,
    run,
    suite,
)
from tests.processes import children, is_alive, read_proc
from tests.served import wait_until
from tests.sshd import require_sshd
from tests.support import BIN, Newel, bash

__all__ = ["suite"]

ON_HOST = """
[files]
"where.txt" = "on the host"
[host.local]
"where.txt" = "here"
"""


@pytest.fixture(autouse=True)
def sshd_program() -> str:
    return require_sshd()


def hide(program: str, command: list[str]) -> list[str]:
    """The command, on a machine that lacks a program."""
    if os.geteuid() != 0:
        pytest.skip("hiding a program takes root")
    return ["unshare", "-m", "sh", "-c", f'mount --bind /dev/null {program} && exec "$@"', "sh", *command]


def evals(newel: Newel) -> Path:
    return newel.home / ".newel" / "evals"


def trial(newel: Newel) -> Path:
    (folder,) = evals(newel).glob("*/trials/*")
    return folder


def users_ssh() -> dict[str, Any]:
    """What is in ``~/.ssh``, as ssh finds it."""
    folder = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".ssh"
    return {str(path): path.lstat().st_mtime_ns for path in folder.rglob("*")} | {"": folder.exists()}


def test_an_agent_works_in_the_folder_of_a_host_and_not_where_it_was_started(
    suite: Suite, with_model: WithModel
) -> None:
    looks = bash('cat where.txt; echo "by ssh: ${SSH_CONNECTION:+yes}"; echo made > made.txt; touch ~/x')
    suite.add("there", looks, DONE, more=ON_HOST)
    newel = begin(suite, with_model)
    before = users_ssh()
    done = run(newel, suite)
    assert done.returncode == 0, newel("eval", "show", "--failed").stdout + done.stderr
    (result,) = (each["content"] for each in newel.requests[-1]["messages"] if each["role"] == "tool")
    assert "on the host" in result
    assert "by ssh: yes" in result
    folder = trial(newel)
    assert [path.name for path in (folder / "local").iterdir()] == ["where.txt"]
    assert (folder / "host" / "home" / "x").exists()
    assert not (folder / "home" / "x").exists()
    assert users_ssh() == before


def test_ssh_reads_nothing_of_the_users(suite: Suite, with_model: WithModel) -> None:
    """Neither a key nor a known host of theirs would be of use, and an entry of their configuration could lead elsewhere."""
    suite.add("there", bash("echo made > made.txt"), DONE, more="[host]")
    newel = begin(suite, with_model)
    assert run(newel, suite).returncode == 0
    folder = trial(newel)
    command = ["ssh", "-G", "-F", str(folder / "host" / "ssh_config"), "eval-host"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    options = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    for name in ("identityfile", "userknownhostsfile"):
        assert options[name].startswith(str(folder))
    assert (options["identityagent"], options["globalknownhostsfile"]) == ("none", "/dev/null")


@pytest.mark.slow  # a second of a core
def test_a_contract_is_fulfilled_on_a_host(suite: Suite, with_model: WithModel) -> None:
    """Its acceptance command looks there, too."""
    suite.add("contract", DONE, more='accept = "grep -q host where.txt && test -s made.txt"' + ON_HOST)
    newel = begin(suite, with_model)
    done = run(newel, suite, "--replay")
    assert done.returncode == 0, newel("eval", "show", "--failed").stdout + done.stderr


@pytest.mark.slow  # two seconds of a core: several runs of agents, each a process of its own
def test_a_recording_proves_itself_on_a_host(suite: Suite, with_model: WithModel) -> None:
    """On this machine, the replay of what a model has done on a host would fail, or do something else."""
    suite.add("there", bash('test -n "$SSH_CONNECTION" && echo made > made.txt'), DONE, more="[host]")
    newel = begin(suite, with_model)
    assert run(newel, suite).returncode == 0
    done = newel("eval", "record")
    assert done.returncode == 0, done.stdout
    assert "1 trace recorded" in done.stdout
    assert run(newel, suite, "--replay").returncode == 0


@pytest.mark.slow  # two seconds of a core: several runs of agents, each a process of its own
def test_a_killed_run_leaves_nothing_on_the_host(suite: Suite, with_model: WithModel) -> None:
    """Not even a daemon that is deaf to SIGTERM: it would go on for ever, and nobody would know where it came from."""
    stays = "(trap '' TERM; setsid sleep 600 >/dev/null 2>&1 &); echo started > ../started; sleep 600"
    suite.add("long", bash(stays), DONE, more="[host]")
    newel = begin(suite, with_model)
    process = newel.start("eval", "run", "--suite", str(suite.folder))
    with killed(process):
        wait_until(lambda: list(evals(newel).glob("*/trials/*/started")), "a command on the host")
        commands = processes_of(process.pid, str(evals(newel)))
        told = "\n".join(commands.values())
        assert "sshd: " in told
        assert told.count("sleep 600") >= 2
    wait_until(lambda: not any(map(is_alive, commands)), "the end of all processes")


def processes_of(pid: int, folder: str) -> dict[int, str]:
    """The command lines of all descendants of a process, and of those whose environment names a folder."""
    found = {
        int(path.name): read_proc(int(path.name), "cmdline")
        for path in Path("/proc").glob("[0-9]*")
        if folder in read_proc(int(path.name), "environ")
    }
    todo = [pid]
    while todo:
        these = children(todo.pop(), "")
        found |= {child: read_proc(child, "cmdline") for child in these}
        todo += these
    return found


@pytest.mark.slow  # a second of a core
def test_without_an_sshd_a_trial_is_invalid_and_the_others_are_made(
    suite: Suite, with_model: WithModel, sshd_program: str
) -> None:
    suite.add("there", DONE, more="[host]")
    suite.add("here", bash("echo made > made.txt"), DONE)
    newel = begin(suite, with_model)
    for words in (["list"], ["check"], ["run"]):
        command = hide(sshd_program, [str(BIN / "newel"), "eval", *words, "--suite", str(suite.folder)])
        done = subprocess.run(
            command, env=newel.environ, cwd=newel.project, capture_output=True, text=True, check=False
        )
        assert "Traceback" not in done.stderr
        assert done.returncode == (1 if words == ["run"] else 0), done.stdout + done.stderr
    told = {each["task"]: (each["end"], each["problem"]) for each in results(newel)}
    assert told["here"] == ("done", "")
    assert told["there"][0] == "invalid"
    assert "needs sshd, which is not installed: `apt-get install openssh-server`" in told["there"][1]
    assert "success rate 100%" in newel("eval", "show").stdout


def test_an_sshd_that_refuses_to_run_is_no_failure_of_the_agent(
    suite: Suite, with_model: WithModel, tmp_path: Path
) -> None:
    suite.add("there", DONE, more="[host]")
    newel = begin(suite, with_model)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "sshd").write_text("#!/bin/sh\necho 'Missing privilege separation directory' >&2\nexit 255\n")
    (programs / "sshd").chmod(0o755)
    newel.environ["PATH"] = f"{programs}:{newel.environ['PATH']}"
    run(newel, suite)
    (found,) = results(newel)
    assert found["end"] == "invalid"
    assert "Missing privilege separation directory" in found["problem"]
    assert newel.requests == []


def test_a_host_whose_commands_would_not_be_confined_is_no_failure_of_the_agent(
    suite: Suite, with_model: WithModel
) -> None:
    """A partial sandbox holds on this machine only."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        pytest.skip("needs bwrap: `apt-get install bubblewrap`")
    suite.add("there", DONE, more="[host]")
    newel = begin(suite, with_model)
    words = [str(BIN / "newel"), "eval", "run", "--suite", str(suite.folder), "--sandbox", "partial"]
    subprocess.run(hide(bwrap, words), env=newel.environ, cwd=newel.project, capture_output=True, check=False)
    (found,) = results(newel)
    assert (found["end"], newel.requests) == ("invalid", [])
    assert "There is no partial sandbox on a host." in found["problem"]


def test_a_host_is_nothing_for_other_agents(suite: Suite, with_model: WithModel) -> None:
    suite.add("there", DONE, more="[host]")
    newel = begin(suite, with_model)
    run(newel, suite, "--agent", "true {prompt}")
    (found,) = results(newel)
    assert (found["end"], found["problem"]) == (
        "invalid",
        "This task is about a folder on another host, and other agents work on this machine.",
    )
