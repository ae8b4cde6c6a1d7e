"""If these fail, a user cannot find out what happened in a job."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import anyio
import msgspec
import pytest

from newel.agent.messages import Usage
from newel.cli import trace as command
from newel.cli.trace import command_trace
from newel.review.model.file_review import Conflict
from newel.review_jobs.journal import HIDDEN, EventType
from newel.review_jobs.traces import GIVEN_UP, BadTrace
from newel.text.sanitize import escape_invisible
from tests.review_bench import calls, hunks, proposes, replace, says
from tests.scripted_provider import ScriptedProvider
from tests.unit.review_jobs.traced_place import TracedPlace

EVIL = "\x1b]0;title\x07\x1b[2J\u202e"
Say = Callable[..., str]


class Made(msgspec.Struct):
    home: Path
    root: Path
    job: str
    rerun: str


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The traces of a job that asked, proposed and met a conflict, and of its rerun, which failed."""
    home = tmp_path_factory.mktemp("home")
    answers = [
        calls("clarify_user", question=f"Both{EVIL}?"),
        calls("read_file", file_path="none.md"),
        proposes(replace("a.md", 2, "zwei\n")),
        says(f"Done{EVIL}."),
    ]
    usage = Usage(input=1234, output=80)
    place = TracedPlace(
        home,
        ScriptedProvider(
            msgspec.structs.replace(each, model="big", provider="mock", usage=usage, cost=0.25)
            for each in answers
        ),
    )
    place.write(a="one\ntwo\n")

    async def make() -> Made:
        async with place.open() as desk:
            view = await place.start(f"Translate{EVIL}\nline 2")
            assert view.question is not None
            await desk.jobs.clarify(view.id, view.question.question_id, None)
            view = await place.settled(view.id)
            place.write(a="one\nTWO\n")
            with pytest.raises(Conflict):
                await desk.jobs.apply(
                    view.session_id, view.id, [each.hunk_id for each in hunks(view).values()]
                )
            again = await place.settled((await desk.jobs.rerun(view.id)).job_id)
            assert again.status == "failed"
            return Made(home, place.root, view.id, again.id)

    return anyio.run(make)


@pytest.fixture
def say(made: Made, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    monkeypatch.setenv("NEWEL_HOME", str(made.home))
    monkeypatch.chdir(made.root)

    def run(*words: str) -> str:
        assert command_trace(words) == 0
        return capsys.readouterr().out

    return run


def test_the_traces_of_a_folder_are_listed_latest_first(
    made: Made, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = made.home / "traces" / f"{made.job}.jsonl"
    os.utime(trace)  # the one that started earlier may have written last
    first, second = say().splitlines()
    assert first.startswith(made.rerun[:8])
    assert "failed" in first
    assert second.startswith(made.job[:8])
    assert "awaiting_review   Translate" in second
    assert len(say("-n", "1").splitlines()) == 1
    listed = json.loads(say("--json"))["traces"]
    assert [(each["job_id"], each["status"]) for each in listed] == [
        (made.rerun, "failed"),
        (made.job, "awaiting_review"),
    ]
    monkeypatch.chdir(made.home)
    assert "No traces in this folder yet" in say()
    assert str(made.root) in say("--all")


def test_a_trace_shows_each_step_its_model_and_its_duration(made: Made, say: Say) -> None:
    lines = say(made.job[:10]).splitlines()
    told = {line[14:41].strip(): line[43:] for line in lines[5:]}
    assert lines[0] == f"job {made.job}, awaiting_review"
    assert told["job.started"] == "mock-model (mock), at most 12 tool calls"
    assert told["clarification.requested"].startswith("Both")
    assert told["clarification.received"] == "skipped"
    assert told["edits.proposed"] == "1 edit of a.md"
    assert told["diff.generated"] == "a.md (1 hunk)"
    assert told["assistant"].startswith("big (mock) · 1.2k in · 80 out · $0.250  ")
    assert told["assistant"].endswith(" ms")
    assert any("read_file failed: " in line for line in lines)
    assert "changed on disk" in told["conflict.detected"]
    assert told["rerun.started"] == f"as job {made.rerun[:8]}"
    again = say(made.rerun[:10])
    assert again.startswith(f"job {made.rerun}, failed, a rerun of {made.job[:8]}\n")
    assert "job.failed" in again


@pytest.mark.parametrize(
    ("before", "after"),
    [('"input_tokens":1234', '"input_tokens":"many"'), ('"duration_ms":', '"duration_ms":"long","x":')],
    ids=["tokens", "duration"],
)
def test_odd_figures_leave_a_trace_its_time_line(
    made: Made, say: Say, tmp_path: Path, before: str, after: str
) -> None:
    """The file may be a stranger's."""
    trace = (made.home / "traces" / f"{made.job}.jsonl").read_text()
    assert before in trace
    (tmp_path / "odd.jsonl").write_text(trace.replace(before, after))
    say(str(tmp_path / "odd.jsonl"), "--html", str(tmp_path / "odd.html"))
    assert "Translate" in (tmp_path / "odd.html").read_text()


def test_no_control_sequence_of_a_trace_reaches_the_terminal(made: Made, say: Say) -> None:
    for text in (say(), say(made.job), say("--all")):
        assert not set(text) & {"\x1b", "\x07", "\u202e"}
        assert "Translate" in text
        assert escape_invisible(EVIL) in text


def test_json_has_the_whole_trace(made: Made, say: Say) -> None:
    whole = json.loads(say(made.job, "--json"))
    assert whole["header"]["params"]["instruction"].startswith("Translate")
    assert whole["status"] == "awaiting_review"
    assert [each["cursor"] for each in whole["events"]] == list(range(1, len(whole["events"]) + 1))
    assert whole["damage"] == []


def test_a_foreign_trace_is_read_and_its_damage_reported(
    made: Made, say: Say, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sent.jsonl"
    shutil.copy(made.home / "traces" / f"{made.job}.jsonl", path)
    odd: list[dict[str, Any]] = [
        {
            "cursor": 800 + number,
            "type": kind,
            "ts": EVIL,
            "data": {"files": EVIL, "name": [], "duration_ms": EVIL},
        }
        for number, kind in enumerate(
            ["message", EVIL, "tool.call.requested", "apply.started", "job.started"]
        )
    ]
    with path.open("a") as file:
        file.writelines(json.dumps(each) + "\n" for each in odd)
        file.write("torn")
    assert command_trace([str(path)]) == 0
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err
    assert shown.err.count("Left out: line") == 2  # an application without hunks, and the torn line
    assert "it is cut off" in shown.err
    assert len(json.loads(say(str(path), "--json"))["damage"]) == 2


@pytest.mark.parametrize("name", ["zzz", "", "../../etc/passwd", "none.jsonl", "\0/"])
def test_an_unknown_trace_is_reported(say: Say, name: str) -> None:
    with pytest.raises(BadTrace, match=r"There (is|are) (no )?trace"):
        say(name)


def test_each_event_has_a_description() -> None:
    assert vars(command)["_WORDS"].keys() | {HIDDEN} == {*get_args(EventType), GIVEN_UP}
