"""If these fail, an editor shows another change than the one that was made."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from newel.acp.updates import diffs, fenced
from newel.diff.unified import compare, split_lines, unified_diff

LINES = st.lists(st.sampled_from(["a", "b", "@@ -1 +1 @@", "--- x", "+y", "\\ No", ""]), max_size=12)


@given(LINES, LINES, st.booleans(), st.booleans())
def test_the_hunks_change_exactly_what_the_diff_changes(
    old: list[str], new: list[str], old_ends: bool, new_ends: bool
) -> None:
    before = "\n".join(old) + ("\n" if old and old_ends else "")
    after = "\n".join(new) + ("\n" if new and new_ends else "")
    lines = split_lines(before.encode())
    diff = unified_diff("f", lines, compare(lines, split_lines(after.encode())))
    changed = before
    for hunk in diffs("/f", diff):
        assert hunk.old_text is not None
        assert hunk.old_text in changed
        if changed.count(hunk.old_text) == 1:
            changed = changed.replace(hunk.old_text, hunk.new_text)
        else:
            return  # the place is not unique, so the text cannot be rebuilt from it
    assert changed == after


@given(st.text(alphabet="`a\n"))
def test_nothing_ends_a_code_block_but_its_end(text: str) -> None:
    lines = fenced(text).split("\n")
    assert lines[0] == lines[-1]
    assert lines[0] not in lines[1:-1]
