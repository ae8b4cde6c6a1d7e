"""Files that a prompt names: ``@src/app.py``, ``@"a name with spaces"``, the path of an image.

Only for what a person typed. A text from elsewhere (a pipe, a page, a tool) could name a file that its
author wants to be sent away, and must not go through here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from newel.agent.errors import WorkspaceError
from newel.agent.messages import Attachment
from newel.context.attachments import attachment_from_path

MAX_ATTACHMENTS = 32
MAX_TOTAL_BYTES = 64 * 1024 * 1024
"""What all attachments of a prompt may have together, in the base64 in which they travel."""

# Not after a letter or a digit: what stands there is an address (me@example.org), not a mention.
_MENTION = re.compile(r"""(?<![\w@./+-])@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>[^\s"'`@]+))""")
_PUNCTUATION = ".,;:!?)]}>*"
_LOOKS_LIKE_A_PATH = re.compile(r"/|\.[A-Za-z0-9]{1,4}\Z")

# Bare, in quotes, or as a terminal writes a file that is dropped on it, with a backslash before spaces.
_IMAGE_NAME = r"\.(?:[Pp][Nn][Gg]|[Jj][Pp][Ee]?[Gg]|[Gg][Ii][Ff]|[Ww][Ee][Bb][Pp])"
_IMAGE = re.compile(
    rf"""(?<![^\s"'`(\[{{<])(?:"(?P<double>[^"\n]*{_IMAGE_NAME})"|'(?P<single>[^'\n]*{_IMAGE_NAME})'"""
    rf"""|(?P<plain>(?:\\.|[^\s"'`\\@(\[{{<])(?:\\.|[^\s"'`\\])*?{_IMAGE_NAME})(?!\w|\.\w))"""
)


class Expansion(NamedTuple):
    """``text`` is the prompt with each mention that was found written as a plain path. ``notes`` are words
    for the user about what was not attached.
    """

    text: str
    attachments: list[Attachment]
    notes: list[str]


def expand(text: str, cwd: str | Path) -> Expansion:
    """Attach what a prompt mentions; relative paths start at ``cwd``, ``~`` is the user's home.

    ``@path`` attaches a file or the listing of a folder; punctuation behind it is not part of it. The
    bare path of an image that exists attaches it too. What does not exist stays as it is, with a note if
    it looks like a path (so ``@property`` is left in peace). Each file is attached once; never raises.
    """
    collector = _Collector(Path(cwd))
    text = _MENTION.sub(collector.mention, text)
    for found in _IMAGE.finditer(text):
        collector.image(found)
    return Expansion(text, collector.attachments, collector.notes)


class _Collector:
    def __init__(self, cwd: Path) -> None:
        self.attachments: list[Attachment] = []
        self.notes: list[str] = []
        self._cwd = cwd
        self._seen: set[Path] = set()
        self._bytes = 0

    def mention(self, found: re.Match[str]) -> str:
        """Attach what is mentioned; returns what stands in its place in the prompt."""
        quoted, plain = found["quoted"], found["plain"]
        names = [quoted] if quoted else [plain[:end] for end in _possible_ends(plain)]
        for name in names:
            path = self._find(name)
            if path is not None:
                return found[0][1:] if self._attach(path, name) else found[0]
        if quoted or _LOOKS_LIKE_A_PATH.search(names[-1]):
            self.notes.append(f"@{names[-1]} was not attached: there is no such file.")
        return found[0]

    def image(self, found: re.Match[str]) -> None:
        """Attach what a bare path names, if it is an image."""
        plain = found["plain"]
        name = re.sub(r"\\(.)", r"\1", plain) if plain else found["double"] or found["single"]
        path = self._find(name)
        if path is not None and path.is_file():
            self._attach(path, name, only_image=True)

    def _find(self, name: str) -> Path | None:
        try:
            return (self._cwd / Path(name).expanduser()).resolve(strict=True)
        except (
            OSError,
            ValueError,
            RuntimeError,
        ):  # impossible names, loops of links, an unknown user's home
            return None

    def _attach(self, path: Path, name: str, *, only_image: bool = False) -> bool:
        if path in self._seen:
            return True
        try:
            attachment = attachment_from_path(path, name=name)
        except WorkspaceError as error:
            self.notes.append(str(error))
            return False
        if only_image and attachment.type != "image":
            return False
        size = len(attachment.content)
        if len(self.attachments) == MAX_ATTACHMENTS or self._bytes + size > MAX_TOTAL_BYTES:
            self.notes.append(
                f"{name} was not attached: a prompt may have {MAX_ATTACHMENTS} attachments and "
                f"{MAX_TOTAL_BYTES // 1024**2} MiB in all."
            )
            return False
        self._seen.add(path)
        self._bytes += size
        self.attachments.append(attachment)
        return True


def _possible_ends(name: str) -> range:
    """Where a mention may end: as it stands, or before any of the punctuation behind it."""
    shortest = len(name.rstrip(_PUNCTUATION)) or len(name)
    return range(len(name), shortest - 1, -1)
