"""The file that keeps what the user sent, with the folder in which they sent it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from prompt_toolkit.history import History, InMemoryHistory

from newel.storage.files import PRIVATE_FILE, open_regular
from newel.text.format import one_line
from newel.text.fuzzy import fuzzy_matches

MAX_READ: Final = 1024 * 1024
"""Bytes at the end of the file that are read."""

_FOLDER: Final = "# in "


def open_history(path: Path, folder: str = "") -> History:
    """The history in a private file, or in memory if there can be no file. What was sent in ``folder`` comes first."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=PRIVATE_FILE)
        path.chmod(PRIVATE_FILE)
    except OSError:
        return InMemoryHistory()
    return _FolderHistory(path, folder)


def search_history(texts: Sequence[str], query: str) -> list[int]:
    """The positions of the texts that contain all words of ``query``, in their order; if none does, of those that match fuzzily."""
    words = query.lower().split()
    found = [position for position, text in enumerate(texts) if all(word in text.lower() for word in words)]
    return found or fuzzy_matches([one_line(text, 200) for text in texts], query)


class _FolderHistory(History):
    """A line of the file that begins with ``+`` belongs to a text, any other ends one: prompt_toolkit's own format, with the folder as a
    comment.
    """

    def __init__(self, path: Path, folder: str) -> None:
        super().__init__()
        self._path = path
        self._folder = folder

    def load_history_strings(self) -> Iterable[str]:
        """The latest first, but those of other folders after those of this one."""
        elsewhere: list[str] = []
        for folder, text in reversed(self._read()):
            if folder == self._folder:
                yield text
            else:
                elsewhere.append(text)
        yield from elsewhere

    def store_string(self, string: str) -> None:
        lines = [
            "",
            f"# {datetime.now().isoformat(' ')}",  # noqa: DTZ005 — for the reader of the file
            f"{_FOLDER}{json.dumps(self._folder)}",
            *(f"+{line}" for line in string.split("\n")),
            "",
        ]
        # One write: another Newel may append, too. A full disk must not end the conversation.
        with contextlib.suppress(OSError), self._path.open("ab", buffering=0) as file:
            file.write("\n".join(lines).encode(errors="replace"))

    def _read(self) -> list[tuple[str, str]]:
        """The folders and texts, the oldest first."""
        try:
            with open_regular(self._path) as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - MAX_READ, 0))
                data = file.read(MAX_READ)
        except OSError:
            return []
        if size > MAX_READ:  # an entry may be cut
            data = data.partition(b"\n\n")[2]
        entries: list[tuple[str, str]] = []
        folder, lines = "", list[str]()
        for line in [*data.decode(errors="replace").split("\n"), ""]:
            if line.startswith("+"):
                lines.append(line[1:])
                continue
            if lines:
                entries.append((folder, "\n".join(lines)))
                folder, lines = "", []
            if line.startswith(_FOLDER):
                with contextlib.suppress(ValueError):
                    folder = str(json.loads(line.removeprefix(_FOLDER)))
        return entries
