"""If these fail, a conversation gets the answer of another scenario or step."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mock_llm_server import Script
from mock_llm_server.answer import tokens
from mock_llm_server.conversation import ChatRequest, Conversation, find_step, read_conversation, step_index
from mock_llm_server.scenarios import Function, Response, Step, ToolCall
from mock_llm_server.templates import fill, fill_arguments, problem


def text_step(text: str) -> dict[str, Any]:
    return {"response": {"content": text}}


def script(*scenarios: dict[str, Any]) -> Script:
    return msgspec.convert({"scenarios": scenarios}, type=Script)


def conversation(*messages: tuple[str, Any], model: str = "m") -> Conversation:
    history = [{"role": role, "content": content} for role, content in messages]
    return read_conversation(msgspec.convert({"model": model, "messages": history}, type=ChatRequest))


def answer_to(script: Script, *messages: tuple[str, Any], model: str = "m") -> str | None:
    response = find_step(script, conversation(*messages, model=model)).step.response
    return response.content if response else None


def test_the_last_user_message_decides_and_the_first_match_wins() -> None:
    rules = script(
        {"name": "1", "trigger": "one", "steps": [text_step("1")]},
        {"name": "12", "trigger": "one two", "steps": [text_step("12")]},
    )
    assert answer_to(rules, ("user", "say one two")) == "1"
    assert (answer_to(rules, ("user", "one"), ("assistant", "1"), ("user", "three")) or "").startswith(
        "This is"
    )


def test_content_may_be_text_parts_or_null() -> None:
    """Clients send all three; a mock that fails on one hides other bugs."""
    rules = script({"name": "1", "trigger": "one", "steps": [text_step("1")]})
    parts: list[Any] = [
        {"type": "text", "text": "on"},
        {"type": "image_url", "image_url": {}},
        {"type": "text", "text": "e"},
    ]
    assert answer_to(rules, ("user", parts)) == "1"
    assert (answer_to(rules, ("user", "one"), ("user", None)) or "").startswith("This is")


def test_only_tool_messages_after_the_last_user_message_count() -> None:
    """In the second task of a session, the scenario must start at its first step."""
    rules = script({"name": "1", "trigger": "one", "steps": [text_step("first"), text_step("second")]})
    history = [("user", "one"), ("assistant", None), ("tool", "ok")]
    assert answer_to(rules, *history) == "second"
    assert answer_to(rules, *history, ("assistant", "done"), ("user", "one")) == "first"
    assert (answer_to(rules, *history, ("tool", "ok")) or "").startswith("This is")


def test_a_looping_scenario_never_ends() -> None:
    rules = script({"name": "1", "trigger": "one", "loop": True, "steps": [text_step("a"), text_step("b")]})
    history = [("user", "one"), *[("tool", "ok")] * 1001]
    assert answer_to(rules, *history) == "b"


def test_conditions_on_model_system_prompt_and_turn() -> None:
    rules = script(
        {"name": "m", "trigger": "", "match": {"model": "big"}, "steps": [text_step("big")]},
        {"name": "s", "trigger": "", "match": {"system": "pirate"}, "steps": [text_step("arr")]},
        {"name": "t", "trigger": "", "match": {"turn": 2}, "steps": [text_step("again")]},
        {"name": "-", "trigger": "", "steps": [text_step("else")]},
    )
    assert answer_to(rules, ("user", "x"), model="big") == "big"
    assert answer_to(rules, ("system", "be a pirate"), ("user", "x")) == "arr"
    assert answer_to(rules, ("user", "x"), ("user", "x")) == "again"
    assert answer_to(rules, ("user", "x")) == "else"


@given(st.lists(st.integers(min_value=0, max_value=4), min_size=1, max_size=8))
def test_each_step_is_reached_when_all_calls_before_it_have_results(calls: list[int]) -> None:
    """A step with three calls counts as one step, not as three."""
    call = ToolCall(function=Function(name="bash"))
    steps = [Step(response=Response(tool_calls=[call] * count)) for count in calls]
    results = 0
    for index, count in enumerate(calls):
        assert step_index(steps, results) == index
        results += max(1, count)
    assert step_index(steps, results) == len(steps)


@given(st.text())
def test_tokens_lose_nothing(text: str) -> None:
    assert "".join(tokens(text)) == text


def test_templates_insert_captured_text() -> None:
    rules = script(
        {
            "name": "r",
            "trigger_regex": r"rename (?P<old>\w+) to (\w+)",
            "loop": True,
            "steps": [text_step("x")],
        }
    )
    values = find_step(rules, conversation(("user", "rename a to b"), ("tool", "exit code 3"))).values
    text = "{{ old }} {{1}}>{{ 2 }} {{ tool_result | code (\\d+) }} {{ user | ^\\w+ }} {{ not one }} {x}"
    assert fill(text, values) == "a a>b 3 rename {{ not one }} {x}"


@given(st.text())
def test_captured_text_keeps_arguments_valid_json(text: str) -> None:
    """Quotes in a user message must not break the call that repeats it."""
    values = {"user": text}
    for arguments in ('{"a": {"b": ["{{ user }}", 1]}}', {"a": {"b": ["{{ user }}", 1]}}):
        assert msgspec.json.decode(fill_arguments(arguments, values)) == {"a": {"b": [text, 1]}}
    assert fill_arguments('{"a": {{ user }}', values) == '{"a": ' + text


def test_arguments_without_templates_are_sent_verbatim() -> None:
    assert fill_arguments('{ "a" :1 ', {}) == '{ "a" :1 '


def test_wrong_templates_are_named() -> None:
    assert "is not a known value" in (problem("{{ usr }}", ()) or "")
    assert "regular expression" in (problem("{{ user | ( }}", ()) or "")
    assert problem("{{ 1 }} {{ name }}", ("1", "name")) is None
