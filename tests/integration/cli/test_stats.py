"""If these fail, `newel stats` tells a user wrong figures about tokens, cost and time, counts unknown prices as nothing, or gives up at a
broken file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from newel.storage.files import project_folder
from tests.support import Newel, bash, scenario

Make = Callable[..., Newel]

PRICED = "[models.mock-model]\ninput_price = 1000000\noutput_price = 2000000\n"
TODAY = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)


def at(*, days: int = 0, seconds: int = 0) -> str:
    moment = TODAY - timedelta(days=days) + timedelta(seconds=seconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.000Z"


def answer(text: str = "", *, when: str, model: str = "m", **more: Any) -> dict[str, Any]:
    usage = {"input": 1000, "output": 100, "cacheRead": 500}
    content = [{"type": "text", "text": text}]
    message = {
        "role": "assistant",
        "content": content,
        "model": model,
        "usage": usage,
        "id": f"a{when}{text}",
    }
    return {"type": "message", "message": {**message, "timestamp": when, **more}}


def prompt(when: str) -> dict[str, Any]:
    return {
        "type": "message",
        "message": {"role": "user", "content": "hi", "id": f"u{when}", "timestamp": when},
    }


def result(tool: str, when: str, **more: Any) -> dict[str, Any]:
    message = {"role": "toolResult", "toolCallId": "c", "toolName": tool, "output": "", "isError": False}
    return {"type": "message", "message": {**message, "id": f"r{when}", "timestamp": when, **more}}


def head(identity: str, when: str, project: str, **config: str) -> dict[str, Any]:
    return {"type": "metadata", "id": identity, "timestamp": when, "cwd": project, "config": config}


def write_session(newel: Newel, identity: str, *lines: dict[str, Any], project: str = "/p") -> Path:
    folder = project_folder(newel.home / ".newel" / "sessions", project)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{identity}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def report(newel: Newel, *words: str) -> dict[str, Any]:
    done = newel("stats", "--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_run_is_counted_with_its_tokens_cost_time_and_calls(with_model: Make) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 40}}
    newel = with_model(
        scenario(
            "go",
            {**bash("sleep 0.1"), "usage": usage},
            {**bash("exit 3"), "usage": usage},
            {"content": "Done.", "usage": usage},
        )
    )
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "config.toml").write_text(PRICED)
    assert newel("go").returncode == 0
    counted = report(newel)
    total = counted["total"]
    assert (counted["sessions"], total["runs"], total["requests"], total["timed"]) == (1, 1, 3, 3)
    assert (total["input"], total["cached"], total["output"]) == (300, 120, 30)
    assert total["cost"] == pytest.approx(300 + 60)
    assert (total["calls"], total["failed"], total["unpriced"]) == (2, 1, 0)
    assert total["toolTime"] >= 100
    assert [row["name"] for row in counted["rows"]] == ["mock-model"]
    assert [row["name"] for row in report(newel, "--by", "project")["rows"]] == [str(newel.project)]
    tools = report(newel, "--by", "tool")["rows"]
    assert [(row["name"], row["counts"]["calls"]) for row in tools] == [("bash", 2)]


def test_more_requests_than_messages_are_explained(with_model: Make) -> None:
    """Otherwise a user of one message looks for who sent the others."""
    newel = with_model(scenario("go", bash("true"), {"content": "Done."}))
    newel("go")
    assert "1 session, 1 run with 2 requests to models\n" in newel("stats").stdout
    explained = " ".join(newel("stats", "--help").stdout.split())
    assert "one request to a model, and another one after each round of tool calls" in explained


def test_an_unknown_price_is_told_and_not_counted_as_nothing(with_model: Make) -> None:
    newel = with_model()
    write_session(
        newel, "1", head("1", at(), "/p"), prompt(at()), answer(when=at(), model="priced", cost=1.5)
    )
    write_session(newel, "2", head("2", at(), "/p"), prompt(at()), answer(when=at(), model="unpriced"))
    done = newel("stats")
    cost = next(line for line in done.stdout.splitlines() if line.startswith("cost"))
    assert cost == "cost    $1.50, and the unknown price of 1 request: unpriced"
    row = next(line for line in done.stdout.splitlines() if line.startswith("unpriced"))
    assert " ? " in row
    assert "$0" not in done.stdout
    assert report(newel)["unpriced"] == {"unpriced": 1}


def test_requests_without_token_counts_are_told(with_model: Make) -> None:
    newel = with_model()
    write_session(newel, "1", head("1", at(), "/p"), answer(when=at(), usage={}))
    assert "unknown for 1 request: the server reported none" in newel("stats").stdout


def test_a_broken_file_is_named_and_left_out(with_model: Make) -> None:
    newel = with_model()
    good = write_session(newel, "1", head("1", at(), "/p"), answer(when=at()), answer("b", when=at()))
    with good.open("a") as file:
        file.write('{"type":"message","message":{"role":"assist\n')
        file.write('{"type":"message","message":{"role":"cut off by a process that is wri')
    (good.parent / "noise.jsonl").write_bytes(os.urandom(5000) + b"\n")
    (good.parent / "foreign.jsonl").write_text('{"type":"session"}\n' + json.dumps(answer(when=at())) + "\n")
    (good.parent / "empty.jsonl").touch()
    done = newel("stats")
    assert done.returncode == 0
    assert f"newel: {good}: 1 line left out that cannot be read: 4" in done.stderr
    for name in ("noise", "foreign"):
        assert f"{name}.jsonl: left out, it is not a session" in done.stderr
    assert "empty" not in done.stderr
    assert report(newel)["total"]["requests"] == 2


def test_messages_that_a_fork_has_copied_count_once(with_model: Make) -> None:
    newel = with_model()
    copied = [prompt(at()), answer(when=at(seconds=1), cost=1.0)]
    write_session(newel, "1", head("1", at(), "/p"), *copied)
    write_session(
        newel,
        "2",
        head("2", at(seconds=60), "/p"),
        *copied,
        prompt(at(seconds=61)),
        answer("2", when=at(seconds=62), cost=1.0),
    )
    total = report(newel)["total"]
    assert (total["runs"], total["requests"], total["cost"]) == (2, 2, 2.0)


def test_a_subagent_counts_once_and_is_no_run_of_the_user(with_model: Make) -> None:
    newel = with_model()
    agent_call = result("task", at(), usage={"input": 1000, "output": 100}, cost=1.0, duration=9000)
    write_session(newel, "1", head("1", at(), "/p"), prompt(at()), answer(when=at(), cost=1.0), agent_call)
    write_session(newel, "2", head("2", at(), "/p", parent="1"), prompt(at()), answer(when=at(), cost=1.0))
    total = report(newel)["total"]
    assert (total["runs"], total["requests"], total["input"], total["cost"], total["toolTime"]) == (
        1,
        2,
        2000,
        2.0,
        0,
    )
    assert report(newel, "--by", "tool")["rows"][0]["counts"]["toolTime"] == 9000


def test_a_summary_of_the_conversation_counts_for_the_model_that_wrote_it(with_model: Make) -> None:
    newel = with_model()
    data = {
        "usage": {"input": 700, "output": 70},
        "cost": 0.5,
        "model": "small",
        "duration": 20,
        "summary": "…",
    }
    summary = {"role": "custom", "name": "compaction", "data": data, "id": "s", "timestamp": at()}
    write_session(newel, "1", head("1", at(), "/p"), {"type": "message", "message": summary})
    row = report(newel)["rows"][0]
    assert (row["name"], row["counts"]["input"], row["counts"]["cost"]) == ("small", 700, 0.5)


def test_review_jobs_count_by_their_traces(with_model: Make) -> None:
    newel = with_model()
    folder = newel.home / ".newel" / "traces"
    folder.mkdir(parents=True)
    params: dict[str, Any] = {"session": "s", "instruction": "i", "contextRows": [], "maxToolCalls": 1}
    raw = {"provider": "x", "model": "reviewer", "input_tokens": 500, "output_tokens": 5, "cache_read_tokens": 0,
           "cache_write_tokens": 0, "cost": 0.25, "latency_ms": 700}  # fmt: skip
    said: dict[str, Any] = {"message": {"role": "assistant", "content": []}, "raw_usage": raw}
    called = {"name": "read_file", "ok": False, "error": "gone", "duration_ms": 3}
    lines: list[dict[str, Any]] = [
        {"trace": 1, "job_id": "j", "project": "/p", "created_at": at(), "params": params},
        {"cursor": 1, "type": "message", "ts": at(), "data": said},
        {"cursor": 2, "type": "tool.call.completed", "ts": at(), "data": called},
    ]
    (folder / "j.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + "broken\n")
    (folder / "odd.jsonl").write_text("{}\n")
    counted = report(newel, "--project", "/p")
    total = counted["total"]
    assert (total["runs"], total["requests"], total["input"], total["cost"]) == (1, 1, 500, 0.25)
    assert (total["modelTime"], total["calls"], total["failed"]) == (700, 1, 1)
    assert [row["name"] for row in counted["rows"]] == ["reviewer"]
    assert sorted(problem.rpartition("/")[2] for problem in counted["problems"]) == [
        "j.jsonl: 1 line left out that cannot be read",
        "odd.jsonl: left out, it is not the trace of a job",
    ]
    assert report(newel, "--project", "/q")["total"]["requests"] == 0


def test_since_and_project_choose_what_counts(with_model: Make) -> None:
    newel = with_model()
    for days in (0, 6, 7, 40):
        write_session(newel, f"{days}", head(f"{days}", at(days=days), "/p"), answer(when=at(days=days)))
    write_session(newel, "other", head("other", at(), "/q"), answer(when=at()), project="/q")
    assert report(newel)["total"]["requests"] == 5
    assert report(newel, "--since", at(days=40)[:10])["total"]["requests"] == 5
    recent = report(newel, "--since", "7d")["total"]["requests"]
    newest = report(newel, "--project", "/p", "--since", "1d")["total"]["requests"]
    assert (recent, newest) == (3, 1) or datetime.now(UTC).date() > TODAY.date()  # midnight came
    days = report(newel, "--by", "day")["rows"]
    assert [row["name"] for row in days] == sorted(row["name"] for row in days)
    refused = newel("stats", "--since", "soon")
    assert refused.returncode == 2
    assert "Give a day (2026-11-01), or days or weeks (7d, 4w)" in refused.stderr


def test_sessions_of_earlier_versions_have_no_times_and_that_is_told(with_model: Make) -> None:
    newel = with_model()
    write_session(newel, "1", head("1", at(), "/p"), answer(when=at(), duration=2000), answer("b", when=at()))
    assert "model 2.0 s · tools 0 ms · not recorded for 1 request\n" in newel("stats").stdout


def test_names_from_files_cannot_control_the_terminal(with_model: Make) -> None:
    newel = with_model()
    write_session(
        newel, "1", head("1", at(), "/p\x1b[2J"), answer(when=at(), model="evil\x1b]0;title\x07\u202e\nname")
    )
    for by in ("model", "project"):
        done = newel("stats", "--by", by)
        assert not {"\x1b", "\x07", "\u202e"} & set(done.stdout + done.stderr)


def test_what_pipes_get_has_no_colour_and_leaves_nothing_out(with_model: Make) -> None:
    newel = with_model()
    write_session(newel, "1", head("1", at(), "/p"), answer(when=at()), result("read", at(), isError=True))
    done = newel("stats", COLUMNS="40", LANG="C", PYTHONIOENCODING="ascii:replace")
    assert "█" not in done.stdout
    assert "#" in done.stdout
    assert all(title in done.stdout for title in ("model time", "tool time", "failed", "tokens a day"))


def test_nothing_recorded_is_no_error(with_model: Make) -> None:
    done = with_model()("stats")
    assert done.returncode == 0
    assert "Nothing is recorded here." in done.stdout
