"""If these fail, a hook that broke off allows what it would not have allowed, or the user does not learn what a hook did wrong."""

from __future__ import annotations

import json

import pytest

from newel.hooks.hook_output import HookReply, read_reply


def reply(decision: str, exit_code: int, **more: object) -> HookReply:
    """What a ``PreToolUse`` hook says that prints a decision."""
    output = {"hookSpecificOutput": {"permissionDecision": decision, **more}}
    return read_reply("PreToolUse", exit_code=exit_code, stdout=json.dumps(output), stderr="boom\n")


def test_a_hook_that_fails_allows_and_changes_nothing_and_is_reported() -> None:
    """Whatever it printed before: nobody knows what it was about to do."""
    assert reply("allow", 0, updatedInput={"x": 1}) == HookReply(decision="allow", arguments={"x": 1})
    failed = reply("allow", 1, updatedInput={"x": 1})
    assert failed == HookReply(problem="exit code 1: boom")


@pytest.mark.parametrize("decision", ["deny", "ask"])
def test_what_a_hook_forbids_counts_although_it_fails(decision: str) -> None:
    failed = reply(decision, 1, permissionDecisionReason="it is late")
    assert (failed.decision, failed.reason, failed.problem) == (decision, "it is late", "exit code 1: boom")


def test_a_decision_that_newel_does_not_know_is_reported() -> None:
    deferred = reply("defer", 0)
    assert (deferred.decision, "not supported" in deferred.problem) == ("", True)
