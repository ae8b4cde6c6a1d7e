"""What the user sent earlier, for the arrow keys and the search."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from prompt_toolkit.history import History, InMemoryHistory

from newel.storage.prompt_history import PromptHistory
from newel.text.format import one_line
from newel.text.fuzzy import fuzzy_matches


def open_history(path: Path, folder: str = "") -> History:
    """The history in a private file, or in memory if there can be no file. What was sent in ``folder`` comes first."""
    kept = PromptHistory(path)
    try:
        kept.create()
    except OSError:
        return InMemoryHistory()
    return _FolderHistory(kept, folder)


def search_history(texts: Sequence[str], query: str) -> list[int]:
    """The positions of the texts that contain all words of ``query``, in their order; if none does, of those that match
    fuzzily.
    """
    words = query.lower().split()
    found = [position for position, text in enumerate(texts) if all(word in text.lower() for word in words)]
    return found or fuzzy_matches([one_line(text, 200) for text in texts], query)


class _FolderHistory(History):
    def __init__(self, kept: PromptHistory, folder: str) -> None:
        super().__init__()
        self._kept = kept
        self._folder = folder

    def load_history_strings(self) -> Iterable[str]:
        """The latest first, but those of other folders after those of this one."""
        entries: list[tuple[str, str]] = []
        with contextlib.suppress(OSError):
            entries = self._kept.read()
        elsewhere: list[str] = []
        for folder, text in reversed(entries):
            if folder == self._folder:
                yield text
            else:
                elsewhere.append(text)
        yield from elsewhere

    def store_string(self, string: str) -> None:
        with contextlib.suppress(OSError):  # a full disk must not end the conversation
            self._kept.append(self._folder, string)
