"""Makes a golden trace of what a model answered in a trial.

The events of JSON mode have all of it: each answer at its ``message_end``, the arguments of its calls as the model wrote them in the
deltas before. Of reviews, the trial's home keeps a file for each job, with the answers alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from newel.agent.errors import NewelError
from newel.evals.checks import OpenFolder
from newel.evals.golden import PLACE, GoldenAnswer, GoldenCall, GoldenTrace, GoldenVerdict
from newel.evals.links import is_reached_without_links
from newel.evals.task import Task
from newel.evals.trial import TRACE, OpenAgent, run_trial
from newel.session.masking import Masker
from newel.storage.files import read_regular
from newel.text.json import as_dict, as_list, as_str, decode_json

OpenReplay = Callable[[Callable[[Task], GoldenTrace]], OpenAgent]
"""Opens the agent for replays, by what loads the trace of a task."""

_JOB_TRACES: Final = Path("home") / ".newel" / "traces"
"""Of review jobs, in a trial's folder."""


class RecordError(NewelError):
    """A trial that cannot be replayed as it was; the message names the answer, and why."""


class RecordedTrial(msgspec.Struct, frozen=True):
    """``results`` names the tool of each call, and whether it failed."""

    trace: GoldenTrace
    results: list[tuple[str, bool]]


class TraceRecorder:
    """Makes traces. ``secrets`` and what looks like one are masked; ``private`` are folders that must not be named."""

    def __init__(self, secrets: Sequence[str], private: Sequence[Path]) -> None:
        self._secrets = secrets
        self._private = [str(folder) for folder in private if folder != Path(folder.anchor)]

    def read(self, task: Task, place: Path) -> tuple[RecordedTrial, int]:
        """What was answered in the trial in ``place``, and the number of values that were masked. Raises ``RecordError``."""
        masker = Masker(self._secrets)
        reader = _AnswerReader()
        for event in _review_events(place) if task.review is not None else _events(place / TRACE, place):
            reader.add(event)
        trial = reader.finish()
        if PLACE in msgspec.json.encode(trial.trace).decode():
            raise RecordError(
                f"An answer contains {PLACE}, the name that traces give to the folder of a trial."
            )
        places = {str(place), str(place.resolve())}
        here = re.compile("|".join(f"{re.escape(each)}(?![\\w.-])" for each in places))
        trace = trial.trace.map_texts(lambda text: masker.text(here.sub(PLACE, text)))
        text = msgspec.json.encode(trace).decode()
        for folder in self._private:
            if re.search(re.escape(folder) + r"(?![\w.-])", text):
                raise RecordError(f"An answer names {folder}, which is on this machine alone.")
        return RecordedTrial(trace, trial.results), len(masker.found)

    async def prove(
        self,
        task: Task,
        trial: RecordedTrial,
        place: Path,
        *,
        open_replay: OpenReplay,
        open_folder: OpenFolder,
    ) -> None:
        """Replay the trace in the folder ``place``. Raises ``RecordError`` if its checks fail, or anything else comes out than in the
        run.
        """
        open_agent = open_replay(lambda _: trial.trace)
        result = await run_trial(task, 1, place, open_agent=open_agent, open_folder=open_folder)
        failed = [f"{check.what}: {check.problem}" for check in result.checks if check.problem]
        if failed or result.problem:
            raise RecordError(f"its replay fails: {(failed or [result.problem])[0]}")
        again, _ = self.read(task, place)
        if again.trace.answers != trial.trace.answers:
            raise RecordError(f"its replay differs in {_first_difference(trial.trace, again.trace)}.")
        for number, (then, now) in enumerate(zip(trial.results, again.results, strict=False), 1):
            if then != now:
                raise RecordError(
                    f"call {number}, of {then[0]}, {'failed' if then[1] else 'succeeded'} in the run, and not in its replay."
                )


class _AnswerReader:
    """Collects the answers of a trial from its events."""

    def __init__(self) -> None:
        self._prompts: list[list[GoldenAnswer]] = [[]]
        self._summaries: list[str] = []
        self._results: list[tuple[str, bool]] = []
        self._models: dict[str, None] = {}
        self._day = ""
        self._pieces: dict[int, tuple[str, str]] = {}
        """The name and the text of each call of the answer that is being given."""

    def add(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "message_update":
                self._add_piece(as_dict(event.get("assistantMessageEvent")))
            case "message_start" | "retry":  # what came before is void
                self._pieces = {}
            case "message_end" | "message":
                self._add_message(as_dict(event.get("message")))
            case "evaluation" if self._prompts[-1]:
                self._add_verdict(event)
            case "result":
                self._prompts.append([])
            case _:
                pass

    def finish(self) -> RecordedTrial:
        prompts = self._prompts if self._prompts[-1] else self._prompts[:-1]
        if not all(prompts) or not prompts:
            raise RecordError("There is a prompt without an answer.")
        models = ", ".join(filter(None, self._models)) or "unknown"
        trace = GoldenTrace(made_by=models, made_on=self._day, answers=prompts, summaries=self._summaries)
        return RecordedTrial(trace, self._results)

    def _add_piece(self, delta: dict[str, Any]) -> None:
        if delta.get("type") == "toolcall_delta":
            index = int(delta.get("index") or 0)
            name, text = self._pieces.get(index, ("", ""))
            self._pieces[index] = as_str(delta.get("name")) or name, text + as_str(delta.get("delta"))

    def _add_message(self, message: dict[str, Any]) -> None:
        match message.get("role"):
            case "assistant":
                self._add_answer(message)
            case "toolResult":
                self._results.append((as_str(message.get("toolName")), bool(message.get("isError"))))
            case "custom" if message.get("name") == "compaction":
                data = as_dict(message.get("data"))
                if problem := as_str(data.get("problem")):
                    raise RecordError(f"Summary {len(self._summaries) + 1} of the conversation: {problem}")
                self._summaries.append(as_str(data.get("account")))
            case _:
                pass

    def _add_answer(self, message: dict[str, Any]) -> None:
        where = f"answer {len(self._prompts[-1]) + 1} to prompt {len(self._prompts)}"
        if message.get("stopReason") in {"error", "aborted"}:
            raise RecordError(f"{where} broke off: {message.get('errorMessage') or message['stopReason']}.")
        blocks = [as_dict(block) for block in as_list(message.get("content"))]
        answer = GoldenAnswer(
            thinking="".join(as_str(block.get("thinking")) for block in blocks),
            content="".join(as_str(block.get("text")) for block in blocks if block.get("type") == "text"),
            tool_calls=self._calls([block for block in blocks if block.get("type") == "toolCall"], where),
            stop_reason="length" if message.get("stopReason") == "length" else "",
        )
        self._pieces = {}
        self._prompts[-1].append(answer)
        self._models[as_str(message.get("model"))] = None
        self._day = self._day or as_str(message.get("timestamp"))[:10]

    def _calls(self, blocks: list[dict[str, Any]], where: str) -> list[GoldenCall]:
        """As the model wrote them, where that is known: Newel may have understood a name or arguments that are wrong."""
        pieces: list[tuple[str, str] | None] = [self._pieces[index] for index in sorted(self._pieces)]
        if len(pieces) != len(blocks):
            pieces = [None] * len(blocks)
        return [_golden_call(block, piece, where) for block, piece in zip(blocks, pieces, strict=True)]

    def _add_verdict(self, event: dict[str, Any]) -> None:
        verdict = GoldenVerdict(
            satisfied=event.get("satisfied") is True,
            why=as_str(event.get("why")),
            missing=as_str(event.get("missing")),
        )
        self._prompts[-1][-1] = msgspec.structs.replace(self._prompts[-1][-1], verdict=verdict)


def _golden_call(block: dict[str, Any], piece: tuple[str, str] | None, where: str) -> GoldenCall:
    name, arguments = as_str(block.get("name")), as_dict(block.get("arguments"))
    if piece is None:
        if block.get("problem"):
            raise RecordError(
                f"{where}: the arguments of its call of {name} are not JSON, and the trial has kept nothing else of them."
            )
        return GoldenCall(name, arguments)
    written, text = piece
    try:
        return GoldenCall(written or name, decode_json(text or "{}", dict[str, Any]))
    except msgspec.MsgspecError:
        return GoldenCall(written or name, text)


def _review_events(place: Path) -> Iterator[dict[str, Any]]:
    """The messages of the review jobs of a trial, each job ended by a ``result`` as in JSON mode."""
    jobs = [list(_events(path, place)) for path in (place / _JOB_TRACES).glob("*.jsonl")]
    for job in sorted(jobs, key=lambda events: as_str(events[0].get("created_at"))):
        for event in job:
            yield {"type": event.get("type"), "message": as_dict(event.get("data")).get("message")}
        yield {"type": "result"}


def _events(path: Path, place: Path) -> Iterator[dict[str, Any]]:
    """Raises ``RecordError``, also for a file of another place than the trial's: an agent may have left a link."""
    if not is_reached_without_links(path, place):
        raise RecordError(
            f"{path} is not a file of the trial: there is a link on its way. Make the trial again."
        )
    try:
        lines = read_regular(path, None).splitlines()
        events = [as_dict(decode_json(line, object)) for line in lines]
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}.") from error
    except msgspec.MsgspecError as error:
        raise RecordError(f"{path} is damaged: {error}.") from error
    if not events:
        raise RecordError(f"{path} is empty.")
    yield from events


def _first_difference(before: GoldenTrace, after: GoldenTrace) -> str:
    for number, (first, second) in enumerate(zip(before.answers, after.answers, strict=False), 1):
        for place, (one, other) in enumerate(zip(first, second, strict=False), 1):
            for field in GoldenAnswer.__struct_fields__:
                if getattr(one, field) != getattr(other, field):
                    return f"the {field} of answer {place} to prompt {number}"
        if len(first) != len(second):
            return f"the number of answers to prompt {number}: {len(first)}, and {len(second)} in its replay"
    return f"the number of prompts: {len(before.answers)}, and {len(after.answers)} in its replay"
