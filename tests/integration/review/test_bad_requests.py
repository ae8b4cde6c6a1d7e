"""If these fail, an invalid HTTP request changes something, or its sender does not learn the error."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from tests.integration.review.served_review import Review, disk, hunk_ids, review


class Case(NamedTuple):
    """A server with a job that awaits review of ``a.md`` and ``b.md``."""

    at: Review
    job: dict[str, Any]
    rev: int
    """The revision of ``a.md``."""

    def refused(self, method: str, path: str, body: Any, **query: Any) -> tuple[int, str]:
        """The status and code of a refusal, after checking that nothing has changed."""
        before = self.state()
        status, answer = self.at.ask(method, path, body, params=query)
        assert self.state() == before
        assert answer["error"]["message"]
        return status, answer["error"]["code"]

    def state(self) -> Any:
        sessions = self.at.get("/sessions")
        for session in sessions["sessions"]:
            del session["updated_at"]  # it changes once more when the engine suspends the job
        shown = [sessions, self.at.get("/pending"), self.at.get(f"/jobs/{self.job['id']}")]
        return shown, disk(self.at.newel.project.parent / "outside"), disk(self.at.newel.project)

    def filled(self, value: Any) -> Any:
        """The value with the ids of this case."""
        match value:
            case "<rev>":
                return self.rev
            case str():
                names = {
                    "<session>": self.job["session_id"],
                    "<job>": self.job["id"],
                    "<checkpoint>": self.job["checkpoint_id"],
                    "<hunk>": hunk_ids(self.job)[0],
                }
                for name, real in names.items():
                    value = value.replace(name, real)
                return value
            case dict():
                items = cast("dict[str, Any]", value).items()
                return {name: self.filled(each) for name, each in items}
            case _:
                return value


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Generator[Case]:
    with review(tmp_path_factory.mktemp("case")) as at:
        job = at.settled(at.start("Translate"))
        assert job["status"] == "awaiting_review"
        yield Case(at, job, at.get("/file", file_path="a.md")["rev"])


SPLICE = {"start_line": 1, "delete_lines": 0, "new_text": "x\n"}
OUTSIDE = [
    "../a.md",
    "/etc/passwd",
    ".git/config",
    "x/.GIT/y",
    "a\0b",
    "link/secret.md",
    "",
    ".",
    "a/../../b",
]
NO_FILE = {"folder": "not_a_file", "pipe": "not_a_file", "x" * 300: "workspace_error"}


@pytest.mark.parametrize("path", OUTSIDE)
def test_every_endpoint_refuses_an_invalid_path(case: Case, path: str) -> None:
    row = {"id": "c", "file_path": path}
    for method, endpoint, body, query in (
        ("GET", "/file", None, {"file_path": path}),
        ("GET", "/change_log", None, {"file_path": path}),
        ("GET", f"/checkpoints/{case.job['checkpoint_id']}/diff3", None, {"file_path": path}),
        ("POST", "/edit", {"file_path": path, "rev": 0, "splices": [SPLICE]}, {}),
        ("POST", "/decide", {"file_path": path, "rev": 0, "action": "accept_all_file"}, {}),
        ("POST", "/undo", {"file_path": path, "rev": 0}, {}),
        ("POST", "/redo", {"file_path": path, "rev": 0}, {}),
        ("POST", "/save", {"files": [{"file_path": path}, {"file_path": "a.md"}]}, {}),
        (
            "POST",
            "/run",
            {"session_id": case.job["session_id"], "instruction": "x", "context_rows": [row]},
            {},
        ),
    ):
        assert case.refused(method, endpoint, body, **query) == (422, "outside_project"), endpoint


@pytest.mark.parametrize("path", NO_FILE)
def test_only_files_can_be_edited_decided_and_saved(case: Case, path: str) -> None:
    whole = {"file_path": path, "rev": 0}
    for endpoint, body in (
        ("/edit", whole | {"splices": [SPLICE]}),
        ("/decide", whole | {"action": "accept_all_file"}),
        ("/save", {"files": [{"file_path": path}, {"file_path": "a.md"}]}),
    ):
        assert case.refused("POST", endpoint, body) == (422, NO_FILE[path]), endpoint


def splice(start: Any, size: Any, text: Any = "x\n") -> dict[str, Any]:
    return {"start_line": start, "delete_lines": size, "new_text": text}


@pytest.mark.parametrize(
    ("splices", "refusal"),
    [
        ([splice(0, 0)], (422, "bad_range")),
        ([splice(5, 0)], (422, "bad_range")),
        ([splice(3, 2)], (422, "bad_range")),
        ([splice(2, -1)], (422, "bad_range")),
        ([splice(10**30, 0)], (422, "bad_range")),
        ([splice(1, 10**30)], (422, "bad_range")),
        ([splice(1, 2), splice(2, 1)], (422, "bad_range")),
        ([splice(1, 0, "a\0b")], (400, "bad_request")),
        ([splice(1, 0, "\ud800")], (400, "bad_request")),
        ([splice(1, 0, "x" * (2 * 2**20 + 1))], (413, "too_large")),
        ([splice(1, 0)] * 10_000, (413, "too_large")),
        ([splice("1", 0)], (422, "unprocessable")),
        ([splice(1.5, 0)], (422, "unprocessable")),
        ([splice(1, 0, None)], (422, "unprocessable")),
        ([{"start_line": 1, "delete_lines": 0}], (422, "unprocessable")),
        ([splice(1, 0) | {"end": 1}], (422, "unprocessable")),
    ],
    ids=str,
)
def test_an_invalid_edit_changes_nothing(
    case: Case, splices: list[dict[str, Any]], refusal: tuple[int, str]
) -> None:
    body = json.dumps({"file_path": "a.md", "rev": case.rev, "splices": splices}).encode()
    assert case.refused("POST", "/edit", body) == refusal


@pytest.mark.parametrize("rev", [0, 1, 99, -1, 10**30])
def test_a_decision_on_another_revision_changes_nothing(case: Case, rev: int) -> None:
    stale = (409, "stale_revision")
    edit = {"file_path": "a.md", "rev": rev, "splices": [SPLICE]}
    assert case.refused("POST", "/edit", edit) == stale
    decision = {"file_path": "a.md", "rev": rev, "action": "accept", "hunk_id": hunk_ids(case.job)[0]}
    assert case.refused("POST", "/decide", decision) == stale
    assert (
        case.refused("POST", "/decide", {"file_path": "a.md", "rev": rev, "action": "accept_all_file"})
        == stale
    )
    assert case.refused("POST", "/undo", {"file_path": "a.md", "rev": rev}) == stale


APPLY: dict[str, Any] = {"session_id": "<session>", "job_id": "<job>", "accepted_hunk_ids": []}
DECIDE: dict[str, Any] = {"file_path": "a.md", "rev": "<rev>", "action": "accept", "hunk_id": "<hunk>"}
RUN: dict[str, Any] = {"session_id": "<session>", "instruction": "Do it"}
SCOPED: dict[str, Any] = {"mode": "scoped_selected", "hunk_ids": ["h_0"]}
CHECKPOINT = "/checkpoints/<checkpoint>/rollback"
LONG = "x" * 5000


REFUSED: list[tuple[str, dict[str, Any], tuple[int, str]]] = [
    ("/run", RUN | {"session_id": "sess_0"}, (404, "no_such_session")),
    ("/run", RUN | {"instruction": " \n"}, (400, "bad_request")),
    ("/run", RUN | {"instruction": "x" * (256 * 1024 + 1)}, (413, "too_large")),
    ("/run", RUN | {"context_rows": [{"id": "c"}] * 201}, (413, "too_large")),
    ("/run", RUN | {"context_rows": [{"id": "c", "content": "x" * (2**21 + 1)}]}, (413, "too_large")),
    (
        "/run",
        RUN | {"context_rows": [{"id": "c", "start_line": 3, "end_line": 2}]},
        (422, "unprocessable"),
    ),
    ("/run", RUN | {"tool_config": {"max_tool_calls": 0}}, (422, "unprocessable")),
    ("/run", RUN | {"tool_config": {"max_tool_calls": 10**30}}, (422, "unprocessable")),
    ("/run", RUN | {"tool_config": {"max_calls": 1}}, (422, "unprocessable")),
    ("/run", RUN | {"instruction": 1}, (422, "unprocessable")),
    ("/run", {"session_id": "<session>"}, (422, "unprocessable")),
    ("/sessions", {"name": "x"}, (422, "unprocessable")),
    ("/sessions/sess_0/archive", {}, (404, "no_such_session")),
    ("/jobs/0/clarify", {"question_id": "q", "answer": None}, (404, "no_such_job")),
    ("/jobs/<job>/clarify", {"question_id": "q", "answer": "x"}, (409, "question_closed")),
    ("/jobs/<job>/clarify", {"question_id": "q"}, (422, "unprocessable")),
    ("/jobs/<job>/clarify", {"question_id": "q", "answer": "x" * (256 * 1024 + 1)}, (413, "too_large")),
    ("/jobs/0/rerun", {}, (404, "no_such_job")),
    ("/jobs/0/cancel", {}, (404, "no_such_job")),
    ("/jobs/<job>/cancel", {}, (409, "wrong_state")),
    ("/apply", APPLY | {"session_id": "sess_0"}, (404, "no_such_session")),
    ("/apply", APPLY | {"job_id": "0"}, (404, "no_such_job")),
    ("/apply", APPLY | {"job_id": LONG}, (422, "unprocessable")),
    ("/apply", APPLY | {"accepted_hunk_ids": ["h_0"]}, (404, "unknown_hunk")),
    ("/apply", APPLY | {"accepted_hunk_ids": "h_0"}, (422, "unprocessable")),
    ("/apply", APPLY | {"accepted": []}, (422, "unprocessable")),
    ("/decide", DECIDE | {"hunk_id": "h_0"}, (404, "unknown_hunk")),
    ("/decide", DECIDE | {"hunk_id": ""}, (404, "unknown_hunk")),
    ("/decide", DECIDE | {"action": "burn"}, (422, "unprocessable")),
    ("/decide", DECIDE | {"mine": "all"}, (422, "unprocessable")),
    ("/decide", DECIDE | {"file_path": LONG}, (422, "unprocessable")),
    ("/redo", {"file_path": "a.md", "rev": "<rev>"}, (409, "nothing_to_undo")),
    ("/save", {"files": []}, (422, "unprocessable")),
    ("/save", {"files": [{"file_path": "a.md"}] * 10_001}, (422, "unprocessable")),
    ("/save", {"files": ["a.md"]}, (422, "unprocessable")),
    ("/checkpoints/cp_0/rollback", {"mode": "hard_all"}, (404, "unknown_checkpoint")),
    (CHECKPOINT, SCOPED, (404, "unknown_hunk")),
    (CHECKPOINT, SCOPED | {"hunk_ids": []}, (400, "bad_request")),
    (CHECKPOINT, {"mode": "soft"}, (422, "unprocessable")),
]


@pytest.mark.parametrize(("path", "body", "refusal"), REFUSED, ids=lambda value: str(value)[:60])
def test_an_impossible_request_changes_nothing(
    case: Case, path: str, body: dict[str, Any], refusal: tuple[int, str]
) -> None:
    assert case.refused("POST", case.filled(path), case.filled(body)) == refusal


@pytest.mark.parametrize(
    ("path", "query", "refusal"),
    [
        ("/sessions/sess_0", {}, (404, "no_such_session")),
        ("/jobs/0", {}, (404, "no_such_job")),
        ("/jobs/0/events", {}, (404, "no_such_job")),
        ("/jobs/<job>/events", {"cursor": -1}, (422, "malformed_request")),
        ("/jobs/<job>/events", {"cursor": "x"}, (422, "malformed_request")),
        ("/jobs/<job>/events", {"limit": 0}, (422, "malformed_request")),
        ("/jobs/<job>/events", {"wait": 31}, (422, "malformed_request")),
        ("/checkpoints/cp_0", {}, (404, "unknown_checkpoint")),
        ("/checkpoints/cp_0/diff3", {"file_path": "a.md"}, (404, "unknown_checkpoint")),
        ("/checkpoints/<checkpoint>/diff3", {"file_path": "c.md"}, (404, "unknown_checkpoint")),
        ("/checkpoints/<checkpoint>/diff3", {}, (422, "malformed_request")),
        ("/file", {}, (422, "malformed_request")),
        ("/file", {"file_path": LONG}, (422, "malformed_request")),
        ("/nothing", {}, (404, "not_found")),
        ("/run", {}, (405, "method_not_allowed")),
    ],
)
def test_a_request_for_something_unknown_is_a_404(
    case: Case, path: str, query: dict[str, Any], refusal: tuple[int, str]
) -> None:
    assert case.refused("GET", case.filled(path), None, **query) == refusal


DEEP = b"[" * 100_000 + b"]" * 100_000
BODIES: dict[str, tuple[bytes, tuple[int, str]]] = {
    "nothing": (b"", (422, "unprocessable")),
    "half": (b'{"file_path": "a.md", ', (400, "bad_request")),
    "words": (b"nope", (400, "bad_request")),
    "two values": (b"{} {}", (422, "unprocessable")),
    "no UTF-8": (b'{"file_path": "\xff"}', (400, "bad_request")),
    "half a pair": (b'{"file_path": "\\ud800"}', (400, "bad_request")),
    "a list": (b"[]", (422, "unprocessable")),
    "null": (b"null", (422, "unprocessable")),
    "deep": (b'{"context_rows": [{"id": "c", "deep": ' + DEEP + b"}]}", (400, "bad_request")),
    "huge": (b" " * (17 * 2**20), (413, "too_large")),
}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("path", ["/run", "/edit", "/apply", "/save", CHECKPOINT, "/jobs/<job>/clarify"])
def test_an_invalid_body_is_refused_before_any_work(case: Case, path: str, body: str) -> None:
    data, refusal = BODIES[body]
    found = case.refused("POST", case.filled(path), data)
    # A struct may refuse a field by its name before it reaches the error behind it.
    assert found in {refusal, (422, "unprocessable")} if refusal[0] == 400 else found == refusal


def test_an_applied_review_cannot_be_applied_differently(tmp_path: Path) -> None:
    with review(tmp_path) as at:
        job = at.settled(at.start("Translate"))
        ids = hunk_ids(job)
        request = {"session_id": job["session_id"], "job_id": job["id"], "accepted_hunk_ids": ids[:1]}
        first = at.post("/apply", **request)
        assert (at.newel.project / "a.md").read_text() == "eins\ntwo\nthree\n"
        before = disk(at.newel.project)
        assert at.post("/apply", **request) == first
        status, answer = at.ask("POST", "/apply", request | {"accepted_hunk_ids": ids})
        assert (status, answer["error"]["code"]) == (409, "wrong_state")
        assert disk(at.newel.project) == before


def test_an_unwritable_file_is_reported_and_stays_unchanged(tmp_path: Path) -> None:
    """Its parent is a file, which only the save can detect."""
    with review(tmp_path) as at:
        edit = {"file_path": "a.md/b", "rev": 0, "splices": [SPLICE]}
        assert at.post("/edit", **edit)["content"] == "x\n"
        before = disk(at.newel.project)
        status, answer = at.ask("POST", "/save", {"files": [{"file_path": "a.md/b"}]})
        assert (status, answer["error"]["code"]) == (500, "save_failed")
        assert "a.md/b" in answer["error"]["message"]
        assert disk(at.newel.project) == before
        assert [file["file_path"] for file in at.get("/pending")["files"]] == ["a.md/b"]
