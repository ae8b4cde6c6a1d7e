"""If these fail, a trace differs from what happened in a job, or harms the job."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any, cast

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newel.agent.messages import AssistantMessage, TextContent, Usage
from newel.jobs.engine import JobOutcome
from newel.review.model.file_review import Conflict
from newel.review_jobs.dependencies import ReviewLimits
from newel.review_jobs.errors import NoSuchJob
from newel.review_jobs.job_service import job_view
from newel.review_jobs.journal import HIDDEN
from newel.review_jobs.requests import RollbackRequest, RunRequest
from newel.review_jobs.traces import (
    GIVEN_UP,
    MAX_BYTES,
    MAX_TRACES,
    BadTrace,
    read_trace,
    replay,
    without_keys,
)
from newel.text.json import to_json
from tests.properties import examples
from tests.review_bench import calls, hunks, proposes, replace, says
from tests.scripted_provider import Answer, ScriptedProvider
from tests.unit.review_jobs.traced_place import TracedPlace

TEXT = "".join(f"line {n}\n" for n in range(1, 21))
KEY = "sk-abcdefghijklmnopqrstuvwxyz"


def at(folder: Path, *script: Answer, **more: Any) -> TracedPlace:
    made = TracedPlace(folder, ScriptedProvider(script), **more)
    made.write(a=TEXT, b=TEXT)
    return made


async def same(place: TracedPlace, job: str) -> None:
    """Check that the trace equals the journal: the state, the events, and the clients' view of a job."""
    live, trace = await place.live(job), await place.trace(job)
    assert trace.damage == ()
    state = replay(trace)
    assert vars(state) == vars(live.state)
    page = (await place.desk.jobs.events(job)).events
    told = [each for each in trace.events if each.type not in {HIDDEN, GIVEN_UP}]
    assert [vars_of(each) for each in told] == [vars_of(each) for each in page]
    assert trace.header.params == live.params
    seen = await job_view(live, place.ledger)
    live.state = state
    assert await job_view(live, place.ledger) == seen


def vars_of(struct: msgspec.Struct) -> dict[str, Any]:
    return msgspec.structs.asdict(struct)


# -- what happened ------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_the_trace_of_an_applied_job_equals_the_export_of_its_journal(
    tmp_path: Path,
) -> None:
    script = (
        calls("clarify_user", question="Both?"),
        calls("read_file", file_path="a.md"),
        proposes(replace("a.md", 3, "drei\n"), replace("b.md", 5, "fünf\n")),
        says("Two lines."),
    )
    place = at(tmp_path, *script)
    async with place.open():
        view = await place.start("Translate")
        await same(place, view.id)
        assert view.question is not None
        await place.desk.jobs.clarify(view.id, view.question.question_id, None)
        view = await place.settled(view.id)
        await same(place, view.id)
    async with place.open():  # another process
        view = await place.desk.jobs.get(view.id)
        await place.desk.jobs.apply(view.session_id, view.id, [hunks(view)["a.md/0"].hunk_id])
        await same(place, view.id)
        assert view.checkpoint_id is not None
        await place.desk.checkpoints.roll_back(view.checkpoint_id, RollbackRequest(mode="hard_all"))
        assert (await place.trace(view.id)).events[-1].type == "checkpoint.rollback.completed"
        await same(place, view.id)


@pytest.mark.anyio
async def test_the_traces_of_a_conflict_and_its_rerun_equal_the_exports_of_their_journals(
    tmp_path: Path,
) -> None:
    script = (
        proposes(replace("a.md", 3, "drei\n"), replace("a.md", 15, "fünfzehn\n")),
        says("Done."),
        says("Nothing more."),
    )
    place = at(tmp_path, *script)
    async with place.open():
        view = await place.start("Translate")
        place.write(a=TEXT.replace("line 3\n", "third\n"))
        with pytest.raises(Conflict):
            await place.desk.jobs.apply(
                view.session_id, view.id, [each.hunk_id for each in hunks(view).values()]
            )
        await same(place, view.id)
        again = await place.settled((await place.desk.jobs.rerun(view.id)).job_id)
        await same(place, view.id)
        await same(place, again.id)
        assert "third" in (await place.trace(again.id)).header.params.changed


@pytest.mark.anyio
async def test_the_trace_of_a_failed_job_has_the_reason(tmp_path: Path) -> None:
    place = at(tmp_path)  # a model that answers nothing
    async with place.open():
        view = await place.start()
        assert view.status == "failed"
        await same(place, view.id)


@pytest.mark.anyio
async def test_the_trace_of_a_job_that_the_engine_gave_up_says_failed(tmp_path: Path) -> None:
    place = at(tmp_path)
    async with place.open(working=False) as desk:
        session = (await desk.sessions.create()).session_id
        dies = (await desk.jobs.run(RunRequest(session_id=session, instruction="Never"))).job_id
        (lease,) = await place.engine.claim(1, "w")
        await place.engine.finish(lease, JobOutcome(state="failed", reason="given up after 10 attempts"))
        stopped = (await desk.jobs.run(RunRequest(session_id=session, instruction="Never"))).job_id
        assert (await desk.jobs.get(stopped)).status == "queued"
        await place.engine.cancel(stopped, "")
        for job, why in ((dies, "given up after 10 attempts"), (stopped, "The job was cancelled.")):
            for _ in range(3):  # repeated queries do not repeat the message
                assert (await desk.jobs.get(job)).error == why
            assert [each.type for each in (await place.trace(job)).events] == [GIVEN_UP]
            await same(place, job)


@pytest.mark.anyio
async def test_the_trace_has_the_duration_and_the_model_of_each_request(tmp_path: Path) -> None:
    answer = AssistantMessage(
        content=[TextContent("Nothing to do.")],
        model="mock-2",
        provider="mock",
        usage=Usage(input=1200, output=34, cache_read=1000),
    )
    place = at(tmp_path, answer)
    async with place.open():
        view = await place.start("Look at it")
    trace = await place.trace(view.id)
    assert trace.header.params.instruction == "Look at it"
    started = next(each for each in trace.events if each.type == "job.started")
    assert (started.data["model"], started.data["provider"]) == ("mock-model", "mock")
    asked, answered = (each for each in trace.events if each.type == HIDDEN)
    assert "Look at it" in str(asked.data["message"])
    usage = answered.data["raw_usage"]
    assert usage.pop("latency_ms") >= 0
    assert usage == {
        "provider": "mock",
        "model": "mock-2",
        "input_tokens": 1200,
        "output_tokens": 34,
        "cache_read_tokens": 1000,
        "cache_write_tokens": 0,
        "cost": None,
    }


@pytest.mark.anyio
async def test_a_trace_survives_the_purge_of_its_job(tmp_path: Path) -> None:
    place = at(tmp_path, says("1"), says("2"), limits=ReviewLimits(max_jobs_per_session=1))
    async with place.open() as desk:
        first = await place.start("First")
        await place.released(first.id)
        await place.start("Second", first.session_id)
        with pytest.raises(NoSuchJob):
            await desk.jobs.get(first.id)
    assert replay(await place.trace(first.id)).summary == "1"


@pytest.mark.anyio
async def test_an_incomplete_trace_is_completed_before_its_job_is_purged(tmp_path: Path) -> None:
    place = at(tmp_path, says("1"))
    async with place.open():
        job = (await place.start("First")).id
    whole = place.path(job).read_bytes()
    place.path(job).write_bytes(whole[: len(whole) // 2])
    later = at(tmp_path, limits=ReviewLimits(completed_ttl_hours=0.0))
    async with later.open() as desk:
        with pytest.raises(NoSuchJob):
            await desk.jobs.get(job)
    assert place.path(job).read_bytes() == whole


# -- the file -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[TracedPlace, str, bytes]:
    """A completed job and its trace."""
    place = at(tmp_path_factory.mktemp("whole"), calls("read_file", file_path="a.md"), says("Done."))

    async def make() -> str:
        async with place.open():
            return (await place.start()).id

    job = anyio.run(make)
    return place, job, place.path(job).read_bytes()


@pytest.mark.anyio
@pytest.mark.parametrize("left", [b"", b"{}\n", None])
async def test_a_damaged_trace_is_replaced_before_its_job_is_deleted(
    tmp_path: Path, left: bytes | None
) -> None:
    """Emptied, damaged, or deleted."""
    place = at(tmp_path, says("Done."))
    async with place.open():
        job = (await place.start()).id
    whole = place.path(job).read_bytes()
    place.path(job).unlink()
    if left is not None:
        place.path(job).write_bytes(left)
    later = at(tmp_path, limits=ReviewLimits(completed_ttl_hours=0.0))
    async with later.open() as desk:
        with pytest.raises(NoSuchJob):
            await desk.jobs.get(job)
    assert place.path(job).read_bytes() == whole


@pytest.mark.anyio
async def test_the_file_has_all_events_until_the_job_stopped_running(tmp_path: Path) -> None:
    place = at(tmp_path, calls("clarify_user", question="Both?"), says("Done."))
    async with place.open() as desk:
        view = await place.start("Translate")
        await place.released(view.id)
        assert replay(read_trace(place.path(view.id))).status == "waiting_for_user"
        assert view.question is not None
        await desk.jobs.clarify(view.id, view.question.question_id, "Yes")
        await place.settled(view.id)
        await place.released(view.id)
        assert replay(read_trace(place.path(view.id))).status == "completed"


@pytest.mark.anyio
async def test_a_deleted_trace_is_written_again_completely(tmp_path: Path) -> None:
    place = at(tmp_path, calls("clarify_user", question="Both?"), says("Done."))
    async with place.open() as desk:
        view = await place.start()
        assert view.question is not None
        place.path(view.id).unlink()
        await desk.jobs.clarify(view.id, view.question.question_id, "Yes")
        assert (await place.settled(view.id)).status == "completed"
        await place.released(view.id)  # the trace is written after the last event
        await same(place, view.id)
        assert "trace.failed" not in await place.types(view.id)


@pytest.mark.anyio
async def test_a_failing_disk_ends_no_job_is_reported_once_and_made_up_for(tmp_path: Path) -> None:
    place = at(tmp_path, says("1"), says("2"), says("3"), says("4"))
    place.traces.write_text("a file in the way")
    async with place.open() as desk:
        first = await place.start("1")
        second = await place.start("2", first.session_id)
        assert (first.status, second.status) == ("completed", "completed")
        told = [each for each in (await desk.jobs.events(first.id)).events if each.type == "trace.failed"]
        assert len(told) == 1
        assert str(place.traces) in told[0].data["message"]
        assert "trace.failed" not in await place.types(second.id)
        place.traces.unlink()
        third = await place.start("3", first.session_id)
        await same(place, third.id)
        await place.released(third.id)
        shutil.rmtree(place.traces)
        place.traces.write_text("in the way again")
        last = await place.start("4", first.session_id)
        assert "trace.failed" in await place.types(last.id)
        await place.released(last.id)
        place.traces.unlink()
    later = at(tmp_path, limits=ReviewLimits(completed_ttl_hours=0.0))
    async with later.open():
        for job in (first.id, second.id, third.id, last.id):
            assert replay(read_trace(place.path(job))).status == "completed"


@pytest.mark.anyio
async def test_a_trace_is_never_written_through_a_link(tmp_path: Path) -> None:
    place = at(tmp_path, says("Done."))
    mine = tmp_path / "mine"
    mine.write_text("mine")
    async with place.open(working=False) as desk:
        session = (await desk.sessions.create()).session_id
        job = (await desk.jobs.run(RunRequest(session_id=session, instruction="Do it"))).job_id
        place.path(job).unlink()
        place.path(job).symlink_to(mine)
        place.path(job).with_suffix(".tmp").symlink_to(mine)
    async with place.open():
        assert (await place.settled(job)).status == "completed"
    assert mine.read_text() == "mine"


@pytest.mark.anyio
async def test_a_trace_is_private_and_contains_no_key(tmp_path: Path) -> None:
    script = (
        calls("read_file", file_path="a.md"),
        proposes(replace("a.md", 1, f"token = {KEY}\n")),
        says(f"It is 'plain horse battery', or\n{KEY}"),
    )
    place = at(tmp_path, *script, secrets=["plain horse battery"])
    place.write(a=f'key:\n{KEY}\n"plain horse battery"\n')
    async with place.open():
        view = await place.start(f"Use \n{KEY}\n or \tplain horse battery")
    assert view.status == "awaiting_review"
    written = place.path(view.id).read_bytes()
    assert b"abcdefghijkl" not in written
    assert b"horse" not in written
    assert read_trace(place.path(view.id)).damage == ()
    assert stat.S_IMODE(place.traces.stat().st_mode) == 0o700
    assert stat.S_IMODE(place.path(view.id).stat().st_mode) == 0o600


SHORT = st.text(max_size=12)
"""Too short for a key."""
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | SHORT
    | st.sampled_from([KEY, f'"\n{KEY}\\', f"{KEY}\\"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(SHORT | st.sampled_from(["file_path", KEY]), inner, max_size=4)
    ),
    max_leaves=12,
)


def masked(value: Any, name: str = "") -> Any:
    if isinstance(value, str):
        return value if name == "file_path" else value.replace(KEY, "sk-…yz")
    if isinstance(value, list):
        return [masked(each) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: masked(each, key) for key, each in cast("dict[str, Any]", value).items()}
    return value


@settings(max_examples=examples(100), deadline=None)
@given(value=JSON)
def test_masking_changes_only_keys(value: Any) -> None:
    assert json.loads(without_keys(to_json(value), [])) == masked(value)


@pytest.mark.parametrize("before", ["", "\n", "\t", "\x1b", '"', "\\", " ", "="])
def test_a_key_is_masked_in_json_within_json(before: str) -> None:
    """As the results of tools are in messages."""
    inner = to_json({"content": f"key{before or ' '}{KEY}"}).decode()
    assert KEY not in without_keys(to_json({"output": inner}), []).decode()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("number", "size", "kept"), [(MAX_TRACES + 20, 0, MAX_TRACES - 1), (12, MAX_BYTES // 10, 10)]
)
async def test_the_oldest_traces_are_deleted_and_no_other_file(
    tmp_path: Path, number: int, size: int, kept: int
) -> None:
    place = at(tmp_path, says("Done."))
    place.traces.mkdir()
    (place.traces / "notes.txt").write_text("mine")
    names = [f"old{each}.jsonl" for each in range(number)]
    for age, name in enumerate(names):
        path = place.traces / name
        path.touch()
        os.truncate(path, size)
        os.utime(path, (age, age))
    async with place.open():
        view = await place.start()
    left = {path.name for path in place.traces.iterdir()}
    assert left == {"notes.txt", f"{view.id}.jsonl", *names[-kept:]}


# -- hostile files ------------------------------------------------------------------------------------


def test_damaged_lines_are_reported_and_skipped(
    whole: tuple[TracedPlace, str, bytes], tmp_path: Path
) -> None:
    _, _, trace = whole
    head, first, second, *rest = trace.splitlines(keepends=True)
    bad = [b"not JSON\n", b"{}\n", b"[" * 100_000 + b"\n", first]
    unfit = b'{"cursor":900,"type":"edits.proposed","ts":"","data":{"edits":7}}\n'
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"".join([head, first, second, *bad, *rest, unfit, second[:-5]]))
    read = read_trace(path)
    assert [each.split(":")[0] for each in read.damage] == [
        *(f"line {number}" for number in range(4, 8)),
        f"line {8 + len(rest)}",
        f"line {9 + len(rest)}",
    ]
    assert read.damage[-1].endswith("it is cut off")
    path.write_bytes(trace)
    assert read.events == read_trace(path).events


@pytest.mark.parametrize("content", [b"", b"{}\n", b"\x00\xff\n", b'{"trace":2}\n', b"[" * 100_000 + b"\n"])
def test_a_file_that_is_not_a_trace_is_refused_with_a_message(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    with pytest.raises(BadTrace, match=r"t\.jsonl"):
        read_trace(path)


def test_a_trace_of_a_newer_version_is_refused_with_its_version(
    whole: tuple[TracedPlace, str, bytes], tmp_path: Path
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(whole[2].replace(b'{"trace":1,', b'{"trace":2,', 1))
    with pytest.raises(BadTrace, match="version 2"):
        read_trace(path)


@pytest.mark.parametrize("name", ["none", "", "fifo", "\0"])
def test_a_special_file_is_refused_and_never_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(BadTrace):
        read_trace(tmp_path / name)
