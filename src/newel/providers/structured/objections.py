"""Steps of a small model that cannot be right, and the hints with which it is asked again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from newel.agent.messages import AssistantMessage, Message, ToolCall, ToolResultMessage, UserMessage
from newel.agent.ports import ModelRequest, ToolSpec
from newel.providers.routing import EDITS
from newel.providers.structured.step_schema import ANSWER_MEANS
from newel.text.json import as_count

REPEATED: Final = (
    "You have done exactly this already, and it succeeded. If all that was asked for is done, use the action `answer`. If "
    "something is left, do that now."
)
FINISH: Final = "Everything is done. Tell the user with the action `answer` what you did or found out."
FAILED_AGAIN: Final = (
    "This exact call has failed, as its result above says, and would fail again. Do it in another way. `{tool}` cannot be used in "
    "this step."
)
NOT_CHANGED: Final = (
    "Your last `{tool}` failed, so nothing was changed: the task is not done. Take the step that makes the change now. Only if it "
    "is impossible, say so with the action `answer`."
)
COMMAND_FAILED: Final = (
    "Your last command failed with exit code {code}. If the task needs it, correct the command and run it again. Otherwise say in "
    "the action `answer` that it failed."
)
COPIED: Final = (
    "You have only copied what the action `answer` means. If the task is not done, take the next step. If it is, use `answer` again, and "
    "say in your own words what you did or found out."
)
MAX_OBJECTIONS: Final = 2
"""Of one step. Then it counts, whatever it is."""


class Objection(msgspec.Struct, frozen=True):
    """``hint`` is for the model, ``reason`` for the user; ``tools`` are those that the model may use instead."""

    hint: str
    reason: str
    tools: Sequence[ToolSpec]


def find_objection(
    message: AssistantMessage, request: ModelRequest, earlier: Sequence[Objection]
) -> Objection | None:
    """Why a step cannot be right, given the ``earlier`` objections to the same step; None if it may be."""
    calls = message.tool_calls
    if not calls:
        return None if earlier else _objection_to_answer(message, request)
    latest = _latest_results(request.messages)
    if not all(
        (call.name, call.arguments) in [(done.name, done.arguments) for done, _ in latest] for call in calls
    ):
        return None
    results = [result for _, result in latest]
    if tool := next((result.tool_name for result in results if result.is_error), ""):
        others = [each for each in request.tools if each.name != tool]
        return Objection(FAILED_AGAIN.format(tool=tool), "the model repeated a call that has failed", others)
    if code := _exit_code(results):
        hint = COMMAND_FAILED.format(code=code)
        return (
            None
            if earlier
            else Objection(hint, "the model repeated a command that has failed", request.tools)
        )
    reason = "the model repeated a call that has succeeded"
    return Objection(FINISH, reason, []) if earlier else Objection(REPEATED, reason, request.tools)


def _objection_to_answer(message: AssistantMessage, request: ModelRequest) -> Objection | None:
    """Why this cannot be the answer; small models report success after a failure, or nothing at all."""
    if tool := _failed_change(request.messages):
        reason = f"the model stopped after a failed {tool}"
        return Objection(NOT_CHANGED.format(tool=tool), reason, request.tools)
    if code := _exit_code([result for _, result in _latest_results(request.messages)]):
        hint = COMMAND_FAILED.format(code=code)
        return Objection(hint, "the model stopped after a failed command", request.tools)
    if message.text.strip() == ANSWER_MEANS:
        return Objection(COPIED, "the model copied the prompt instead of an answer", request.tools)
    return None


def _exit_code(results: Sequence[ToolResultMessage]) -> int:
    """That of the first command that failed; 0 if none did."""
    return next((code for result in results if (code := as_count(result.details.get("exitCode")))), 0)


def _latest_results(history: Sequence[Message]) -> list[tuple[ToolCall, ToolResultMessage]]:
    """The calls of the last message, and their results; none if the user has written since, who may want them once more."""
    results: dict[str, ToolResultMessage] = {}
    for message in reversed(history):
        match message:
            case ToolResultMessage():
                results[message.tool_call_id] = message
            case AssistantMessage():
                return [(call, results[call.id]) for call in message.tool_calls if call.id in results]
            case UserMessage():
                break
    return []


def _failed_change(history: Sequence[Message]) -> str:
    """The tool of the run's last change, if it failed and no other call may have made the change since; else empty."""
    for message in reversed(history):
        match message:
            case ToolResultMessage(tool_name=name) if name in EDITS and message.is_error:
                return name
            case ToolResultMessage(tool_name=name) if name != "read":
                return ""
            case UserMessage():
                return ""
            case _:
                pass
    return ""
