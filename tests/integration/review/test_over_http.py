"""If these fail, clients of /api/agent miss events, cannot cancel jobs, or get in without a token."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mock_llm_server import running
from tests.integration.review.served_review import (
    TEXT,
    Review,
    asks,
    hunk_ids,
    line,
    make_traps,
    proposes,
    review,
    served_review,
)
from tests.served import begin, served, wait_until
from tests.support import Newel, scenario

CANCELLED = "Cancelled by the user."


def streamed(at: Review, job: str, **headers: str) -> Iterator[tuple[str, str | None, dict[str, Any]]]:
    """The name, id and data of each event of a job's stream, to its end."""
    headers |= {"Accept": "text/event-stream"}
    with at.server.client.stream("GET", f"/api/agent/jobs/{job}/events", headers=headers) as answer:
        assert answer.status_code == 200
        fields: dict[str, str] = {}
        for each in answer.iter_lines():
            if each and not each.startswith(":"):
                name, _, value = each.partition(": ")
                fields[name] = value
            elif fields:
                yield fields["event"], fields.get("id"), json.loads(fields["data"])
                fields = {}


def polled(at: Review, job: str, cursor: int = 0, **query: Any) -> list[dict[str, Any]]:
    """A job's events, page by page."""
    found: list[dict[str, Any]] = []
    while page := at.get(f"/jobs/{job}/events", cursor=cursor, **query):
        found += page["events"]
        if not page["events"]:
            return found
        cursor = page["next_cursor"]
    return found


# -- who is let in ------------------------------------------------------------------------------------


def test_every_endpoint_requires_the_token_and_is_described(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        whole = at.server.client.get("/openapi.json").json()
        schemas = whole["components"]["schemas"]
        named = set(re.findall(r'"#/components/schemas/([^"]*)"', json.dumps(whole)))
        assert named <= set(schemas)
        assert not [name for name in schemas if "." in name], "two structs of one name"
        routes = [
            (method, path)
            for path, methods in whole["paths"].items()
            for method in methods
            if path.startswith("/api/agent/")
        ]
        assert len(routes) >= 24
        for method, path in routes:
            where = at.server.url + re.sub(r"\{.*?\}", "0", path)
            stranger = {"Authorization": "Bearer wrong"}
            elsewhere = {"Origin": "http://evil.example"}
            for headers, status in ((stranger, 401), (elsewhere, 403), ({"Host": "evil.example"}, 421)):
                answer = at.server.client.request(method, where, headers=headers, json={})
                assert answer.status_code == status, (method, path, headers)


@pytest.mark.slow  # generated requests to each URL
def test_the_api_matches_its_description(tmp_path: Path) -> None:
    """Whatever is sent, no response of the workbench or a review is a server error or undocumented."""
    with review(tmp_path) as at:
        job = at.settled(at.start("Translate"))
        at.server.chat("Hi")
        (tab,) = at.server.client.get("/api/state").json()["tabs"]
        names = {
            "job_id": job["id"],
            "session_id": job["session_id"],
            "checkpoint_id": job["checkpoint_id"],
            "run": tab["run"],
        }
        told = "".join(f'{name} = "{value}"\n' for name, value in names.items())
        (tmp_path / "schemathesis.toml").write_text(f'[parameters]\n{told}file_path = "a.md"\nwait = 0\n')
        done = subprocess.run(
            [
                str(Path(sys.executable).parent / "schemathesis"),
                f"--config-file={tmp_path / 'schemathesis.toml'}",
                "run",
                f"{at.server.url}/openapi.json",
                f"--header=Authorization: Bearer {at.server.token}",
                f"--header=Origin: {at.server.url}",
                "--checks=not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
                "--phases=fuzzing",
                "--max-examples=2",
                "--seed=1",
                "--no-color",
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


# -- events -------------------------------------------------------------------------------------------


def test_polling_and_streaming_return_the_same_events_from_any_cursor(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        job = at.settled(at.start("Translate"))
        at.post("/apply", session_id=job["session_id"], job_id=job["id"], accepted_hunk_ids=hunk_ids(job))
        events = polled(at, job["id"])
        assert (events[0]["type"], events[-1]["type"]) == ("job.started", "apply.completed")
        assert polled(at, job["id"], limit=1) == events
        *found, end = streamed(at, job["id"])
        assert [(name, data) for name, _, data in found] == [("event", each) for each in events]
        assert [number for _, number, _ in found] == [str(each["cursor"]) for each in events]
        assert end == ("end", None, {"job_id": job["id"], "status": "completed", "error": None})
        middle = events[len(events) // 2]["cursor"]
        later = [each for each in events if each["cursor"] > middle]
        *found, _ = streamed(at, job["id"], **{"Last-Event-ID": str(middle)})
        assert [data for _, _, data in found] == later == polled(at, job["id"], cursor=middle)


def test_a_followed_stream_has_all_events_to_the_end(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        job = at.settled(at.start("Ask me"))
        stream = streamed(at, job["id"])
        found = [next(stream) for _ in range(4)]
        assert found[-1][2]["type"] == "clarification.requested"
        at.post(f"/jobs/{job['id']}/clarify", question_id=job["question"]["question_id"], answer="Yes")
        found += stream
        assert [data["type"] for name, _, data in found if name == "event"][-1] == "job.completed"
        assert found[-1][0] == "end"


def test_long_polling_returns_the_next_event_with_the_resulting_status(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        job = at.settled(at.start("Ask me"))
        answer: dict[str, Any] = {"question_id": job["question"]["question_id"], "answer": "Yes"}
        pages: list[Any] = []
        path = f"/jobs/{job['id']}/events"
        reader = threading.Thread(
            target=lambda: pages.append(at.get(path, cursor=job["cursor"], wait=9, limit=1))
        )
        reader.start()
        at.post(f"/jobs/{job['id']}/clarify", **answer)
        reader.join()
        (event,) = pages[0]["events"]
        assert (event["type"], event["data"]["answer"]) == ("clarification.received", "Yes")
        assert pages[0]["status"] != "waiting_for_user"
        assert at.settled(job["id"])["status"] == "completed"
        last = at.get(path, cursor=at.get(f"/jobs/{job['id']}")["cursor"], wait=9)
        assert (last["events"], last["status"]) == ([], "completed")


@pytest.mark.parametrize("answer", [None, "no_user_answer"])
def test_a_question_can_be_skipped(tmp_path: Path, answer: str | None) -> None:
    with review(tmp_path) as at:
        job = at.settled(at.start("Ask me"))
        question = job["question"]["question_id"]
        at.post(f"/jobs/{job['id']}/clarify", question_id=question, answer=answer)
        at.post(f"/jobs/{job['id']}/clarify", question_id=question, answer=answer)
        assert at.settled(job["id"])["status"] == "completed"
        received = [
            each["data"] for each in polled(at, job["id"]) if each["type"] == "clarification.received"
        ]
        assert received == [{"question_id": question, "answer": "no_user_answer", "skipped": True}]


def test_a_job_waits_behind_a_question_of_its_session_also_after_a_kill(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        asking = at.settled(at.start("Ask me"))
        session, question = asking["session_id"], asking["question"]["question_id"]
        later = at.start("Translate", session)
        elsewhere = at.start("Slowly")  # another session does not wait
        wait_until(
            lambda: at.get(f"/jobs/{elsewhere}")["status"] == "running", "the job of the other session"
        )
        assert at.get(f"/jobs/{later}")["status"] == "queued"
        newest = at.post("/sessions")["session_id"]
        at.server.kill()
        with served_review(at.newel) as again:
            told = {each["id"]: each["asking_job_id"] for each in again.get("/sessions")["sessions"]}
            assert (told[session], told[newest]) == (asking["id"], None)
            assert again.get(f"/jobs/{later}")["status"] == "queued"
            assert again.get(f"/jobs/{asking['id']}")["question"]["question"] == "Sure?"
            again.post(f"/jobs/{asking['id']}/clarify", question_id=question, answer="Yes")
            assert again.settled(asking["id"])["status"] == "completed"
            assert again.settled(later)["status"] == "awaiting_review"


# -- sessions -----------------------------------------------------------------------------------------


def test_sessions_are_listed_with_their_pending_reviews(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        empty = at.post("/sessions")["session_id"]
        job = at.settled(at.start("Translate"))
        first, second = at.get("/sessions")["sessions"]
        assert (first["id"], first["title"], first["jobs"]) == (job["session_id"], "Translate", 1)
        assert first["pending_review"] == {"job_id": job["id"], "files": ["a.md", "b.md"]}
        assert (second["id"], second["last_job_id"], second["pending_review"]) == (empty, None, None)
        whole = at.get(f"/sessions/{job['session_id']}")
        assert whole["chat"][0]["text"] == "Translate"
        assert at.post(f"/sessions/{empty}/archive")["status"] == "archived"
        assert [each["status"] for each in at.get("/sessions")["sessions"]] == ["active", "archived"]


# -- cancelling ---------------------------------------------------------------------------------------


def test_a_queued_running_or_asking_job_can_be_cancelled_and_stays_so(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        running = at.start("Slowly")
        session = at.get(f"/jobs/{running}")["session_id"]
        queued = at.start("Translate", session)
        asking = at.settled(at.start("Ask me"))["id"]
        wait_until(lambda: at.newel.requests, "the request of the job that runs")
        for job in (queued, running, asking):
            for _ in range(2):
                assert at.post(f"/jobs/{job}/cancel") == {"job_id": job, "status": "failed"}
            view = at.get(f"/jobs/{job}")
            assert (view["status"], view["error"]) == ("failed", CANCELLED)
            last = polled(at, job)[-1]
            assert (last["type"], last["data"]) == ("job.failed", {"error": CANCELLED})
            assert [*streamed(at, job)][-1][2] == {"job_id": job, "status": "failed", "error": CANCELLED}
        at.server.kill()
        with served_review(at.newel) as again:
            for job in (queued, running, asking):
                assert again.get(f"/jobs/{job}")["error"] == CANCELLED
            assert again.get("/pending")["files"] == []


def test_the_proposals_of_a_cancelled_job_can_be_reviewed(tmp_path: Path) -> None:
    slow = {"response": {"content": "At last."}, "delay_ms": 60_000}
    with running(scenario("Propose", proposes(line("a.md", 1, "eins\n")), slow), strict=True) as model:
        newel = Newel(tmp_path, model)
        with served_review(newel) as at:
            at.write(a=TEXT)
            job = at.start("Propose")
            wait_until(lambda: len(newel.requests) == 2, "the second request")
            at.post(f"/jobs/{job}/cancel")
            (file,) = at.get("/pending")["files"]
            assert (file["pending"], file["run_ids"]) == (1, [job])
            decision = {"rev": file["rev"], "action": "accept_all_file"}
            at.post("/decide", file_path="a.md", **decision)
            at.post("/save", files=[{"file_path": "a.md"}])
            assert (newel.project / "a.md").read_text() == "eins\ntwo\nthree\n"
            assert at.get("/pending")["files"] == []


def test_a_hunk_is_split_and_its_parts_are_decided_apart(tmp_path: Path) -> None:
    edit = line("a.md", 1, "eins\nzwei\n") | {"end_line": 2}
    with running(scenario("Propose", proposes(edit), {"content": "Done."}), strict=True) as model:
        newel = Newel(tmp_path, model)
        with served_review(newel) as at:
            at.write(a=TEXT)
            (whole,) = hunk_ids(at.settled(at.start("Propose")))
            seen = {"file_path": "a.md", "rev": at.get("/file", file_path="a.md")["rev"]}
            done = at.post("/decide", **seen, action="split", hunk_id=whole)
            parts = [hunk["hunk_id"] for hunk in done["hunks"]]
            assert parts == [f"{whole}-1", f"{whole}-2"]
            seen |= {"rev": done["rev"]}
            assert at.ask("POST", "/decide", seen | {"action": "split", "hunk_id": parts[0]})[0] == 409
            status, refused = at.ask("POST", "/decide", seen | {"action": "accept", "hunk_id": whole})
            assert (status, parts[1] in refused["error"]["message"]) == (409, True)
            at.post("/decide", **seen, action="accept", hunk_id=parts[1])
            at.post("/save", files=[{"file_path": "a.md"}])
            assert (newel.project / "a.md").read_text() == "one\nzwei\nthree\n"


# -- the desk of a workbench --------------------------------------------------------------------------


def test_changes_of_the_workbenchs_agents_can_be_rolled_back_over_the_api(tmp_path: Path) -> None:
    write = {"name": "write", "arguments": {"file_path": "made.md", "content": "made\n"}}
    script = scenario("Write", {"tool_calls": [{"function": write}]}, {"content": "Done."})
    with running(script, strict=True) as model:
        newel = Newel(tmp_path, model)
        with served_review(newel) as at:
            at.server.chat("Write it")
            assert (newel.project / "made.md").read_text() == "made\n"
            (point,) = at.get("/checkpoints")["checkpoints"]
            assert [(file["file_path"], file["applied"]) for file in point["files"]] == [("made.md", 1)]
            three = at.get(f"/checkpoints/{point['checkpoint_id']}/diff3", file_path="made.md")
            assert (three["checkpoint_base"], three["current_file"]) == (None, "made\n")
            at.post(f"/checkpoints/{point['checkpoint_id']}/rollback", mode="hard_all")
            at.post("/save", files=[{"file_path": "made.md"}])
            assert not (newel.project / "made.md").exists()


def test_a_workbench_without_recording_supports_reviews(tmp_path: Path) -> None:
    with running(scenario("Propose", proposes(line("a.md", 1, "eins\n")), {"content": "Done."})) as model:
        newel = Newel(tmp_path, model)
        (newel.home / ".newel").mkdir()
        (newel.home / ".newel" / "config.toml").write_text("[review]\nrecord = false\n")
        with served_review(newel) as at:
            at.write(a=TEXT)
            assert at.settled(at.start("Propose"))["status"] == "awaiting_review"


def test_the_configured_limits_are_reported_to_clients(tmp_path: Path) -> None:
    with running(scenario("Ask", asks("Sure?"))) as model:
        newel = Newel(tmp_path, model)
        make_traps(newel.project, tmp_path / "outside")
        with served_review(newel, NEWEL_REVIEW_POLL_INTERVAL_MS="500", NEWEL_REVIEW_MAX_SESSIONS="1") as at:
            assert at.get("/limits")["poll_interval_ms"] == 500
            at.post("/sessions")
            status, answer = at.ask("POST", "/sessions", {})
            assert (status, answer["error"]["code"]) == (409, "too_many")


def test_the_stamps_of_files_and_folders_change_with_the_disk(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        project = at.newel.project
        (project / "sub").mkdir()
        paths = ["a.md", "sub", "", "missing", "../outside"]
        before = at.post("/stamps", paths=paths)["stamps"]
        assert at.post("/stamps", paths=paths)["stamps"] == before
        assert before[3:] == ["none", "none"]
        (project / "a.md").write_text("longer than it was before\n")
        (project / "sub" / "new").touch()
        after = at.post("/stamps", paths=paths)["stamps"]
        assert [one == other for one, other in zip(before, after, strict=True)] == [
            False,
            False,
            True,
            True,
            True,
        ]


def test_an_ephemeral_review_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    with review(tmp_path, "--ephemeral") as at:
        job = at.settled(at.start("Translate"))
        at.post("/apply", session_id=job["session_id"], job_id=job["id"], accepted_hunk_ids=hunk_ids(job))
        assert (at.newel.project / "a.md").read_text() == "eins\ntwo\ndrei\n"
        assert not (at.newel.home / ".newel").exists()


def test_an_unreadable_ledger_is_reported_and_the_server_ends(tmp_path: Path) -> None:
    with running(scenario("Ask", asks("Sure?"))) as model:
        newel = Newel(tmp_path, model)
        with served(newel):
            wait_until(lambda: [*(newel.home / ".newel" / "review").glob("*/ledger.db")], "the ledger")
        (ledger,) = (newel.home / ".newel" / "review").glob("*/ledger.db")
        for log in ledger.parent.glob("ledger.db-*"):
            log.unlink()  # of a server that was stopped at once; the database could be rebuilt from it
        ledger.write_bytes(b"no database at all" * 100)
        with begin(newel, "go", "--port", "0") as process:
            words = process.communicate(timeout=20)[1]
        assert process.returncode not in {0, None}
        assert str(ledger) in words
        assert "Traceback" not in words
