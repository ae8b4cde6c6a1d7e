"""Files that were renamed, found by their lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

MOST_PAIRS: Final = 10_000
"""Pairs of files that are compared."""


def find_renames(patches: Mapping[str, str]) -> dict[str, str]:
    """The old names of renamed files, by the new ones: most lines of a file that is gone are in one that is new. ``patches`` are git
    patches by path.
    """
    gone = {path: _lines(patch, "-") for path, patch in patches.items() if "\ndeleted file mode " in patch}
    new = {path: _lines(patch, "+") for path, patch in patches.items() if "\nnew file mode " in patch}
    if len(gone) * len(new) > MOST_PAIRS:
        return {}
    found: dict[str, str] = {}
    for path, lines in new.items():
        shared = {old: (lines & before).total() for old, before in gone.items()}
        old = max(shared, key=lambda old: shared[old], default="")
        if old and 2 * shared[old] > max(lines.total(), gone[old].total()):
            found[path] = old
            del gone[old]
    return found


def _lines(patch: str, sign: str) -> Counter[str]:
    """The lines that a patch of a whole file removes or adds."""
    body = patch.partition("\n@@")[2].split("\n")[1:]
    return Counter(line[1:] for line in body if line.startswith(sign))
