"""If these fail, another agent gets the wrong prompt, model or key, or its answer and tokens are read wrongly."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from newel.agent.errors import UsageError
from newel.agent.messages import Usage
from newel.evals.agents import PRESETS, AgentOutput, GivenModel, choose_agent, given_model
from newel.evals.task import load_task
from newel.evals.trial import AgentReport, AgentSetup
from tests.unit.evals.test_task import GOOD, write

MODEL = GivenModel('http://127.0.0.1:1/v1?a="b"', "chat", "org/qwen3:8b", "sk-test-{model}")
PROMPTS = [
    'Say "it\'s" $HOME `id` $(id) \\ %s {key} {model}',
    "Two\nlines\n",
    "--help",
    "- a list\n- of things",
    "",
]
PLAYS_AGENT = """\
#!/usr/bin/env python3
import json, os, sys
json.dump([sys.argv[1:], dict(os.environ)], open("called.json", "w"))
"""


def setup_of(name: str, model: GivenModel = MODEL) -> AgentSetup:
    return PRESETS[name].setup(model, lambda _: None)


def called(setup: AgentSetup, name: str, prompt: str, folder: Path) -> tuple[list[str], dict[str, str]]:
    """The arguments and the environment with which a script in the place of an agent is called."""
    toml = GOOD.replace('"Write hello.txt with the word hello."', json.dumps(prompt))
    project, program = folder / "trial" / "project", folder / "bin" / PRESETS[name].program
    project.mkdir(parents=True)
    program.parent.mkdir()
    (folder / "suite").mkdir()
    program.write_text(PLAYS_AGENT)
    program.chmod(0o755)
    environ = {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(folder), **setup.environ}
    command = setup.command_for(load_task(write(folder / "suite", toml)))
    subprocess.run(["bash", "-c", command], cwd=project, env=environ, check=True, capture_output=True)
    arguments, seen = json.loads((project / "called.json").read_text())
    return arguments, seen


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("name", PRESETS)
def test_an_agent_gets_the_prompt_as_it_is(name: str, prompt: str, tmp_path: Path) -> None:
    arguments, _ = called(setup_of(name), name, prompt, tmp_path)
    assert prompt in [argument.removeprefix("--message=") for argument in arguments]
    assert arguments[-1].endswith(prompt)


@pytest.mark.parametrize("name", PRESETS)
def test_an_agent_gets_the_model_and_its_key_by_the_environment_alone(name: str, tmp_path: Path) -> None:
    """A key in a command can be read by other users of the machine, one in a file remains in the run's folder."""
    setup = setup_of(name)
    arguments, environ = called(setup, name, "Go.", tmp_path)
    assert MODEL.api_key in environ.values()
    assert not any("sk-test" in text for text in [*arguments, *setup.files.values()])
    told = [*arguments, *environ.values(), *setup.files.values()]
    assert any("qwen3:8b" in text for text in told)
    assert any("127.0.0.1:1/v1" in text for text in told)


def test_files_are_valid_whatever_a_name_has_in_it() -> None:
    import tomllib

    odd = GivenModel('http://h/"v1"', "chat", 'a"b\\c\n{base_url}')
    models = json.loads(setup_of("pi", odd).files[".pi/agent/models.json"])
    assert models["providers"]["eval"]["models"] == [{"id": odd.model}]
    assert models["providers"]["eval"]["baseUrl"] == odd.base_url
    config = tomllib.loads(setup_of("codex", odd).files[".codex/config.toml"])
    assert (config["model"], config["model_providers"]["eval"]["base_url"]) == (odd.model, odd.base_url)


def test_each_agent_is_told_the_api_in_its_own_words() -> None:
    anthropic = GivenModel("https://api.anthropic.com", "anthropic", "claude-opus-5", "k")
    assert '"api": "anthropic-messages"' in setup_of("pi", anthropic).files[".pi/agent/models.json"]
    environ = setup_of("aider", anthropic).environ
    assert environ["EVAL_MODEL"] == "anthropic/claude-opus-5"
    assert environ["ANTHROPIC_API_KEY"] == "k"
    assert "OPENAI_API_KEY" not in environ
    with pytest.raises(UsageError, match="codex cannot use a server with the API `anthropic`"):
        setup_of("codex", anthropic)


def test_the_server_of_the_settings_is_asked_by_http() -> None:
    assert given_model("http://h:1/v1", None, "m", None) == GivenModel("http://h:1/v1", "chat", "m", "none")
    assert given_model("https://api.openai.com/v1", None, "m", "k").api == "responses"
    assert given_model("http://h:1/v1", "responses", "m", "k").api == "responses"
    assert given_model("ollama://h", None, "m", None).base_url == "http://h:11434/v1"
    with pytest.raises(UsageError, match="a model file by itself; other agents need a server"):
        given_model("llamacpp:/models/m.gguf", None, "m", None)


def test_a_name_that_is_no_agent_is_told_with_those_that_are() -> None:
    with pytest.raises(
        UsageError, match=r"`pie` is not an agent that Newel can start: pi, codex, .*\{prompt\}"
    ):
        choose_agent("pie")
    assert choose_agent("./mine {prompt}") is None


def test_a_missing_program_is_told_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match=r"no program `mini`\. Install it: `uv tool install mini-swe-agent`"):
        choose_agent("mini-swe-agent")


# -- output ---------------------------------------------------------------------------------------


def lines(*events: dict[str, Any]) -> str:
    return "A warning\n" + "\n".join(map(json.dumps, events)) + '\n{"type": "cut of'


def report(name: str, text: str) -> AgentReport:
    read = PRESETS[name].setup(MODEL, lambda usage: usage.input / 1000).read
    assert read is not None
    return read(text)


def pi_message(text: str, **fields: Any) -> dict[str, Any]:
    usage = {"input": 100, "output": 20, "cacheRead": 900, "cacheWrite": 0}
    content = [{"type": "thinking", "thinking": "?"}, {"type": "text", "text": text}]
    message = {"role": "assistant", "content": content, "usage": usage, "stopReason": "stop"} | fields
    return {"type": "message_end", "message": message}


def test_pi_is_read_from_its_events() -> None:
    text = lines(
        {"type": "message_end", "message": {"role": "user", "content": [{"type": "text", "text": "Go."}]}},
        pi_message("First."),
        {"type": "tool_execution_start", "toolName": "bash"},
        pi_message("Done."),
    )
    found = report("pi", text)
    metrics = found.metrics
    assert (found.answer, found.problem) == ("Done.", "")
    assert (metrics.requests, metrics.tool_calls) == (2, 1)
    assert (metrics.input_tokens, metrics.output_tokens, metrics.cost) == (2000, 40, 2.0)
    failed = report("pi", lines(pi_message("", stopReason="error", errorMessage="Connection error.")))
    assert failed.problem == "Connection error."


def test_codex_is_read_from_its_events() -> None:
    usage = {"input_tokens": 1000, "cached_input_tokens": 900, "output_tokens": 20}
    text = lines(
        {"type": "item.completed", "item": {"type": "agent_message", "text": "First."}},
        {"type": "item.started", "item": {"type": "command_execution"}},
        {"type": "item.completed", "item": {"type": "command_execution"}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "Done."}},
        {"type": "turn.completed", "usage": usage},
    )
    assert PRESETS["codex"].read(text) == AgentOutput("Done.", [Usage(1000, 20, 900)], None, 1)
    failed = lines({"type": "turn.failed", "error": {"message": "stream disconnected"}})
    assert report("codex", failed).problem == "stream disconnected"


def test_mini_swe_agent_is_read_from_its_trajectory() -> None:
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 900},
    }
    answer: dict[str, Any] = {
        "role": "assistant",
        "content": "I submit.",
        "tool_calls": [{}],
        "extra": {"response": {"usage": usage}},
    }
    whole: dict[str, Any] = {
        "info": {"submission": "It is 4.\n", "exit_status": "Submitted"},
        "messages": [{"role": "user"}, answer, answer],
    }
    found = PRESETS["mini-swe-agent"].read(json.dumps(whole, indent=2))
    assert found == AgentOutput("I submit.\nIt is 4.", [Usage(1000, 20, 900)] * 2, 2, 2)
    no_call = {"role": "user", "content": "Tool call error", "extra": answer["extra"]}
    whole["messages"].append(no_call)  # it answers for itself, and keeps the response there
    found = PRESETS["mini-swe-agent"].read(json.dumps(whole, indent=2))
    assert (found.requests, len(found.usages)) == (3, 3)
    whole["info"] = {"exit_status": "LimitsExceeded"}
    assert report("mini-swe-agent", json.dumps(whole)).problem == "It ended with LimitsExceeded."


def test_aider_is_read_from_its_chat_history() -> None:
    text = """
# aider chat started

> Aider v0.86.2

#### Fix it.
#### Now.
> pages.py

I round up.

pages.py
```
1
```

> Tokens: 12k sent, 1.5k cache hit, 321 received. Cost: $0.01 message, $0.01 session.
> Applied edit to pages.py

Done.

> Tokens: 1,234 sent, 5 received.
"""
    found = PRESETS["aider"].read(text)
    assert found.answer == "I round up.\n\npages.py\n```\n1\n```\n\n\nDone."
    assert (found.usages, found.requests) == ([Usage(12_000, 321), Usage(1234, 5)], 2)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("text", ["", "Segmentation fault\n", '{"type": 1}\n[]\n"x"\n', '{"messages": 3}'])
def test_an_agent_that_says_nothing_has_failed(name: str, text: str) -> None:
    """Some exit with 0 when no server answers: their trials would count as those of a bad model."""
    found = report(name, text)
    assert (found.answer, found.problem) == ("", "It got no answer from the model.")
    assert (found.metrics.input_tokens, found.metrics.cost) == (None, None)
