"""If these fail, what a model runs unasked is not confined, on a machine whose user has chosen nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from acp.exceptions import RequestError
from websockets.sync.client import connect

from newel.client import RpcClient
from tests.acp_editor import editing
from tests.driver import Driver
from tests.forked import proxy
from tests.ordinary_user import run_as_user
from tests.processes import COMMAND_SECONDS
from tests.requirements import require_program
from tests.served import Served, served, wait_until
from tests.support import BIN, Newel, bash, scenario
from tests.tmux import Tmux

BUBBLEWRAP = require_program("bwrap", "bubblewrap")

WithModel = Callable[..., Newel]

DONE = {"content": "Done."}
BREAK_OUT = bash("cat ~/.ssh/key; touch ~/x ../beside /etc/newel-test; echo made > made.txt")
TOUCH = bash("touch ran")


def unchosen(with_model: WithModel, *steps: dict[str, Any], trigger: str = "go") -> Newel:
    """A Newel whose user has chosen no mode, and has a key to lose."""
    newel = with_model(scenario(trigger, *steps, DONE))
    newel.environ["NEWEL_SANDBOX"] = ""
    (newel.home / ".ssh").mkdir()
    (newel.home / ".ssh/key").write_text("very secret\n")
    return newel


def results(newel: Newel) -> list[str]:
    return [each["content"] for each in newel.requests[-1]["messages"] if each["role"] == "tool"]


def assert_confined(newel: Newel) -> None:
    assert "very secret" not in str(newel.requests)
    assert "Read-only file system" in str(newel.requests)
    assert not (newel.home / "x").exists()
    assert not (newel.project.parent / "beside").exists()


# -- where it holds ---------------------------------------------------------------------------------


@pytest.mark.parametrize("approve", ["auto", "review"])
@pytest.mark.parametrize("user", ["root", "ordinary"])
def test_a_prompt_is_confined(with_model: WithModel, approve: str, user: str) -> None:
    newel = unchosen(with_model, BREAK_OUT)
    words = ("--approve", approve, "go")
    done = newel(*words) if user == "root" else run_as_user(newel, *words)
    assert done.returncode == 0, done.stderr
    assert_confined(newel)
    if user == "root":
        assert (newel.project / "made.txt").exists() == (approve == "auto")


def test_a_contract_is_confined(with_model: WithModel) -> None:
    newel = unchosen(with_model, BREAK_OUT)
    newel("agent", "go", "--max-turns", "2")
    assert_confined(newel)
    assert (newel.project / "made.txt").exists()


def test_a_chat_of_the_page_is_confined_and_the_page_says_so(with_model: WithModel) -> None:
    newel = unchosen(with_model, BREAK_OUT)
    with served(newel) as server:
        assert welcome_of(server)["sandbox"] == "workspace"
        server.chat("go")
    assert_confined(newel)


def welcome_of(server: Served) -> dict[str, Any]:
    with connect(f"ws{server.url[4:]}/ws", additional_headers=server.headers) as socket:
        return json.loads(socket.recv(timeout=10))


@pytest.mark.anyio
async def test_a_program_is_confined_and_told(with_model: WithModel) -> None:
    newel = unchosen(with_model, BREAK_OUT)
    command = [str(BIN / "newel"), "rpc"]
    async with RpcClient(cwd=newel.project, environ=newel.environ, command=command) as client:
        assert (await client.state()).sandbox == "workspace"
        await client.run("go")
    assert_confined(newel)


@pytest.mark.anyio
async def test_an_editor_is_confined_also_with_terminals(with_model: WithModel) -> None:
    newel = unchosen(with_model, BREAK_OUT)
    async with editing(newel, "--approve", "auto", terminals=True) as ide:
        await ide.new_session()
        await ide.prompt("go")
        assert ide.editor.terminals == {}  # they are outside of any sandbox
    assert_confined(newel)


def test_a_newel_in_the_sandbox_starts_no_other_one(with_model: WithModel) -> None:
    """It could not: there are no user namespaces inside. What it starts is in the same sandbox."""
    newel = unchosen(with_model, bash("printenv NEWEL_SANDBOX"))
    newel("go")
    assert results(newel)[0].startswith("stdout:\ninside\n")
    done = newel("doctor", NEWEL_SANDBOX="inside")
    (line,) = [each for each in done.stdout.splitlines() if " sandbox " in each]
    assert " off " in line


def test_the_self_test_is_made_once_also_where_nothing_is_kept_yet(with_model: WithModel) -> None:
    """It takes longer than everything else at the start."""
    newel = unchosen(with_model, bash("true"))
    newel("--ephemeral", "go")
    tested = newel.home / ".newel/sandbox_tested.json"
    assert len(json.loads(tested.read_text())) == 1
    assert tested.parent.stat().st_mode & 0o077 == 0
    newel("--ephemeral", "go")
    assert len(json.loads(tested.read_text())) == 1


@pytest.mark.parametrize("way", ["option", "variable", "setting"])
def test_it_can_be_turned_off(with_model: WithModel, way: str) -> None:
    newel = unchosen(with_model, bash("touch ~/x"))
    (newel.home / ".newel").mkdir()
    if way == "setting":
        (newel.home / ".newel/config.toml").write_text('[sandbox]\nmode = "off"\n')
    words = ("--sandbox", "off", "go") if way == "option" else ("go",)
    newel(*words, NEWEL_SANDBOX="off" if way == "variable" else "")
    assert (newel.home / "x").exists()


# -- where it does not ------------------------------------------------------------------------------


HIDE = 'mount --bind /dev/null $(readlink -f $(command -v bwrap)) && exec "$@"'
"""Runs a command for which this machine has no bubblewrap."""

LEAK = 'mount --bind "$1" $(readlink -f $(command -v bwrap)) && shift && exec "$@"'
"""Runs a command for which another program is bubblewrap."""


@pytest.fixture(
    params=["missing", "leaking", pytest.param("failing", marks=pytest.mark.slow)]  # as where it is missing
)
def broken(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Begins a command on a machine whose bubblewrap is missing, leaves a way to the network, or does not start."""
    if os.geteuid() != 0:
        pytest.skip("replacing a program takes root")
    begin = ["unshare", "-m", "sh", "-c"]
    if request.param == "missing":
        yield [*begin, HIDE, "sh"]
        return
    # Not in pytest's own folder, which it closes to other users whenever another pytest starts.
    with tempfile.TemporaryDirectory(prefix="newel-bwrap-") as name:
        yield [*begin, LEAK, "sh", str(make_bubblewrap(Path(name), request.param))]


def make_bubblewrap(folder: Path, fault: str) -> Path:
    folder.chmod(0o755)
    shutil.copy(BUBBLEWRAP, folder / "real")
    says = {
        "leaking": f'shift; exec {folder}/real --unshare-all --share-net "$@"',
        "failing": "echo bwrap: No permissions to create new namespace >&2; exit 1",
    }
    (folder / "bwrap").write_text(f"#!/bin/sh\n{says[fault]}\n")
    (folder / "bwrap").chmod(0o755)
    return folder / "bwrap"


REASONS = ("apt-get install bubblewrap", "servers of this machine can be reached", "No permissions to create")


def assert_explained(text: str) -> None:
    assert any(reason in text for reason in REASONS), text
    assert "--sandbox off" in text or "--sandbox partial" in text


def run_under(broken: Sequence[str], newel: Newel, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*broken, *proxy([f"{BIN}/newel", *words])],
        cwd=newel.project,
        env=newel.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )


@pytest.mark.parametrize(
    "words",
    [("go",), ("--approve", "review", "go"), ("--sandbox", "workspace", "go"), ("agent", "go")],
    ids=["auto", "review", "chosen", "contract"],
)
def test_a_run_that_nobody_attends_does_not_start(
    with_model: WithModel, broken: list[str], words: tuple[str, ...]
) -> None:
    newel = unchosen(with_model, TOUCH)
    done = run_under(broken, newel, *words)
    assert done.returncode == 1
    assert_explained(done.stderr)
    choices = [line.split()[:2] for line in done.stderr.splitlines() if line.startswith("  --")]
    assert choices == [["--sandbox", "partial"], ["--sandbox", "off"]]  # one to a line, to choose from
    assert newel.requests == []


def test_nor_does_that_of_an_ordinary_user(with_model: WithModel, broken: list[str]) -> None:
    newel = unchosen(with_model, TOUCH)
    done = run_as_user(newel, "go", under=broken)
    assert done.returncode == 1
    assert_explained(done.stderr)
    assert newel.requests == []


def test_a_run_that_runs_nothing_unasked_needs_no_sandbox(with_model: WithModel, broken: list[str]) -> None:
    newel = unchosen(with_model, TOUCH)
    for approve in ("read-only", "ask"):
        assert "Done." in run_under(broken, newel, "--approve", approve, "go").stdout
        assert not (newel.project / "ran").exists()
    assert run_under(broken, newel, "--sandbox", "off", "go").returncode == 0
    assert (newel.project / "ran").exists()


def test_the_doctor_counts_it_as_a_problem(with_model: WithModel, broken: list[str]) -> None:
    """A script that asks the doctor must not learn from its first run that it does not start."""
    newel = unchosen(with_model, TOUCH)
    done = run_under(broken, newel, "doctor")
    (line,) = [each for each in done.stdout.splitlines() if " sandbox " in each]
    assert line.startswith("!! ")
    assert_explained(done.stdout)
    assert done.returncode == 1
    (newel.home / ".newel").mkdir(exist_ok=True)
    (newel.home / ".newel/config.toml").write_text('[sandbox]\nmode = "partial"\n')
    assert run_under(broken, newel, "doctor").returncode == 0


def test_a_conversation_begins_with_a_warning(with_model: WithModel, broken: list[str]) -> None:
    """It is no error: the conversation works, and says why it asks."""
    newel = unchosen(with_model, TOUCH)
    environ = newel.environ | {"TERM": "xterm-256color"}
    with Tmux([*broken, *proxy([str(BIN / "newel")])], newel.project, environ) as terminal:
        terminal.wait_for("Warning: Partial sandbox, so Newel asks before each change")
        terminal.wait_for("these questions.")


def test_a_user_is_asked(with_model: WithModel, drive: Callable[..., Driver], broken: list[str]) -> None:
    newel = unchosen(with_model, TOUCH)
    driver = drive(newel, "--approve", "auto", under=broken)
    driver.send(type="message", content="go")
    driver.answer(driver.until("approval_request"), "no")
    driver.until("agent_end")
    assert not (newel.project / "ran").exists()


def test_the_page_asks_and_says_why(with_model: WithModel, broken: list[str]) -> None:
    newel = unchosen(with_model, TOUCH)
    with served(newel, *broken, str(BIN / "go")) as server:
        welcome = welcome_of(server)
        assert (welcome["approve"], welcome["sandbox"]) == ("ask", "partial")
        assert_explained(welcome["sandboxProblem"])
        assert_explained(welcome["notice"])
        with server.page() as page:
            tab = page.ask("openChat")["tab"]
            page.ask("send", tab=tab, messageId="m1", text="go")
            page.ask("watch", tab=tab)
            while not (questions := page.next("questions")["questions"]):
                pass
            (question,) = questions
            assert question["kind"] == "approval"
    assert not (newel.project / "ran").exists()


@pytest.mark.anyio
async def test_an_editor_asks_and_cannot_change_that(with_model: WithModel, broken: list[str]) -> None:
    newel = unchosen(with_model, TOUCH)
    async with editing(newel, "--approve", "auto", under=broken) as ide:
        ide.editor.decide = lambda _: "reject_once"
        session = await ide.new_session()
        assert session.modes.current_mode_id == "ask"
        for mode in ("auto", "review"):
            with pytest.raises(RequestError) as error:
                await ide.agent.set_session_mode(mode_id=mode, session_id=ide.session)
            assert_explained(str(error.value) + str(error.value.data))
        await ide.prompt("go")
        assert len(ide.editor.asked) == 1
        assert_explained(ide.editor.text("agent_thought_chunk"))
    assert not (newel.project / "ran").exists()


def test_a_resumed_run_keeps_its_preset_but_not_without_a_sandbox(
    with_model: WithModel, broken: list[str]
) -> None:
    """A run of `auto` is resumed with its own approval mode: not by one that needs no sandbox."""
    newel = unchosen(with_model, bash("touch begun; sleep 60"), TOUCH)
    with newel.start("agent", "go") as agent:
        wait_until((newel.project / "begun").exists, "the command")
        agent.kill()
    (newel.home / ".newel/config.toml").write_text('approve = "read-only"\n')
    (run,) = [line.split()[0] for line in newel("agents").stdout.splitlines() if "interrupted" in line]
    done = run_under(broken, newel, "agent", "--resume", run)
    assert done.returncode == 1
    assert_explained(done.stderr)
    assert not (newel.project / "ran").exists()


@pytest.mark.parametrize(
    "words", [["doctor"], ["review"], ["config"], ["mcp", "list"], ["sessions"], ["stats"]], ids=" ".join
)
def test_commands_about_newels_folder_do_not_report_that_nothing_is_there(
    with_model: WithModel, words: list[str]
) -> None:
    """In the sandbox that folder does not exist, and "No sessions in this folder yet" is not true."""
    newel = with_model(scenario("look", {"content": "Done."}))
    done = newel(*words, NEWEL_SANDBOX="inside", NEWEL_HOME=str(newel.project.parent / "unseen"))
    assert done.returncode == 2, done.stdout
    assert "cannot be seen in the sandbox of this command" in done.stderr
    assert "Run it in another terminal." in done.stderr
    assert newel(*words, "--help", NEWEL_SANDBOX="inside", NEWEL_HOME="/unseen").returncode == 0
