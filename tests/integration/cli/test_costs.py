"""If these fail, a run exceeds the cost limit that its user relies on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import Newel, bash, scenario

Make = Callable[..., Newel]

USED = {"usage": {"prompt_tokens": 1_000_000, "completion_tokens": 100_000, "total_tokens": 1_100_000}}


def settings(newel: Newel, text: str) -> None:
    (newel.home / ".newel").mkdir(exist_ok=True)
    (newel.home / ".newel" / "config.toml").write_text(text)


def test_a_cost_limit_without_a_known_price_stops_before_any_request(with_model: Make) -> None:
    newel = with_model(scenario("work", {"content": "Done."}))
    ran = newel("--max-cost", "0.01", "work")
    assert ran.returncode == 1
    assert newel.requests == []
    assert "The price of the model mock-model of 127.0.0.1 is unknown, so --max-cost cannot be enforced." in (
        ran.stdout + ran.stderr
    )
    assert '[models."mock-model"] input_price and output_price' in ran.stdout + ran.stderr


def test_a_cost_limit_in_the_settings_without_a_known_price_stops_before_any_request(
    with_model: Make,
) -> None:
    newel = with_model(scenario("work", {"content": "Done."}))
    settings(newel, "[limits]\nmaxCost = 1.0\n")
    assert newel("work").returncode == 1
    assert newel.requests == []


def test_configured_prices_are_counted_and_end_the_run(with_model: Make) -> None:
    newel = with_model(
        scenario(
            "work", bash("echo 1") | USED, bash("echo 2") | USED, bash("echo 3") | USED, {"content": "Done."}
        )
    )
    settings(newel, '[models."mock-model"]\ninput_price = 2.0\noutput_price = 10.0\n')  # 3 dollars a request
    ran = newel("--max-cost", "5", "--json", "work")
    assert ran.returncode == 1
    assert len(newel.requests) == 2
    assert '"cost":6.0' in ran.stdout
    assert "Stopped at the limit of 5 US dollars" in ran.stdout


def test_a_model_can_be_declared_free(with_model: Make) -> None:
    newel = with_model(scenario("work", bash("echo 1") | USED, {"content": "Done."} | USED))
    settings(newel, '[models."mock-model"]\ninput_price = 0\noutput_price = 0\n')
    assert newel("--max-cost", "5", "work").returncode == 0


def test_a_switch_to_a_model_without_a_price_is_refused(with_model: Make) -> None:
    newel = with_model(scenario("work", {"content": "Done."} | USED))
    settings(newel, '[limits]\nmaxCost = 5\n[models."mock-model"]\ninput_price = 1\noutput_price = 1\n')
    lines = [
        '{"type":"message","content":"work"}',
        '{"type":"set_model","model":"other-model"}',
        '{"type":"message","content":"work"}',
    ]
    ran = newel("--json", stdin="\n".join(lines) + "\n")
    assert len(newel.requests) == 1
    assert "The price of the model other-model" in ran.stdout


def test_an_agent_with_a_cost_limit_does_not_start_without_a_price(with_model: Make) -> None:
    newel = with_model(scenario("work", {"content": "Done."}))
    ran = newel("agent", "--max-cost", "1", "work")
    assert ran.returncode == 1
    assert "cannot be enforced" in ran.stdout + ran.stderr
    assert newel.requests == []


def test_a_server_without_token_counts_cannot_have_a_cost_limit(with_model: Make) -> None:
    none = {"usage": {"prompt_tokens": 0, "completion_tokens": 0}}
    newel = with_model(scenario("work", bash("echo 1") | none, bash("echo 2") | none, {"content": "Done."}))
    settings(newel, '[models."mock-model"]\ninput_price = 1\noutput_price = 1\n')
    ran = newel("--max-cost", "5", "work")
    assert ran.returncode == 1
    assert "does not report token usage" in ran.stdout + ran.stderr
    assert len(newel.requests) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("input_price = 1\n", "input_price and output_price must be set together"),
        ("cache_read_price = 1\n", "cache_read_price and cache_write_price require"),
        ("input_price = -1\noutput_price = 1\n", "input_price: expected a number of at least 0."),
    ],
)
def test_an_incomplete_price_is_refused_with_a_message(with_model: Make, text: str, words: str) -> None:
    newel = with_model()
    settings(newel, f'[models."m"]\n{text}')
    ran = newel("work")
    assert ran.returncode == 1
    assert words in ran.stderr
    assert "models" in ran.stderr


def test_summaries_count_towards_the_cost_limit(with_model: Make) -> None:
    """If this fails, a long run exceeds its limit by requests that nobody sees."""
    long = {"content": "word " * 2400, "usage": {"prompt_tokens": 4000, "completion_tokens": 3000}}
    script: dict[str, Any] = {"scenarios": []}
    for name, trigger, step in [
        ("summary", "", {"content": "## Goal\nMore of it."} | USED),
        ("third", "third", bash("echo 1")),
        ("others", "", long),
    ]:
        script["scenarios"].append({"name": name, "trigger": trigger, "steps": [{"response": step}]})
    script["scenarios"][0]["match"] = {"system": "You summarize a conversation"}
    newel = with_model(script)
    settings(newel, '[models."mock-model"]\ncontext_window = 8000\ninput_price = 2.0\noutput_price = 10.0\n')
    ran = newel("--max-cost", "2.5", "--json", "the first", "the second", "the third")
    assert ran.returncode == 1
    assert "Stopped at the limit of 2.5 US dollars" in ran.stdout
    assert json.loads(ran.stdout.splitlines()[-1])["cost"] > 3


def test_a_small_model_without_a_known_price_is_refused(with_model: Make) -> None:
    """If this fails, the summaries of a limited run have costs that nothing counts."""
    newel = with_model(scenario("work", {"content": "Done."} | USED))
    settings(newel, '[models."mock-model"]\ninput_price = 1\noutput_price = 1\n')
    ran = newel("--max-cost", "5", "work", LLM_SMALL_FAST_MODEL="small-one")
    assert ran.returncode == 1
    assert newel.requests == []
    assert "The price of the model small-one" in ran.stderr
