"""If these fail, a run spends more than its user allowed, or is stopped for a limit that it has not reached."""

from __future__ import annotations

import pytest

from newel.agent.events import MessageEnd
from newel.agent.limits import UsageLimiter
from newel.agent.messages import AssistantMessage, StopReason, TextContent, Usage
from newel.agent.ports import Limits

ANSWER = AssistantMessage(content=[TextContent("Done.")], usage=Usage(input=10, output=5), cost=0.01)
UNCOUNTED = AssistantMessage(content=[TextContent("Done.")])


def failed(reason: StopReason) -> AssistantMessage:
    return AssistantMessage(content=[], stop_reason=reason, error_message="The connection was lost.")


@pytest.mark.parametrize("reason", ["error", "aborted"])
@pytest.mark.parametrize("limits", [Limits(max_cost=1), Limits(max_tokens=100), Limits(max_turns=2)])
def test_a_failed_request_uses_up_no_limit(limits: Limits, reason: StopReason) -> None:
    limiter = UsageLimiter(limits)
    for message in (failed(reason), ANSWER, failed(reason)):
        limiter.count_response(message)
    assert limiter.exceeded_limit() is None
    assert limiter.last_usage == ANSWER.usage


def test_a_failed_request_of_a_subagent_does_not_end_its_parents_run() -> None:
    limiter = UsageLimiter(Limits(max_cost=1, max_turns=2))
    for message in (failed("error"), ANSWER):
        limiter.count_event(MessageEnd(message=message))
    assert limiter.exceeded_limit() is None


@pytest.mark.parametrize(
    ("limits", "reason"), [(Limits(max_cost=1), "max_cost"), (Limits(max_tokens=100), "max_tokens")]
)
def test_a_server_that_reports_no_usage_is_not_used_without_limit(limits: Limits, reason: str) -> None:
    limiter = UsageLimiter(limits)
    limiter.count_response(UNCOUNTED)
    exceeded = limiter.exceeded_limit()
    assert exceeded is not None
    assert exceeded[0] == reason
    assert "does not report token usage" in exceeded[1]
