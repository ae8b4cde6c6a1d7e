"""The verdict on a contract: a model reads the conversation and says whether the work is done.

It is one request with the system prompt, the tools and the messages of the work itself, so that a server finds all of it
in its cache, and one question behind them. The question and its answer are no part of the conversation: the work goes on as if
nobody had asked, and a session can be taken up anywhere without knowing of contracts. The verdict stands in the journal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from newel.agent.errors import ContextOverflow
from newel.agent.events import Delta, Retry
from newel.agent.messages import AppMessage, AssistantMessage, UserMessage
from newel.agent.ports import Model, ModelRequest, Provider, RunConfig, ToolSpec
from newel.runs.run_events import Evaluation
from newel.text.json import as_dict, as_str, find_object

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
    "promised. Do no work now: {how}. `satisfied` is true only if everything that the contract asks for is done, `why` "
    "says what shows it, `missing` what is left to do."
)
BY_CALL = "answer with one call of `verdict` and nothing else"
AS_TEXT = 'call no tool, and answer with nothing but this JSON object: {"satisfied": true or false, "why": "…", "missing": "…"}'
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

    The model that does the work is shown its own tools and answers in words: other tools would cost it all that its server
    has cached. If that is no verdict, it is given a tool to answer with. Another model as ``judge`` is given that tool at
    once; where the conversation is too long for it, or it gives no verdict, the model that does the work is asked. No
    verdict counts as not satisfied. Raises ``ProviderError``.
    """

    async def on_delta(delta: Delta | Retry) -> None:
        if isinstance(delta, Retry):
            await on_retry(delta)

    messages = config.transform(history)
    calls = "1 tool call" if tool_calls == 1 else f"{tool_calls} tool calls"
    # Where it lies behind a summary, the contract must be said again.
    known = any(isinstance(message, UserMessage) and text in message.text for message in messages)
    reminder = "" if known else REMINDER.format(text=text)
    own = [tool.spec for tool in config.tools]
    ways = [(config.model, own, AS_TEXT), (config.model, [VERDICT], BY_CALL)]
    if judge != config.model:
        ways.insert(0, (judge, [VERDICT], BY_CALL))
    verdict = Evaluation(satisfied=False, why=f"{NO_VERDICT}: the conversation is too long to be judged")
    for model, tools, how in ways:
        request = ModelRequest(
            model=model,
            system_prompt=config.system_prompt,
            messages=[*messages, UserMessage(QUESTION.format(calls=calls, how=how) + reminder)],
            tools=tools,
            thinking=config.thinking,
        )
        try:
            answer = await provider.complete(request, on_delta)
        except ContextOverflow:
            continue
        verdict = _after(verdict, read_verdict(answer))
        if not verdict.why.startswith(NO_VERDICT):
            break
    return verdict


def _after(before: Evaluation, verdict: Evaluation) -> Evaluation:
    """The later of two, with what both have cost."""
    costs = [each.cost for each in (before, verdict) if each.cost is not None]
    return msgspec.structs.replace(
        verdict, usage=before.usage + verdict.usage, cost=sum(costs) if costs else None
    )


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
    fields = find_object(text)
    return as_dict(fields.get("arguments")) or fields


def _as_bool(value: object) -> bool | None:
    """Yes or no, as models write it; None for what is neither."""
    if isinstance(value, bool):
        return value
    return {"true": True, "yes": True, "false": False, "no": False}.get(as_str(value).strip().lower())
