"""Which files hold secrets, and their contents, which are in memory as long as nothing has changed them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple

from newel.workspace.snapshots.ignore_rules import IgnoreRules
from newel.workspace.snapshots.tree import ExclusionReason, FileTree, split

HELD_BYTES: Final = 16 << 20
"""Contents of files with secrets in memory."""

_MANY: Final = 64
"""Files for which to ask git is faster than to search their texts."""


def _is_never(path: str, data: bytes) -> bool:
    del path, data
    return False


class SecretTests(NamedTuple):
    """Whether a file, by its path and its content, holds secrets: ``by_name`` is for any file, ``by_data`` for settings, data and notes
    that git does not track, ``by_text`` for all texts that a repository does not track.
    """

    by_name: Callable[[str, bytes], bool] = _is_never
    by_data: Callable[[str, bytes], bool] = _is_never
    by_text: Callable[[str, bytes], bool] = _is_never


class SecretFinder:
    """Judges ``count`` files of ``tree``. What git tracks is in its own store anyway."""

    def __init__(self, tests: SecretTests, tree: FileTree, rules: IgnoreRules, count: int) -> None:
        self._tests = tests
        self._tree = tree
        self._rules = rules
        self._is_git_first = count >= _MANY

    def is_secret(self, path: str, data: bytes) -> bool:
        if self._tests.by_name(path, data):
            return True
        if self._tree.exclusion(path) is ExclusionReason.SECRET:
            return True  # another process held it, and may have known more rules
        if self._is_git_first:
            is_tracked = self._is_tracked(path)
            return not is_tracked and (self._tests.by_data if is_tracked is None else self._tests.by_text)(
                path, data
            )
        if not self._tests.by_text(path, data):
            return False
        is_tracked = self._is_tracked(path)
        return self._tests.by_data(path, data) if is_tracked is None else not is_tracked

    def _is_tracked(self, path: str) -> bool | None:
        folder = self._tree.folders.get(split(path)[0])
        return None if folder is None else self._rules.is_tracked(path, folder.repository)


class HeldContents(Collection[str]):
    """Contents by path, ``HELD_BYTES`` at most."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}
        self._size = 0

    def put(self, path: str, data: bytes) -> bool:
        """Replace a content; False if there is no room."""
        size = self._size + len(data) - len(self._contents.get(path, b""))
        if size > HELD_BYTES:
            return False
        self._contents[path] = data
        self._size = size
        return True

    def pop(self, path: str) -> bytes | None:
        data = self._contents.pop(path, None)
        self._size -= len(data or b"")
        return data

    def __contains__(self, path: object) -> bool:
        return path in self._contents

    def __iter__(self) -> Iterator[str]:
        return iter(self._contents)

    def __len__(self) -> int:
        return len(self._contents)
