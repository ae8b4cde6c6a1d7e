"""If these fail, a model on a laptop gets no work done, or its user cannot tell how it is asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from mock_llm_server import running
from tests.support import Newel, scenario

Make = Callable[..., Newel]


def step(tool: str, **arguments: Any) -> dict[str, Any]:
    """A response of a model that is held to the schema of a step."""
    return {"content": json.dumps({"thought": "So be it.", "action": {"tool": tool, **arguments}})}


WRITE = step("write", file_path="notes.md", content="# Notes\n")


def steps(first: dict[str, Any]) -> dict[str, Any]:
    """The model gets results as messages of the user."""
    answer = scenario("Result of write", step("answer", text="The notes are written."))
    return {"scenarios": scenario("write the notes", first)["scenarios"] + answer["scenarios"]}


REFUSED = {
    "fault": {
        "kind": "status",
        "status": 400,
        "times": 1,
        "body": {
            "error": {"message": "'response_format.type' must be 'text'", "type": "invalid_request_error"}
        },
    }
}


def test_a_small_local_model_works_in_steps_under_a_schema(with_model: Make) -> None:
    newel = with_model(steps(WRITE))
    done = newel("--model", "tiny-coder-1.5b", "write the notes")
    assert (newel.project / "notes.md").read_text() == "# Notes\n"
    assert done.stdout.strip() == "The notes are written."
    first, second = newel.requests
    assert first["response_format"]["type"] == "json_schema"
    assert "tools" not in first
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "user"]
    assert len(first["messages"][0]["content"]) < 4_000
    assert second["messages"][: len(first["messages"])] == first["messages"], "the server's cache is lost"


def test_a_server_without_schemas_is_told_the_form_of_a_step(with_model: Make) -> None:
    newel = with_model(steps({**REFUSED, "response": WRITE}))
    done = newel("--model", "tiny-coder-1.5b", "write the notes")
    assert (newel.project / "notes.md").read_text() == "# Notes\n"
    assert done.stdout.strip() == "The notes are written."
    assert ["response_format" in chat for chat in newel.requests] == [True, False, False]


def test_the_user_decides_how_tools_are_called(with_model: Make) -> None:
    write = {
        "tool_calls": [{"function": {"name": "write", "arguments": {"file_path": "a", "content": "a\n"}}}]
    }
    newel = with_model(scenario("notes", write, {"content": "Done."}))
    newel("--model", "tiny-1b", "--tool-calls", "native", "write the notes")
    assert (newel.project / "a").read_text() == "a\n"
    (newel.home / ".newel" / "config.toml").write_text('[models."mock-model"]\ntool_calls = "schema"\n')
    found = newel("doctor").stdout
    assert 'schema: in answers held to a JSON Schema   ([models."mock-model"] in config.toml' in found
    found = newel("doctor", "--tool-calls", "native").stdout
    assert "native: by the API's own protocol   (command line; --tool-calls schema changes it)" in found


def test_the_local_model_of_a_hybrid_run_works_in_steps(with_model: Make) -> None:
    newel = with_model(scenario("write the notes", {"content": "This one was not to be asked."}))
    (newel.home / ".newel").mkdir()
    with running(steps(WRITE), strict=True) as local:
        config = f'[local]\nbase_url = "{local.url}/v1"\nmodel = "tiny-1b"\n'
        (newel.home / ".newel" / "config.toml").write_text(config)
        done = newel("--agent-mode", "hybrid_auto", "write the notes")
    assert done.stdout.strip() == "The notes are written."
    assert (newel.project / "notes.md").read_text() == "# Notes\n"
    assert newel.requests == []


def test_an_api_without_schemas_refuses_the_option(with_model: Make) -> None:
    newel = with_model()
    done = newel("--api", "anthropic", "--model", "m", "--tool-calls", "schema", "hello")
    assert done.returncode != 0
    assert "--tool-calls schema does not work with 127.0.0.1: Newel cannot hold its answers" in done.stderr
    assert newel.server.requests == []
