"""Replays a task: the real agent works with recorded answers in place of a model's, so that only the harness is measured.

The answers are those of ``trace.json`` beside the task, or else made from its reference: a call of a tool for each of its steps.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from newel.context.compaction_summary import SYSTEM_PROMPT as SUMMARIZER
from newel.evals.task import Task, TaskError
from newel.evals.trial import AgentSetup
from newel.storage.files import read_regular

GOLDEN: Final = "trace.json"
"""The file with a task's golden trace, beside its ``task.toml``."""

EXCHANGES: Final = "exchanges.jsonl"
"""What the agent sent to the replayed model, and got, in a trial's folder: a JSON line for each request."""

MODEL: Final = "replay"
FROM_REFERENCE: Final = "the reference"

_TO_JUDGE: Final = "is the contract fulfilled?"
_VERDICT: Final = '{"satisfied": true, "why": "All that was asked for is done.", "missing": ""}'
"""What the judge of a contract is asked, and answers: its acceptance command decides."""

_TO_SUMMARIZE: Final = SUMMARIZER[:60]


class GoldenAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer of a model: text, and calls of tools, each with ``name`` and ``arguments``. ``cut``: the arguments end in the middle."""

    content: str = ""
    tool_calls: list[dict[str, Any]] = []
    cut: bool = False


class GoldenTrace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answers to each of a task's prompts, and to that of the re-run if files change meanwhile. ``made_by`` is the model, or ``hand``."""

    made_by: str
    answers: list[list[GoldenAnswer]]
    made_on: str = ""
    summary: str = ""
    """Of the conversation, where it has to be summarized."""


def load_trace(task: Task) -> GoldenTrace:
    """Raises ``TaskError`` for a file that cannot be used."""
    path = task.folder / GOLDEN
    try:
        trace = msgspec.json.decode(read_regular(path), type=GoldenTrace)
    except FileNotFoundError:
        return _from_reference(task)
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error.strerror}.") from error
    except msgspec.MsgspecError as error:
        raise TaskError(f"{path}: {error}.") from error
    is_rerun = task.review is not None and bool(task.review.meanwhile)
    if len(trace.answers) != 1 + len(task.then) + is_rerun:
        raise TaskError(
            f"{path} has answers to {len(trace.answers)} prompts; the task has {1 + len(task.then) + is_rerun}."
        )
    return trace


def _from_reference(task: Task) -> GoldenTrace:
    """All is done after the first prompt."""
    if task.review is not None:
        raise TaskError(
            f"{task.name} needs a {GOLDEN} for a replay: how to propose edits does not follow from its reference."
        )
    reference = task.reference
    steps: list[GoldenAnswer] = []
    for name, text in reference.files.items():
        # Newel wants a write that drops most of a file to be repeated.
        steps += [_call("write", path=name, content=text)] * (2 if name in task.files else 1)
    steps += [_call("bash", command=reference.run)] if reference.run else []
    said = GoldenAnswer(content=reference.answer or "Done.")
    return GoldenTrace(FROM_REFERENCE, [[*steps, said], *([said] for _ in task.then)])


def _call(name: str, **arguments: str) -> GoldenAnswer:
    return GoldenAnswer(tool_calls=[{"name": name, "arguments": arguments}])


@asynccontextmanager
async def replaying(task: Task, place: Path, *, flags: Sequence[str]) -> AsyncGenerator[AgentSetup]:
    """Newel with a server that gives the golden answers of the task, and writes what it is asked to ``place``. Raises ``TaskError``."""
    from mock_llm_server import serve

    async with serve(_scenarios(task), record=place / EXCHANGES, keep=0) as server:
        environ = {
            "LLM_BASE_URL": f"{server.url}/v1",
            "LLM_AUTH_TOKEN": MODEL,
            "LLM_DEFAULT_MODEL": MODEL,
        }
        yield AgentSetup(flags=flags, environ=environ, model=MODEL)


def _scenarios(task: Task) -> dict[str, Any]:
    trace = load_trace(task)
    special = [
        {"name": "judge", "trigger": _TO_JUDGE, **_always(_VERDICT)},
        {
            "name": "summary",
            "trigger": "",
            "match": {"system": _TO_SUMMARIZE},
            **_always(trace.summary or "Nothing yet."),
        },
    ]
    by_turn = [
        {
            "name": f"prompt {number}",
            "trigger": "",
            "match": {"turn": number},
            "steps": list(map(_step, answers)),
        }
        for number, answers in enumerate(trace.answers, 1)
    ]
    if not task.then:
        return {"scenarios": [*special, *by_turn]}
    # Once a conversation is summarized, its turns no longer count.
    prompts = zip([task.prompt, *task.then], by_turn, strict=True)
    return {"scenarios": [*special, *({**each, "trigger": prompt, "match": {}} for prompt, each in prompts)]}


def _always(content: str) -> dict[str, Any]:
    return {"loop": True, "steps": [{"response": {"content": content}, "literal": True}]}


def _step(answer: GoldenAnswer) -> dict[str, Any]:
    calls = [
        {"function": {"name": call["name"], "arguments": call["arguments"]}} for call in answer.tool_calls
    ]
    response = {"content": answer.content or None} | ({"tool_calls": calls} if calls else {})
    fault = {"fault": {"kind": "malformed_arguments"}} if answer.cut else {}
    return {"response": response, "literal": True, **fault}
