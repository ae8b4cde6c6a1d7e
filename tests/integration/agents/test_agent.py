"""If these fail, an agent without a screen ignores its contract or its flags."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mock_llm_server import running
from tests.integration.agents.support import after
from tests.processes import is_pending
from tests.requirements import require_program
from tests.support import Newel, bash, scenario

WithAgent = Callable[..., Newel]


def questions(newel: Newel) -> list[dict[str, Any]]:
    """The requests for a verdict."""
    return [
        body for body in newel.requests if "is the contract fulfilled?" in body["messages"][-1]["content"]
    ]


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def run_id(newel: Newel) -> str:
    return newel("agents").stdout.split()[0]


# -- how it ends --------------------------------------------------------------------------------------


def test_under_review_an_agent_works_and_is_checked_in_a_copy_and_its_changes_are_pending(
    with_agent: WithAgent,
) -> None:
    newel = with_agent(after(1, True), scenario("Make a file", bash("echo made > a && ls")))
    (newel.project / "mine").write_text("mine\n")
    done = newel("agent", "Make a file", "--accept", "test -s a && test -s mine", "--approve", "review")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in newel.project.iterdir()] == ["mine"]
    waiting = json.loads(newel("review", "--json").stdout)["pending"]
    assert [file["file_path"] for file in waiting] == ["a"]
    assert newel("keep", "--all", "--yes").returncode == 0
    assert (newel.project / "a").read_text() == "made\n"


def test_under_review_changes_before_a_kill_are_pending_and_the_agent_resumes_from_them(
    with_agent: WithAgent, tmp_path: Path
) -> None:
    marker = tmp_path / "at_it"
    newel = with_agent(
        after(1, False, missing="two"),
        after(2, False, missing="three"),
        after(3, True),
        scenario(
            "Count",
            bash("echo one > log"),
            bash(f"echo two >> log; touch {marker}; sleep 20"),
            bash("echo three >> log"),
        ),
    )
    agent = newel.start("agent", "Count to three", "--approve", "review")
    wait_for(marker.exists)
    agent.kill()
    agent.communicate(timeout=10)
    assert list(newel.project.iterdir()) == []
    done = newel("agent", "--resume", run_id(newel))
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(newel.project.iterdir()) == []
    assert newel("keep", "--all", "--yes").returncode == 0
    assert (
        newel.project / "log"
    ).read_text() == "one\nthree\n"  # the process that read the command's second half is gone


def test_a_contract_is_run_judged_and_checked(with_agent: WithAgent) -> None:
    newel = with_agent(
        after(1, False, missing="b"),
        after(2, True),
        after(3, True),
        scenario("failed", bash("touch c")),
        scenario("Make files", bash("touch a"), bash("touch b")),
    )
    done = newel("agent", "Make files", "--accept", "ls c")
    assert done.returncode == 0, done.stderr
    assert "◆ Not yet fulfilled: as the results show. Missing: b." in done.stdout
    assert "✗ failed" in done.stdout
    assert "No such file" in done.stdout
    assert "✓ passed" in done.stdout
    assert done.stdout.endswith("Completed.\n")
    assert len(questions(newel)) == 3


def test_the_small_model_judges_if_configured(with_agent: WithAgent) -> None:
    newel = with_agent(after(1, True), scenario("Make", bash("touch a")))
    newel.environ["LLM_SMALL_FAST_MODEL"] = "tiny"
    assert newel("agent", "Make a file", "--small-judge").returncode == 0
    assert [body["model"] for body in newel.requests] == ["mock-model", "tiny"]


def test_a_limit_ends_a_run_with_a_reason_and_its_own_exit_code(with_agent: WithAgent) -> None:
    newel = with_agent(after(1, False), scenario("Make", bash("touch a")))
    done = newel("agent", "Make a file", "--max-turns", "1")
    assert done.returncode == 1
    assert done.stdout.endswith("\nStopped at the limit of 1 turn. 1 tool call had run.\n")


def test_a_failing_server_is_a_failure_with_its_message(with_agent: WithAgent) -> None:
    fault = {"response": {"content": ""}, "fault": {"kind": "status", "status": 401}}
    done = with_agent(scenario("Make", fault))("agent", "Make a file")
    assert done.returncode == 1
    assert "\nFailed: " in done.stdout
    assert "401" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give either a contract or --resume ID"),
        ([""], "give either a contract or --resume ID"),
        (["-"], "The contract is empty."),
        (["x", "--max-turns", "0"], "--max-turns: must be a whole number of at least 1"),
        (["x", "--max-minutes", "0"], "--max-minutes: must be a number above 0"),
        (["x", "--max-cost", "much"], "--max-cost: must be a number above 0"),
        (["x", "--resume", "a"], "give either a contract or --resume ID"),
    ],
)
def test_invalid_arguments_are_refused(with_agent: WithAgent, words: list[str], message: str) -> None:
    done = with_agent(scenario("Make", {"content": "Hm."}))("agent", *words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr


def test_calls_that_need_approval_are_declined_at_once(with_agent: WithAgent) -> None:
    newel = with_agent(
        after(0, False, missing="a"),
        scenario("Not yet", {"content": "I may not."}),
        scenario("Make", bash("touch a")),
    )
    done = newel("agent", "Make a file", "--approve", "ask")
    assert done.returncode == 1
    assert not (newel.project / "a").exists()
    told = newel.requests[-1]["messages"][3]["content"]
    assert "cannot ask for it" in told
    assert "declined" not in told


def test_an_agent_with_a_worktree_does_not_touch_the_project(with_agent: WithAgent) -> None:
    newel = with_agent(after(1, True), scenario("Make", bash("touch a")))
    git = [require_program("git"), "-c", "user.name=A", "-c", "user.email=a@example.com"]
    subprocess.run([*git, "init", "-q"], cwd=newel.project, check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "First"], cwd=newel.project, check=True)
    done = newel("agent", "Make a file", "--worktree", "--name", "maker")
    assert done.returncode == 0, done.stderr
    assert "newel/maker" in done.stdout
    assert not (newel.project / "a").exists()
    assert (newel.home / ".newel" / "worktrees" / "project-maker" / "a").exists()


def test_a_worktree_without_a_repository_is_refused_before_any_request(with_agent: WithAgent) -> None:
    require_program("git")
    newel = with_agent(scenario("Make", bash("touch a")))
    done = newel("agent", "Make a file", "--worktree")
    assert done.returncode == 1
    assert "not in a git repository" in done.stderr
    assert newel.requests == []


def test_an_unwritable_log_is_reported_and_the_run_continues(with_agent: WithAgent) -> None:
    newel = with_agent(after(1, True), scenario("Make", bash("touch a")))
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "logs").write_text("in the way")
    done = newel("agent", "Make a file")
    assert done.returncode == 0
    assert done.stdout.count("cannot be written") == 1


def test_a_closed_pipe_ends_the_run(with_agent: WithAgent) -> None:
    newel = with_agent(scenario("Make", bash("echo ready; sleep 20")))
    with newel.start("agent", "Make a file") as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline().startswith("Agent ")
        agent.stdout.close()
        assert agent.wait(10) == 1
    assert "stopped" in newel("agents").stdout


# -- stopping -----------------------------------------------------------------------------------------


def test_ctrl_c_ends_the_run_after_the_current_request(with_agent: WithAgent) -> None:
    newel = with_agent(after(1, True), scenario("Make", bash("touch a")))
    with newel.relayed() as wire:
        with wire.holding(answers_only=True):
            agent = newel.start("agent", "Make a file")
            wait_for(lambda: newel.requests)
            agent.send_signal(signal.SIGINT)
        out, _ = agent.communicate(timeout=15)
    assert agent.returncode == 130
    assert "Stopped before the next request. 1 tool call had run." in out
    assert (newel.project / "a").exists()
    assert len(newel.requests) == 1


def test_a_second_ctrl_c_does_not_wait(with_agent: WithAgent) -> None:
    newel = with_agent(scenario("Make", bash("touch began; sleep 20")))
    agent = newel.start("agent", "Make a file")
    wait_for((newel.project / "began").exists)
    agent.send_signal(signal.SIGINT)
    wait_for(lambda: not is_pending(agent.pid, signal.SIGINT))  # or both are one
    agent.send_signal(signal.SIGINT)
    out, _ = agent.communicate(timeout=10)
    assert agent.returncode == 130
    assert "Stopped at once." in out


def test_sigterm_ends_a_run_at_once_with_a_message(with_agent: WithAgent) -> None:
    newel = with_agent(scenario("Make", bash("touch began; sleep 20")))
    agent = newel.start("agent", "Make a file")
    wait_for((newel.project / "began").exists)
    agent.terminate()
    agent.communicate(timeout=10)
    assert agent.returncode == 128 + signal.SIGTERM
    assert "stopped" in newel("agents").stdout


# -- after a crash ------------------------------------------------------------------------------------


def test_a_killed_run_resumes_and_repeats_nothing(with_agent: WithAgent) -> None:
    newel = with_agent(
        after(1, False, missing="two"),
        after(2, False, missing="three"),
        after(3, True),
        scenario(
            "Count",
            bash("echo one >> log"),
            bash("echo two >> log; test -e killed || sleep 20"),
            bash("echo three >> log"),
        ),
    )
    agent = newel.start("agent", "Count to three")
    wait_for(lambda: (newel.project / "log").exists() and "two" in (newel.project / "log").read_text())
    agent.kill()
    agent.communicate(timeout=10)
    (newel.project / "killed").touch()
    listed = newel("agents").stdout
    assert "interrupted" in listed
    assert f"newel agent --resume {run_id(newel)}" in listed
    done = newel("agent", "--resume", run_id(newel))
    assert done.returncode == 0, done.stderr
    assert (newel.project / "log").read_text() == "one\ntwo\nthree\n"
    assert [body["messages"][-1]["content"][:18] for body in questions(newel)] == [
        "After 1 tool call:",
        "After 3 tool calls",
    ]
    said = [m for m in newel.requests[-1]["messages"] if m["role"] == "user"]
    assert [m["content"] for m in said][:-1] == ["Count to three"]
    assert len(newel.sessions) == 1


def test_a_killed_run_resumes_in_its_mode(with_agent: WithAgent) -> None:
    """Work that was to stay on this machine would go on elsewhere."""
    newel = with_agent(scenario("Wait", {"content": "never"}))
    work = scenario("Wait", bash("touch begun; test -e killed || sleep 20"), {"content": "Done."})
    script = {"scenarios": [*after(1, True)["scenarios"], *work["scenarios"]]}
    with running(script, strict=True) as local:
        (newel.home / ".newel").mkdir()
        (newel.home / ".newel" / "config.toml").write_text(
            f'[local]\nbase_url = "{local.url}/v1"\nmodel = "x"\n'
        )
        agent = newel.start("agent", "--agent-mode", "local", "Wait")
        wait_for((newel.project / "begun").exists)
        agent.kill()
        agent.communicate(timeout=10)
        (newel.project / "killed").touch()
        done = newel("agent", "--resume", run_id(newel))
    assert done.returncode == 0, done.stdout + done.stderr
    assert newel.requests == []


def test_one_undo_reverts_a_resumed_contract(with_agent: WithAgent, tmp_path: Path) -> None:
    marker = tmp_path / "at_it"
    newel = with_agent(
        after(1, False, missing="two"),
        after(2, False, missing="three"),
        after(3, True),
        scenario(
            "Count",
            bash("echo one > one"),
            bash(f"echo two > two; test -e {marker} || {{ touch {marker}; sleep 20; }}"),
            bash("echo three > three; echo more >> one"),
        ),
    )
    (newel.project / "mine").write_text("mine\n")
    agent = newel.start("agent", "Count to three")
    wait_for(marker.exists)
    agent.kill()
    agent.communicate(timeout=10)
    assert newel("agent", "--resume", run_id(newel)).returncode == 0
    assert (newel.project / "one").read_text() == "one\nmore\n"
    assert len(newel("checkpoints").stdout.splitlines()) == 1
    done = newel("undo", "--yes")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in newel.project.iterdir()] == ["mine"]
    assert "Redone in 3 files" in newel("redo", "--yes").stdout
    assert (newel.project / "one").read_text() == "one\nmore\n"


def test_a_run_that_has_ended_cannot_be_resumed_and_its_conversation_can(with_agent: WithAgent) -> None:
    newel = with_agent(
        after(1, True), scenario("Make", bash("touch a")), scenario("go on", {"content": "Gladly."})
    )
    newel("agent", "Make a file")
    done = newel("agent", "--resume", run_id(newel))
    assert done.returncode == 1
    assert "has ended. Its conversation goes on with `newel --session " in done.stderr
    session = done.stderr.split("--session ")[1].split("`")[0]
    assert newel("--session", session, "go on").stdout == "Gladly.\n"


# -- several at once, and looking at them -------------------------------------------------------------


def test_two_agents_of_one_project_run_at_once_in_their_own_conversations(with_agent: WithAgent) -> None:
    newel = with_agent(
        after(1, True),
        scenario("Make the first", bash("touch first; while ! test -e second; do sleep 0.05; done")),
        scenario("Make the second", bash("touch second; while ! test -e first; do sleep 0.05; done")),
    )
    agents = [newel.start("agent", f"Make the {which}") for which in ("first", "second")]
    for agent in agents:
        out, err = agent.communicate(timeout=20)
        assert agent.returncode == 0, err
        assert "Completed." in out
    assert newel("agents").stdout.count("completed") == 2
    assert len(newel.sessions) == 2
    assert len(list((newel.home / ".newel" / "logs").iterdir())) == 2


def test_a_run_can_be_followed_from_another_process_until_it_ends(with_agent: WithAgent) -> None:
    newel = with_agent(
        after(1, True),
        scenario("Make", {"content": "Beginning.", **bash("while ! test -e seen; do sleep 0.05; done")}),
    )
    agent = newel.start("agent", "Make a file")
    wait_for(lambda: "running" in newel("agents").stdout)
    tail = newel.start("agents", "tail", run_id(newel))
    assert tail.stdout is not None
    assert tail.stdout.readline() == "Beginning.\n"
    (newel.project / "seen").touch()
    out, _ = tail.communicate(timeout=10)
    assert out.endswith("Completed.\n")
    agent.communicate(timeout=10)


def test_the_log_of_a_run_can_be_read(with_agent: WithAgent) -> None:
    command = bash("echo sk-test-0123456789abcdef open sesame")
    newel = with_agent(after(1, True), scenario("Make", command))
    newel("agent", "Make a file", SHOP_TOKEN="open sesame")
    log = newel("agents", "log", run_id(newel)).stdout
    assert re.search(r"^\d{4}-\d\d-\d\dT[\d:.]+Z  evaluation: satisfied$", log, re.MULTILINE)
    assert "sk-test-0123456789abcdef" not in log
    assert "sesame" not in log


def test_an_unknown_run_is_reported(with_agent: WithAgent) -> None:
    done = with_agent(scenario("Make", {"content": "Hm."}))("agents", "tail", "abc")
    assert done.returncode == 1
    assert "no agent whose id begins with 'abc'" in done.stderr


def test_an_empty_list_of_agents_is_reported(with_agent: WithAgent) -> None:
    assert with_agent(scenario("Make", {"content": "Hm."}))("agents").stdout.startswith(
        "No agents in this folder yet."
    )


def test_events_can_be_printed_as_json(with_agent: WithAgent) -> None:
    newel = with_agent(after(1, True), scenario("Make", bash("touch a")))
    lines = newel("agent", "Make a file", "--json").stdout.split("\n")
    assert json.loads(lines[0])["message"].startswith("Agent ")
    assert '"type":"contract_state"' in lines[1]
    assert any('"type":"evaluation","satisfied":true' in line for line in lines)


def test_the_documentation_names_exactly_the_existing_options(with_agent: WithAgent) -> None:
    newel = with_agent(scenario("Make", {"content": "Hm."}))
    text = (Path(__file__).parents[3] / "docs" / "agents.md").read_text()
    told = set(re.findall(r"`(--[a-z][a-z-]+)", text)) | {"--help", "--version"}
    known = set(re.findall(r"--[a-z][a-z-]+", newel("agent", "--help").stdout))
    assert told - {"--session", "--all"} == known
