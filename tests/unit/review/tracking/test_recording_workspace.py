"""If these fail, an agent's changes are recorded wrongly, and undoing them loses work."""

from __future__ import annotations

import fcntl
import hashlib
import multiprocessing
import os
import signal
import time
from pathlib import Path

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newel.agent.errors import StaleFile
from newel.agent.messages import new_id, now
from newel.review.model.edits import edit
from newel.review.model.file_lines import lines_of
from newel.review.model.file_review import FileReview, Layer, Lines
from newel.review.model.rebase import rebased, saved
from newel.review.model.revert_applied import reverted
from newel.review.project import hunk_ids, recent_runs
from newel.review.store.ledger import EffectRecord, Ledger
from newel.review.tracking.applied_sink import recorded
from newel.review.tracking.change_recorder import ChangeRecorder
from newel.review.tracking.effect_log import INDEX
from newel.review.tracking.effects import TrackedOperation, TrackedRun
from newel.review.tracking.recording_workspace import ledger_folder, title_of
from newel.workspace.local import LocalWorkspace
from newel.workspace.snapshots.tree import FileSnapshot
from tests.properties import examples
from tests.tracked_operation import begin, end

pytestmark = pytest.mark.anyio

TEXTS = st.one_of(
    st.none(),
    st.lists(st.sampled_from(["a\n", "b\n", "c\r\n", "d\n", "\n", "\u2028\n"]), max_size=7).map("".join),
    st.lists(st.sampled_from(["a\n", "b\n", "c"]), max_size=4).map("\n".join),
)


def made(text: str | None, mode: int = 0o644) -> Lines:
    return lines_of(None if text is None else text.encode(), mode)


@settings(max_examples=examples(100), deadline=None)
@given(start=TEXTS, steps=st.lists(TEXTS, min_size=1, max_size=6))
def test_all_changes_of_a_run_to_a_file_can_be_undone_at_once(
    start: str | None, steps: list[str | None]
) -> None:
    """However often it changed the same lines."""
    review, before = FileReview(path="f"), made(start)
    for step in steps:
        review = recorded(review, before=before, after=made(step), run="r")
        before = made(step)
        assert review.base == before
    mine = {one.id for one in review.applied}
    back = saved(reverted(review, mine, new_id), None)
    assert back.base == made(start)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 99)), max_size=8))
def test_foreign_lines_stay_when_a_run_is_undone(
    steps: list[tuple[bool, int, int]],
) -> None:
    """The run writes the even lines, others the odd ones; the lines between belong to nobody."""
    texts = [f"{number}\n" for number in range(24)]
    others = list(texts)
    review = rebased(FileReview(path="f"), made("".join(texts)))
    for is_run, line, word in steps:
        before = made("".join(texts))
        at = line * 4 + (0 if is_run else 2)
        texts[at] = f"{'run' if is_run else 'other'} {word}\n"
        if is_run:
            review = recorded(review, before=before, after=made("".join(texts)), run="r")
        else:
            others[at] = texts[at]
            # Nothing notifies the review: the next record finds it.
    review = rebased(review, made("".join(texts)))
    mine = {one.id for one in review.applied if one.run == "r"}
    assert saved(reverted(review, mine, new_id), None).base == made("".join(others))


async def opened(project: Path, home: Path) -> ChangeRecorder:
    workspace = LocalWorkspace(str(project))
    return await ChangeRecorder.open(workspace, ledger_folder(home, workspace.root), left_out=[str(home)])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


async def test_concurrent_commands_record_each_change_once(project: Path, tmp_path: Path) -> None:
    recorder = await opened(project, tmp_path / "home")
    one, two = TrackedRun("s"), TrackedRun("s")
    first = await begin(recorder, one, None)
    (project / "a").write_text("one\n")
    second = await begin(recorder, two, None)
    (project / "b").write_text("two\n")
    await end(second)
    (project / "c").write_text("one\n")
    await end(first)
    ledger = recorder.project.ledger
    assert {entry.path for entry in ledger.entries(run=one.id)} == {"a", "c"}
    assert {entry.path for entry in ledger.entries(run=two.id)} == {"b"}
    recorder.close()


async def test_what_another_process_records_during_a_command_is_undone_with_its_own_run(
    project: Path, tmp_path: Path
) -> None:
    """Both append to one file, the other one in between: its line belonged to both runs, and no undo got past the first."""
    log = project / "log"
    log.write_text("start\n")
    recorder, other = [await opened(project, tmp_path / "home") for _ in range(2)]
    slow, quick = TrackedRun("s"), TrackedRun("t")
    first = await begin(recorder, slow, None)
    second = await begin(other, quick, None)
    log.write_text("start\nquick\n")
    await end(second)
    log.write_text("start\nquick\nslow\n")
    await end(first)
    for left in ("start\nquick\n", "start\n"):
        await recorder.project.apply(await recorder.project.undo())
        assert log.read_text() == left
    recorder.close()
    other.close()


async def test_a_hunk_that_is_kept_during_a_command_is_not_undone_with_the_command(
    project: Path, tmp_path: Path
) -> None:
    """``newel keep`` in another terminal, while a command appends to the same file: undoing the command removed what was kept."""
    file = project / "a"
    file.write_text("one\n")
    recorder, other = [await opened(project, tmp_path / "home") for _ in range(2)]
    await other.project.saver.refresh("a")
    kept = Layer(origin="agent", lines=("kept\n",), run="proposal")
    other.project.ledger.change("a", "propose", lambda now: edit(now, 1, 1, kept, new_id), run="proposal")
    command = await begin(recorder, TrackedRun("s"), None)
    await other.project.saver.save({"a": [other.project.ledger.get("a").hunks[0].id]})
    file.write_text(file.read_text() + "two\n")
    await end(command)
    await recorder.project.apply(await recorder.project.undo())
    assert file.read_text() == "kept\none\n"
    recorder.close()
    other.close()


async def test_read_only_hard_links_are_undone(project: Path, tmp_path: Path) -> None:
    """They share the mode that one of them gets to be removed: the undo stopped in the middle and left that mode."""
    recorder = await opened(project, tmp_path / "home")
    command = await begin(recorder, TrackedRun("s"), None)
    for number in range(6):
        (project / f"file{number}").write_text("one\n")
        (project / f"file{number}").chmod(0o400)
        (project / f"link{number}").hardlink_to(project / f"file{number}")
    await end(command)
    await recorder.project.apply(await recorder.project.undo())
    assert not any((project / f"{kind}{number}").exists() for kind in ("file", "link") for number in range(6))
    recorder.close()


async def test_a_command_waits_for_a_ledger_in_use_and_the_event_loop_does_not(
    project: Path, tmp_path: Path
) -> None:
    recorder = await opened(project, tmp_path / "home")
    folder = recorder.project.ledger.folder
    assert folder is not None
    run = TrackedRun("s")

    async def command() -> None:
        operation = await begin(recorder, run, None)
        (project / "a").write_text("one\n")
        await end(operation)

    with Ledger.open(folder) as other:
        async with anyio.create_task_group() as tasks:
            with other.batch():
                tasks.start_soon(command)
                start = time.monotonic()
                await anyio.sleep(0.2)
                assert time.monotonic() - start < 4  # a wait for the lock lasts 5 s
                assert not (project / "a").exists()
    assert {entry.path for entry in recorder.project.ledger.entries(run=run.id)} == {"a"}
    recorder.close()


async def test_a_file_written_during_a_command_belongs_to_its_writer_alone(
    project: Path, tmp_path: Path
) -> None:
    recorder = await opened(project, tmp_path / "home")
    one, two = TrackedRun("s"), TrackedRun("s")
    command = await begin(recorder, one, None)
    written = await begin(recorder, two, "a")
    (project / "a").write_text("two\n")
    await end(written)
    await end(command)
    ledger = recorder.project.ledger
    assert [entry.run for entry in ledger.entries(path="a")] == [two.id]
    assert one.checkpoint is None
    recorder.close()


async def test_a_write_that_another_one_forestalled_is_not_recorded(project: Path, tmp_path: Path) -> None:
    """Several runs in one folder: one that changed nothing must not undo what another one did."""
    (project / "f").write_text("old\n")
    workspace = LocalWorkspace(str(project))
    recorder = await opened(project, tmp_path / "home")
    run, expected = TrackedRun("s"), hashlib.sha256(b"old\n").hexdigest()

    async def write() -> None:
        async with recorder.track(TrackedOperation(run, "f", expect=expected)):
            (project / "f").write_text("theirs\n")
            await workspace.write_bytes(f"{workspace.root}/f", b"mine\n", expect=expected)

    with pytest.raises(StaleFile):
        await write()
    recorder.close()
    recorder = await opened(project, tmp_path / "home")  # nothing is pending either
    assert list(recorder.project.ledger.entries(run=run.id)) == []
    assert await recent_runs(recorder.project, limit=1) == []
    recorder.close()


async def test_an_undo_by_another_process_is_not_attributed_to_the_command(
    project: Path, tmp_path: Path
) -> None:
    (project / "a").write_text("before\n")
    recorder = await opened(project, tmp_path / "home")
    effect = await begin(recorder, TrackedRun("s"), "a")
    (project / "a").write_text("after\n")
    await end(effect)
    run = TrackedRun("s")
    command = await begin(recorder, run, None)
    other = await opened(project, tmp_path / "home")
    await other.project.apply(await other.project.undo())
    other.close()
    await end(command)
    assert not recorder.project.ledger.entries(run=run.id)
    assert (project / "a").read_text() == "before\n"
    recorder.close()


@pytest.mark.parametrize("path", [".git/config", "sub/.git/hooks/x"])
async def test_gits_own_files_are_never_recorded(path: str, project: Path, tmp_path: Path) -> None:
    recorder = await opened(project, tmp_path / "home")
    effect = await begin(recorder, TrackedRun("s"), path)
    (project / path).parent.mkdir(parents=True)
    (project / path).write_text("x")
    await end(effect)
    assert not recorder.project.ledger.paths()
    assert not recorder.project.ledger.checkpoints()
    recorder.close()


async def test_a_name_that_is_not_text_is_reported_and_the_others_are_recorded(
    project: Path, tmp_path: Path
) -> None:
    recorder = await opened(project, tmp_path / "home")
    effect = await begin(recorder, TrackedRun("s"), None)
    for number in range(100):
        (project / os.fsdecode(b"\xff%02d" % number)).write_text("x")
    (project / "a").write_text("x")
    (notice,) = await end(effect)
    assert notice.startswith("Not recorded, as the name is not UTF-8: <U+DCFF>")
    assert notice.endswith(" and 94 more.")
    assert recorder.project.ledger.paths() == ["a"]
    recorder.close()


async def test_names_that_are_not_text_stop_no_record(project: Path, tmp_path: Path) -> None:
    """An old archive has such names. Otherwise the run ends, and Newel can neither undo nor work in the project from then on."""
    with (project / os.fsdecode(b"large\xff")).open("wb") as large:
        large.truncate(1 << 30)
    recorder = await opened(project, tmp_path / "home")
    effect = await begin(recorder, TrackedRun("s"), None)
    for folder in (os.fsdecode(b"\xff"), "new"):
        (project / folder).mkdir()
        (project / folder / "a").write_text("x")
    assert "large<U+DCFF> is " in " ".join(recorder.project.left_out)
    (notice,) = await end(effect)
    assert notice == "Not recorded, as the name is not UTF-8: <U+DCFF>, <U+DCFF>/a."
    assert recorder.project.ledger.paths() == ["new/a"]
    await recorder.project.apply(await recorder.project.undo())
    assert not (project / "new").exists()
    recorder.close()


async def test_after_the_undo_of_a_run_only_the_undo_can_be_undone(project: Path, tmp_path: Path) -> None:
    recorder = await opened(project, tmp_path / "home")
    run = TrackedRun("s", title="words")
    effect = await begin(recorder, run, "a")
    (project / "a").write_text("x\n")
    await end(effect)
    everything = recorder.project
    await everything.apply(await everything.undo())
    assert run.checkpoint is not None
    assert not hunk_ids(everything.ledger, run.checkpoint)
    latest, earlier = await recent_runs(everything, limit=2)
    assert latest.title == "Undo of words"
    assert [(file.file_path, file.state) for file in earlier.files] == [("a", "undone")]
    recorder.close()


def _killed(project: Path, home: Path, path: str | None) -> None:
    async def main() -> None:
        recorder = await opened(project, home)
        early = await begin(recorder, TrackedRun("s"), None)  # an earlier command, which is recorded
        (project / "early").write_text("early\n")
        await end(early)
        await begin(recorder, TrackedRun("s", title="killed"), path)
        (project / "a").write_text("after\n")
        (project / "new").write_text("new\n")
        (project / "gone").unlink()
        os.kill(os.getpid(), signal.SIGKILL)

    anyio.run(main)


@pytest.mark.parametrize("path", [None, pytest.param("a", marks=pytest.mark.slow)])  # a process each
async def test_changes_of_a_killed_process_are_recorded_by_the_next(
    path: str | None, project: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    for name in ("a", "gone", "still"):
        (project / name).write_text("before\n")
        os.utime(project / name, (1, 1))
    await anyio.sleep(0.15)  # files newer than the clock's resolution are not in the index
    child = multiprocessing.get_context("spawn").Process(target=_killed, args=(project, home, path))
    child.start()
    await anyio.to_thread.run_sync(child.join)
    assert child.exitcode == -signal.SIGKILL
    recorder = await opened(project, home)
    run = (await recent_runs(recorder.project, limit=1))[0]
    assert run.title == "killed"
    changed = {file.file_path for file in run.files}
    assert changed == ({"a"} if path else {"a", "new", "gone"})
    await recorder.project.apply(await recorder.project.undo())
    assert (project / "a").read_text() == "before\n"
    if path is None:
        assert (project / "gone").read_text() == "before\n"
        assert not (project / "new").exists()
    assert (project / "early").read_text() == "early\n"
    left = {name.suffix for name in ledger_folder(home, str(project)).iterdir()}
    assert not left & {".running", ".known", ".tmp"}
    assert (ledger_folder(home, str(project)) / INDEX).exists()
    recorder.close()


def _killed_later(project: Path, home: Path) -> None:
    async def main() -> None:
        recorder = await opened(project, home)
        early = TrackedRun("s", title="early")
        await end(await begin(recorder, early, None))
        # The user, between two commands.
        (project / "mine").write_text("mine\n")
        (project / "edited").write_text("edited by me\n")
        (project / "deleted").unlink()
        begun = await begin(recorder, early, None)
        (project / "by a command").write_text("early\n")
        await end(begun)
        await begin(recorder, TrackedRun("s", title="killed"), None)
        for name in ("mine", "edited", "by a command", "new"):
            (project / name).write_text("after\n")
        os.kill(os.getpid(), signal.SIGKILL)

    anyio.run(main)


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.mark.slow  # a killed process of its own; see the test of the next process's recording
async def test_the_users_changes_between_commands_survive_the_undo_of_a_killed_run(
    project: Path, tmp_path: Path
) -> None:
    """Also if an earlier process knew everything."""
    home = tmp_path / "home"
    for name in ("edited", "deleted", "deleted earlier"):
        (project / name).write_text("before\n")
    first = await opened(project, home)
    await end(await begin(first, TrackedRun("s"), None))
    first.close()
    (project / "deleted earlier").unlink()
    child = multiprocessing.get_context("spawn").Process(target=_killed_later, args=(project, home))
    child.start()
    await anyio.to_thread.run_sync(child.join)
    assert child.exitcode == -signal.SIGKILL
    recorder = await opened(project, home)
    run = (await recent_runs(recorder.project, limit=1))[0]
    assert {file.file_path for file in run.files} == {"mine", "edited", "by a command", "new"}
    await recorder.project.apply(await recorder.project.undo())
    assert contents(project) == {"mine": "mine\n", "edited": "edited by me\n", "by a command": "early\n"}
    recorder.close()


@pytest.mark.slow  # likewise
async def test_an_unknown_file_is_not_attributed_to_a_killed_command(project: Path, tmp_path: Path) -> None:
    """Undoing that would delete it."""
    home = tmp_path / "home"
    for name in ("a", "gone"):
        (project / name).write_text("before\n")
    child = multiprocessing.get_context("spawn").Process(target=_killed, args=(project, home, None))
    child.start()
    await anyio.to_thread.run_sync(child.join)
    [known] = ledger_folder(home, str(project)).glob("*.known")
    os.truncate(known, 40)
    recorder = await opened(project, home)
    files = [file.file_path for run in await recent_runs(recorder.project, limit=9) for file in run.files]
    assert files == ["early"]
    recorder.close()


def _killed_older(project: Path, home: Path) -> None:
    """As a version did that stored its effects in the lock file, with the ledger in its format."""
    folder = ledger_folder(home, str(project))
    with Ledger.open(folder) as ledger:
        (before,) = ledger.put_blobs([b"before\n"])
    effect = EffectRecord(
        run="r",
        session="s",
        title="killed",
        began=now(),
        began_ns=time.time_ns(),
        path="a",
        before=FileSnapshot(before, 0o644),
    )
    file = os.open(folder / "0123.running", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    fcntl.flock(file, fcntl.LOCK_EX)
    os.write(file, msgspec.json.encode({"name": "1", "note": effect}) + b"\n")
    (project / "a").write_text("after\n")
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow  # likewise
async def test_changes_of_a_killed_process_of_an_older_version_are_recorded_once(
    project: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    (project / "a").write_text("before\n")
    (project / "a").chmod(0o644)
    child = multiprocessing.get_context("spawn").Process(target=_killed_older, args=(project, home))
    child.start()
    await anyio.to_thread.run_sync(child.join)
    assert child.exitcode == -signal.SIGKILL
    for _ in range(2):
        recorder = await opened(project, home)
        runs = await recent_runs(recorder.project, limit=9)
        assert [(run.title, [file.file_path for file in run.files]) for run in runs] == [("killed", ["a"])]
        assert not list(ledger_folder(home, str(project)).glob("*.running"))
        recorder.close()
    recorder = await opened(project, home)
    await recorder.project.apply(await recorder.project.undo())
    assert (project / "a").read_text() == "before\n"
    recorder.close()


def test_a_title_is_one_storable_line() -> None:
    assert title_of("do\n\tthis \udcff") == "do this ?"
    assert len(title_of("word " * 100)) == 80
