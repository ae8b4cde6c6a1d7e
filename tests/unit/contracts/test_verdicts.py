"""If these fail, a verdict in an unusual form is lost or invented."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.agent.messages import AssistantMessage, TextContent, ToolCall, Usage
from newel.contracts.judge import MAX_REASON, NO_VERDICT, read_verdict

JSON = '{"satisfied": true, "why": "it is there", "missing": ""}'


def text(written: str) -> AssistantMessage:
    return AssistantMessage(content=[TextContent(written)], usage=Usage(3, 2), cost=0.1)


@pytest.mark.parametrize(
    "written",
    [
        JSON,
        f"Here is my verdict:\n```json\n{JSON}\n```\nIs that all?",
        '{"name": "verdict", "arguments": ' + JSON + "}",
        '{"satisfied": "Yes", "why": "it is there"}',
        "{satisfied: true, why: 'it is there',}",
        '{"satisfied": true, "why": "it is\nthere"}',
    ],
)
def test_a_verdict_written_as_text_counts(written: str) -> None:
    found = read_verdict(text(written))
    assert found.satisfied
    assert found.why.split() == ["it", "is", "there"]
    assert (found.usage, found.cost) == (Usage(3, 2), 0.1)


def test_the_call_counts_and_not_the_text_beside_it() -> None:
    call = ToolCall("1", "verdict", {"satisfied": False, "why": "no", "missing": "tests"})
    found = read_verdict(AssistantMessage(content=[TextContent(JSON), call]))
    assert (found.satisfied, found.why, found.missing) == (False, "no", "tests")


@pytest.mark.parametrize(
    "written",
    ["", "I think so, yes.", '{"why": "it is there"}', '{"satisfied": 7}', "} {", '{"satisfied": null}'],
)
def test_an_invalid_verdict_is_never_a_yes(written: str) -> None:
    found = read_verdict(text(written))
    assert (found.satisfied, found.why) == (False, NO_VERDICT)
    assert found.usage == Usage(3, 2)


def test_a_truncated_call_is_not_a_verdict() -> None:
    call = ToolCall("1", "verdict", {"satisfied": True}, problem="it was cut off")
    assert not read_verdict(AssistantMessage(content=[call])).satisfied


@given(st.text(max_size=300))
def test_any_text_can_be_parsed(written: str) -> None:
    found = read_verdict(text(written))
    assert len(found.why) <= MAX_REASON


def test_endless_reasons_are_cut() -> None:
    call = ToolCall("1", "verdict", {"satisfied": False, "why": "x" * 9_999, "missing": "y" * 9_999})
    found = read_verdict(AssistantMessage(content=[call]))
    assert (len(found.why), len(found.missing)) == (MAX_REASON, MAX_REASON)
