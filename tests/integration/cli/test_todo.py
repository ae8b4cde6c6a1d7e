"""If these fail, the model has no list that its user can follow, forgets it in a long conversation, or a small model is burdened with
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support import BIN, Newel, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]

DONE = {"content": "Done."}
LONG = "A long answer. " * 1_500


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": tool, "arguments": arguments}}]}


def offered(request: dict[str, Any]) -> set[str]:
    return {tool["function"]["name"] for tool in request.get("tools", [])}


def configure(newel: Newel, text: str) -> None:
    home = newel.home / ".newel"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text)


def conversation(newel: Newel, *arguments: str) -> Tmux:
    environ = newel.environ | {"TERM": "xterm-256color"}
    return Tmux([str(BIN / "newel"), *arguments], newel.project, environ)


@pytest.mark.parametrize("name", ["todo", "TodoWrite", "update_plan"])
def test_models_use_it_as_they_know_it(with_model: Make, name: str) -> None:
    items = [
        {"content": "Read", "status": "completed", "id": "1"},
        {"step": "Write", "status": "in_progress"},
    ]
    newel = with_model(scenario("go", call(name, todos=items), DONE))
    assert newel("--tools", "todo", "go").returncode == 0
    assert newel.requests[-1]["messages"][-1]["content"] == "The user sees it: 1 of 2 done."


def test_a_wrong_list_is_refused_with_the_reason(with_model: Make) -> None:
    newel = with_model(scenario("go", call("todo", items=[{"text": "Read", "status": "soon"}]), DONE))
    newel("--tools", "todo", "go")
    assert "soon" in newel.requests[-1]["messages"][-1]["content"]


def test_scripts_get_it_only_if_they_want_it(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    newel("go")
    assert "todo" not in offered(newel.requests[-1])
    configure(newel, 'extra_tools = ["todo"]\n')
    newel("go")
    assert offered(newel.requests[-1]) == {"read", "bash", "edit", "write", "todo"}
    configure(newel, 'extra_tools = ["todo"]\n\n[models."mock-model"]\ncontext_window = 16_000\n')
    newel("--model", "mock-model", "go")
    assert "todo" not in offered(newel.requests[-1])


def test_a_conversation_has_it_and_keeps_it_when_it_is_compacted(with_model: Make) -> None:
    items = [{"text": "Read the parser", "status": "done"}, {"text": "Write a test", "status": "in_progress"}]
    scenarios = [
        scenario("plan it", call("todo", items=items), {"content": LONG}),
        scenario("more", {"content": LONG}),
        scenario("Write the summary now", {"content": "## Goal\nA parser."}),
        scenario("go on", DONE),
    ]
    newel = with_model({"scenarios": [each["scenarios"][0] for each in scenarios]})
    with conversation(newel) as terminal:
        terminal.wait_for("Enter sends")
        terminal.type("plan it", "Enter")
        terminal.wait_for("▸ Write a test")
        terminal.wait_for(" out")
        terminal.type("more", "Enter")
        terminal.wait_for(" out", times=2)
        terminal.type("/compact", "Enter")
        terminal.wait_for("summari")
        terminal.type("go on", "Enter")
        terminal.wait_for("Done.")
    request = newel.requests[-1]
    assert {"todo", "bash"} <= offered(request)
    texts = "\n".join(str(message["content"]) for message in request["messages"][1:])
    assert "# Your todo list\ndone: Read the parser\nin_progress: Write a test" in texts


def test_a_conversation_can_do_without(with_model: Make) -> None:
    newel = with_model(scenario("go", DONE))
    configure(newel, "extra_tools = []\n")
    with conversation(newel) as terminal:
        terminal.wait_for("Enter sends")
        terminal.type("go", "Enter")
        terminal.wait_for("Done.")
    assert offered(newel.requests[-1]) == {"read", "bash", "edit", "write"}
