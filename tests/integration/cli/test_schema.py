"""If these fail, a script that asked for JSON in a shape gets something else, or an answer that fits is refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tests.hook_scripts import group, hook, users
from tests.support import Newel, bash, scenario

Make = Callable[..., Newel]

SHAPE = {
    "type": "object",
    "properties": {"files": {"type": "integer"}},
    "required": ["files"],
    "additionalProperties": False,
}


def model(*steps: dict[str, Any], corrected: str = "") -> dict[str, Any]:
    """Scenarios for the prompt ``count``, and for an objection to its answer."""
    first = scenario("count", *steps)["scenarios"]
    return {"scenarios": [*first, *scenario("fit the JSON Schema", {"content": corrected})["scenarios"]]}


def with_schema(newel: Newel, schema: Any = SHAPE) -> Newel:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    (newel.project / "shape.json").write_text(text)
    return newel


@pytest.mark.parametrize("answer", ['{"files": 3}', '\n```json\n{"files": 3}\n```\n'])
def test_an_answer_that_fits_is_all_that_is_printed(with_model: Make, answer: str) -> None:
    newel = with_schema(with_model(model(bash("echo 3"), {"content": answer})))
    done = newel("--schema", "shape.json", "count the files")
    assert (done.returncode, done.stdout) == (0, '{"files": 3}\n')
    assert len(newel.requests) == 2
    assert json.dumps(SHAPE, separators=(",", ":")) in newel.requests[0]["messages"][0]["content"]


def test_a_user_with_hooks_gets_answers_in_the_shape_too(with_model: Make) -> None:
    newel = with_schema(with_model(model({"content": "Three files."}, corrected='{"files": 3}')))
    users(newel, Stop=[group(hook("true"))])
    done = newel("--schema", "shape.json", "count the files")
    assert (done.returncode, done.stdout) == (0, '{"files": 3}\n')


def test_an_answer_that_does_not_fit_is_asked_for_again_under_the_schema(with_model: Make) -> None:
    """The model works with its tools first; only the correction is held by the server."""
    newel = with_schema(
        with_model(model(bash("echo 3"), {"content": "Three files."}, corrected='{"files": 3}'))
    )
    done = newel("--schema", "shape.json", "-o", "answer.json", "count the files")
    assert (done.returncode, done.stdout) == (0, '{"files": 3}\n')
    assert (newel.project / "answer.json").read_text() == '{"files": 3}\n'
    assert [("tools" in each, "response_format" in each) for each in newel.requests] == [
        (True, False),
        (True, False),
        (False, True),
    ]
    assert newel.requests[2]["response_format"]["json_schema"]["schema"] == SHAPE
    assert "it is not JSON" in newel.requests[2]["messages"][-1]["content"]


def test_after_two_objections_the_run_fails_and_the_answer_is_kept(with_model: Make) -> None:
    newel = with_schema(with_model(model({"content": "Three."}, corrected='{"files": "three"}')))
    done = newel("--schema", "shape.json", "-q", "count the files")
    assert (done.returncode, done.stdout) == (1, "")
    assert "does not fit the schema: $.files: 'three' is not of type 'integer'" in done.stderr
    assert '{"files": "three"}' in done.stderr
    assert len(newel.requests) == 3
    result = json.loads(
        newel("--schema", "shape.json", "--output-format", "json", "-q", "count the files").stdout
    )
    assert result["subtype"] == "error_max_structured_output_retries"
    assert result["result"] == '{"files": "three"}'
    assert "structured_output" not in result


@pytest.mark.parametrize("words", [["--output-format", "json"], ["--output-format", "stream-json"]])
def test_programs_get_the_decoded_answer(with_model: Make, words: list[str]) -> None:
    newel = with_schema(with_model(model({"content": '{"files": 3}'})))
    done = newel("--schema", "shape.json", *words, "-o", "answer.json", "count the files")
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["subtype"], result["structured_output"]) == ("success", {"files": 3})
    assert (newel.project / "answer.json").read_text() == '{"files": 3}\n'


def test_every_prompt_of_a_program_is_held_to_it(with_model: Make) -> None:
    newel = with_schema(with_model(model({"content": '{"files": 3}'})))
    given = '{"type":"message","content":"count the files"}\n' * 2
    lines = [
        json.loads(line)
        for line in newel("--json", "--schema", "shape.json", stdin=given).stdout.splitlines()
    ]
    results = [line for line in lines if line["type"] == "result"]
    assert [result["structuredOutput"] for result in results] == [{"files": 3}] * 2
    given = json.dumps({"type": "user", "message": {"role": "user", "content": "count the files"}}) + "\n"
    words = ["--output-format", "stream-json", "--input-format", "stream-json", "--schema", "shape.json"]
    last = json.loads(newel(*words, stdin=given).stdout.splitlines()[-1])
    assert last["structured_output"] == {"files": 3}


def test_without_tools_the_first_answer_is_held_by_the_server(with_model: Make) -> None:
    newel = with_schema(with_model(model({"content": '{"files": 3}'})))
    assert newel("--schema", "shape.json", "--tools", "none", "count the files").returncode == 0
    assert "response_format" in newel.requests[0]
    assert "tools" not in newel.requests[0]


def test_hidden_characters_of_an_answer_are_escaped_and_keep_their_meaning(with_model: Make) -> None:
    newel = with_schema(with_model(model({"content": '{"name": "a\u202eb\x7f"}'})), {"type": "object"})
    done = newel("--schema", "shape.json", "count the files")
    assert done.stdout.isascii()
    assert "\x7f" not in done.stdout
    assert json.loads(done.stdout) == {"name": "a\u202eb\x7f"}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (None, "No such file"),
        ("{", "is not JSON"),
        ("\x00\xff", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[1]", "must be an object"),
        ({"type": "strng"}, "not a valid JSON Schema: $.type"),
        ({"properties": {"a": {"pattern": "("}}}, "not a valid JSON Schema: $.properties.a.pattern"),
        ({"$ref": "#/$defs/none"}, "#/$defs/none, which is not in it"),
        ("{" + " " * 1_100_000 + "}", "has more than 1,048,576 bytes"),
    ],
)
def test_a_schema_that_is_none_is_reported_before_any_request(
    with_model: Make, schema: Any, problem: str
) -> None:
    newel = with_model()
    if schema is not None:
        with_schema(newel, schema)
    done = newel("--schema", "shape.json", "count the files")
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr
    assert "Traceback" not in done.stderr
    assert newel.requests == []


@pytest.fixture
def elsewhere() -> Iterator[HTTPServer]:
    """An HTTP server that records whether anyone asks it for a schema."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

    asked: list[str] = []
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.asked = asked  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_a_schema_elsewhere_is_not_fetched(with_model: Make, elsewhere: HTTPServer, keyword: str) -> None:
    """If this fails, a schema of someone else makes this machine send requests."""
    address = f"http://127.0.0.1:{elsewhere.server_port}/shape.json"
    newel = with_schema(with_model(), {"properties": {"a": {"items": {keyword: address}}}})
    done = newel("--schema", "shape.json", "count the files")
    assert done.returncode == 2
    assert "Newel fetches nothing" in done.stderr
    assert elsewhere.asked == []  # type: ignore[attr-defined]


def test_a_schema_that_refers_to_itself_without_end_is_no_endless_loop(with_model: Make) -> None:
    newel = with_schema(with_model(model({"content": "{}"}, corrected="{}")), {"$ref": "#"})
    done = newel("--schema", "shape.json", "count the files")
    assert done.returncode == 1
    assert "refers to itself without end" in done.stderr


def test_a_conversation_has_no_schema(with_model: Make) -> None:
    from tests.support import BIN
    from tests.tmux import Tmux

    newel = with_schema(with_model())
    with Tmux([str(BIN / "newel"), "--schema", "shape.json"], newel.project, newel.environ) as terminal:
        terminal.wait_for_end()
        assert "are for a prompt on the command line" in terminal.text
