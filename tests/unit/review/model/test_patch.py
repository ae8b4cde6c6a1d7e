"""If these fail, git and GNU patch reject the patches of a review."""

from __future__ import annotations

import subprocess
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newel.diff.unified import changes
from newel.review.model.edits import edit
from newel.review.model.file_lines import content_of, lines_of
from newel.review.model.file_review import FileReview, Hunk, Layer, Lines, buffer, render
from newel.review.model.patch import file_patch, hunk_patch, patch_of_hunk, patch_size
from tests.requirements import require_program

LINE = st.sampled_from(["a\n", "b\n", "c\r\n", "\n", "\u2028x\n", "😀\n", "-- \n", "@@\n", "end", "\\ no\n"])
TEXT = st.lists(LINE, max_size=12).map("".join)
NAMES = ["f", "with space", 'quo"te', "tab\there", "ä/ö", "-dash", "new\nline"]
FEW = settings(max_examples=40, deadline=None)


def git(folder: Path, patch: str) -> None:
    done = subprocess.run(
        [require_program("git"), "apply", "--unidiff-zero", "--whitespace=nowarn", "-"],
        cwd=folder, input=patch.encode(), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stderr.decode(), patch)


def put(path: Path, lines: Lines) -> None:
    content = content_of(lines)
    if content is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.data)
    path.chmod(content.mode)


@FEW
@given(
    st.sampled_from(NAMES),
    st.one_of(st.none(), TEXT),
    st.one_of(st.none(), TEXT),
    st.sampled_from([0o644, 0o755]),
)
def test_git_applies_the_patch_to_the_new_file(
    name: str, old: str | None, new: str | None, mode: int
) -> None:
    before = lines_of(None if old is None else old.encode())
    after = lines_of(None if new is None else new.encode(), mode)
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        put(path, before)
        if patch := file_patch(name, before, after):
            git(Path(folder), patch)
        found = lines_of(path.read_bytes(), path.stat().st_mode & 0o777) if path.exists() else ()
        assert found == after


@FEW
@given(TEXT, st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), TEXT, st.booleans()), max_size=6))
def test_accepted_hunks_are_a_patch(text: str, edits: list[tuple[int, int, str, bool]]) -> None:
    ids = count(1)
    review = FileReview(path="f", base=lines_of(text.encode()))
    size = len(review.base)
    for x, y, new, _ in sorted(edits, key=lambda each: -(each[0] % size)):
        shown = len(buffer(review))
        start = min(max(x % size, 1), shown)
        end = min(start + y % 3, shown)
        layer = Layer(origin="agent", lines=lines_of(new.encode())[1:], run="r")
        review = edit(review, start, end, layer, lambda: str(next(ids)))
    kept = [hunk for index, hunk in enumerate(review.hunks) if edits[index % len(edits)][3]] if edits else []
    wanted = render(review.base, tuple(kept))
    assert applied(review.base, file_patch("f", review.base, wanted)) == wanted
    for hunk in review.hunks:
        patch = "--- a/f\n+++ b/f\n" + hunk_patch(review.base, hunk)
        assert applied(review.base, patch) == render(review.base, (hunk,))
        assert applied(review.base, patch_of_hunk("f", review.base, hunk)) == render(review.base, (hunk,))


STATE = st.tuples(
    st.one_of(st.none(), TEXT.map(str.encode), st.just(b"\0")), st.sampled_from([0o644, 0o755, 0o120000])
)


@given(STATE, STATE)
def test_a_patch_that_is_not_written_has_the_same_size(
    old: tuple[bytes | None, int], new: tuple[bytes | None, int]
) -> None:
    before, after = lines_of(*old), lines_of(*new)
    marks = [change.mark for change in changes(file_patch("f", before, after))]
    assert patch_size(before, after) == (marks.count("+"), marks.count("-"))


def applied(base: Lines, patch: str) -> Lines:
    """The result of git apply, and of GNU patch."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        put(path, base)
        if patch:
            git(Path(folder), patch)
        return lines_of(path.read_bytes(), path.stat().st_mode & 0o777)


@pytest.mark.parametrize("new", ["more\n", "more"])
def test_a_line_after_one_without_an_end_is_a_separate_line(new: str) -> None:
    base = lines_of(b"end")
    hunk = Hunk(id="h_1", a=2, b=2, layers=(Layer(origin="agent", lines=(new,), run="r"),))
    assert applied(base, "--- a/f\n+++ b/f\n" + hunk_patch(base, hunk)) == lines_of(f"end\n{new}".encode())
