"""If these fail, telemetry leaves the machine although nobody asked for it, tells what it must not, is not what collectors understand, or
a collector that does not answer slows or breaks a run.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.cli.otlp_receiver import Receiver, open_receiver
from tests.integration.review.served_review import QUESTION, served_review
from tests.served import wait_until
from tests.support import Newel, bash, scenario

Make = Callable[..., Newel]

USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 40}}
ON = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_METRICS_EXPORTER": "otlp"}
CLIENT = 3


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with open_receiver() as opened:
        yield opened


def to(receiver: Receiver) -> dict[str, str]:
    return {**ON, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}


def configure(newel: Newel, text: str) -> None:
    (newel.home / ".newel").mkdir(exist_ok=True)
    (newel.home / ".newel" / "config.toml").write_text(text)


def with_work(with_model: Make, command: str = "true") -> Newel:
    return with_model(scenario("go", {**bash(command), "usage": USAGE}, {"content": "Done.", "usage": USAGE}))


def test_nothing_is_exported_unless_the_user_asks_for_it(with_model: Make, receiver: Receiver) -> None:
    newel = with_work(with_model)
    loaded = "import sys; from newel.cli.main import main; main(['go']); print([m for m in sys.modules if m.startswith(('opentelemetry.sdk', 'opentelemetry.exporter', 'requests'))])"
    done = newel("-c", loaded, command="python", OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
    assert done.stdout.splitlines()[-1] == "[]"
    assert newel("go", **{**to(receiver), "OTEL_SDK_DISABLED": "true"}).returncode == 0
    assert receiver.headers == []


def test_a_run_is_spans_of_its_requests_and_calls(with_model: Make, receiver: Receiver) -> None:
    newel = with_work(with_model)
    done = newel("go", **to(receiver))
    assert (done.returncode, done.stderr.count("elemetry")) == (0, 0)
    assert receiver.resource["service.name"] == "newel"
    run, call = receiver.only("invoke_agent newel"), receiver.only("execute_tool bash")
    first, second = receiver.named("chat mock-model")
    assert {span.parent for span in (call, first, second)} == {run.id}
    assert (run.parent, {span.trace for span in receiver.spans}) == (b"", {run.trace})
    session = newel.sessions[0].stem.partition("_")[2]
    for name, value in {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "newel",
        "gen_ai.conversation.id": session,
        "gen_ai.request.model": "mock-model",
        "gen_ai.usage.input_tokens": 200,
    }.items():
        assert run.attributes[name] == value
    assert first.kind == CLIENT
    for name, value in {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.response.model": "mock-model",
        "gen_ai.response.finish_reasons": ["tool_call"],
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 10,
        "gen_ai.usage.cache_read.input_tokens": 40,
        "server.address": "127.0.0.1",
        "server.port": newel.server.port,
    }.items():
        assert first.attributes[name] == value
    assert call.attributes["gen_ai.tool.name"] == "bash"
    assert call.attributes["gen_ai.tool.call.id"]
    assert all(span.nanoseconds > 0 for span in receiver.spans)


def test_tokens_and_durations_are_metrics(with_model: Make, receiver: Receiver) -> None:
    assert with_work(with_model)("go", **to(receiver)).returncode == 0
    tokens = {point[0]["gen_ai.token.type"]: point for point in receiver.metrics["gen_ai.client.token.usage"]}
    assert {kind: (count, total) for kind, (_, count, total) in tokens.items()} == {
        "input": (2, 200),
        "output": (2, 20),
    }
    about = tokens["input"][0]
    assert (about["gen_ai.operation.name"], about["gen_ai.provider.name"], about["gen_ai.request.model"]) == (
        "chat",
        "openai",
        "mock-model",
    )
    for name, count in {
        "gen_ai.client.operation.duration": 2,
        "gen_ai.invoke_agent.duration": 1,
        "gen_ai.execute_tool.duration": 1,
    }.items():
        assert [point[1] for point in receiver.metrics[name]] == [count]


def test_texts_are_exported_only_if_the_user_wants_that_and_without_secrets(
    with_model: Make, receiver: Receiver
) -> None:
    newel = with_work(with_model, "echo printed; echo $((4000000 + 2))-sk-test-0123456789abcdef")
    assert newel("go and tell", **to(receiver)).returncode == 0
    for text in (b"go and tell", b"Done.", b"echo printed", b"4000002-"):
        assert text not in receiver.raw
    configure(newel, "[otel]\ncontent = true\n")
    receiver.spans.clear()
    assert newel("go and tell", **to(receiver)).returncode == 0
    run, call = receiver.only("invoke_agent newel"), receiver.only("execute_tool bash")
    assert json.loads(run.attributes["gen_ai.input.messages"])[0]["parts"][0]["content"] == "go and tell"
    assert json.loads(run.attributes["gen_ai.output.messages"])[0]["parts"][0]["content"] == "Done."
    assert "echo printed" in call.attributes["gen_ai.tool.call.arguments"]
    assert "4000002-[masked]" in call.attributes["gen_ai.tool.call.result"]
    assert b"sk-test-0123456789abcdef" not in receiver.raw


def test_a_failed_request_is_an_error_with_its_retries(with_model: Make, receiver: Receiver) -> None:
    fault = {"fault": {"kind": "status", "status": 400}, "response": {"content": ""}}
    assert with_model(scenario("go", fault))("go", **to(receiver)).returncode == 1
    run, chat = receiver.only("invoke_agent newel"), receiver.only("chat mock-model")
    assert (run.failed, chat.failed) == (True, True)
    assert run.attributes["error.type"] == chat.attributes["error.type"] != "_OTHER"
    (point,) = receiver.metrics["gen_ai.client.operation.duration"]
    assert point[0]["error.type"] == chat.attributes["error.type"]


def test_a_repeated_request_has_an_event_for_each_retry(with_model: Make, receiver: Receiver) -> None:
    fault = {"kind": "status", "status": 503, "headers": {"Retry-After": "0.01"}, "times": 2}
    newel = with_model(scenario("go", {"fault": fault, "response": {"content": "Done."}}))
    assert newel("go", **to(receiver)).returncode == 0
    assert receiver.only("chat mock-model").events == ["newel.retry"] * 2


def test_a_failed_call_is_an_error(with_model: Make, receiver: Receiver) -> None:
    missing = {"tool_calls": [{"function": {"name": "read", "arguments": {"file_path": "missing"}}}]}
    assert with_model(scenario("go", missing, {"content": "Done."}))("go", **to(receiver)).returncode == 0
    call = receiver.only("execute_tool read")
    assert (call.failed, call.attributes["error.type"]) == (True, "tool_error")


def test_a_subagent_is_nested_in_its_call(with_model: Make, receiver: Receiver) -> None:
    task = {"description": "look", "prompt": "below"}
    newel = with_model(
        {
            "scenarios": [
                *scenario(
                    "go",
                    {"tool_calls": [{"function": {"name": "task", "arguments": task}}]},
                    {"content": "Done."},
                )["scenarios"],
                *scenario("below", bash("true"), {"content": "Seen."})["scenarios"],
            ]
        }
    )
    configure(newel, 'extra_tools = ["task"]\n')
    assert newel("go", **to(receiver)).returncode == 0
    call, child = receiver.only("execute_tool task"), receiver.only("invoke_agent subagent")
    assert child.parent == call.id
    assert receiver.only("execute_tool bash").parent == child.id
    assert len({span.trace for span in receiver.spans}) == 1


def test_a_review_job_is_a_run_and_another_one_after_your_answer(
    with_model: Make, receiver: Receiver
) -> None:
    newel = with_model(QUESTION)
    with served_review(newel, **to(receiver)) as review:
        session = review.post("/sessions")["session_id"]
        job = review.start("Ask me", session)
        assert review.settled(job)["status"] == "waiting_for_user"
        question = review.get(f"/jobs/{job}")["question"]["question_id"]
        review.post(f"/jobs/{job}/clarify", question_id=question, answer="Yes")
        wait_until(lambda: len(receiver.named("invoke_agent review")) == 2, "the spans")
    asked, answered = receiver.named("invoke_agent review")
    assert [span.attributes["gen_ai.conversation.id"] for span in (asked, answered)] == [session, session]
    assert [span.attributes["gen_ai.response.finish_reasons"] for span in (asked, answered)] == [
        ["aborted"],
        ["done"],
    ]
    assert (asked.failed, answered.failed) == (False, False)
    first, second = receiver.named("chat mock-model")
    assert [first.parent, second.parent] == [asked.id, answered.id]
    for text in (b"Ask me", b"Sure?", b"Nothing to do."):
        assert text not in receiver.raw


def test_settings_turn_it_on_and_their_headers_go_to_their_endpoint_only(
    with_model: Make, receiver: Receiver
) -> None:
    newel = with_work(with_model)
    configure(
        newel,
        f'[otel]\nenabled = true\nendpoint = "{receiver.url}/"\nheaders = {{ x-team = "t-0123456789" }}\n',
    )
    assert newel("go").returncode == 0
    assert receiver.only("invoke_agent newel")
    assert {each.get("x-team") for each in receiver.headers} == {"t-0123456789"}
    with open_receiver() as other:
        assert newel("go", OTEL_EXPORTER_OTLP_ENDPOINT=other.url).returncode == 0
        assert {each.get("x-team") for each in other.headers} == {None}
        assert other.spans
    assert newel("go", OTEL_TRACES_EXPORTER="none", OTEL_METRICS_EXPORTER="none").returncode == 0
    assert len(receiver.named("invoke_agent newel")) == 1


def test_a_project_cannot_turn_it_on(with_model: Make, receiver: Receiver) -> None:
    newel = with_work(with_model)
    (newel.project / ".env").write_text("".join(f"{name}={value}\n" for name, value in to(receiver).items()))
    (newel.project / ".newel").mkdir()
    (newel.project / ".newel" / "config.toml").write_text("[otel]\nenabled = true\n")
    assert newel("go").returncode == 0
    assert receiver.headers == []


def test_commands_do_not_get_the_headers_of_a_collector(with_model: Make, receiver: Receiver) -> None:
    newel = with_work(with_model, "env > seen")
    secret = {"OTEL_EXPORTER_OTLP_HEADERS": "api-key=0123456789"}
    assert newel("go", **to(receiver), **secret).returncode == 0
    assert "0123456789" not in (newel.project / "seen").read_text()
    assert receiver.headers[0]["api-key"] == "0123456789"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_collector_that_refuses_breaks_nothing_and_is_told_once(with_model: Make) -> None:
    newel = with_work(with_model)
    url = f"http://user:hunter22@127.0.0.1:{free_port()}"
    done = newel("go", **ON, OTEL_EXPORTER_OTLP_ENDPOINT=url)
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert done.stderr.count("Telemetry is not exported to http") == 1
    assert ": Connection refused" in done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter22" not in done.stderr


def test_a_setting_that_the_sdk_ignores_is_told_and_costs_no_span(
    with_model: Make, receiver: Receiver
) -> None:
    """Else one wrong number loses all spans of a run, or hides why they do not arrive."""
    newel = with_work(with_model)
    wrong = {"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}
    done = newel("go", **to(receiver), **wrong)
    assert done.stderr.count("Telemetry: Invalid timeout value 'soon'") == 1
    assert "not exported" not in done.stderr
    assert receiver.only("invoke_agent newel")
    done = newel("go", **ON, **wrong, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{free_port()}")
    assert done.stderr.count("Telemetry: Invalid timeout value 'soon'") == 1
    assert done.stderr.count(": Connection refused") == 1


def test_a_collector_that_redirects_is_told(with_model: Make) -> None:
    """As one does that wants https. Else nothing ever arrives, and nobody says so."""
    newel = with_work(with_model)
    with open_receiver(status=301, location="https://collector.example/v1/traces?key=0123456789") as moved:
        done = newel("go", **to(moved))
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert done.stderr.count("Telemetry is not exported to http") == 1
    assert "HTTP 301 to https://collector.example/v1/traces" in done.stderr
    assert "0123456789" not in done.stderr


@pytest.mark.slow  # seconds of waiting
def test_a_collector_that_never_answers_holds_nothing_up(with_model: Make) -> None:
    newel = with_work(with_model)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        done = newel("go", **ON, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert done.stderr.count("it did not answer in time") == 1


def test_a_protocol_that_is_not_spoken_is_told(with_model: Make, receiver: Receiver) -> None:
    done = with_work(with_model)("go", **to(receiver), OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
    assert done.returncode == 0
    assert "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, and Newel exports http/protobuf" in done.stderr


def test_without_the_extra_a_run_works_and_the_remedy_is_named(with_model: Make, tmp_path: Path) -> None:
    blocker = "import sys\nsys.modules['opentelemetry.sdk'] = None\n"
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "sitecustomize.py").write_text(blocker)
    done = with_work(with_model)("go", **ON, PYTHONPATH=str(tmp_path / "without"))
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert done.stderr.count("./run uv tool install '.[otel]'") == 1


def test_a_wrong_setting_names_file_and_line(with_model: Make) -> None:
    newel = with_work(with_model)
    configure(newel, '[otel]\nendpoint = "localhost:4318"\n')
    done = newel("go")
    assert done.returncode == 1
    assert "config.toml" in done.stderr
    assert "otel.endpoint: expected a string matching '^https?://" in done.stderr
