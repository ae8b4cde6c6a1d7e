"""If these fail, an invalid request changes something, or fails without an explanation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from newel.agent.errors import NewelError
from newel.review.model.file_review import Conflict, StaleRevision
from newel.review_jobs.dependencies import ReviewLimits
from newel.review_jobs.errors import ReviewServiceError, status_of
from newel.review_jobs.requests import (
    ContextRow,
    DecideAll,
    Decision,
    EditRequest,
    RollbackRequest,
    RunRequest,
    SeenFile,
    Splice,
    ToolConfig,
)
from tests.requirements import require_program
from tests.review_bench import ReviewBench, hunks, open_bench, proposes, replace, says

pytestmark = pytest.mark.anyio

TEXT = "one\ntwo\nthree\n"
SMALL = ReviewLimits(max_instruction_bytes=100, max_context_bytes=100, max_splices=3, max_edit_bytes=100)


def run(**fields: Any) -> RunRequest:
    return msgspec.structs.replace(RunRequest(session_id="", instruction="Do it"), **fields)


def row(**fields: Any) -> RunRequest:
    return run(context_rows=[ContextRow(id="c", **fields)])


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (run(instruction=" \n"), 400),
        (run(instruction="x" * 101), 413),
        (run(tool_config=ToolConfig(max_tool_calls=0)), 422),
        (run(tool_config=ToolConfig(max_tool_calls=101)), 422),
        (row(content="x" * 101), 413),
        (row(file_path="../secret"), 422),
        (row(file_path="/etc/passwd"), 422),
        (row(file_path=".git/config"), 422),
        (row(file_path="a\0b"), 422),
        (row(start_line=3, end_line=2), 422),
        (row(start_line=0), 422),
    ],
)
async def test_an_invalid_job_is_not_started(tmp_path: Path, request_: RunRequest, status: int) -> None:
    async with open_bench(tmp_path, limits=SMALL) as at:
        session = await at.desk.sessions.create()
        with pytest.raises(NewelError) as error:
            await at.desk.jobs.run(msgspec.structs.replace(request_, session_id=session.session_id))
        assert status_of(error.value) == status
        assert (await at.desk.sessions.get(session.session_id)).last_job_id is None


async def test_unknown_ids_are_reported_as_not_found(tmp_path: Path) -> None:
    async with open_bench(tmp_path, proposes(replace("a.md", 1, "eins\n")), says("Done.")) as at:
        at.write(a=TEXT)
        view = await at.start()
        other = await at.desk.sessions.create()
        hard = RollbackRequest(mode="hard_all")
        scoped = RollbackRequest(mode="scoped_selected", hunk_ids=["h_0"])
        decision = Decision(file_path="a.md", rev=view_rev(at), action="accept", hunk_id="h_0")
        for asked in (
            at.desk.sessions.get("sess_0"),
            at.desk.jobs.get("0"),
            at.desk.jobs.events("0"),
            at.desk.jobs.clarify("0", "q", "a"),
            at.desk.jobs.run(run(session_id="sess_0")),
            at.desk.jobs.apply("sess_0", view.id, []),
            at.desk.jobs.apply(other.session_id, view.id, []),
            at.desk.checkpoints.get("cp_0"),
            at.desk.checkpoints.diff3("cp_0", "a.md"),
            at.desk.checkpoints.diff3(str(view.checkpoint_id), "b.md"),
            at.desk.checkpoints.roll_back("cp_0", hard),
            at.desk.checkpoints.roll_back(str(view.checkpoint_id), scoped),
            at.desk.decisions.decide(decision),
        ):
            with pytest.raises(NewelError) as error:
                await asked
            assert status_of(error.value) == 404, error.value
            assert str(error.value)
        assert (await at.desk.jobs.get(view.id)).diff_bundle == view.diff_bundle


def view_rev(at: ReviewBench) -> int:
    return at.ledger.get("a.md").rev


@pytest.mark.parametrize(
    ("splices", "status"),
    [
        ([Splice(start_line=0, delete_lines=0, new_text="x\n")], 422),
        ([Splice(start_line=5, delete_lines=0, new_text="x\n")], 422),
        ([Splice(start_line=3, delete_lines=2, new_text="")], 422),
        ([Splice(start_line=1, delete_lines=-1, new_text="")], 422),
        (
            [
                Splice(start_line=1, delete_lines=2, new_text=""),
                Splice(start_line=2, delete_lines=1, new_text=""),
            ],
            422,
        ),
        ([Splice(start_line=1, delete_lines=0, new_text="a\0b")], 400),
        ([Splice(start_line=1, delete_lines=0, new_text="\ud800")], 400),
        ([Splice(start_line=1, delete_lines=0, new_text="x" * 101)], 413),
        ([Splice(start_line=1, delete_lines=0, new_text="x\n")] * 4, 413),
    ],
)
async def test_an_edit_of_missing_lines_changes_nothing(
    tmp_path: Path, splices: list[Splice], status: int
) -> None:
    async with open_bench(tmp_path, limits=SMALL) as at:
        at.write(a=TEXT)
        before = await at.desk.files.state("a.md")
        with pytest.raises(NewelError) as error:
            await at.desk.decisions.edit(EditRequest(file_path="a.md", rev=before.rev, splices=splices))
        assert status_of(error.value) == status
        assert await at.desk.files.state("a.md") == before


@pytest.mark.parametrize("path", ["../a.md", "/etc/passwd", ".git/config", "x/.GIT/y", "a\0", "out/a.md", ""])
async def test_a_path_out_of_the_project_is_refused_everywhere(tmp_path: Path, path: str) -> None:
    async with open_bench(tmp_path) as at:
        (at.root / "out").symlink_to(tmp_path)
        splice = Splice(start_line=1, delete_lines=0, new_text="x\n")
        for asked in (
            at.desk.files.state(path),
            at.desk.files.change_log(path),
            at.desk.decisions.edit(EditRequest(file_path=path, rev=0, splices=[splice])),
            at.desk.decisions.decide(Decision(file_path=path, rev=0, action="accept_all_file")),
            at.desk.decisions.undo(path, 0),
            at.desk.decisions.save([path]),
            at.desk.checkpoints.diff3("cp_0", path),
        ):
            with pytest.raises(NewelError) as error:
                await asked
            assert status_of(error.value) == 422
        assert at.ledger.paths() == []
        assert not (tmp_path / "a.md").exists()


async def test_a_misspelt_field_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"mode": "hard_all", "hunks": []}', type=RollbackRequest)


async def test_the_users_edits_are_undone_and_redone_at_their_revision(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as at:
        at.write(a="one\r\ntwo\r\n")
        file = await at.desk.files.state("a.md")
        splices = [
            Splice(start_line=1, delete_lines=1, new_text="eins\r\n"),
            Splice(start_line=3, delete_lines=0, new_text="drei"),
        ]
        typed = await at.desk.decisions.edit(EditRequest(file_path="a.md", rev=file.rev, splices=splices))
        assert typed.content == "eins\r\ntwo\r\ndrei"
        with pytest.raises(StaleRevision):
            await at.desk.decisions.undo("a.md", file.rev)
        undone = await at.desk.decisions.undo("a.md", typed.rev)
        assert undone.content == "one\r\ntwo\r\n"
        again = await at.desk.decisions.undo("a.md", undone.rev, redo=True)
        assert again.content == typed.content
        log = (await at.desk.files.change_log("a.md")).changes
        assert [(change.origin, change.status) for change in log][-1] == ("user", "pending")
        (saved,) = (await at.desk.decisions.save(["a.md"])).saved_files
        assert at.read("a.md") == "eins\r\ntwo\r\ndrei"
        assert (saved.saved_hunks, saved.left_hunks) == (2, 0)


async def test_a_new_file_of_the_user_is_created_by_its_save(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as at:
        file = await at.desk.files.state("new.md")
        assert file.content is None
        splice = Splice(start_line=1, delete_lines=0, new_text="hello\n")
        await at.desk.decisions.edit(EditRequest(file_path="new.md", rev=file.rev, splices=[splice]))
        assert not (at.root / "new.md").exists()
        await at.desk.decisions.save(["new.md"])
        assert at.read("new.md") == "hello\n"


async def test_a_job_ends_when_all_its_hunks_are_saved_or_rejected(tmp_path: Path) -> None:
    edits = proposes(replace("a.md", 1, "eins\n"), replace("a.md", 3, "drei\n"), replace("b.md", 1, "eins\n"))
    async with open_bench(tmp_path, edits, says("Done.")) as at:
        at.write(a=TEXT, b=TEXT)
        view = await at.start()
        b = await at.desk.files.state("b.md")
        await at.desk.decisions.decide(
            Decision(file_path="b.md", rev=b.rev, action="reject", hunk_id=hunks(view)["b.md/0"].hunk_id)
        )
        a = await at.desk.files.state("a.md")
        a = await at.desk.decisions.decide(Decision(file_path="a.md", rev=a.rev, action="accept_all_file"))
        assert {hunk.state for hunk in a.hunks} == {"accepted"}
        assert (await at.desk.jobs.get(view.id)).status == "awaiting_review"
        await at.desk.decisions.save(["a.md"])
        assert (at.read("a.md"), at.read("b.md")) == ("eins\ntwo\ndrei\n", TEXT)
        ended = await at.desk.jobs.get(view.id)
        assert ended.status == "completed"
        assert {file.file_path: file.applied_hunks for file in ended.applied_files or ()} == {
            "a.md": 2,
            "b.md": 0,
        }


async def test_the_users_lines_count_as_unsaved_and_not_as_undecided(tmp_path: Path) -> None:
    async with open_bench(tmp_path, proposes(replace("a.md", 1, "eins\n")), says("Done.")) as at:
        at.write(a=TEXT)
        await at.start()
        rev = (await at.desk.files.state("a.md")).rev
        own = [Splice(start_line=3, delete_lines=1, new_text="mine\n")]
        await at.desk.decisions.edit(EditRequest(file_path="a.md", rev=rev, splices=own))
        (file,) = (await at.desk.overview.pending()).files
        assert (file.pending, file.accepted, file.unsaved) == (1, 0, 1)
        at.write(a=TEXT.replace("three", "theirs"))
        await at.desk.files.state("a.md")
        (file,) = (await at.desk.overview.pending()).files
        assert (file.pending, file.conflicts, file.unsaved) == (2, 1, 1)


async def test_a_decision_on_several_hunks_is_one_undo_step_and_idempotent(
    tmp_path: Path,
) -> None:
    edits = proposes(*(replace("a.md", n, f"LINE {n}\n") for n in (1, 3, 5)), replace("b.md", 1, "eins\n"))
    async with open_bench(tmp_path, edits, says("Done.")) as at:
        at.write(a="".join(f"line {n}\n" for n in range(1, 6)), b=TEXT)
        await at.start()

        async def states(name: str = "a.md") -> list[str]:
            return [hunk.state for hunk in (await at.desk.files.state(name)).hunks]

        first = await at.desk.files.state("a.md")
        ids = [hunk.hunk_id for hunk in first.hunks]
        accept = Decision(file_path="a.md", rev=first.rev, action="accept", hunk_ids=ids[:2])
        after = await at.desk.decisions.decide(accept)
        again = await at.desk.decisions.decide(msgspec.structs.replace(accept, rev=after.rev))
        assert (again.rev, await states()) == (after.rev, ["accepted", "accepted", "pending"])
        assert [hunk.state for hunk in (await at.desk.decisions.undo("a.md", again.rev)).hunks] == [
            "pending"
        ] * 3
        # All hunks of a file exclude the user's own lines, and so do several hunks.
        rev = (await at.desk.files.state("a.md")).rev
        splices = [Splice(start_line=3, delete_lines=1, new_text="LINE 3, by me\n")]
        typed = await at.desk.decisions.edit(EditRequest(file_path="a.md", rev=rev, splices=splices))
        whole = Decision(file_path="a.md", rev=typed.rev, action="reject_all_file")
        done = await at.desk.decisions.decide(whole)
        assert await states() == ["rejected", "pending", "rejected"]
        await at.desk.decisions.undo("a.md", done.rev)
        seen = [SeenFile(file_path="a.md", hunk_ids=ids[1:])]
        seen.append(
            SeenFile(file_path="b.md", hunk_ids=[(await at.desk.files.state("b.md")).hunks[0].hunk_id])
        )
        for _ in range(2):
            (a, b) = (await at.desk.decisions.decide_all(DecideAll(action="reject", files=seen))).files
            assert (a.left, b.left) == (2, 0)
        assert (await states(), await states("b.md")) == (["pending", "pending", "rejected"], ["rejected"])
        await at.desk.decisions.decide_all(DecideAll(action="reject", files=seen, mine="base"))
        assert await states() == ["pending", "pending", "rejected"]  # the lines typed into it were not shown
        seen[0] = SeenFile(file_path="a.md", hunk_ids=[hunk.hunk_id for hunk in typed.hunks[1:]])
        await at.desk.decisions.decide_all(DecideAll(action="reject", files=seen, mine="base"))
        assert await states() == ["pending", "rejected", "rejected"]
        # A state shown by a window is known as long as the journal.
        assert (await at.desk.files.state("a.md", typed.rev)).content == typed.content
        with pytest.raises(StaleRevision):
            await at.desk.files.state("a.md", typed.rev + 100)


async def test_git_apply_of_a_bundles_accepted_patches_equals_apply(
    tmp_path: Path,
) -> None:
    text = "".join(f"line {n}\n" for n in range(40))
    edits = [replace("a.md", n, f"LINE {n}\nand more\n") for n in (3, 12, 20, 33)]
    async with open_bench(tmp_path, proposes(*edits), says("Done.")) as at:
        at.write(a=text)
        view = await at.start()
        accepted = [hunk for name, hunk in hunks(view).items() if name in {"a.md/1", "a.md/3"}]
        aside = tmp_path / "aside"
        aside.mkdir()
        (aside / "a.md").write_text(text)
        patch = "--- a/a.md\n+++ b/a.md\n" + "".join(hunk.patch for hunk in accepted)
        await anyio.run_process(
            [require_program("git"), "apply", "--unidiff-zero", "-"], cwd=aside, input=patch.encode()
        )
        await at.desk.jobs.apply(view.session_id, view.id, [hunk.hunk_id for hunk in accepted])
        assert at.read("a.md") == (aside / "a.md").read_text() != text


async def test_a_scoped_rollback_reverts_only_the_named_hunks_and_has_a_dry_run(tmp_path: Path) -> None:
    edits = proposes(replace("a.md", 1, "eins\n"), replace("a.md", 3, "drei\n"))
    async with open_bench(tmp_path, edits, says("Done.")) as at:
        at.write(a=TEXT)
        view = await at.start()
        ids = [hunk.hunk_id for hunk in hunks(view).values()]
        await at.desk.jobs.apply(view.session_id, view.id, ids)
        point = str(view.checkpoint_id)
        ask = RollbackRequest(mode="scoped_selected", hunk_ids=ids[:1], dry_run=True)
        planned = await at.desk.checkpoints.roll_back(point, ask)
        assert "-eins\n+one\n" in planned.files[0].patch
        assert (await at.desk.files.state("a.md")).content == "eins\ntwo\ndrei\n"
        with pytest.raises(ReviewServiceError):
            await at.desk.checkpoints.roll_back(point, RollbackRequest(mode="scoped_selected"))
        await at.desk.checkpoints.roll_back(point, RollbackRequest(mode="scoped_selected", hunk_ids=ids[:1]))
        assert at.read("a.md") == "eins\ntwo\ndrei\n"
        await at.desk.decisions.save(["a.md"])
        assert at.read("a.md") == "one\ntwo\ndrei\n"
        three = await at.desk.checkpoints.diff3(point, "a.md")
        texts = (three.checkpoint_base, three.agent_proposed, three.current_file)
        assert texts == (TEXT, "eins\ntwo\ndrei\n", "one\ntwo\ndrei\n")
        hunk_states = {
            hunk.hunk_id: hunk.reverse_patch for hunk in (await at.desk.checkpoints.get(point)).files[0].hunks
        }
        assert "-drei\n+three\n" in hunk_states[ids[1]]
        assert (await at.types(view.id))[-3:-1] == [
            "checkpoint.rollback.started",
            "checkpoint.rollback.completed",
        ] or (await at.types(view.id))[-2:] == [
            "checkpoint.rollback.started",
            "checkpoint.rollback.completed",
        ]


async def test_a_link_in_the_place_of_a_reviewed_file_is_not_written_through(tmp_path: Path) -> None:
    async with open_bench(tmp_path, proposes(replace("a.md", 1, "eins\n")), says("Done.")) as at:
        at.write(a=TEXT)
        outside = tmp_path / "outside.md"
        outside.write_text(TEXT)
        view = await at.start()
        (at.root / "a.md").unlink()
        (at.root / "a.md").symlink_to(outside)
        with pytest.raises(NewelError) as error:
            await at.desk.jobs.apply(
                view.session_id, view.id, [hunk.hunk_id for hunk in hunks(view).values()]
            )
        assert status_of(error.value) in {409, 422}
        assert outside.read_text() == TEXT
        (at.root / "a.md").unlink()
        with pytest.raises(Conflict):
            await at.desk.jobs.apply(
                view.session_id, view.id, [hunk.hunk_id for hunk in hunks(view).values()]
            )
        assert not (at.root / "a.md").exists()
