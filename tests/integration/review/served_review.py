"""A served project with a job that awaits review, for tests of the HTTP API."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mock_llm_server import running
from tests.served import Served, served, wait_until
from tests.support import Newel, scenario

TEXT = "one\ntwo\nthree\n"
SETTLED = {"waiting_for_user", "awaiting_review", "completed", "failed"}


def proposes(*edits: dict[str, Any]) -> dict[str, Any]:
    """A model's response that proposes edits."""
    function = {"name": "propose_edits", "arguments": {"edits": list(edits)}}
    return {"tool_calls": [{"function": function}]}


def asks(question: str) -> dict[str, Any]:
    function = {"name": "clarify_user", "arguments": {"question": question}}
    return {"tool_calls": [{"function": function}]}


def line(path: str, number: int, text: str) -> dict[str, Any]:
    """An edit that replaces one line."""
    return {
        "file_path": path,
        "operation": "replace",
        "start_line": number,
        "end_line": number,
        "new_text": text,
    }


TWO_FILES = scenario(
    "Translate",
    proposes(line("a.md", 1, "eins\n"), line("a.md", 3, "drei\n"), line("b.md", 2, "zwei\n")),
    {"content": "In German."},
)
QUESTION = scenario("Ask me", asks("Sure?"), {"content": "Nothing to do."})
SLOW = scenario("Slowly", {"response": {"content": "At last."}, "delay_ms": 60_000})
SCENARIOS = {
    "scenarios": [one for each in (TWO_FILES, QUESTION, SLOW) for one in each["scenarios"]],
}


class Review:
    """The API of one server, for a client with its token."""

    def __init__(self, newel: Newel, server: Served) -> None:
        self.newel = newel
        self.server = server

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        """The status and the JSON of a response; ``body`` is JSON, or bytes that are sent unchanged."""
        if isinstance(body, bytes):
            more |= {"content": body, "headers": {"Content-Type": "application/json"}}
        elif body is not None:
            more |= {"json": body}
        answer = self.server.client.request(method, f"/api/agent{path}", **more)
        return answer.status_code, answer.json()

    def get(self, path: str, **query: Any) -> Any:
        status, answer = self.ask("GET", path, params=query)
        assert status == 200, answer
        return answer

    def post(self, path: str, **body: Any) -> Any:
        status, answer = self.ask("POST", path, body)
        assert status == 200, answer
        return answer

    def start(self, instruction: str, session: str | None = None) -> str:
        """Start a job; returns its id."""
        session = session or self.post("/sessions")["session_id"]
        return self.post("/run", session_id=session, instruction=instruction)["job_id"]

    def settled(self, job: str) -> dict[str, Any]:
        """The job, once it has ended or waits for the user."""
        wait_until(lambda: self.get(f"/jobs/{job}")["status"] in SETTLED, "the job")
        return self.get(f"/jobs/{job}")

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.newel.project / f"{name}.md").write_text(text)


def hunk_ids(job: dict[str, Any]) -> list[str]:
    return [hunk["hunk_id"] for file in job["diff_bundle"]["files"] for hunk in file["hunks"]]


@contextmanager
def review(folder: Path, *options: str) -> Generator[Review]:
    """A server in a project of ``a.md`` and ``b.md``, beside files that no review may touch."""
    with running(SCENARIOS, strict=True) as model:
        newel = Newel(folder, model)
        make_traps(newel.project, folder / "outside")
        with served_review(newel, *options) as made:
            made.write(a=TEXT, b=TEXT)
            yield made


@contextmanager
def served_review(newel: Newel, *options: str, **environ: str) -> Generator[Review]:
    """A server in an existing project."""
    with served(newel, "go", *options, **environ) as server:
        yield Review(newel, server)


def make_traps(project: Path, outside: Path) -> None:
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text("[core]\n")
    (project / "folder").mkdir()
    (project / "link").symlink_to(outside)
    (project / "bytes.bin").write_bytes(b"\x00\xff\xfe")
    os.mkfifo(project / "pipe")


def disk(folder: Path) -> dict[str, Any]:
    """The content of a folder: the bytes of files, the kinds of everything else."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        name = str(path.relative_to(folder))
        found[name] = path.read_bytes() if stat.S_ISREG(mode) else stat.S_IFMT(mode)
    return found
