"""Which files were written since a moment: for what nobody had known before."""

from __future__ import annotations

import contextlib
import os
import stat
from itertools import filterfalse

from newel.workspace.snapshot_rules import MADE_ANEW, NEVER, Rules, is_never_covered
from newel.workspace.snapshot_tree import join


def touched(root: str, since_ns: int) -> list[str]:
    """The covered files below a root that were written, or given other permission bits, since a moment."""
    rules = Rules(root)
    repository = rules.repository_of_root()
    skipped = NEVER if repository is not None else NEVER | MADE_ANEW
    found: list[str] = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in skipped]
        inside = os.path.relpath(folder, root)
        for name in filterfalse(is_never_covered, files):
            with contextlib.suppress(OSError):
                seen = os.lstat(os.path.join(folder, name))  # noqa: PTH118 — a name may be any bytes
                if stat.S_ISREG(seen.st_mode) and seen.st_ctime_ns >= since_ns:
                    found.append(join("" if inside == "." else inside, name))
    left_out = rules.left_out((path, repository) for path in found)
    return [path for path in found if path not in left_out]
