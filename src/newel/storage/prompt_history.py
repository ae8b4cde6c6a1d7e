"""The file that keeps what the user typed into conversations, with the folder in which they did."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import Final

from newel.storage.files import PRIVATE_FILE, open_regular, replace_file

MAX_READ: Final = 1024 * 1024
"""Bytes at the end of the file that are read."""

_FOLDER: Final = b"# in "


class PromptHistory:
    """A line that begins with ``+`` belongs to a message, and any other ends one: the format of prompt_toolkit, with the
    folder as a comment. Messages of older versions have none. The methods raise ``OSError``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self) -> None:
        """Make sure that there is a private file."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.touch(mode=PRIVATE_FILE)
        self.path.chmod(PRIVATE_FILE)

    def read(self) -> list[tuple[str, str]]:
        """The folders and messages, the oldest first; of a long file only the end."""
        with open_regular(self.path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - MAX_READ, 0))
            data = file.read(MAX_READ)
        if size > MAX_READ:  # a message may be cut
            data = data.partition(b"\n\n")[2]
        return [(folder, text) for folder, lines in _entries(data) if (text := _message(lines))]

    def append(self, folder: str, text: str) -> None:
        now = datetime.now().isoformat(" ")  # noqa: DTZ005 — for people
        lines = [
            f"# {now}",
            f"{_FOLDER.decode()}{json.dumps(folder)}",
            *(f"+{line}" for line in text.split("\n")),
        ]
        with self.path.open("ab", buffering=0) as file:  # in one write: another Newel may append, too
            file.write(("\n" + "\n".join(lines) + "\n").encode(errors="replace"))

    def count(self, folder: str) -> int:
        """The number of messages that were typed in a folder."""
        return sum(of == folder for of, _ in _entries(self._whole()))

    def forget(self, folder: str, texts: Collection[str] | None = None) -> None:
        """Delete the messages that were typed in a folder; with ``texts``, only these, as conversations have them."""
        entries = _entries(self._whole())
        said = None if texts is None else set(map(_as_said, texts))
        kept = [
            lines
            for of, lines in entries
            if of != folder or (said is not None and _as_said(_message(lines)) not in said)
        ]
        if len(kept) < len(entries):
            replace_file(self.path, b"".join(line for lines in kept for line in lines))

    def _whole(self) -> bytes:
        with contextlib.suppress(FileNotFoundError), open_regular(self.path) as file:
            return file.read()
        return b""


def _entries(data: bytes) -> list[tuple[str, list[bytes]]]:
    """The folder of each message, and all lines of it."""
    entries: list[tuple[str, list[bytes]]] = []
    lines: list[bytes] = []
    for line in re.findall(rb"[^\n]*\n|[^\n]+", data):
        if lines and lines[-1].startswith(b"+") and not line.startswith(b"+"):
            entries.append((_folder(lines), lines))
            lines = []
        lines.append(line)
    return [*entries, (_folder(lines), lines)] if lines else entries


def _folder(lines: list[bytes]) -> str:
    for line in lines:
        if line.startswith(_FOLDER):
            with contextlib.suppress(ValueError):
                return str(json.loads(line.removeprefix(_FOLDER)))
    return ""


def _as_said(typed: str) -> str:
    """What a typed message has in common with that of the conversation, which lacks the ``@`` of attached files."""
    return typed.replace("@", "").strip()


def _message(lines: list[bytes]) -> str:
    texts = [line[1:].removesuffix(b"\n") for line in lines if line.startswith(b"+")]
    return b"\n".join(texts).decode(errors="replace")
