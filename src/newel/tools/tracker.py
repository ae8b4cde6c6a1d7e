"""What the model last saw of each file, so that it never overwrites what it has not seen."""

from __future__ import annotations

from typing import Final

REMEMBERED: Final = 10_000
"""So many files; beyond that the ones seen longest ago are forgotten, and count as never seen."""


class FileTracker:
    """Content hashes by resolved path, set by ``read``, ``write`` and ``edit``.

    A file that was never seen may be overwritten: the model was told to. One that was seen and has changed
    since may not, whoever changed it: a command of the agent's own counts like anyone else, for the model
    does not know what it left behind.
    """

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}

    def saw(self, path: str, sha256: str) -> None:
        self._seen.pop(path, None)
        self._seen[path] = sha256
        if len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]

    def last_seen(self, path: str) -> str | None:
        return self._seen.get(path)
