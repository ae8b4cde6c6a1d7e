"""If these fail, what a model runs on a host is not confined, or nobody learns that."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from newel.client import RpcClient
from tests.driver import Driver
from tests.processes import until_listening
from tests.requirements import require_program
from tests.served import served as serving
from tests.sshd import Sshd
from tests.support import BIN, Newel, bash, scenario
from tests.tmux import Tmux

BUBBLEWRAP = require_program("bwrap", "bubblewrap")

WithModel = Callable[..., Newel]

DONE = {"content": "Done."}
BREAK_OUT = bash("cat ~/.ssh/key; touch ~/x ../beside /etc/newel-test .git/x; echo made > made.txt")
TOUCH = bash("touch ran")


@pytest.fixture
def project(sshd: Sshd, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder of the host's user, with a repository in it, and a key beside it."""
    folder = sshd.project(request.node.name.translate(str.maketrans("[]", "--")))
    keys = sshd.home / ".ssh"
    keys.mkdir()
    (keys / "key").write_text("very secret\n")
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("[core]\n")
    for path in (keys, *keys.iterdir(), folder / ".git", folder / ".git/config"):
        sshd.give(path)
    yield folder
    for left in (keys, folder, sshd.home / ".newel", sshd.home / "x", sshd.home / "beside"):
        shutil.rmtree(left, ignore_errors=True)
        left.unlink(missing_ok=True)


def unchosen(with_model: WithModel, sshd: Sshd, *steps: dict[str, Any]) -> Newel:
    """A Newel whose user has chosen no mode."""
    newel = with_model(scenario("go", *steps, DONE))
    newel.environ |= {"NEWEL_SANDBOX": "", "NEWEL_SSH_CONFIG": str(sshd.config)}
    return newel


def results(newel: Newel) -> list[str]:
    return [each["content"] for each in newel.requests[-1]["messages"] if each["role"] == "tool"]


def assert_confined(newel: Newel, project: Path) -> None:
    assert "very secret" not in str(newel.requests)
    assert "Read-only file system" in str(newel.requests)
    assert not (project.parent / "x").exists()
    assert not (project.parent / "beside").exists()
    assert not (project / ".git/x").exists()


# -- where it holds ---------------------------------------------------------------------------------


@pytest.mark.parametrize("approve", ["auto", "review"])
@pytest.mark.parametrize("who", ["host", "own"])
def test_a_prompt_is_confined(
    with_model: WithModel, sshd: Sshd, project: Path, approve: str, who: str
) -> None:
    newel = unchosen(with_model, sshd, BREAK_OUT)
    if who == "own" and os.geteuid() == 0:  # inside, root is a user like others
        subprocess.run(["chown", "-R", "0:0", str(project), str(project.parent)], check=True)
    try:
        done = newel("--host", f"{who}:{project}", "--approve", approve, "go")
    finally:
        sshd.give(sshd.home)
    assert done.returncode == 0, done.stderr
    assert_confined(newel, project)
    assert (project / "made.txt").exists() == (approve == "auto")
    if approve == "auto":
        assert newel("undo", "--host", f"{who}:{project}", "--yes").returncode == 0
        assert not (project / "made.txt").exists()
    assert "Commands run in a sandbox on that host" in newel.requests[0]["messages"][0]["content"]


def test_the_default_is_still_to_ask(
    with_model: WithModel, sshd: Sshd, project: Path, drive: Callable[..., Driver]
) -> None:
    newel = unchosen(with_model, sshd, BREAK_OUT)
    driver = drive(newel, "--host", f"host:{project}")
    driver.send(type="message", content="go")
    driver.answer(driver.until("approval_request"), "once")
    driver.until("agent_end")
    assert_confined(newel, project)
    assert (project / "made.txt").exists()


def test_a_contract_is_confined(with_model: WithModel, sshd: Sshd, project: Path) -> None:
    newel = unchosen(with_model, sshd, BREAK_OUT)
    newel("agent", "go", "--host", f"host:{project}", "--approve", "auto", "--max-turns", "2")
    assert_confined(newel, project)
    assert (project / "made.txt").exists()


@pytest.mark.slow  # a second of a core
def test_an_agent_with_a_worktree_works_there(with_model: WithModel, sshd: Sshd, project: Path) -> None:
    newel = unchosen(
        with_model, sshd, bash("git log --format=%s && echo x > x.txt && cat x.txt; touch ../beside")
    )
    shutil.rmtree(project / ".git")
    for words in ("init -q", "config user.name A", "config user.email a@b", "commit -qm First --allow-empty"):
        assert sshd.ssh("git", "-C", str(project), *words.split()).returncode == 0
    done = newel(
        "agent", "go", "--host", f"host:{project}", "--approve", "auto", "--worktree", "--max-turns", "2"
    )
    assert "stdout:\nFirst\nx\n" in str(results(newel)[0]), done.stderr
    assert not (project / "x.txt").exists()
    assert [path.name for path in (sshd.home / ".newel/worktrees").iterdir()] != []
    assert not (sshd.home / ".newel/worktrees/beside").exists()


def test_the_page_shows_it(with_model: WithModel, sshd: Sshd, project: Path) -> None:
    newel = unchosen(with_model, sshd, BREAK_OUT)
    with serving(newel, "go", "--host", f"host:{project}", "--approve", "auto") as server:
        with connect(f"ws{server.url[4:]}/ws", additional_headers=server.headers) as socket:
            assert json.loads(socket.recv(timeout=10))["sandbox"] == "workspace"
        server.chat("go")
    assert_confined(newel, project)


def test_a_command_sees_what_an_earlier_one_has_started(
    with_model: WithModel, sshd: Sshd, project: Path
) -> None:
    newel = unchosen(
        with_model,
        sshd,
        bash(
            f"/usr/bin/python3 -m http.server 8124 >/dev/null 2>&1 & echo kept > /tmp/kept; {until_listening(8124)}"
        ),
        bash("cat /tmp/kept; echo > /dev/tcp/127.0.0.1/8124 && echo reached"),
    )
    newel("--host", f"host:{project}", "--approve", "auto", "go")
    assert results(newel)[1].startswith("stdout:\nkept\nreached\n")


def test_settings_hold_there(with_model: WithModel, sshd: Sshd, project: Path) -> None:
    newel = unchosen(
        with_model,
        sshd,
        bash(
            "cat ~/shown private/key; echo x >> ~/changed; mkdir .vscode && echo '{}' > .vscode/tasks.json; head -c 3000000 /dev/zero > big"
        ),
    )
    for path in (sshd.home / "shown", sshd.home / "changed", project / "private/key"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"content of {path.name}\n")
        sshd.give(path)
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel/config.toml").write_text(
        '[permissions]\ndeny = ["read(private/**)"]\n'
        '[sandbox]\nreadable = ["~/shown"]\nwritable = ["~/changed"]\nmax_file = 0.001\n'
    )
    newel("--host", f"host:{project}", "--approve", "auto", "go")
    (said,) = results(newel)
    assert "content of shown" in said
    assert "content of key" not in said
    assert "New in the project: .vscode/tasks.json." in said
    assert (sshd.home / "changed").read_text() == "content of changed\nx\n"
    assert (project / "big").stat().st_size < 1_100_000
    for name in ("shown", "changed"):
        (sshd.home / name).unlink()


def test_a_command_that_the_sandbox_stops_is_explained(
    with_model: WithModel, sshd: Sshd, project: Path
) -> None:
    stopped = {
        "touch /etc/newel-test": "[sandbox] writable",
        "/usr/bin/python3 -c 'import socket; socket.getaddrinfo(\"example.org\", 80)'": "no server but those that they start",
        "echo kept > ~/notes.txt": "Lost when the sandbox ends",
    }
    newel = unchosen(with_model, sshd, bash("echo fine"), *map(bash, stopped))
    newel("--host", f"host:{project}", "--approve", "auto", "go")
    fine, *others = results(newel)
    assert "sandbox" not in fine
    for hint, result in zip(stopped.values(), others, strict=True):
        assert hint in result
        assert "--sandbox off" in result


def test_read_only_and_off(with_model: WithModel, sshd: Sshd, project: Path) -> None:
    newel = unchosen(with_model, sshd, TOUCH)
    words = ("--host", f"host:{project}", "--approve", "auto")
    newel(*words, "--sandbox", "read-only", "go")
    assert not (project / "ran").exists()
    newel(*words, "--sandbox", "off", "go")
    assert (project / "ran").exists()


def test_the_file_tools_have_the_same_limits(with_model: WithModel, sshd: Sshd, project: Path) -> None:
    written = [
        {"tool_calls": [{"function": {"name": "write", "arguments": {"file_path": path, "content": "x"}}}]}
        for path in ("../beside", ".git/hooks/pre-commit", ".vscode/tasks.json", "inside.txt")
    ]
    newel = unchosen(with_model, sshd, *written)
    newel("--host", f"host:{project}", "--approve", "auto", "go")
    assert ["the sandbox does not allow it" in result for result in results(newel)] == [
        True,
        True,
        True,
        False,
    ]
    assert not (project / ".vscode").exists()


# -- where it does not ------------------------------------------------------------------------------


@pytest.fixture(
    params=["missing", "leaking", pytest.param("failing", marks=pytest.mark.slow)]  # as where it is missing
)
def broken(request: pytest.FixtureRequest, sshd: Sshd) -> str:
    """A host whose bubblewrap is missing, leaves a way to the network, or does not start."""
    if os.geteuid() != 0:
        pytest.skip("replacing a program takes root")
    folder = sshd.folder / f"bwrap-{request.param}"
    folder.mkdir(exist_ok=True)
    if not (folder / "real").exists():
        shutil.copy(BUBBLEWRAP, folder / "real")
    program = folder / "bwrap"
    says = {
        # The arguments come by a descriptor, and so one cannot just be left out.
        "leaking": f'shift 2; tr "\\0" "\\n" <&8 | sed "s/^--unshare-all$/&\\n--share-net/" | tr "\\n" "\\0" >{folder}/arguments; '
        f'exec {folder}/real --args 7 "$@" 7<{folder}/arguments',
        "failing": "echo bwrap: No permissions to create new namespace >&2; exit 1",
        "missing": "",
    }
    program.write_text(f"#!/bin/sh\n{says[request.param]}\n")
    program.chmod(0o644 if request.param == "missing" else 0o755)
    found = os.path.realpath(BUBBLEWRAP)
    script = f'mount --bind {program} {found} && eval "$SSH_ORIGINAL_COMMAND"'
    return sshd.login(f"bwrap-{request.param}", f"exec unshare -m sh -c {shlex.quote(script)}")


REASONS = ("apt-get install bubblewrap", "the network of the host can be reached", "No permissions to create")


def assert_explained(text: str) -> None:
    assert any(reason in text for reason in REASONS), text
    assert "--sandbox off" in text


@pytest.mark.parametrize(
    "words",
    [
        ("--approve", "auto", "go"),
        ("--approve", "review", "go"),
        ("--sandbox", "workspace", "go"),
        ("agent", "go", "--approve", "auto"),
    ],
    ids=["auto", "review", "chosen", "contract"],
)
def test_a_run_that_nobody_attends_does_not_start(
    with_model: WithModel, sshd: Sshd, project: Path, broken: str, words: tuple[str, ...]
) -> None:
    newel = unchosen(with_model, sshd, TOUCH)
    done = newel(*words, "--host", f"{broken}:{project}")
    assert done.returncode == 1
    assert_explained(done.stderr)
    assert newel.requests == []
    assert not (project / "ran").exists()


def test_a_run_that_asks_works_and_says_why_there_is_none(
    with_model: WithModel, sshd: Sshd, project: Path, broken: str
) -> None:
    newel = unchosen(with_model, sshd, TOUCH)
    done = newel("--host", f"{broken}:{project}", "go")
    assert "Done." in done.stdout
    assert_explained(done.stderr)
    assert not (project / "ran").exists()


def test_a_user_is_asked_instead_of_auto(
    with_model: WithModel, sshd: Sshd, project: Path, broken: str, drive: Callable[..., Driver]
) -> None:
    newel = unchosen(with_model, sshd, TOUCH)
    driver = drive(newel, "--host", f"{broken}:{project}", "--approve", "auto")
    driver.send(type="message", content="go")
    driver.answer(driver.until("approval_request"), "no")
    driver.until("agent_end")
    assert not (project / "ran").exists()


@pytest.mark.anyio
async def test_a_program_is_told(with_model: WithModel, sshd: Sshd, project: Path, broken: str) -> None:
    newel = unchosen(with_model, sshd, TOUCH)
    command = [str(BIN / "newel"), "rpc", "--host", f"{broken}:{project}", "--approve", "auto"]
    async with RpcClient(cwd=newel.project, environ=newel.environ, command=command) as client:
        state = await client.state()
    assert (state.approve, state.sandbox) == ("ask", "off")
    assert_explained(state.sandbox_problem)


def test_a_host_test_says_it(with_model: WithModel, sshd: Sshd, project: Path, broken: str) -> None:
    newel = unchosen(with_model, sshd)
    shown = newel("hosts", "test", f"{broken}:{project}").stdout
    assert any(reason in shown for reason in REASONS), shown
    assert "ok sandbox      workspace" in newel("hosts", "test", f"host:{project}").stdout


def test_a_connection_that_breaks_while_the_sandbox_starts_says_nothing_about_it(
    with_model: WithModel, sshd: Sshd, project: Path
) -> None:
    """A user who is asked instead would approve commands that run unconfined, because of the network."""
    ends = 'case $SSH_ORIGINAL_COMMAND in *"read -r s"*) kill -9 $PPID ;; *) exec sh -c "$SSH_ORIGINAL_COMMAND" ;; esac'
    newel = unchosen(with_model, sshd, TOUCH)
    done = newel("--host", f"{sshd.login('breaks', ends)}:{project}", "go")
    assert done.returncode == 1
    assert "was lost" in done.stderr
    assert "No sandbox" not in done.stderr
    assert newel.requests == []


def test_a_host_that_is_away_is_an_error_and_not_one_without_a_sandbox(
    with_model: WithModel, sshd: Sshd, project: Path
) -> None:
    newel = unchosen(with_model, sshd, TOUCH)
    config = newel.home / "ssh_config"
    config.write_text(sshd.client_config(port=1))
    newel.environ["NEWEL_SSH_CONFIG"] = str(config)
    done = newel("--host", f"host:{project}", "go")
    assert done.returncode == 1
    assert "refused the connection" in done.stderr
    assert "sandbox" not in done.stderr


def test_a_command_of_the_users_own_has_no_keys_there_and_says_so(
    with_model: WithModel, sshd: Sshd, project: Path
) -> None:
    """If this fails, `!vim` hangs on a screen that it does not have."""
    newel = unchosen(with_model, sshd)
    words = [str(BIN / "newel"), "--host", f"host:{project}"]
    with Tmux(words, newel.project, {**os.environ, **newel.environ}, columns=120) as terminal:
        terminal.wait_for("approve: ask")
        terminal.type("!test -t 0 || echo no''ne")
        terminal.wait_for("It gets no keys in a sandbox on a host")
        terminal.type("", "Enter")
        terminal.wait_for("none")
        terminal.wait_for("(with your next message)")
