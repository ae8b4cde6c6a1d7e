"""Which files were written since a moment, for whoever knows nothing else of them: after a crash."""

from __future__ import annotations

import contextlib
import stat

from newel.workspace.snapshots.ignore_rules import MADE_ANEW, NEVER, is_never_covered
from newel.workspace.snapshots.port import SnapshotSource
from newel.workspace.snapshots.tree import is_kept, join, split


def touched(source: SnapshotSource, since_ns: int) -> list[str]:
    """The covered files that were written, or given other permission bits, since a moment on this machine's clock, and all
    folders. Blocks.
    """
    since_ns += source.clock()
    repository = source.rules.repository_of_root()
    skipped = NEVER if repository is not None else NEVER | MADE_ANEW
    found: list[str] = []
    try:
        source.begin()
        level = [""]
        while level:
            source.ahead(level)
            below: list[str] = []
            for folder in level:
                with contextlib.suppress(OSError):
                    for name, seen in source.entries(folder, None):
                        path = join(folder, name)
                        if stat.S_ISDIR(seen.st_mode):
                            below += [] if name in skipped else [path]
                            found.append(path)
                        elif is_kept(seen.st_mode) and seen.st_ctime_ns >= since_ns:
                            found.append(path)
            level = below
    finally:
        source.end()
    found = [path for path in found if not is_never_covered(split(path)[1])]
    left_out = source.rules.left_out((path, repository) for path in found)
    return [path for path in found if path not in left_out and path not in source.left_out]
