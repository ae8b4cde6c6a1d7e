"""If these fail, the change log or a bundle misreports what happened to a file."""

from __future__ import annotations

from functools import partial
from itertools import count
from pathlib import Path

import anyio
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from newel.review.model.edits import edit
from newel.review.model.file_lines import content_of, lines_of
from newel.review.model.file_review import FileReview, Layer, buffer
from newel.review.model.rebase import rebased
from newel.review.serialize import bundle, change_log
from newel.review.store.ledger import Ledger
from newel.review_jobs.requests import Decision, EditRequest, Splice
from tests.properties import examples
from tests.requirements import require_program
from tests.review_bench import calls, hunks, open_bench, proposes, replace, says

TEXT = "".join(f"line {n}\n" for n in range(1, 21))


@pytest.mark.anyio
async def test_the_change_log_has_the_author_and_the_outcome_of_each_change(tmp_path: Path) -> None:
    script = (
        proposes(replace("a.md", 3, "drei\n")),
        calls("read_file", file_path="a.md"),
        proposes(replace("a.md", 12, "zwölf\n")),
        says("Done."),
    )
    async with open_bench(tmp_path, *script) as at:
        at.write(a=TEXT)
        view = await at.start()
        names = hunks(view)
        rev = (await at.desk.files.state("a.md")).rev
        typed = Splice(start_line=20, delete_lines=1, new_text="end\n")
        file = await at.desk.decisions.edit(EditRequest(file_path="a.md", rev=rev, splices=[typed]))
        await at.desk.decisions.decide(
            Decision(file_path="a.md", rev=file.rev, action="reject", hunk_id=names["a.md/0"].hunk_id)
        )
        log = (await at.desk.files.change_log("a.md")).changes[-3:]
        assert [(each.kind, each.origin, each.status) for each in log] == [
            ("propose", "agent", "rejected"),
            ("propose", "agent", "pending"),
            ("user_edit", "user", "pending"),
        ]
        await at.desk.jobs.apply(view.session_id, view.id, [names["a.md/1"].hunk_id])
        log = (await at.desk.files.change_log("a.md")).changes
        assert next(each.status for each in log if "zwölf" in each.forward_patch) == "applied"


PIECES = st.sampled_from(["a\n", "b\n", "c\r\n", "d\u2028\n", "😀\n"])
EDITS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 3), st.lists(PIECES, max_size=3), st.booleans()),
    min_size=1,
    max_size=5,
)


@settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(start=st.lists(PIECES, min_size=1, max_size=9), edits=EDITS)
def test_git_applies_the_log_of_any_history_forwards_and_backwards(
    tmp_path_factory: pytest.TempPathFactory,
    start: list[str],
    edits: list[tuple[int, int, list[str], bool]],
) -> None:
    folder = tmp_path_factory.mktemp("log")
    ids = count()
    base = lines_of("".join(start).encode())
    with Ledger.open(None) as ledger:
        ledger.change("f", "rebase", lambda now: rebased(now, base))
        for at, size, lines, by_user in edits:
            review = ledger.get("f")
            text = buffer(review)
            a = 1 + at % len(text)
            b = min(a + size, len(text))
            layer = Layer(origin="user", lines=tuple(lines))
            if not by_user and not any(hunk.has_user_layer for hunk in review.hunks):
                layer = Layer(origin="agent", lines=tuple(lines), run="r")
            make = partial(edit, start=a, end=b, layer=layer, new_id=lambda: f"h_{next(ids)}")
            ledger.change("f", "user_edit" if layer.origin == "user" else "propose", make)
        review = ledger.get("f")
        log = change_log(ledger.entries(path="f"), review)
        bundle("r", [review])
    anyio.run(_through, folder, [(each.forward_patch, each.reverse_patch) for each in log], review)


async def _through(folder: Path, patches: list[tuple[str, str]], review: FileReview) -> None:
    async def git(patch: str) -> None:
        await anyio.run_process([require_program("git"), "apply", "-"], cwd=folder, input=patch.encode())

    for forward, _ in patches:
        await git(forward)
    content = content_of(buffer(review))
    assert content is not None
    assert (folder / "f").read_bytes() == content.data
    for _, back in reversed(patches):
        await git(back)
    assert not (folder / "f").exists()


def test_every_field_is_in_the_json_of_a_bundle() -> None:
    review = FileReview(path="f", base=lines_of(b"one\n"))
    review = edit(
        review, 1, 2, Layer(origin="agent", lines=("eins\n",), run="r", edits=("e_1",)), lambda: "h_1"
    )
    made = msgspec.json.decode(msgspec.json.encode(bundle("r", [review])))
    assert made["job_id"] == "r"
    (file,) = made["files"]
    assert file["file_path"] == "f"
    assert file["base_file_hash"].startswith("sha256:")
    (hunk,) = file["hunks"]
    assert hunk["patch"] == "@@ -1 +1 @@\n-one\n+eins\n"
    assert (hunk["hunk_id"], hunk["accepted"], hunk["edit_ids"]) == ("h_1", None, ["e_1"])
