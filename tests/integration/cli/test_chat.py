"""If these fail, a program cannot ask one question with ``newel.chat``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import Newel, scenario

ASK = """
import json, newel
print(json.dumps(newel.chat([{"role": "user", "content": "how are you"}], model=%r)))
"""


def ask(newel: Newel, model: str | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", ASK % model],
        env=newel.environ | environ,
        cwd=newel.project,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_answer_is_the_servers_own(with_model: Callable[..., Newel]) -> None:
    newel = with_model()
    answer = json.loads(ask(newel).stdout)
    assert answer["object"] == "chat.completion"
    assert "All is well" in answer["choices"][0]["message"]["content"]
    request = newel.requests[0]
    assert (request["model"], request["max_tokens"], "tools" in request) == ("mock-model", 4096, False)


def test_another_model_can_be_chosen(with_model: Callable[..., Newel]) -> None:
    newel = with_model()
    ask(newel, model="other")
    assert newel.requests[0]["model"] == "other"


def test_an_error_is_raised_at_once_without_a_retry(with_model: Callable[..., Newel]) -> None:
    newel = with_model(scenario("how are you", {"fault": {"kind": "status", "status": 500}}))
    done = ask(newel)
    assert done.returncode == 1
    assert "500" in done.stderr
    assert len(newel.requests) == 1


def test_a_missing_setting_is_named(with_model: Callable[..., Newel]) -> None:
    newel = with_model()
    assert "LLM_BASE_URL" in ask(newel, LLM_BASE_URL="", LLM_AUTH_TOKEN="").stderr
    assert "LLM_DEFAULT_MODEL" in ask(newel, LLM_DEFAULT_MODEL="").stderr


def refusing(words: str, times: int) -> dict[str, Any]:
    body = {"error": {"message": words, "type": "invalid_request_error"}}
    fault = {"kind": "status", "status": 400, "body": body, "times": times}
    return scenario("how are you", {"response": {"content": "All is well"}, "fault": fault})


@pytest.mark.parametrize(("times", "names"), [(1, ["max_completion_tokens"]), (2, [])])
def test_a_server_that_requires_another_output_limit_gets_it(
    with_model: Callable[..., Newel], times: int, names: list[str]
) -> None:
    refused = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    newel = with_model(refusing(refused, times))
    answer = json.loads(ask(newel).stdout)
    assert answer["choices"][0]["message"]["content"] == "All is well"
    assert [name for name in newel.requests[-1] if name.startswith("max_")] == names
    assert len(newel.requests) == times + 1


def test_other_rejections_are_final(with_model: Callable[..., Newel]) -> None:
    newel = with_model(refusing("The tools are not supported.", 1))
    done = ask(newel)
    assert (done.returncode, len(newel.requests)) == (1, 1)
    assert "400" in done.stderr


def test_a_server_that_requires_another_output_limit_rejects_only_one_request(
    with_model: Callable[..., Newel],
) -> None:
    """If this fails, a program that makes a thousand requests sends two thousand."""
    newel = with_model(
        refusing("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", 1)
    )
    twice = f"{ASK}{ASK}" % (None, None)
    done = subprocess.run(
        [sys.executable, "-c", twice], env=newel.environ, cwd=newel.project, capture_output=True, check=True
    )
    assert done.stdout.count(b"All is well") == 2
    limits = [[name for name in body if name.startswith("max_")] for body in newel.requests]
    assert limits == [["max_tokens"], ["max_completion_tokens"], ["max_completion_tokens"]]
