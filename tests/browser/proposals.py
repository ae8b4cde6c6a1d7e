"""Review jobs for the browser tests: a project with proposed edits, started over HTTP like by any client."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from tests.browser.bench import ENVIRON
from tests.browser.scenarios import answering, call, scenarios

NOTES = "# Notes\n\nfirst\n\nsecond\n\nthird\n"

_ASK = """async ([method, path, body, token]) => {
  const headers = {"Content-Type": "application/json", "Authorization": `Bearer ${token}`};
  const answer = await fetch(`/api/agent/${path}`, {method, headers, body: body && JSON.stringify(body)});
  return [answer.status, await answer.json()];
}"""


def ask(page: Page, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """Make a request of docs/review-api.md from the page; it must succeed."""
    status, answer = page.evaluate(_ASK, [method, path, body, ENVIRON["NEWEL_WEB_TOKEN"]])
    assert status == 200, answer
    return answer


def replace_line(path: str, line: int, text: str) -> dict[str, Any]:
    """An edit that replaces a line by ``text``."""
    return {
        "file_path": path,
        "operation": "replace",
        "start_line": line,
        "end_line": line,
        "new_text": text,
    }


def add_file(path: str, text: str) -> dict[str, Any]:
    """An edit that creates a file."""
    return {
        "file_path": path,
        "operation": "insert",
        "start_line": 1,
        "new_text": text,
    }


def proposal_scenarios(*jobs: tuple[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Scenarios of a model that answers each instruction with its edits, after reading the files."""
    return scenarios(*(answering(words, *_steps(edits)) for words, edits in jobs))


def _steps(edits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    paths = dict.fromkeys(edit["file_path"] for edit in edits if edit["operation"] == "replace")
    reads = [call("read_file", file_path=path) for path in paths]
    return [*reads, call("propose_edits", edits=edits), {"content": "Done."}]


def propose(page: Page, instruction: str) -> dict[str, Any]:
    """Run a job until its proposal can be reviewed; returns the job."""
    session = ask(page, "POST", "sessions", {})["session_id"]
    job = ask(page, "POST", "run", {"session_id": session, "instruction": instruction})["job_id"]
    status, cursor = "queued", 0
    while status in {"queued", "running"}:
        events = ask(page, "GET", f"jobs/{job}/events?cursor={cursor}&wait=5")
        status, cursor = events["status"], events["next_cursor"]
    found = ask(page, "GET", f"jobs/{job}")
    assert found["status"] == "awaiting_review", found
    return found
