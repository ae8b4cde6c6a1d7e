"""If these fail, an agent that may only read cannot look around, or sees what git or the user hides from it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

from tests.support import Newel, scenario

WithModel = Callable[..., Newel]

DONE = {"content": "Done."}


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


def offered(newel: Newel) -> list[str]:
    return [each["function"]["name"] for each in newel.requests[0]["tools"]]


def results(newel: Newel) -> list[str]:
    return [each["content"] for each in newel.requests[-1]["messages"] if each["role"] == "tool"]


def test_an_agent_that_may_only_read_gets_them(with_model: WithModel) -> None:
    newel = with_model(scenario("look", tool("Grep", pattern="def", path="."), tool("LS", path="."), DONE))
    (newel.project / "a.py").write_text("def main(): ...\n")
    result = newel("--approve", "read-only", "look")
    assert result.returncode == 0, result.stderr
    assert results(newel) == ["a.py:1:def main(): ...", "a.py  16 bytes"]
    assert {"grep", "find", "ls"} <= set(offered(newel))


def test_others_get_them_on_demand(with_model: WithModel) -> None:
    newel = with_model(scenario("look", DONE))
    newel("look")
    assert offered(newel) == ["read", "bash", "edit", "write"]
    newel.server.requests.clear()
    newel("--tools", "read,grep,find,ls", "look")
    assert offered(newel) == ["read", "grep", "find", "ls"]


def test_ignored_files_and_secrets_are_not_seen(with_model: WithModel) -> None:
    newel = with_model(
        scenario("look", tool("grep", pattern="x", glob="**/*"), tool("find", pattern=".*"), DONE)
    )
    for name in ("a.txt", "b.log", "server.pem"):
        (newel.project / name).write_text("x\n")
    (newel.project / ".env").write_text("KEY=x\n")
    (newel.project / ".gitignore").write_text("*.log\n")
    subprocess.run(["git", "init", "-q"], cwd=newel.project, check=True)
    newel("--tools", "grep,find", "look")
    searched, found = results(newel)
    assert searched.splitlines()[0] == "a.txt:1:x"
    assert "1 file that often holds secrets" in searched
    assert found.splitlines()[0] == ".gitignore"
    assert "server.pem" not in searched
    assert ".env" not in found


def test_a_folder_outside_the_project_needs_approval(with_model: WithModel) -> None:
    newel = with_model(
        scenario("look", tool("ls", path=".."), tool("grep", pattern="x", path="~/.ssh"), DONE)
    )
    (newel.home / ".ssh").mkdir()
    (newel.home / ".ssh/id_rsa").write_text("x\n")
    newel("--approve", "read-only", "look")
    outside, secret = results(newel)
    assert "outside the project" in outside
    assert "holds secrets" in secret


def test_a_hostile_repository_runs_nothing(with_model: WithModel) -> None:
    """Git asks programs that a repository's configuration names."""
    newel = with_model(scenario("look", tool("grep", pattern="x"), DONE))
    subprocess.run(["git", "init", "-q"], cwd=newel.project, check=True)
    for name in ("core.fsmonitor", "core.pager", "core.sshCommand"):
        subprocess.run(["git", "config", name, "touch run; true"], cwd=newel.project, check=True)
    newel("--tools", "grep", "look")
    assert not (newel.project / "run").exists()
