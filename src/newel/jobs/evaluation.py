"""The verdict on a contract: a model reads the conversation and says whether the work is done.

It is one request with the system prompt and the messages of the work itself, so that a server finds most of it in its
cache, and one question behind them. The question and its answer are no part of the conversation: the work goes on as if
nobody had asked, and a session can be taken up anywhere without knowing of contracts. The verdict stands in the journal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from newel.agent.errors import ContextOverflow
from newel.agent.events import Delta, Retry
from newel.agent.messages import AppMessage, AssistantMessage, UserMessage
from newel.agent.ports import Model, ModelRequest, Provider, RunConfig, ToolSpec
from newel.jobs.events import Evaluation
from newel.providers.loose import as_dict, as_str, parse
from newel.providers.repair import guess_json

NO_VERDICT = "no verdict"
"""The ``why`` of an answer that is none begins so."""

MAX_WORDS = 2_000
"""Characters of ``why`` and of ``missing`` that are kept."""

VERDICT = ToolSpec(
    name="verdict",
    description="Say whether the contract is fulfilled.",
    parameters={
        "type": "object",
        "properties": {
            "satisfied": {"type": "boolean", "description": "true only if nothing is left to do"},
            "why": {"type": "string", "description": "what shows it, in one or two sentences"},
            "missing": {"type": "string", "description": "what is left to do; empty if nothing is"},
        },
        "required": ["satisfied", "why", "missing"],
    },
)

QUESTION = (
    "After {calls}: is the contract fulfilled? Judge by what the results above show, not by what was planned or "
    "promised. Do no work now. Answer with one call of `verdict` and nothing else: `satisfied` (true only if everything "
    "that the contract asks for is done), `why` (what shows it) and `missing` (what is left to do)."
)
REMINDER = "\n\nThe contract:\n{text}"


async def evaluate(
    text: str,
    history: Sequence[AppMessage],
    config: RunConfig,
    *,
    provider: Provider,
    judge: Model,
    tool_calls: int,
    on_retry: Callable[[Retry], Awaitable[None]],
) -> Evaluation:
    """Ask whether the contract ``text`` is fulfilled, ``tool_calls`` being the number that have run.

    Where the conversation is too long for ``judge``, the model that does the work is asked. An answer without a verdict
    counts as not satisfied. Raises ``ProviderError``.
    """

    async def on_delta(delta: Delta | Retry) -> None:
        if isinstance(delta, Retry):
            await on_retry(delta)

    messages = config.transform(history)
    question = QUESTION.format(calls="1 tool call" if tool_calls == 1 else f"{tool_calls} tool calls")
    if not any(isinstance(message, UserMessage) and text in message.text for message in messages):
        question += REMINDER.format(text=text)  # it lies behind a summary
    for model in dict.fromkeys((judge, config.model)):
        request = ModelRequest(
            model=model,
            system_prompt=config.system_prompt,
            messages=[*messages, UserMessage(question)],
            tools=[VERDICT],
            thinking=config.thinking,
        )
        try:
            return read_verdict(await provider.complete(request, on_delta))
        except ContextOverflow:
            continue
    return Evaluation(satisfied=False, why=f"{NO_VERDICT}: the conversation is too long to be judged")


def read_verdict(answer: AssistantMessage) -> Evaluation:
    """The verdict that an answer holds: as the call that was asked for, or as JSON in its text."""
    calls = [call.arguments for call in answer.tool_calls if not call.problem]
    for fields in (*calls, _in_text(answer.text)):
        satisfied = _as_bool(fields.get("satisfied"))
        if satisfied is not None:
            return Evaluation(
                satisfied=satisfied,
                why=as_str(fields.get("why"))[:MAX_WORDS],
                missing=as_str(fields.get("missing"))[:MAX_WORDS],
                usage=answer.usage,
                cost=answer.cost,
            )
    return Evaluation(satisfied=False, why=NO_VERDICT, usage=answer.usage, cost=answer.cost)


def _in_text(text: str) -> dict[str, Any]:
    """The JSON object in a text, whatever stands around it; a call that was written out is its arguments."""
    start, end = text.find("{"), text.rfind("}")
    if not 0 <= start < end:
        return {}
    found = text[start : end + 1]
    try:
        fields = as_dict(parse(found, strict=False))
    except ValueError:
        fields = as_dict(guess_json(found))
    return as_dict(fields.get("arguments")) or fields


def _as_bool(value: object) -> bool | None:
    """Yes or no, as models write it; None for what is neither."""
    if isinstance(value, bool):
        return value
    return {"true": True, "yes": True, "false": False, "no": False}.get(as_str(value).strip().lower())
