"""Contracts of a fleet whose commands leave a trace outside of their folders, to find what was lost and what ran twice.

Each call of the model does the next step: it writes the step's number into ``log``, in the job's folder. A call that is interrupted is
followed by another one that finds the step undone, or done. The judge counts calls; the acceptance command wants each step once.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.fleet import FleetOfProcesses
from tests.integration.agents.support import verdict
from tests.support import bash

STEPS = 5
MAX_CALLS = 40
"""Between two failures of the acceptance command."""
_NEXT = f"""
exec 9>>"$1.lock"
flock -n 9 || echo "two at once" >>"$1"
n=$(($(wc -l <log) + 1))
[ $n -le {STEPS} ] || exit 0
echo $n >>"$1"
sleep "$2"
echo $n >>log
echo "Step $n is done."
"""
_ACCEPT = f'test "$(echo $(cat log))" = "{" ".join(map(str, range(1, STEPS + 1)))}" || {{ echo "Done at $(date +%s):" $(cat log); exit 1; }}\n'


class CountedContract:
    """A job, and ``trace``, the steps that its commands have begun."""

    def __init__(self, fleet: FleetOfProcesses, job: str, trace: Path) -> None:
        self.job = job
        self._fleet = fleet
        self._trace = trace
        self._seen: list[str] = []

    def read_journal(self) -> list[dict[str, Any]]:
        """The events. What an earlier call has read was acknowledged, so it must be there."""
        lines = self._query(
            "convert_from(data, 'UTF8')", "newel.events e join newel.jobs on n = e.job", "seq"
        )
        assert lines[: len(self._seen)] == self._seen, "events are gone"
        self._seen = lines
        return [json.loads(line) for line in lines]

    def state(self) -> str:
        return self._query("state")[0]

    def attempt(self) -> tuple[int, int]:
        """The number of the last one, and the process of its worker."""
        number, _, worker = self._query("attempts, worker")[0].partition("|")
        return int(number), int(worker.split("-")[-2]) if worker else 0

    def done(self) -> list[int]:
        """The steps that have a result. One that was interrupted may be done all the same, where its machine goes on."""
        ends = [event for event in self.read_journal() if event["type"] == "tool_execution_end"]
        found = [re.search(r"Step (\d+) is done", json.dumps(event)) for event in ends]
        return [int(match[1]) for match in found if match]

    def begun(self) -> list[str]:
        """What its commands wrote outside: the number of each step that was begun, and whether two ran at once."""
        return self._trace.read_text().splitlines() if self._trace.exists() else []

    def _told(self) -> set[str]:
        """The calls whose results the model was told."""
        bodies = [each["body"] for each in self._fleet.model.requests if "scenario" in each]
        own = [body["messages"] for body in bodies if f"{self._trace} " in str(body["messages"])]
        return {each["tool_call_id"] for messages in own for each in messages if each["role"] == "tool"}

    def _query(self, columns: str, tables: str = "newel.jobs", order: str = "n") -> list[str]:
        sql = f"select {columns} from {tables} where id = '{self.job}' order by {order}"  # noqa: S608 — ids are hex
        return self._fleet.query(sql)

    def problems(self) -> list[tuple[str, str]]:
        """What was lost, and what ran twice, each with words. The job has ended."""
        (job,) = self._fleet.jobs(self.job)
        found: list[tuple[str, str]] = []
        if job["state"] != "completed":
            found.append(("lost", f"the contract is {job['state']}: {job['reason']}"))
        if self.done() != sorted({*self.done()}):
            found.append(("twice", f"the results are those of the steps {self.done()}"))
        calls = Counter(
            event["toolCallId"] for event in self.read_journal() if event["type"] == "tool_execution_start"
        )
        results = {
            event["message"]["toolCallId"]
            for event in self.read_journal()
            if event["type"] == "message_end" and event["message"]["role"] == "toolResult"
        }
        if forgotten := self._told() - results:
            found.append(
                ("lost", f"the model was told the results of {forgotten}, and the journal lacks them")
            )
        begun = self.begun()
        if len(begun) > len(calls) or max(calls.values(), default=0) > 1 or "two at once" in begun:
            found.append(("twice", f"{len(calls)} calls began the steps {begun}"))
        return found


def counting_model() -> dict[str, Any]:
    """The scenarios of the model."""
    judged = {"After [1-3] tool calls?: is": verdict(False), r"After \d+ tool calls: is": verdict(True)}
    calls = [
        {"response": bash(f"sh next.sh {{{{ trace }}}} {{{{ seconds }}}} # {n}")} for n in range(MAX_CALLS)
    ]
    work = {r"(?P<trace>/\S+/trace-\S+) (?P<seconds>[\d.]+)": calls}
    rules = {words: [step] for words, step in judged.items()} | work
    return {
        "scenarios": [{"name": words, "trigger_regex": words, "steps": each} for words, each in rules.items()]
    }


def submit_counted(fleet: FleetOfProcesses, name: str, seconds: Sequence[float]) -> list[CountedContract]:
    """Submit contracts, whose steps take so many ``seconds``. ``name`` is not that of earlier ones."""
    (fleet.project / "next.sh").write_text(_NEXT)
    (fleet.project / "accept.sh").write_text(_ACCEPT)
    (fleet.project / "log").touch()
    traces = [fleet.folder / f"trace-{name}-{number}" for number, _ in enumerate(seconds)]
    rows = [
        {"trace": str(trace), "seconds": f"{each:g}"} for trace, each in zip(traces, seconds, strict=True)
    ]
    matrix = fleet.folder / "matrix.json"
    matrix.write_text(json.dumps(rows))
    words = "{{trace}} {{seconds}}"
    done = fleet(
        "fleet", "run", f"Count: {words}", "--accept", f"sh accept.sh {words}", "--matrix", str(matrix)
    )
    fleet_id = done.stdout.split()[1].rstrip(":")
    jobs = fleet.query(f"select id from newel.jobs where starts_with(key, '{fleet_id}') order by n")  # noqa: S608
    return [CountedContract(fleet, job, trace) for job, trace in zip(jobs, traces, strict=True)]
