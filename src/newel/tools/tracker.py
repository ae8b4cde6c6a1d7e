"""The content of files that the model saw last, so that it never overwrites changes it has not seen."""

from __future__ import annotations

from typing import Final

MAX_FILES: Final = 10_000
"""Beyond that, the files seen longest ago count as never seen."""


class FileTracker:
    """Content hashes by resolved path, set by ``read``, ``write`` and ``edit``.

    A file that the model has never seen may be overwritten: the user asked for it. One that has changed since the model saw it
    may not, even if a command of the same agent changed it: the model does not know the result.
    """

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}

    def saw(self, path: str, sha256: str) -> None:
        self._seen.pop(path, None)
        self._seen[path] = sha256
        if len(self._seen) > MAX_FILES:
            del self._seen[next(iter(self._seen))]

    def last_seen(self, path: str) -> str | None:
        return self._seen.get(path)
