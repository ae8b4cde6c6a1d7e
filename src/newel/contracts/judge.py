"""The judge of a contract: a model that reads the conversation and decides whether the work is done.

One request repeats the system prompt, the tools and the messages of the work, which the server has cached, and adds one
question. The question and its answer stay out of the conversation: the work continues without them, and a session can be
resumed anywhere without knowing of contracts. The journal has the verdict.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from newel.agent.errors import ContextOverflow
from newel.agent.events import Retry
from newel.agent.messages import AppMessage, AssistantMessage, UserMessage, add_costs
from newel.agent.ports import Model, ModelRequest, Provider, ProviderEvent, RunConfig, ToolSpec
from newel.runs.run_events import Evaluation
from newel.text.json import as_dict, as_str, find_object

NO_VERDICT = "no verdict"
"""How ``why`` begins if an answer contained no verdict."""

MAX_REASON = 2_000
"""Characters of ``why`` and of ``missing`` that are kept."""

VERDICT = ToolSpec(
    name="verdict",
    description="Say whether the contract is fulfilled.",
    parameters={
        "type": "object",
        "properties": {
            "satisfied": {"type": "boolean", "description": "true only if no work remains"},
            "why": {"type": "string", "description": "the evidence, in one or two sentences"},
            "missing": {"type": "string", "description": "the remaining work; empty if there is none"},
        },
        "required": ["satisfied", "why", "missing"],
    },
)

QUESTION = (
    "After {calls}: is the contract fulfilled? Judge by the results above, not by plans or promises. Do no work now: "
    "{how}. `satisfied` is true only if everything that the contract asks for is done, `why` gives the evidence, and "
    "`missing` lists the remaining work."
)
BY_CALL = "answer with a single call of `verdict` and nothing else"
AS_TEXT = 'call no tool, and answer only with this JSON object: {"satisfied": true or false, "why": "…", "missing": "…"}'
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
    """Ask whether the contract ``text`` is fulfilled; ``tool_calls`` have run.

    The model that does the work keeps its own tools and answers as text: other tools would invalidate its server's cache. If
    that is no verdict, it is given a tool to answer with. Another model as ``judge`` is given that tool at once; if the
    conversation is too long for it, or it gives no verdict, the working model is asked. No verdict counts as not
    satisfied. Raises ``ProviderError``.
    """

    async def on_delta(delta: ProviderEvent) -> None:
        if isinstance(delta, Retry):
            await on_retry(delta)

    messages = config.transform(history)
    calls = "1 tool call" if tool_calls == 1 else f"{tool_calls} tool calls"
    # Compaction may have replaced the message with the contract by a summary.
    has_contract = any(isinstance(message, UserMessage) and text in message.text for message in messages)
    reminder = "" if has_contract else REMINDER.format(text=text)
    own_tools = [tool.spec for tool in config.tools]
    attempts = [(config.model, own_tools, AS_TEXT), (config.model, [VERDICT], BY_CALL)]
    if judge != config.model:
        attempts.insert(0, (judge, [VERDICT], BY_CALL))
    verdict = Evaluation(satisfied=False, why=f"{NO_VERDICT}: the conversation is too long to be judged")
    for model, tools, how in attempts:
        request = ModelRequest(
            model=model,
            system_prompt=config.system_prompt,
            messages=[*messages, UserMessage(QUESTION.format(calls=calls, how=how) + reminder)],
            tools=tools,
            thinking=config.thinking,
            agent_mode=config.agent_mode,
        )
        try:
            answer = await provider.complete(request, on_delta)
        except ContextOverflow:
            continue
        verdict = _add_usage(verdict, read_verdict(answer))
        if not verdict.why.startswith(NO_VERDICT):
            break
    return verdict


def _add_usage(before: Evaluation, verdict: Evaluation) -> Evaluation:
    """A verdict with the usage of the one before it, too."""
    cost = add_costs(before.cost, verdict.cost)
    return msgspec.structs.replace(verdict, usage=before.usage + verdict.usage, cost=cost)


def read_verdict(answer: AssistantMessage) -> Evaluation:
    """The verdict in an answer: the requested call, or JSON in its text."""
    calls = [call.arguments for call in answer.tool_calls if not call.problem]
    for fields in (*calls, _json_object(answer.text)):
        satisfied = _as_bool(fields.get("satisfied"))
        if satisfied is not None:
            return Evaluation(
                satisfied=satisfied,
                why=as_str(fields.get("why"))[:MAX_REASON],
                missing=as_str(fields.get("missing"))[:MAX_REASON],
                model=answer.model,
                usage=answer.usage,
                cost=answer.cost,
            )
    return Evaluation(
        satisfied=False, why=NO_VERDICT, model=answer.model, usage=answer.usage, cost=answer.cost
    )


def _json_object(text: str) -> dict[str, Any]:
    """The JSON object in a text; of a tool call written as text its arguments."""
    fields = find_object(text)
    return as_dict(fields.get("arguments")) or fields


def _as_bool(value: object) -> bool | None:
    """A boolean, or a string that models write for one; None for anything else."""
    if isinstance(value, bool):
        return value
    return {"true": True, "yes": True, "false": False, "no": False}.get(as_str(value).strip().lower())
