"""If these fail, a long conversation loses what the model needs, or outgrows its window."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from newel.agent.messages import AppMessage, AssistantMessage, TextContent, ToolResultMessage, UserMessage
from newel.terminal.jexida.agent import window
from tests.properties import examples

LETTERS = {"u": UserMessage, "a": AssistantMessage, "t": ToolResultMessage}


def message(letter: str, number: int) -> AppMessage:
    name = f"{letter}{number}"
    match letter:
        case "u":
            return UserMessage(content=name, id=name)
        case "a":
            return AssistantMessage(content=[TextContent(name)], id=name)
        case _:
            return ToolResultMessage(tool_call_id="", tool_name="bash", output=name, is_error=False, id=name)


def conversation(letters: str) -> list[AppMessage]:
    return [message(letter, number) for number, letter in enumerate(letters)]


def seen(letters: str, turns: int) -> str:
    return " ".join(each.id for each in window(conversation(letters), turns))


def test_half_of_a_long_conversation_is_sent_with_the_results_of_its_turns() -> None:
    #               turn: 1    2    3    4    5
    assert seen("uauatauauataua", 4) == "u8 t10 a11 u12 a13"
    assert seen("uauaua", 3) == "u0 a1 u2 a3 u4 a5"
    assert seen("uaua", 1) == "u2 a3"


def test_a_response_older_than_the_prompts_brings_its_results() -> None:
    assert seen("uatauuu", 3) == "t2 a3 u6"


@settings(max_examples=examples(75))
@given(st.text("uat", max_size=40), st.integers(1, 12))
def test_the_window_follows_its_rule(letters: str, turns: int) -> None:
    messages = conversation(letters)
    shown = window(messages, turns)
    if letters.count("u") <= turns:
        assert shown == messages
        return
    half = max(turns // 2, 1)
    for letter in "ua":
        every = [each for each in messages if isinstance(each, LETTERS[letter])]
        assert [each for each in shown if isinstance(each, LETTERS[letter])] == every[-half:]
    turn_of = {each.id: letters[: at + 1].count("u") for at, each in enumerate(messages)}
    turns_shown = {turn_of[each.id] for each in shown}
    assert [each.id for each in shown if each.id[0] == "t"] == [
        each.id for each in messages if each.id[0] == "t" and turn_of[each.id] in turns_shown
    ]
    assert [each.id for each in messages if each in shown] == [each.id for each in shown]
