"""Names in a repository that comes from elsewhere: those that git accepts itself, and no others.

Git does not check each name that it is given: ``git symbolic-ref`` writes the file that a name leads to, wherever that is.
"""

from __future__ import annotations

import re
from typing import Final

_IMPOSSIBLE: Final = re.compile(
    r"[\x00-\x20\x7f~^:?*\[\\]|[^\x00-\xff]|\.\.|@\{|//|/\.|\.lock(?=/|\Z)|[./]\Z"
)
"""As in ``git check-ref-format``. A name is decoded as Latin-1, so that a larger character stands for no byte."""

_MOST: Final = 1000
_MOST_OF_PART: Final = 250
"""Characters: git appends ``.lock`` to the name of the file."""

_OID: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REMOTE: Final = re.compile(r"\.|[A-Za-z0-9][A-Za-z0-9._-]*")


def is_ref_name(name: str) -> bool:
    """Whether a name, decoded as Latin-1, may be that of a ref."""
    return (
        name.startswith("refs/")
        and not _IMPOSSIBLE.search(name)
        and len(name) <= _MOST
        and all(len(part) <= _MOST_OF_PART for part in name.split("/"))
    )


def is_oid(text: str) -> bool:
    """Whether it is the full name of an object."""
    return _OID.fullmatch(text) is not None


def is_remote_name(name: str) -> bool:
    """Whether it names a remote, or with ``.`` the repository itself. Git takes anything else for an address, which may be any place."""
    return _REMOTE.fullmatch(name) is not None
