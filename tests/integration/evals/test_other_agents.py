"""If these fail, another agent is measured with another model than Newel, or what becomes of its trials is wrong.

A script plays pi: it reads pi's settings, asks the model over HTTP, does what it says, and prints pi's events.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.evals.test_eval_run import DONE, Suite, WithModel, begin, results, run, suite
from tests.support import Newel, bash

__all__ = ["suite"]

KEY = "sk-test-0123456789abcdef"
PI = """\
#!/usr/bin/env python3
import json, os, subprocess, sys, urllib.request

home = os.environ["HOME"]
provider = json.load(open(home + "/.pi/agent/models.json"))["providers"]["eval"]
key = os.environ[provider["apiKey"].removeprefix("$")]
messages = [{"role": "user", "content": sys.argv[-1]}]
while True:
    body = {"model": provider["models"][0]["id"], "messages": messages}
    headers = {"authorization": "Bearer " + key, "content-type": "application/json"}
    url = provider["baseUrl"] + "/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        answer = json.load(urllib.request.urlopen(request))
    except OSError as error:
        failed = {"role": "assistant", "content": [], "stopReason": "error", "errorMessage": str(error)}
        print(json.dumps({"type": "message_end", "message": failed}))
        break
    message = answer["choices"][0]["message"]
    tokens = {"input": answer["usage"]["prompt_tokens"], "output": answer["usage"]["completion_tokens"]}
    content = [{"type": "text", "text": message.get("content") or ""}]
    event = {"role": "assistant", "content": content, "usage": tokens, "stopReason": "stop"}
    print(json.dumps({"type": "message_end", "message": event}))
    messages.append(message)
    if not message.get("tool_calls"):
        break
    for call in message["tool_calls"]:
        print(json.dumps({"type": "tool_execution_start", "toolName": "bash"}))
        command = json.loads(call["function"]["arguments"])["command"]
        subprocess.run(command, shell=True)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": "ok"})
"""
PRICES = '[models."mock-model"]\ninput_price = 1000\noutput_price = 1000\n'


@pytest.fixture
def agent_folder(tmp_path: Path) -> Path:
    """A folder of ``PATH`` with an agent in it."""
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "pi").write_text(PI)
    (folder / "pi").chmod(0o755)
    return folder


def with_agent(newel: Newel, folder: Path) -> Newel:
    newel.environ["PATH"] = f"{folder}:{newel.environ['PATH']}"
    return newel


def runs(newel: Newel) -> list[Path]:
    return sorted((newel.home / ".newel" / "evals").glob("*"))


def test_another_agent_works_with_the_model_of_the_settings(
    suite: Suite, with_model: WithModel, agent_folder: Path
) -> None:
    suite.add("good", bash("echo made > made.txt"), DONE)
    newel = with_agent(begin(suite, with_model), agent_folder)
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "config.toml").write_text(PRICES)
    done = run(newel, suite, "--agent", "pi")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pi with mock-model" in done.stdout
    (found,) = results(newel)
    metrics = found["metrics"]
    assert (found["passed"], found["end"], found["answer"]) == (True, "done", "Done.")
    assert (metrics["requests"], metrics["tool_calls"]) == (2, 1)
    tokens = metrics["input_tokens"] + metrics["output_tokens"]
    assert metrics["cost"] == pytest.approx(tokens / 1000)  # pyright: ignore[reportUnknownMemberType] — pytest's
    assert [body["messages"][0]["content"] for body in newel.requests] == ["Do good.", "Do good."]
    (folder,) = runs(newel)
    stored = [path for path in folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert stored == []


def test_an_agent_that_reaches_no_model_has_failed(
    suite: Suite, with_model: WithModel, agent_folder: Path
) -> None:
    """Its exit code is 0."""
    suite.add("good", DONE)
    newel = with_agent(begin(suite, with_model), agent_folder)
    run(newel, suite, "--agent", "pi", "--base-url", "http://127.0.0.1:9/v1")
    (found,) = results(newel)
    assert found["end"] == "failed"
    assert "refused" in found["problem"]


def test_a_run_of_another_agent_goes_on_with_the_same_server_only(
    suite: Suite, with_model: WithModel, agent_folder: Path
) -> None:
    suite.add("good", bash("echo made > made.txt"), DONE)
    newel = with_agent(begin(suite, with_model), agent_folder)
    run(newel, suite, "--agent", "pi")
    (folder,) = runs(newel)
    other = newel("eval", "run", "--resume", folder.name, LLM_BASE_URL="http://127.0.0.1:9/v1")
    assert other.returncode == 2
    assert f"The run asks {newel.server.url}/v1, and the settings name http://127.0.0.1:9/v1." in other.stderr
    assert newel("eval", "run", "--resume", folder.name).returncode == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--agent", "codex"],
            "codex is not installed: there is no program `codex`. Install it: `npm install -g @openai/codex`",
        ),
        (
            ["--agent", "true"],
            "`true` is not an agent that Newel can start: pi, codex, mini-swe-agent, aider.",
        ),
        (["--agent", "pi", "--agent-mode", "local"], "--agent-mode is for Newel itself"),
        (["--agent", "pi", "-m", "m", "--base-url", "llamacpp:/m.gguf"], "other agents need a server"),
        (["--agent", "pi", "--replay"], "--replay is for Newel itself"),
    ],
)
def test_an_agent_that_cannot_be_run_is_told_before_any_trial(
    suite: Suite, with_model: WithModel, agent_folder: Path, words: list[str], told: str
) -> None:
    suite.add("good", DONE)
    newel = begin(suite, with_model)
    newel.environ["PATH"] = f"{agent_folder}:/usr/bin:/bin"
    done = run(newel, suite, *words)
    assert done.returncode == 2, done.stdout
    assert told in done.stderr
    assert runs(newel) == []


def test_an_agent_without_a_model_is_told_what_to_set(
    suite: Suite, with_model: WithModel, agent_folder: Path
) -> None:
    suite.add("good", DONE)
    newel = with_agent(begin(suite, with_model), agent_folder)
    del newel.environ["LLM_DEFAULT_MODEL"]
    done = run(newel, suite, "--agent", "pi")
    assert done.returncode == 2
    assert "pi needs a model and its server: `--model NAME --base-url URL`" in done.stderr


def test_a_task_with_several_prompts_is_nothing_for_other_agents(suite: Suite, with_model: WithModel) -> None:
    """They would be measured by what they have not been told."""
    suite.add("good", DONE, more='then = ["And now?"]')
    newel = begin(suite, with_model)
    run(newel, suite, "--agent", "true {prompt}")
    (found,) = results(newel)
    assert (found["end"], found["problem"]) == (
        "invalid",
        "This task has several prompts, and other agents are given one.",
    )
