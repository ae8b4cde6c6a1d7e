"""What two runs sent to the model, compared: the system prompt, the tools, and the results of tools.

Only replays make the same calls in both runs, so that every difference is one of the harness.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from newel.evals.replay import EXCHANGES
from newel.evals.run import trial_folder
from newel.evals.trial import TrialResult
from newel.storage.files import read_regular
from newel.text.json import as_dict, as_list, as_str, to_json

_VOLATILE: Final = re.compile(
    r"""\b\d{4}-\d\d-\d\d(T[\d:.]+Z?)?\b
    |\b\d\d:\d\d:\d\d(\.\d+)?(\ [+-]\d{4})?\b
    |\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\ [ 123]\d\ (\d\d:\d\d|\ \d{4})\b
    |\b0x[0-9a-f]+\b
    |\b(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{7,40}\b
    |\b(\d+m)?\d+(\.\d+)?\ ?m?s\b""",
    re.VERBOSE,
)
"""Dates, times, addresses, ids of commits and durations differ from run to run."""


class SentParts(msgspec.Struct, frozen=True):
    """What the model of a trial was sent: the last request has all that came before. ``results`` are those of tools, in order."""

    system: str
    tools: dict[str, str]
    results: list[str]


class RequestChange(msgspec.Struct, frozen=True):
    """What is different for ``tasks``, as a unified diff of the first of them."""

    what: str
    tasks: list[str]
    diff: list[str]


def compare_requests(tasks: Sequence[str], before: Path, after: Path) -> list[RequestChange]:
    """The differences between the first trials of tasks in two runs, the same differences as one."""
    found: dict[tuple[str, str], RequestChange] = {}
    for task in tasks:
        first, second = read_sent(trial_folder(before, task, 1)), read_sent(trial_folder(after, task, 1))
        if first is None or second is None:
            continue
        for what, diff in _differences(first, second):
            change = found.setdefault((what, "\n".join(diff)), RequestChange(what, [], diff))
            change.tasks.append(task)
    return list(found.values())


def same_tasks(before: Sequence[TrialResult], after: Sequence[TrialResult]) -> list[str]:
    return sorted({result.task for result in before} & {result.task for result in after})


def read_sent(place: Path) -> SentParts | None:
    """From the folder of a replayed trial; None for others."""
    try:
        lines = read_regular(place / EXCHANGES, None).splitlines()
    except OSError:
        return None
    body: dict[str, Any] = {}
    for line in lines:
        sent = as_dict(as_dict(as_dict(msgspec.json.decode(line)).get("request")).get("body"))
        body = sent if "messages" in sent else body
    messages = [as_dict(message) for message in as_list(body.get("messages"))]
    tools = [as_dict(as_dict(tool).get("function")) for tool in as_list(body.get("tools"))]

    def stable(text: str) -> str:
        return _VOLATILE.sub("…", text.replace(str(place), "TRIAL"))

    return SentParts(
        system="\n".join(
            stable(as_str(each.get("content"))) for each in messages if each.get("role") == "system"
        ),
        tools={as_str(tool.get("name")): _indented(tool) for tool in tools},
        results=[stable(as_str(each.get("content"))) for each in messages if each.get("role") == "tool"],
    )


def _indented(value: dict[str, Any]) -> str:
    return msgspec.json.format(to_json(value), indent=2).decode()


def _differences(before: SentParts, after: SentParts) -> Iterator[tuple[str, list[str]]]:
    if before.system != after.system:
        yield "system prompt", _diff(before.system, after.system)
    for name in sorted({*before.tools, *after.tools}):
        first, second = before.tools.get(name, ""), after.tools.get(name, "")
        if first != second:
            yield f"tool {name}", _diff(first, second)
    for number in range(max(len(before.results), len(after.results))):
        first = before.results[number] if number < len(before.results) else ""
        second = after.results[number] if number < len(after.results) else ""
        if first != second:
            yield f"result of call {number + 1}", _diff(first, second)


def _diff(before: str, after: str) -> list[str]:
    _, _, *lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
    return [line for line in lines if not line.startswith("@@")]
