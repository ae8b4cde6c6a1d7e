"""If these fail, an agent escapes its restrictions by starting Newel, and keeps changes without its user."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.served import wait_until
from tests.support import BIN, Newel, bash, scenario

Make = Callable[..., Newel]
NEWEL = BIN / "newel"

HIDING = {
    "plain": "{command}",
    "without the mark": "env -u NEWEL_RUN {command}",
    "in a pipe, without the mark": "true | env -u NEWEL_RUN {command} | cat",
    "with an environment of its own": 'env -i HOME="$HOME" PATH="$PATH" {command}',
    "as a daemon": (
        'env -i HOME="$HOME" PATH="$PATH" setsid sh -c "{command} > said 2>&1; echo > over" & '
        "until [ -e over ]; do sleep 0.05; done; cat said"
    ),
}
DECIDING = [
    "keep --all --yes",
    "reject --all --yes",
    "decide",
    "undo --yes",
    "rollback cp_0 --yes",
    "mcp add x -- true",
    "mcp trust x --yes",
    "mcp remove x",
    "hosts add x me@host",
    "hosts remove x",
]


def heard(newel: Newel) -> str:
    """The output of the agent's command."""
    return newel.requests[-1]["messages"][-1]["content"]


@pytest.mark.parametrize("how", HIDING)
def test_an_agent_under_review_cannot_keep_its_own_changes(
    with_model: Make, tmp_path: Path, how: str
) -> None:
    if sys.platform != "linux" and how != "plain":
        pytest.skip("only /proc tells")
    keep = f"{NEWEL} keep --all --yes --cwd {tmp_path / 'project'}"
    hidden = HIDING[how].format(command=keep)
    newel = with_model(scenario("work", bash("echo two > a.txt"), bash(hidden), {"content": "Done."}))
    (newel.project / "a.txt").write_text("one\n")
    ran = newel("--approve", "review", "work")
    assert ran.returncode == 0, ran.stderr
    assert "`newel keep` is a decision of the user" in heard(newel)
    assert (newel.project / "a.txt").read_text() == "one\n"
    assert newel("keep", "--all", "--yes").returncode == 0  # the user still can
    assert (newel.project / "a.txt").read_text() == "two\n"


def test_no_deciding_command_works_for_an_agent(with_model: Make) -> None:
    """Not even under `auto`: the pending changes may be another agent's."""
    tried = "; ".join(f"{NEWEL} {each}; echo code $?" for each in DECIDING)
    newel = with_model(scenario("work", bash(tried), {"content": "Done."}))
    assert newel("work").returncode == 0
    assert heard(newel).count("is a decision of the user") == len(DECIDING)
    assert heard(newel).count("code 2") == len(DECIDING)


@pytest.mark.slow  # a second of a core
def test_read_only_commands_work_for_an_agent(with_model: Make) -> None:
    looks = ["review", "checkpoints", "sessions", "mcp list", "hosts list", "keep --help", "agents"]
    tried = "; ".join(f"{NEWEL} {each}; echo code $?" for each in looks)
    newel = with_model(scenario("work", bash(tried), {"content": "Done."}))
    assert newel("work").returncode == 0
    assert heard(newel).count("code 0") == len(looks), heard(newel)


@pytest.mark.parametrize(
    ("above", "below", "is_allowed"),
    [
        ("auto", "auto", True),
        ("auto", "review", True),
        ("review", "auto", False),
        ("review", "ask", False),
        ("review", "read-only", True),
        ("review", "review", True),
    ],
)
def test_an_agent_cannot_start_one_with_more_rights(
    with_model: Make, tmp_path: Path, above: str, below: str, is_allowed: bool
) -> None:
    command = f"env -u NEWEL_RUN {NEWEL} --approve {below} --cwd {tmp_path / 'project'} --base-url $URL -m mock-model"
    outer = scenario(
        "go outside", bash(f". ./url; {command} 'go inside'; echo code $?"), {"content": "Done."}
    )
    inner = scenario("go inside", bash("echo inside > inner.txt"), {"content": "The inner one is done."})
    newel = with_model({"scenarios": outer["scenarios"] + inner["scenarios"]})
    (newel.project / "url").write_text(f"URL={newel.server.url}/v1\n")
    ran = newel("--approve", above, "go outside")
    assert ran.returncode == 0, ran.stderr
    if is_allowed:
        assert "The inner one is done." in heard(newel)
    else:
        assert f"An agent with --approve {above} has started this" in heard(newel)
        assert "code 2" in heard(newel)
        assert not (newel.project / "inner.txt").exists()


def test_an_agent_under_review_cannot_start_a_conversation_that_could_decide(with_model: Make) -> None:
    """JSON mode is answered by its parent process, the workbench by any client with its address."""
    tried = "; ".join(f"{NEWEL} {each} < /dev/null; echo code $?" for each in ("--json", "web --port 0"))
    newel = with_model(
        scenario("work", bash(f"export LLM_BASE_URL=http://127.0.0.1:1; {tried}"), {"content": "Done."})
    )
    assert newel("--approve", "review", "work").returncode == 0
    assert heard(newel).count("code 2") == 2, heard(newel)


def test_background_processes_of_an_agent_cannot_decide_later(with_model: Make, tmp_path: Path) -> None:
    """It waits until the agent has ended, and then has another environment, session and parent."""
    if sys.platform != "linux":
        pytest.skip("only the kernel's number lasts so long")
    keep = f"{NEWEL} keep --all --yes --cwd {tmp_path / 'project'}"
    late = f"env -i HOME=$HOME PATH=$PATH setsid sh -c 'until [ -e {tmp_path}/go ]; do sleep 0.05; done; {keep} > {tmp_path}/said 2>&1; echo > {tmp_path}/over' > /dev/null 2>&1 &"
    newel = with_model(scenario("work", bash("echo two > a.txt"), bash(late), {"content": "Done."}))
    (newel.project / "a.txt").write_text("one\n")
    # In a sandbox it ends with the agent.
    assert newel("--sandbox", "off", "--approve", "review", "work").returncode == 0
    (tmp_path / "go").touch()
    wait_until((tmp_path / "over").exists, "the late command")
    assert "is a decision of the user" in (tmp_path / "said").read_text()
    assert (newel.project / "a.txt").read_text() == "one\n"


def test_approval_of_a_command_does_not_cover_the_agent_that_it_starts(
    with_model: Make, tmp_path: Path
) -> None:
    """Under `ask` the user has approved one command, and would not see the actions of the agent behind it."""
    inner = f"{NEWEL} --approve auto --cwd {tmp_path / 'project'} 'go inside'"
    newel = with_model(scenario("go outside", bash(inner), {"content": "Done."}))
    with newel.start("--json", "--approve", "ask", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        print('{"type":"message","content":"go outside"}', file=process.stdin, flush=True)
        asked = next(
            event for line in process.stdout if (event := json.loads(line))["type"] == "approval_request"
        )
        answer = {"type": "approve", "toolCallId": asked["toolCallId"], "decision": "once"}
        print(json.dumps(answer), file=process.stdin, flush=True)
        assert any(json.loads(line)["type"] == "agent_end" for line in process.stdout)
        process.stdin.close()
    assert "An agent with --approve ask has started this" in heard(newel)
