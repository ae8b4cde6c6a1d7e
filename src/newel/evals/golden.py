"""Golden traces: the answers with which a task is replayed, in ``trace.json`` beside its ``task.toml``, or else made from its reference."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, cast

import msgspec

from newel.agent.formatting import pluralize
from newel.evals.review_driver import MOST_RERUNS
from newel.evals.task import FILE, GOLDEN, Task, TaskError
from newel.storage.files import read_regular, replace_file
from newel.text.json import decode_json, to_json

BY_HAND: Final = "hand"
FROM_REFERENCE: Final = "reference"

PLACE: Final = "/newel-trial"
"""Stands for the folder of a trial in a trace: each replay has another one."""


class GoldenCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A call of a tool, by the name that the model gave it. ``arguments`` that are no JSON object are the text that the model sent."""

    name: str
    arguments: dict[str, Any] | str = {}


class GoldenVerdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the judge of a contract said after an answer. Without a verdict, ``why`` is its text."""

    satisfied: bool
    why: str = ""
    missing: str = ""


class GoldenAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One answer of a model: reasoning, text, and calls of tools. ``cut``: the arguments end in the middle. ``stop_reason`` is that of the
    answer if it ended at the output limit.
    """

    thinking: str = ""
    content: str = ""
    tool_calls: list[GoldenCall] = []
    cut: bool = False
    stop_reason: Literal["", "length"] = ""
    verdict: GoldenVerdict | None = None


class GoldenTrace(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The answers to each of a task's prompts, and to each re-run if files change meanwhile. ``made_by`` is the model, or ``BY_HAND``, or
    ``FROM_REFERENCE``.
    """

    made_by: str
    made_on: str = ""
    answers: list[list[GoldenAnswer]]
    summaries: list[str] = []
    """Of the conversation, each time that it has to be summarized."""

    def map_texts(self, change: Callable[[str], str]) -> GoldenTrace:
        """The trace with all that the model wrote changed."""
        changed = msgspec.convert(_map(msgspec.to_builtins(self), change), GoldenTrace)
        return msgspec.structs.replace(changed, made_by=self.made_by, made_on=self.made_on)


def _map(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case str():
            return change(value)
        case list():
            return [_map(item, change) for item in cast("list[Any]", value)]
        case dict():
            return {change(key): _map(item, change) for key, item in cast("dict[str, Any]", value).items()}
        case _:
            return value


def load_trace(task: Task) -> GoldenTrace:
    """Raises ``TaskError`` for a file that cannot be used."""
    path = task.folder / GOLDEN
    try:
        trace = decode_json(read_regular(path), GoldenTrace)
    except FileNotFoundError:
        return _from_reference(task)
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error.strerror}.") from error
    except msgspec.MsgspecError as error:
        raise TaskError(f"{path}: {error}.") from error
    prompts = 1 + len(task.then)
    most = prompts + (MOST_RERUNS if task.review is not None and task.review.meanwhile else 0)
    if not prompts <= len(trace.answers) <= most:
        raise TaskError(
            f"{path} has answers to {pluralize(len(trace.answers), 'prompt')}; the task has {prompts}."
        )
    return trace


def save_trace(task: Task, trace: GoldenTrace) -> bool:
    """Write the trace beside its task; False if it is there already, but for its day. Raises ``OSError``."""
    path = task.folder / GOLDEN
    try:
        former = decode_json(read_regular(path), GoldenTrace)
    except (OSError, msgspec.MsgspecError):
        former = None
    if former is not None and msgspec.structs.replace(former, made_on=trace.made_on) == trace:
        return False
    replace_file(path, msgspec.json.format(to_json(trace), indent=2) + b"\n")
    path.chmod((task.folder / FILE).stat().st_mode & 0o777)  # a file of a repository, not a private one
    return True


def source_of(task: Task) -> str:
    """What a replay of the task takes its answers from; empty if it cannot be replayed."""
    try:
        return load_trace(task).made_by
    except TaskError:
        return ""


def describe_sources(traces: Mapping[str, str]) -> str:
    """What the replays of tasks, by their names, took their answers from."""
    counts = Counter(traces.values())
    hand, reference, none = (counts.pop(source, 0) for source in (BY_HAND, FROM_REFERENCE, ""))
    parts = [f"{pluralize(count, 'task')} of {model}" for model, count in sorted(counts.items())]
    for count, source in ((hand, "by hand"), (reference, "from references"), (none, "none")):
        if count:
            parts.append(f"{count if parts else pluralize(count, 'task')} {source}")
    return f"Answers: {', '.join(parts)}."


def replay_digest(task: Task) -> str:
    """Of all that decides about a replay of a task."""
    try:
        trace = read_regular(task.folder / GOLDEN)
    except OSError:
        return task.digest
    return hashlib.sha256(task.digest.encode() + trace).hexdigest()


def expand(trace: GoldenTrace, place: Path) -> GoldenTrace:
    """The trace for a trial in the folder ``place``."""
    return trace.map_texts(lambda text: text.replace(PLACE, str(place)))


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
    return GoldenTrace(made_by=FROM_REFERENCE, answers=[[*steps, said], *([said] for _ in task.then)])


def _call(name: str, **arguments: str) -> GoldenAnswer:
    return GoldenAnswer(tool_calls=[GoldenCall(name, arguments)])
