"""What was found broken in a file, in words, however much it is."""

from __future__ import annotations

_MAX = 100


class Damage:
    """The first hundred findings, and the number of the others."""

    def __init__(self) -> None:
        self._found: list[str] = []
        self._more = 0

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, finding: str) -> None:
        if len(self._found) < _MAX:
            self._found.append(finding)
        else:
            self._more += 1

    def report(self) -> list[str]:
        return [*self._found, f"{self._more:,} more"] if self._more else list(self._found)
