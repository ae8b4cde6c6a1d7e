"""If these fail, a window shows a stale state after another window, an agent or a process decided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

from mock_llm_server import running
from tests.integration.review.served_review import Review, hunk_ids, review, served_review
from tests.served import Page, wait_until
from tests.support import Newel, bash, scenario


def told(page: Page, path: str) -> int:
    """Wait until a page is notified of a file; returns its revision."""
    while path not in (revs := page.next("review")["revs"]):
        pass
    return revs[path]


def decide(at: Review, path: str, action: str = "accept") -> dict[str, Any]:
    file = at.get("/file", file_path=path)
    hunk = file["hunks"][0]["hunk_id"]
    return at.post("/decide", file_path=path, rev=file["rev"], action=action, hunk_id=hunk)


def test_a_decision_in_one_window_reaches_every_window(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        at.settled(at.start("Translate"))
        with at.server.page() as one, at.server.page() as two:
            rev = decide(at, "b.md")["rev"]
            for page in (one, two):
                assert told(page, "b.md") == rev


def test_a_new_page_knows_whether_there_are_reviews(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        where = f"ws{at.server.url[4:]}/ws"
        with connect(where, additional_headers=at.server.headers) as socket:
            welcome = json.loads(socket.recv(timeout=10))
        assert (welcome["type"], welcome["review"]) == ("welcome", True)


def test_an_undo_by_another_process_is_reported_and_ends_the_job(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        job = at.settled(at.start("Translate"))
        with at.server.page() as page:
            done = at.newel("undo", "--yes")
            assert done.returncode == 0, done.stdout + done.stderr
            told(page, "a.md")
            wait_until(lambda: at.get(f"/jobs/{job['id']}")["status"] == "completed", "the end of the job")
        (applied, _) = at.get(f"/jobs/{job['id']}")["applied_files"]
        assert applied == {"file_path": "a.md", "applied_hunks": 0, "rejected_hunks": 2}


def test_a_save_by_another_process_is_reported_and_ends_the_job(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        job = at.settled(at.start("Translate"))
        with at.server.page() as page:
            done = at.newel("keep", "--all", "--yes")
            assert done.returncode == 0, done.stdout + done.stderr
            told(page, "b.md")
            wait_until(lambda: at.get(f"/jobs/{job['id']}")["status"] == "completed", "the end of the job")
        assert (at.newel.project / "b.md").read_text() == "one\nzwei\nthree\n"


def test_a_job_with_hunks_rejected_in_a_window_can_still_be_applied(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        job = at.settled(at.start("Translate"))
        with at.server.page() as page:
            for path in ("a.md", "b.md"):
                file = at.get("/file", file_path=path)
                for hunk in file["hunks"]:
                    rev = at.get("/file", file_path=path)["rev"]
                    at.post("/decide", file_path=path, rev=rev, action="reject", hunk_id=hunk["hunk_id"])
            told(page, "b.md")
        assert at.get(f"/jobs/{job['id']}")["status"] == "awaiting_review"
        ids = hunk_ids(job)
        at.post("/apply", session_id=job["session_id"], job_id=job["id"], accepted_hunk_ids=ids)
        assert (at.newel.project / "b.md").read_text() == "one\nzwei\nthree\n"


def test_pending_changes_are_reported_with_their_runs_and_outcomes(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        job = at.settled(at.start("Translate"))
        waiting = at.get("/pending")
        assert [file["session_ids"] for file in waiting["files"]] == [[job["session_id"]]] * 2
        (run,) = waiting["runs"]
        (listed,) = at.get("/jobs")["jobs"]
        assert (listed["id"], listed["status"], listed["files"]) == (job["id"], "awaiting_review", 2)
        assert (run["run_id"], run["session_id"], run["title"]) == (job["id"], job["session_id"], "Translate")
        file = at.get("/file", file_path="b.md")
        count = sum(each["pending"] for each in waiting["files"])
        assert (run["files"], run["pending"], run["accepted"]) == (2, count, 0)
        assert [hunk["run_ids"] for hunk in file["hunks"]] == [[job["id"]]]
        accepting = {"action": "accept", "hunk_id": file["hunks"][0]["hunk_id"]}
        at.post("/decide", file_path="b.md", rev=file["rev"], **accepting)
        assert [each["accepted"] for each in at.get("/pending")["runs"]] == [1]
        at.post("/save", files=[{"file_path": "b.md"}])
        assert [(each["files"], each["pending"]) for each in at.get("/pending")["runs"]] == [(1, count - 1)]
        (point,) = at.get("/checkpoints")["checkpoints"]
        counts = {each["file_path"]: (each["pending"], each["applied"]) for each in point["files"]}
        assert counts == {"a.md": (count - 1, 0), "b.md": (0, 1)}


def test_checkpoints_are_listed_by_page_and_by_session(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        jobs = [at.settled(at.start("Translate")) for _ in range(2)]
        first, last = (each["checkpoint_id"] for each in jobs)

        def listed(**query: object) -> tuple[list[str], bool]:
            found = at.get("/checkpoints", **query)
            return [each["checkpoint_id"] for each in found["checkpoints"]], found["more"]

        assert listed() == ([last, first], False)
        assert listed(limit=1) == ([last], True)
        assert listed(limit=1, before=last) == ([first], False)
        assert listed(session_id=jobs[0]["session_id"]) == ([first], False)
        assert listed(session_id="sess_0") == ([], False)
        assert at.server.client.get("/api/agent/checkpoints?before=cp_0").status_code == 404


def test_an_agents_changes_to_files_are_reported_at_once(tmp_path: Path) -> None:
    script = scenario("Make it", bash("mkdir made; echo one > made/it.md"), {"content": "Made."})
    with running(script, strict=True) as model:
        newel = Newel(tmp_path, model)
        with served_review(newel) as at, at.server.page() as page:
            at.server.chat("Make it")
            told(page, "made/it.md")
