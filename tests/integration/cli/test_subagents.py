"""If these fail, a model cannot hand work to subagents, or they do what the user did not allow, cost more than was allowed, or leave
changes that cannot be undone.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import BIN, Newel, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]

DONE = {"content": "Done."}
ALL = ("--tools", "read,bash,edit,write,grep,find,ls,task")


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return calls((tool, arguments))


def calls(*wanted: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "tool_calls": [{"function": {"name": tool, "arguments": arguments}} for tool, arguments in wanted]
    }


def task(prompt: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "task", {"description": prompt, "prompt": prompt, **more}


def script(*scenarios: dict[str, Any]) -> dict[str, Any]:
    return {"scenarios": [each["scenarios"][0] for each in scenarios]}


def offered(request: dict[str, Any]) -> set[str]:
    return {tool["function"]["name"] for tool in request.get("tools", [])}


def asked(newel: Newel, prompt: str) -> list[dict[str, Any]]:
    """The requests in which this is the last message of a user."""
    return [
        request
        for request in newel.requests
        if [each["content"] for each in request["messages"] if each["role"] == "user"][-1:] == [prompt]
    ]


def results(request: dict[str, Any]) -> list[str]:
    return [each["content"] for each in request["messages"] if each["role"] == "tool"]


def test_a_subagent_has_its_own_context_and_gives_its_last_answer(with_model: Make) -> None:
    newel = with_model(
        script(
            scenario("look around", calls(task("count the lines")), DONE),
            scenario("count the lines", call("bash", command="wc -l a.txt"), {"content": "It has 2 lines."}),
        )
    )
    (newel.project / "a.txt").write_text("one\ntwo\n")
    done = newel(*ALL, "look around")
    assert done.returncode == 0, done.stderr
    assert results(asked(newel, "look around")[-1]) == ["It has 2 lines."]
    first = asked(newel, "count the lines")[0]
    assert "subagent" in first["messages"][0]["content"]
    assert offered(first) == {"read", "bash", "grep", "find", "ls"}
    assert "look around" not in json.dumps(first)
    assert "2" in results(asked(newel, "count the lines")[-1])[0]


def test_one_that_only_reads_changes_nothing(with_model: Make) -> None:
    newel = with_model(
        script(
            scenario("go", calls(task("try it")), DONE),
            scenario(
                "try it", call("bash", command="touch made"), call("write", file_path="b", content="b"), DONE
            ),
        )
    )
    newel(*ALL, "go")
    assert not list(newel.project.iterdir())
    assert "read-only" in results(asked(newel, "try it")[-1])[0]


def test_what_it_changes_is_undone_with_the_run(with_model: Make) -> None:
    newel = with_model(
        script(
            scenario(
                "go",
                calls(task("make two", can_write=True)),
                call("write", file_path="c", content="c\n"),
                DONE,
            ),
            scenario(
                "make two",
                call("bash", command="echo a > a"),
                call("write", file_path="b", content="b\n"),
                DONE,
            ),
        )
    )
    newel(*ALL, "go")
    assert sorted(path.name for path in newel.project.iterdir()) == ["a", "b", "c"]
    undone = newel("undo", "--yes")
    assert undone.returncode == 0, undone.stderr
    assert not list(newel.project.iterdir())


@pytest.mark.slow  # seconds of waiting
def test_several_that_read_work_at_the_same_time(with_model: Make) -> None:
    """Each waits for what only the other one can find: one after the other they would never end."""
    slow = [{"response": call("grep", pattern="x"), "delay_ms": 2_000}, {"response": {"content": "Found."}}]
    newel = with_model(
        script(
            scenario("go", calls(task("search one"), task("search two")), DONE),
            scenario("search one", *slow),
            scenario("search two", *slow),
        )
    )
    newel(*ALL, "go")
    order = [
        request["messages"][-1]["content"]
        for request in newel.requests
        if request["messages"][-1]["role"] == "user"
    ]
    assert set(order) == {"go", "search one", "search two"}
    # Both begin before the first one asks again.
    assert [request["messages"][-1]["role"] for request in newel.requests[:3]] == ["user", "user", "user"]


def test_its_calls_are_asked_about_and_the_question_names_it(with_model: Make) -> None:
    newel = with_model(
        script(
            scenario("go", calls(task("clean up", can_write=True)), DONE),
            scenario("clean up", call("bash", command="rm -f a.txt"), {"content": "I was not allowed to."}),
        )
    )
    (newel.project / "a.txt").write_text("a")
    environ = newel.environ | {"TERM": "xterm-256color"}
    with Tmux([str(BIN / "newel"), "--approve", "ask"], newel.project, environ, columns=100) as terminal:
        terminal.wait_for("Enter sends")
        terminal.type("go", "Enter")
        terminal.wait_for("by the subagent “clean up”")
        terminal.wait_for("rm -f a.txt")
        terminal.wait_for("Enter answers")
        terminal.type("n", "Enter")
        terminal.wait_for("Done.")
        terminal.wait_for("0 calls")
        terminal.wait_for(" out")
        terminal.type("/show", "Enter")
        terminal.wait_for("I was not allowed to.")
        terminal.wait_for("session: ")
    assert (newel.project / "a.txt").exists()
    assert "declined" in results(asked(newel, "clean up")[-1])[0]


def test_a_rule_that_denies_it_holds(with_model: Make) -> None:
    newel = with_model(script(scenario("go", calls(task("look")), DONE)))
    home = newel.home / ".newel"
    home.mkdir()
    (home / "config.toml").write_text('[permissions]\ndeny = ["task"]\n')
    newel(*ALL, "go")
    assert "deny task" in results(newel.requests[-1])[0]
    assert not asked(newel, "look")


def test_its_turns_count_toward_the_limit_of_the_prompt(with_model: Make) -> None:
    steps = [call("bash", command=f"echo {number}") for number in range(30)]
    newel = with_model(
        script(scenario("go", calls(task("work", can_write=True)), DONE), scenario("work", *steps, DONE))
    )
    done = newel(*ALL, "--max-turns", "5", "go")
    assert len(newel.requests) == 5
    assert done.returncode != 0
    assert "limit of 5 turns" in done.stderr + done.stdout


def test_it_has_no_subagents_and_no_todo_list(with_model: Make) -> None:
    newel = with_model(
        script(scenario("go", calls(task("look", can_write=True)), DONE), scenario("look", DONE))
    )
    newel("--tools", "*", "go")
    assert {"task", "todo"} <= offered(asked(newel, "go")[0])
    assert not {"task", "todo"} & offered(asked(newel, "look")[0])


def test_programs_get_its_events_and_its_cost(with_model: Make) -> None:
    newel = with_model(
        script(
            scenario("go", calls(task("look")), DONE),
            scenario("look", call("bash", command="ls"), {"content": "Nothing here."}),
        )
    )
    done = newel(*ALL, "--renderer", "json", "go")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    nested = [each["event"] for each in events if each["type"] == "tool_execution_update" and "event" in each]
    assert [each["type"] for each in nested if each["type"].startswith("tool")] == [
        "tool_execution_start",
        "tool_execution_end",
    ]
    assert nested[-1]["type"] == "agent_end"
    [end] = [each for each in events if each["type"] == "agent_end"]
    own = [
        each["message"]["usage"]
        for each in events
        if each["type"] == "message_end" and "usage" in each["message"]
    ]
    assert end["usage"]["output"] == sum(usage["output"] for usage in own)
    assert len(own) == 3  # two answers, and the result of the call


def test_its_session_can_be_looked_at_and_is_not_in_the_list(with_model: Make) -> None:
    newel = with_model(
        script(scenario("go", calls(task("look")), DONE), scenario("look", {"content": "Nothing here."}))
    )
    newel(*ALL, "go")
    listed = newel("sessions").stdout
    assert "go" in listed
    assert "look" not in listed
    files = list((newel.home / ".newel/sessions").rglob("*.jsonl"))
    assert len(files) == 2
    [child] = [file for file in files if '"parent"' in file.read_text().splitlines()[0]]
    assert "Nothing here." in child.read_text()
    newel("-c", "go")
    assert len(asked(newel, "go")[-1]["messages"]) > len(asked(newel, "look")[-1]["messages"])


def test_it_is_forgotten_with_the_session_of_its_parent(with_model: Make) -> None:
    newel = with_model(
        script(
            scenario("go", calls(task("look"), task("search")), DONE), scenario("", {"content": "A secret."})
        )
    )
    newel(*ALL, "go")
    newel("hello")
    assert len(newel.sessions) == 4
    session = newel("sessions").stdout.splitlines()
    [of_parent] = [line for line in session if "go" in line.split()]
    done = newel("forget", "--session", of_parent.split()[0], "--yes")
    assert done.returncode == 0, done.stderr
    [left] = newel.sessions
    assert "hello" in left.read_text()


def test_after_a_kill_the_parent_knows_and_what_it_did_is_kept_and_undone(with_model: Make) -> None:
    newel = with_model(
        script(
            scenario("go", calls(task("work", can_write=True)), DONE),
            scenario(
                "work", call("write", file_path="a", content="a\n"), call("bash", command="sleep 60"), DONE
            ),
            scenario("again", DONE),
        )
    )
    running = subprocess.Popen(
        [str(BIN / "newel"), *ALL, "go"], cwd=newel.project, env=newel.environ, stdout=subprocess.DEVNULL
    )
    try:
        while len(asked(newel, "work")) < 2:
            assert running.poll() is None
            time.sleep(0.05)
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    assert newel("-c", *ALL, "again").returncode == 0
    assert "outcome of this call is unknown" in results(newel.requests[-1])[0]
    [child] = [
        file
        for file in (newel.home / ".newel/sessions").rglob("*.jsonl")
        if '"parent"' in file.read_text().splitlines()[0]
    ]
    assert "Created new file a" in child.read_text()
    assert newel("undo", "--yes").returncode == 0
    assert not (newel.project / "a").exists()


def test_its_activity_is_shown_and_escape_stops_it(with_model: Make) -> None:
    newel = with_model(
        script(
            scenario("go", calls(task("wait here", can_write=True)), DONE),
            scenario("wait here", call("bash", command="echo $$ > pid; sleep 60"), DONE),
            scenario("what now", DONE),
        )
    )
    environ = newel.environ | {"TERM": "xterm-256color"}
    with Tmux([str(BIN / "newel"), "--approve", "auto"], newel.project, environ, columns=100) as terminal:
        terminal.wait_for("Enter sends")
        terminal.type("go", "Enter")
        terminal.wait_for("○ task wait here")
        terminal.wait_for("│ bash echo $$ > pid; sleep 60")
        while not (newel.project / "pid").exists():
            time.sleep(0.05)
        terminal.type("", "Escape")
        terminal.wait_for("Stopped.")
        terminal.type("what now", "Enter")
        terminal.wait_for("Done.")
    pid = int((newel.project / "pid").read_text())
    assert not (Path("/proc") / str(pid)).exists()
    assert "sleep 60" in results(newel.requests[-1])[0]  # the model learns how far it was


def test_a_stopped_one_has_cost_what_it_used(with_model: Make) -> None:
    """A limit of cost holds for a subagent, too, and the parent does not go on beyond it."""
    newel = with_model(
        script(
            scenario("go", calls(task("work", can_write=True)), DONE),
            scenario("work", *[call("bash", command=f"echo {number}") for number in range(30)], DONE),
        )
    )
    home = newel.home / ".newel"
    home.mkdir()
    (home / "config.toml").write_text('[models."mock-model"]\ninput_price = 1000\noutput_price = 1000\n')
    done = newel(*ALL, "--model", "mock-model", "--max-cost", "3", "go")
    assert done.returncode != 0
    assert "US dollars" in done.stderr + done.stdout
    assert 1 < len(newel.requests) < 10
