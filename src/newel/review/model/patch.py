"""Hunks as unified diffs for ``git apply`` and ``patch``.

A file's head (``newel.review.model.file_lines``) is not a line of a patch; a git diff shows it as the mode lines
before the hunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from newel.diff.patience import LineSpan, diff
from newel.diff.unified import CONTEXT, DiffBlock, hunks
from newel.review.model.file_kinds import git_mode
from newel.review.model.file_lines import MODE, head_of, is_blob, kind_of
from newel.review.model.file_review import FileReview, Hunk, Lines, is_head, joined, render


def hunk_patch(base: Lines, hunk: Hunk, *, context: int = CONTEXT) -> str:
    """One hunk as part of a unified diff against the base alone, with up to ``context`` lines around it. Empty if
    the hunk changes only the file's head, or if the file is kept as a whole.
    """
    if is_blob(base[hunk.a : hunk.b]) or is_blob(hunk.top.lines):
        return ""
    return _patch_at(base, hunk, context, compares=False)


def _patch_at(base: Lines, hunk: Hunk, context: int, *, compares: bool) -> str:
    """``compares``: lines that the hunk has in common with the base are context."""
    # A last line without an end gets one if another line follows it, so it is changed, too.
    is_last = 0 < hunk.a == len(base) and bool(hunk.top.lines) and not is_head(base[-1])
    a = hunk.a - 1 if is_last and context and not base[-1].endswith("\n") else hunk.a
    behind = base[hunk.b : hunk.b + 1]
    lines = joined(base[a : hunk.a], hunk.top.lines, behind)
    lines = lines[: len(lines) - len(behind)]
    compares = compares and not set(base[a : hunk.b]).isdisjoint(lines)  # it is many times as quick
    spans = diff(base[a : hunk.b], lines) if compares else [LineSpan(0, hunk.b - a, 0, len(lines))]
    made = (_block(base, a + span.a0, a + span.a1, lines[span.b0 : span.b1]) for span in spans)
    blocks = [block for block in made if block]
    if not blocks:
        return ""
    # Only the affected part of the text, because there may be many hunks.
    first = max(blocks[0].start - context, 0)
    head = int(head_of(base) is not None)
    old = base[head + first : head + blocks[-1].end + context]
    shifted = [DiffBlock(block.start - first, block.end - first, block.new) for block in blocks]
    return "".join(hunks(old, shifted, context=context, before=first))


def patch_of_hunk(path: str, base: Lines, hunk: Hunk) -> str:
    """What a hunk alone changes, in git's format; empty if that is nothing. Compares no other lines than its own."""
    is_plain = head_of(base) is not None and hunk.a > 0 and kind_of(base) == "file"
    if not is_plain or is_blob(base) or is_blob(hunk.top.lines):
        return file_patch(path, base, render(base, [hunk]))
    body = _patch_at(base, hunk, CONTEXT, compares=True)
    ours, theirs = _quoted(f"a/{path}"), _quoted(f"b/{path}")
    return f"diff --git {ours} {theirs}\n--- {ours}\n+++ {theirs}\n{body}" if body else ""


def contexts(review: FileReview) -> Iterator[int]:
    """The number of context lines around each hunk in its patch. No other hunk changes or shows these lines, so
    patches of several hunks can be concatenated. There are as many before as after, which tells tools that the
    file continues.
    """
    ends = [-2 * CONTEXT, *(hunk.b for hunk in review.hunks)]
    starts = [*(hunk.a for hunk in review.hunks[1:]), len(review.base) + 2 * CONTEXT]
    for hunk, end, start in zip(review.hunks, ends, starts, strict=False):
        yield min(CONTEXT, (hunk.a - end) // 2, (start - hunk.b) // 2)


def file_patch(path: str, old: Lines, new: Lines) -> str:
    """The changes from ``old`` to ``new`` in git's format; empty if there are none."""
    if old == new:
        return ""
    if old and new and kind_of(old) != kind_of(new):  # as git writes it
        return file_patch(path, old, ()) + file_patch(path, (), new)
    before, after = head_of(old), head_of(new)
    ours, theirs = _quoted(f"a/{path}"), _quoted(f"b/{path}")
    header = [f"diff --git {ours} {theirs}\n"]
    if before is None:
        header.append(f"new file mode {git_mode(after or MODE)}\n")
        ours = "/dev/null"
    elif after is None and not new:
        header.append(f"deleted file mode {git_mode(before)}\n")
        theirs = "/dev/null"
    elif before != (after or MODE):
        header.append(f"old mode {git_mode(before)}\nnew mode {git_mode(after or MODE)}\n")
    if is_blob(old) or is_blob(new):
        return "".join([*header, f"Binary files {ours} and {theirs} differ\n"])
    if blocks := _blocks(old, new):
        header += [f"--- {ours}\n", f"+++ {theirs}\n", *hunks(_text(old), blocks)]
    return "".join(header)


def patch_size(old: Lines, new: Lines) -> tuple[int, int]:
    """How many lines ``file_patch`` adds and removes."""
    if old and new and kind_of(old) != kind_of(new):
        return patch_size((), new)[0], patch_size(old, ())[1]
    if old == new or is_blob(old) or is_blob(new):
        return 0, 0
    blocks = _blocks(old, new)
    return sum(len(block.new) for block in blocks), sum(block.end - block.start for block in blocks)


def _blocks(old: Lines, new: Lines) -> list[DiffBlock[str]]:
    made = (_block(old, span.a0, span.a1, new[span.b0 : span.b1]) for span in diff(old, new))
    return [block for block in made if block]


def _block(base: Lines, a: int, b: int, new: Sequence[str]) -> DiffBlock[str] | None:
    """A change with line numbers that ignore the head; None if it changes only the head."""
    head = int(head_of(base) is not None)
    start, end, lines = (
        max(a - head, 0),
        max(b - head, 0),
        [line for line in new if not line.startswith("\0")],
    )
    return DiffBlock(start, end, lines) if lines or start < end else None


def _text(lines: Lines) -> Lines:
    return lines[1:] if head_of(lines) is not None else lines


def _quoted(name: str) -> str:
    """A path in git's notation: quoted, with escaped bytes, if it contains unusual characters."""
    if name.isascii() and name.isprintable() and not {'"', "\\"} & set(name):
        return name
    escapes = {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\t"): "\\t"}
    return (
        '"'
        + "".join(
            escapes.get(byte, chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")
            for byte in name.encode("utf-8", "surrogateescape")
        )
        + '"'
    )
