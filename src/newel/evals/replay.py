"""Replays a task: the real agent works with the answers of its golden trace in place of a model's, so that only the harness is measured."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from newel.agent.formatting import pluralize
from newel.context.compaction_summary import SYSTEM_PROMPT as SUMMARIZER
from newel.evals.golden import (
    BY_HAND,
    FROM_REFERENCE,
    GoldenAnswer,
    GoldenTrace,
    GoldenVerdict,
    expand,
)
from newel.evals.task import Task
from newel.evals.trial import AgentReport, AgentSetup, read_events

if TYPE_CHECKING:
    from mock_llm_server import Conversation, StepMatch

EXCHANGES: Final = "exchanges.jsonl"
"""What the agent sent to the replayed model, and got, in a trial's folder: a JSON line for each request."""

MODEL: Final = "replay"

_TO_JUDGE: Final = "is the contract fulfilled?"
_SATISFIED: Final = GoldenVerdict(satisfied=True, why="All that was asked for is done.")
_NOT_YET: Final = GoldenVerdict(satisfied=False, why="There is more to do.")
"""What the judge of a contract is asked, and answers if the trace has no verdict: its acceptance command decides."""

_NO_VERDICT: Final = "no verdict"
"""How the reason of a verdict begins if the judge gave none."""

_TO_SUMMARIZE: Final = SUMMARIZER[:60]
_NO_SUMMARY: Final = "Nothing yet."


@asynccontextmanager
async def replaying(
    task: Task, place: Path, *, flags: Sequence[str], load: Callable[[Task], GoldenTrace]
) -> AsyncGenerator[AgentSetup]:
    """Newel with a server that gives the golden answers of the task, and writes what it is asked to ``place``. Raises ``TaskError``."""
    from mock_llm_server import serve

    model = ReplayedModel(task, expand(load(task), place))
    async with serve(model.script, choose=model.choose, record=place / EXCHANGES, keep=0) as server:
        environ = {
            "LLM_BASE_URL": f"{server.url}/v1",
            "LLM_AUTH_TOKEN": MODEL,
            "LLM_DEFAULT_MODEL": MODEL,
        }

        def read(text: str) -> AgentReport:
            report = read_events(text)
            return msgspec.structs.replace(report, problem=model.drift() or report.problem)

        yield AgentSetup(flags=flags, environ=environ, model=MODEL, read=read)


class ReplayedModel:
    """Gives the answers of a trace one after another: to each prompt its own, whatever the conversation looks like meanwhile.

    What the agent asks beside its work, the judge of a contract and the summary of a conversation, takes none of them.
    """

    def __init__(self, task: Task, trace: GoldenTrace) -> None:
        from mock_llm_server import parse

        self._task = task
        self._trace = trace
        self._asked = [0] * len(trace.answers)
        self._prompt = -1
        self._summaries = 0
        self.script = parse(msgspec.json.encode({"scenarios": list(self._scenarios())}).decode())
        self._by_name = {scenario.name: scenario for scenario in self.script.scenarios}

    def choose(self, conversation: Conversation) -> StepMatch:
        """The step that answers a request."""
        if _TO_SUMMARIZE in conversation.system:
            self._summaries += 1
            return self._step("summaries", self._summaries - 1)
        if _TO_JUDGE in conversation.user:
            prompt = max(self._prompt, 0)
            return self._step(f"verdicts {prompt + 1}", self._asked[prompt] - 1)
        if self._begins_prompt(conversation):
            self._prompt += 1
        self._asked[self._prompt] += 1
        return self._step(f"prompt {self._prompt + 1}", self._asked[self._prompt] - 1)

    def drift(self) -> str:
        """How the agent left the path of the trace; empty if it did not."""
        for number, (answers, asked) in enumerate(zip(self._trace.answers, self._asked, strict=True), 1):
            if asked != len(answers):
                return f"{self._too_many(number) if asked > len(answers) else self._too_few(number)} {self._advice()}"
        return ""

    def _begins_prompt(self, conversation: Conversation) -> bool:
        """Whether the agent was given the next prompt: the user has the last word, which is not one of the harness."""
        following = self._prompt + 1
        if following == len(self._asked) or conversation.tool_results:
            return False
        # each job of a review begins with its instruction
        if following == 0 or self._task.review is not None:
            return True
        return [self._task.prompt, *self._task.then][following].strip() in conversation.user

    def _step(self, name: str, index: int) -> StepMatch:
        from mock_llm_server import StepMatch

        scenario = self._by_name[name]
        index = max(0, min(index, len(scenario.steps) - 1))
        return StepMatch(scenario, scenario.steps[index], index)

    def _scenarios(self) -> list[dict[str, Any]]:
        summaries = [_said(summary) for summary in self._trace.summaries or [_NO_SUMMARY]]
        scenarios = [_scenario("summaries", summaries)]
        for number, answers in enumerate(self._trace.answers, 1):
            refusal = {"kind": "status", "status": 400, "message": self._too_many(number)}
            scenarios.append(_scenario(f"prompt {number}", [*map(_step, answers), {"fault": refusal}]))
            verdicts = [answer.verdict or _NOT_YET for answer in answers[:-1]]
            verdicts += [answer.verdict or _SATISFIED for answer in answers[-1:]]
            scenarios.append(_scenario(f"verdicts {number}", list(map(_verdict, verdicts or [_SATISFIED]))))
        return scenarios

    def _too_many(self, number: int) -> str:
        count = pluralize(len(self._trace.answers[number - 1]), "answer")
        return (
            f"{self._source.capitalize()} has {count} to prompt {number}, and the agent asked for one more."
        )

    def _too_few(self, number: int) -> str:
        count, asked = len(self._trace.answers[number - 1]), self._asked[number - 1]
        return f"The agent asked for {asked} of the {count} answers to prompt {number} in {self._source}."

    @property
    def _source(self) -> str:
        kind = "reference" if self._trace.made_by == FROM_REFERENCE else "trace"
        return f"the {kind} of {self._task.name}"

    def _advice(self) -> str:
        again = f"`newel eval run {self._task.name}`, then `newel eval record"
        if self._trace.made_by == BY_HAND:
            return f"Change its trace.json, or record one: {again} --force`."
        return f"Record {'one' if self._trace.made_by == FROM_REFERENCE else 'it again'}: {again}`."


def _scenario(name: str, steps: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "trigger": "", "steps": steps}


def _said(content: str) -> dict[str, Any]:
    return {"response": {"content": content}, "literal": True}


def _verdict(verdict: GoldenVerdict) -> dict[str, Any]:
    is_none = verdict.why.startswith(_NO_VERDICT)
    return _said(verdict.why if is_none else msgspec.json.encode(msgspec.structs.asdict(verdict)).decode())


def _step(answer: GoldenAnswer) -> dict[str, Any]:
    response: dict[str, Any] = {"content": answer.content or None}
    if answer.thinking:
        response["reasoning_content"] = answer.thinking
    if answer.tool_calls:
        response["tool_calls"] = [
            {"function": {"name": call.name, "arguments": call.arguments}} for call in answer.tool_calls
        ]
    if answer.stop_reason:
        response["finish_reason"] = answer.stop_reason
    fault = {"fault": {"kind": "malformed_arguments"}} if answer.cut else {}
    return {"response": response, "literal": True, **fault}
