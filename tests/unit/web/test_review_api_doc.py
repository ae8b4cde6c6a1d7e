"""If these fail, docs/review-api.md misses or invents an endpoint, event, field or code of /api/agent."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from newel.agent.errors import NewelError, StaleFile, WorkspaceError
from newel.jobs.engine import EngineError
from newel.review.model.file_review import Conflict, ReviewError
from newel.review_jobs.errors import ReviewServiceError, status_of
from newel.review_jobs.journal import HIDDEN, EventType
from newel.review_jobs.requests import Decision, EditRequest, RollbackRequest, Splice
from newel.review_jobs.responses import FileAction, JobView
from newel.web.api.review import router
from tests.review_bench import ReviewBench, calls, hunks, open_bench, proposes, replace, says

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "review-api.md").read_text()


RAISERS = {
    "newel.agent.errors",
    "newel.jobs.engine",
    "newel.review_jobs.errors",
    *(
        f"newel.review.{name}"
        for name in ("checkpoints", "decisions", "history", "ledger", "saving", "store")
    ),
}
"""Where the errors are that a desk raises."""


def chapter(name: str) -> str:
    return TEXT.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def test_the_document_matches_the_types() -> None:
    script = ROOT / "scripts" / "review_api_doc.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_documented_endpoints_are_those_served() -> None:
    app = FastAPI()
    app.include_router(router)
    served = {
        f"{method} {route.path}"
        for route in iter_route_contexts(app.routes)
        for method in route.methods or ()
        if (route.path or "").startswith("/api/agent/")
    }
    told = {each.partition("?")[0] for each in re.findall(r"`((?:GET|POST) /api/agent/[^`]*)`", TEXT)}
    assert told == served


def test_links_lead_to_existing_types() -> None:
    anchors = {heading.lower() for heading in re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)}
    links = set(re.findall(r"\]\(#([^)]*)\)", TEXT))
    assert links <= {anchor.replace(" ", "-") for anchor in anchors}


def test_the_actions_of_a_review_are_documented() -> None:
    words = chapter("Events").partition("The `action` of `review.updated` is ")[2]
    assert set(re.findall(r"`(\w+)`", words)) == set(get_args(FileAction))


def test_each_code_is_documented_under_its_status() -> None:
    told: dict[str, int] = {}
    statuses: list[str] = []
    for row in re.findall(r"^\|(.*?)\| (.*) \|$", chapter("Errors"), re.MULTILINE):
        statuses = re.findall(r"\d+", row[0]) or statuses
        for code in re.findall(r"`(\w+)`", row[1]):
            told[code] = int(statuses[0])
    kinds = [*all_of(ReviewServiceError), *all_of(ReviewError), WorkspaceError, StaleFile, EngineError]
    raised = {kind("").code: status_of(kind("")) for kind in kinds if kind.__module__ in RAISERS}
    assert {code: status for code, status in raised.items() if told.get(code) != status} == {}


def all_of(kind: type[NewelError]) -> set[type[NewelError]]:
    """The subclasses of an error; the base itself is never raised."""
    below = set(kind.__subclasses__())
    return below | {each for one in below for each in all_of(one)}


def told_fields() -> dict[str, set[str]]:
    """The fields of each event's data. Text in brackets, or after a colon, describes a field."""
    rows = re.findall(r"^\| `([a-z.]+)` \| (.*) \|$", chapter("Events"), re.MULTILINE)
    return {kind: set(re.findall(r"`(\w+)`", re.sub(r"\(.*?\)+|: [^;]*", "", words))) for kind, words in rows}


def test_the_documented_events_are_those_that_exist() -> None:
    assert set(told_fields()) == set(get_args(EventType)) - {HIDDEN}


@pytest.mark.anyio
async def test_the_events_of_a_review_have_the_documented_fields(tmp_path: Path) -> None:
    async with open_bench(tmp_path, *SCRIPT) as at:
        at.write(a="one\ntwo\nthree\n")
        seen = await happened(at)
    told = told_fields()
    told["conflict.detected"] -= {"edit_ids"}  # this one belongs to an apply
    rare = {"trace.failed", "checkpoint.rollback.failed", "model.routed"}
    assert set(seen) == set(told) - rare
    assert {kind: fields for kind, fields in seen.items() if fields != told[kind]} == {}


SCRIPT = (
    calls("clarify_user", question="Sure?"),
    proposes(replace("a.md", 1, "eins\n"), replace("a.md", 3, "drei\n")),
    says("In German."),
    proposes(replace("a.md", 1, "EINS\n", expected_hash=None)),
    says("Anew."),
    says("Nothing to do."),
)


async def happened(at: ReviewBench) -> dict[str, set[str]]:
    """The fields of all events of a review with everything in it."""
    jobs: list[JobView] = [await at.start("Translate")]
    (job,) = jobs
    assert job.question is not None
    await at.desk.jobs.clarify(job.id, job.question.question_id, None)
    job = await at.settled(job.id)
    rev = (await at.desk.files.state("a.md")).rev
    splice = Splice(start_line=2, delete_lines=1, new_text="two, by me\n")
    await at.desk.decisions.edit(EditRequest(file_path="a.md", rev=rev, splices=[splice]))
    at.write(a="ONE\ntwo\nthree\n")
    first = hunks(await at.desk.jobs.get(job.id))["a.md/0"].hunk_id
    with pytest.raises(Conflict):
        await at.desk.jobs.apply(job.session_id, job.id, [first])
    again = await at.settled((await at.desk.jobs.rerun(job.id)).job_id)
    await at.desk.jobs.apply(again.session_id, again.id, [hunks(again)["a.md/0"].hunk_id])
    rev = (await at.desk.files.state("a.md")).rev
    await at.desk.decisions.decide(Decision(file_path="a.md", rev=rev, action="accept_all_file"))
    assert again.checkpoint_id is not None
    await at.desk.checkpoints.roll_back(again.checkpoint_id, RollbackRequest(mode="hard_all"))
    nothing = await at.start("Look")
    assert nothing.status == "completed"
    failed = await at.start("Fail")
    assert failed.status == "failed"
    found: dict[str, set[str]] = {}
    for each in (job, again, nothing, failed):
        for event in (await at.desk.jobs.events(each.id)).events:
            found.setdefault(event.type, set()).update(event.data)
    return found
