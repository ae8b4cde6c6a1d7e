"""A whole review through the HTTP API alone, step by step, as a program would do it. See docs/review-api.md.

It needs a workbench in a folder of its own, and the model that answers as the story wants:

    mock-llm-server --scenarios docs/review_story.json
    mkdir /tmp/story && cd /tmp/story
    LLM_BASE_URL=http://127.0.0.1:8000/v1 LLM_AUTH_TOKEN=any LLM_DEFAULT_MODEL=mock-model go --port 8101

The workbench prints its address with a token, http://127.0.0.1:8101/#token=…; then, in another terminal:

    python docs/review_story.py http://127.0.0.1:8101 TOKEN /tmp/story

It says what it does, and ends with an error as soon as a file on disk is not exactly what it has to be.
"""
# ruff: noqa: INP001, T201, S310 — a script of its own, which talks to a person, and to the server that it was told

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Files = Mapping[str, str | None]
"""Files by their paths; None is for no file."""
NOTES = "# Notes\n\nfirst\n\nsecond\n\nthird\n"
PLAN = "plan\r\n1. measure\r\n2. cut\r\n"


class Refused(Exception):
    """The server's no: a status, and a code for programs."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code


class Api:
    """The API of one server. Each request has the token, and a body is JSON; that is all there is to it."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.token = token

    def get(self, path: str, **query: str) -> Any:
        return self.ask("GET", f"{path}?{urllib.parse.urlencode(query)}", None)

    def post(self, path: str, **body: Any) -> Any:
        return self.ask("POST", path, json.dumps(body).encode())

    def ask(self, method: str, path: str, body: bytes | None) -> Any:
        """The answer's JSON. Raises ``Refused``."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(
            f"{self.url}/api/agent{path}", data=body, headers=headers, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            problem = json.load(error)["error"]
            raise Refused(error.code, problem["code"], problem["message"]) from None


def tell(api: Api, folder: Path) -> None:
    """The story. ``folder`` is the project that the server works in."""
    (folder / "notes.md").write_bytes(NOTES.encode())
    (folder / "plan.md").write_bytes(PLAN.encode())
    first = propose(api)
    expect(folder, {"notes.md": NOTES, "plan.md": PLAN, "guide/index.md": None})
    kept = decide(api, folder, first)
    kept = change_outside(api, folder, first, kept)
    go_back(api, folder, first, kept)
    print("All files are what they have to be.")


def propose(api: Api) -> dict[str, Any]:
    """From the instruction to a proposal; returns the job."""
    # A session is a conversation: later jobs know what was said in it.
    session = api.post("/sessions")["session_id"]

    # A job starts with an instruction, and with what the user has pinned as context.
    row = {"id": "ctx_1", "kind": "selection", "file_path": "notes.md", "start_line": 5, "end_line": 5}
    started = api.post(
        "/run",
        session_id=session,
        instruction="Put the notes in order",
        context_rows=[row | {"content": "second\n"}],
        tool_config={"max_tool_calls": 12},
    )
    print(f"Job {started['job_id']} is {started['status']}.")

    # It works on its own; whoever wants to know polls its events, each time after the number known.
    job = until(api, started["job_id"], "waiting_for_user")

    # This one asks. A question waits for as long as it takes; `"answer": null` would skip it.
    print(f"It asks: {job['question']['question']}")
    api.post(f"/jobs/{job['id']}/clarify", question_id=job["question"]["question_id"], answer="Yes")

    # What it proposes comes as hunks, each with a patch against the file on disk. Nothing is written yet.
    job = until(api, job["id"], "awaiting_review", job["cursor"])
    for name, hunk in hunks_of(job).items():
        print(f"It proposes {name}:\n{hunk['patch']}")
    return job


def decide(api: Api, folder: Path, job: dict[str, Any]) -> Files:
    """The user writes, decides, undoes and saves; returns what the files are then."""
    # While hunks are pending the user types in the buffer, in which they are shown. What is sent are line splices, with the
    # revision of the buffer that they were made on. They become a hunk of the user's own.
    notes = api.get("/file", file_path="notes.md")
    check(notes["content"] == "# NOTES\n\nfirst\n\nSECOND\n\nthird\n", "the buffer shows what is proposed")
    mine = {"start_line": 7, "delete_lines": 1, "new_text": "third, by me\n"}
    notes = api.post("/edit", file_path="notes.md", rev=notes["rev"], splices=[mine])
    try:
        api.post("/edit", file_path="notes.md", rev=notes["rev"] - 1, splices=[mine])
    except Refused as refused:
        check(refused.code == "stale_revision", "an edit of another revision than the latest is refused")

    # One hunk of two is rejected, the other and the new file are accepted. Each answer has the new revision.
    hunks = hunks_of(job)
    for path, number, action in (
        ("notes.md", 0, "reject"),
        ("notes.md", 1, "accept"),
        ("guide/index.md", 0, "accept"),
        ("plan.md", 0, "accept"),
    ):
        revision = api.get("/file", file_path=path)["rev"]
        hunk = hunks[f"{path}/{number}"]["hunk_id"]
        api.post("/decide", file_path=path, rev=revision, action=action, hunk_id=hunk)

    # The last decision is taken back: the hunk is pending again.
    plan = api.get("/file", file_path="plan.md")
    plan = api.post("/undo", file_path="plan.md", rev=plan["rev"])
    check([hunk["state"] for hunk in plan["hunks"]] == ["pending"], "an undone decision is open again")

    # A save writes what is accepted, and what the user alone wrote; what is not decided stays in review.
    saved = api.post(
        "/save", files=[{"file_path": path} for path in ("notes.md", "guide/index.md", "plan.md")]
    )
    print("Saved:", {each["file_path"]: each["saved_hunks"] for each in saved["saved_files"]})
    kept = {
        "notes.md": "# Notes\n\nfirst\n\nSECOND\n\nthird, by me\n",
        "plan.md": PLAN,
        "guide/index.md": "# Guide\n",
    }
    expect(folder, kept)
    pending = [file["file_path"] for file in api.get("/pending")["files"]]
    check(pending == ["plan.md"], "one file is left to be decided")
    return kept


def change_outside(api: Api, folder: Path, job: dict[str, Any], kept: Files) -> Files:
    """A file changes on disk under a hunk: a conflict, and the job run again; returns what the files are then."""
    outside = PLAN.replace("measure", "measure well")
    (folder / "plan.md").write_bytes(outside.encode())
    accepted = [hunks_of(job)["plan.md/0"]["hunk_id"]]
    request = {"session_id": job["session_id"], "job_id": job["id"], "accepted_hunk_ids": accepted}
    try:
        api.post("/apply", **request)
    except Refused as refused:
        print(f"Refused: {refused}")
        check((refused.status, refused.code) == (409, "conflict"), "what changed outside is a conflict")
    else:
        check(False, "a file that changed outside is not written over")
    expect(folder, {**kept, "plan.md": outside})

    # The job is run again on what the file says now. It is told what has changed.
    again = until(api, api.post(f"/jobs/{job['id']}/rerun")["job_id"], "awaiting_review")
    accepted = [hunks_of(again)["plan.md/0"]["hunk_id"]]
    request = {"session_id": again["session_id"], "job_id": again["id"], "accepted_hunk_ids": accepted}
    applied = api.post("/apply", **request)
    check(api.post("/apply", **request) == applied, "the same request again applies nothing twice")
    kept = {**kept, "plan.md": PLAN.replace("measure", "MEASURE TWICE")}
    expect(folder, kept)

    # The first job is still under review, with nothing left in it that is wanted: to apply no hunk ends it.
    ended = api.post("/apply", session_id=job["session_id"], job_id=job["id"], accepted_hunk_ids=[])
    check(ended["status"] == "completed", "a review without hunks to keep ends")
    check(api.get("/pending")["files"] == [], "nothing is left to be decided")
    expect(folder, kept)
    return kept


def go_back(api: Api, folder: Path, job: dict[str, Any], kept: Files) -> None:
    """Everything since the first job is rolled back, and the rollback is, too."""
    # Each job has a checkpoint: how its files were before. A dry run says what a rollback would do, for the user to confirm.
    way_back = f"/checkpoints/{job['checkpoint_id']}/rollback"
    planned = api.post(way_back, mode="hard_all", dry_run=True)
    paths = sorted(file["file_path"] for file in planned["files"])
    check(paths == ["guide/index.md", "notes.md", "plan.md"], "a rollback says which files it changes")

    # It changes the buffers; the files change with the save.
    done = api.post(way_back, mode="hard_all")
    expect(folder, kept)
    save(api, paths)
    expect(folder, {"notes.md": NOTES, "plan.md": PLAN, "guide/index.md": None})

    # A rollback has a checkpoint like any job.
    api.post(f"/checkpoints/{done['rollback_checkpoint_id']}/rollback", mode="hard_all")
    save(api, paths)
    expect(folder, kept)


def save(api: Api, paths: list[str]) -> None:
    api.post("/save", files=[{"file_path": path} for path in paths])


def until(api: Api, job: str, status: str, cursor: int = 0) -> dict[str, Any]:
    """Follow a job's events from number `cursor` on until it has come to a status; returns the job."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        page = api.get(f"/jobs/{job}/events", cursor=str(cursor), wait="2")
        for event in page["events"]:
            print(f"  {event['cursor']:3} {event['type']}")
        cursor = page["next_cursor"]
        if page["status"] == status:
            return api.get(f"/jobs/{job}")
        check(page["status"] not in {"completed", "failed"}, f"job {job} comes to {status}")
    raise SystemExit(f"Job {job} did not come to {status}.")


def hunks_of(job: dict[str, Any]) -> dict[str, Any]:
    """A job's hunks by their files, and their places among the hunks of these: `notes.md/0`."""
    files = job["diff_bundle"]["files"]
    return {
        f"{file['file_path']}/{number}": hunk for file in files for number, hunk in enumerate(file["hunks"])
    }


def expect(folder: Path, files: Files) -> None:
    """End with an error unless the files on disk are exactly these."""
    for name, text in files.items():
        path = folder / name
        found = path.read_bytes().decode() if path.exists() else None
        check(found == text, f"{name} is {text!r} on disk, not {found!r}")


def check(holds: bool, what: str) -> None:
    if not holds:
        raise SystemExit(f"Not so: {what}.")


if __name__ == "__main__":
    tell(Api(sys.argv[1], sys.argv[2]), Path(sys.argv[3]))
