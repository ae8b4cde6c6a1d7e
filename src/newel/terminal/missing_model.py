"""Why a run that came to its end has not done what it was asked for; a script must not take it for done."""

from __future__ import annotations

from collections.abc import Sequence

from newel.agent.messages import AppMessage, AssistantMessage, ToolResultMessage
from newel.permissions.approval import NOBODY_TO_ASK
from newel.text.format import pluralize

CUT_OFF = (
    "The answer was cut off at the longest output that the model may write. "
    'Ask for less, or set [models."{model}"] max_output in config.toml.'
)
WITHHELD = "The answer was withheld: {why}"
NOTHING = "The model returned an empty answer. Try again, or choose another with --model."
UNASKED = (
    "{calls} did not run, because nobody could be asked for approval. --approve auto runs such calls unasked."
)


def shortfall(messages: Sequence[AppMessage]) -> str:
    """What is missing, for a person; empty if nothing is. ``messages`` are those of the run."""
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    if not answers:
        return ""
    last = answers[-1]
    if last.stop_reason == "length":
        return CUT_OFF.format(model=last.model)
    if last.stop_reason == "error":
        return WITHHELD.format(why=last.error_message or "the server gave no reason.")
    results = [message for message in messages if isinstance(message, ToolResultMessage)]
    if not results and not last.text.strip():
        return NOTHING
    unasked = sum(result.is_error and result.output == NOBODY_TO_ASK for result in results)
    return UNASKED.format(calls=pluralize(unasked, "tool call")) if unasked else ""
