"""If these fail, an agent starts each task in a project without knowing how its tests are run, or a project decides what /init does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support import Newel, scenario

Make = Callable[..., Newel]


def write(text: str) -> dict[str, Any]:
    arguments = {"file_path": "AGENTS.md", "content": text}
    return {"tool_calls": [{"function": {"name": "write", "arguments": arguments}}]}


def last_prompt(newel: Newel) -> str:
    return next(message["content"] for message in newel.requests[0]["messages"] if message["role"] == "user")


def test_the_agent_is_asked_for_notes_and_writes_them(with_model: Make) -> None:
    newel = with_model(scenario("", write("Run make test.\n"), {"content": "Done."}))
    done = newel("--", "/init", "mind the docs")
    assert done.returncode == 0, done.stderr
    assert (newel.project / "AGENTS.md").read_text() == "Run make test.\n"
    prompt = last_prompt(newel)
    assert "Write AGENTS.md" in prompt
    assert "do not replace it" in prompt
    assert prompt.endswith("mind the docs")


def test_under_ask_it_changes_nothing_unasked(with_model: Make) -> None:
    newel = with_model(scenario("", write("x\n"), {"content": "Done."}))
    newel("--approve", "ask", "--", "/init")
    assert not (newel.project / "AGENTS.md").exists()


def test_a_prompt_of_the_users_replaces_it_and_one_of_the_project_does_not(with_model: Make) -> None:
    newel = with_model(scenario("", {"content": "Done."}))
    prompts = newel.project / ".newel" / "prompts"
    prompts.mkdir(parents=True)
    (prompts / "init.md").write_text("Do what the project wants.")
    newel("--", "/init")
    assert "Write AGENTS.md" in last_prompt(newel)
    own = newel.home / ".newel" / "prompts"
    own.mkdir(parents=True)
    (own / "init.md").write_text("Do what I want.")
    newel.server.requests.clear()
    newel("--", "/init")
    assert last_prompt(newel) == "Do what I want."
